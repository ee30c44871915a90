#include "deploy/roostctl/status.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <ostream>
#include <tuple>
#include <vector>

#include "deploy/roostctl/block_tree.h"
#include "deploy/roostctl/remote/http_client.h"
#include "deploy/roostctl/remote/json_members.h"
#include "deploy/roostctl/remote/refusal.h"

namespace roost::roostctl {
namespace {

struct Loss {
  std::string name;
  double saved_seconds = 0;  // of prefill in an hour, that no other worker's cache could save
  std::uint64_t pinned_blocks = 0;
  std::uint64_t requests = 0;
  std::uint64_t cached_blocks = 0;
  std::uint64_t blocks = 0;
};

// Caches of about the same value are equal, so that noise does not choose a worker with pins or long answers.
constexpr double kEqualSeconds = 1;

bool CostsLess(const Loss& a, const Loss& b) {
  const auto key = [](const Loss& loss) {
    return std::tuple(std::floor(loss.saved_seconds / kEqualSeconds), loss.pinned_blocks, loss.requests,
                      loss.cached_blocks, loss.name);
  };
  return key(a) < key(b);
}

Loss LossOf(json::Element worker) {
  return {.name = Printable(TextAt(worker, "/id")),
          .saved_seconds = SecondsAt(worker, "/cache_value_seconds").value_or(0),
          .pinned_blocks = CountAt(worker, "/pinned_blocks"),
          .requests = CountAt(worker, "/running_requests") + CountAt(worker, "/waiting_requests"),
          .cached_blocks = CountAt(worker, "/cached_blocks"),
          .blocks = CountAt(worker, "/blocks")};
}

std::string Sentence(const std::string& model, const Loss& loss) {
  const std::string saved =
      loss.saved_seconds < kEqualSeconds
          ? "its cache saves nothing that others could not"
          : fmt::format("its cache saves {:.0f} s of prefill an hour that no other could, the least",
                        loss.saved_seconds);
  return fmt::format("{} costs least to lose of {}: {}; {} blocks are pinned there, {} requests run or wait\n",
                     loss.name, model, saved, loss.pinned_blocks, loss.requests);
}

std::string Section(const std::string& model, const std::vector<Loss>& losses) {
  std::string text = Sentence(model, losses.front());
  text += fmt::format("  {:<24} {:>12} {:>7} {:>9} {:>15}\n", "worker", "saves s/hour", "pinned", "requests",
                      "cached/blocks");
  for (const Loss& loss : losses) {
    text += fmt::format("  {:<24} {:>12.1f} {:>7} {:>9} {:>15}\n", loss.name, loss.saved_seconds, loss.pinned_blocks,
                        loss.requests, fmt::format("{}/{}", loss.cached_blocks, loss.blocks));
  }
  return text;
}

Result<std::string> Ask(const VictimOptions& options) {
  HttpClient client(options.admin, 10);
  ROOST_ASSIGN_OR_RETURN(const HttpResponse response, client.Get("/admin/v1/workers"));
  if (response.status != 200) return RefusalOf(response);
  return FormatVictims(response.body, options.model);
}

int RunVictimCommand(Arguments arguments, const Console& console) {
  VictimOptions options;
  ConfigParser parser(
      "roostctl victim",
      "Names the ready worker of each model that costs least to lose, first in its line, and why: the "
      "seconds of prefill that its cache saves in an hour and no other worker's could, by the requests of "
      "this router in the last minutes; then pinned blocks, requests and cached blocks.");
  DeclareAdmin(options.admin, parser);
  parser.Add("model", options.model, "Name of the model; empty for each one");
  if (const auto code = Ended(parser, arguments, console)) return *code;
  return RunVictim(options, console.out, console.err);
}

}  // namespace

const Command kVictimCommand{"victim", "the worker that costs least to lose", &RunVictimCommand};

Result<std::string> FormatVictims(std::string_view workers_json, std::string_view model) {
  const json::Document body(workers_json);
  const auto workers = json::At<json::Array>(body.root(), "workers");
  if (!workers) return DataLoss("/admin/v1/workers", "the answer holds no list of workers");
  std::map<std::string, std::vector<Loss>> by_model;
  for (const json::Element worker : *workers) {
    const std::string_view served = TextAt(worker, "/model");
    const bool is_meant = model.empty() || served == model;
    if (is_meant && TextAt(worker, "/state") == "ready") by_model[Printable(served)].push_back(LossOf(worker));
  }
  std::string text;
  for (auto& [name, losses] : by_model) {
    if (losses.size() < 2) continue;
    std::sort(losses.begin(), losses.end(), &CostsLess);
    text += Section(name, losses);
  }
  if (!text.empty()) return text;
  const std::string what = model.empty() ? "no model has" : fmt::format("{} does not have", Printable(model));
  return Error{ErrorCode::kNotFound, fmt::format("{} two ready workers: none can be lost", what), ""};
}

int RunVictim(const VictimOptions& options, std::ostream& out, std::ostream& err) {
  const Result<std::string> named = Ask(options);
  if (!named.ok()) {
    err << "roostctl victim: " << named.error().ToString() << '\n';
    return 1;
  }
  out << *named;
  return 0;
}

}  // namespace roost::roostctl
