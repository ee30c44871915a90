#include "deploy/roostctl/top/top_sample.h"

#include <simdjson.h>

#include <algorithm>

#include "deploy/roostctl/remote/json_members.h"

namespace roost::roostctl {
namespace {

constexpr std::size_t kHashDigits = 16;

Result<simdjson::dom::element> Parse(simdjson::dom::parser& parser, std::string_view json, const char* path) {
  simdjson::dom::element body;
  if (parser.parse(json.data(), json.size()).get(body) != simdjson::SUCCESS) return DataLoss(path, "it is not JSON");
  return body;
}

TopWorker WorkerOf(simdjson::dom::element worker) {
  TopWorker row{
      .name = std::string(TextAt(worker, "/id")), .state = std::string(TextAt(worker, "/state")), .totals = {}};
  row.running_requests = CountAt(worker, "/running_requests");
  row.waiting_requests = CountAt(worker, "/waiting_requests");
  row.blocks = CountAt(worker, "/blocks");
  row.free_blocks = CountAt(worker, "/free_blocks");
  row.cached_blocks = CountAt(worker, "/cached_blocks");
  row.totals = {.requests = CountAt(worker, "/requests_total"),
                .prompt_tokens = CountAt(worker, "/prompt_tokens_total"),
                .cached_tokens = CountAt(worker, "/cached_tokens_total"),
                .output_tokens = CountAt(worker, "/output_tokens_total"),
                .first_tokens = CountAt(worker, "/first_tokens_total"),
                .ttft_seconds = SecondsAt(worker, "/ttft_seconds_total").value_or(0)};
  return row;
}

}  // namespace

Result<std::vector<TopWorker>> ReadTopWorkers(std::string_view json) {
  simdjson::dom::parser parser;
  ROOST_ASSIGN_OR_RETURN(const simdjson::dom::element body, Parse(parser, json, "/admin/v1/workers"));
  simdjson::dom::array list;
  if (body["workers"].get(list) != simdjson::SUCCESS) return DataLoss("/admin/v1/workers", "it has no list of workers");
  std::vector<TopWorker> workers;
  for (const simdjson::dom::element worker : list) workers.push_back(WorkerOf(worker));
  return workers;
}

Result<void> ReadStanding(std::string_view json, TopSample& sample) {
  simdjson::dom::parser parser;
  ROOST_ASSIGN_OR_RETURN(const simdjson::dom::element body, Parse(parser, json, "/admin/v1/workers"));
  std::string_view verdict;
  if (body.at_pointer("/verdict/text").get(verdict) == simdjson::SUCCESS) sample.verdict = verdict;
  for (const simdjson::dom::element lost : ListAt(body, "/lost")) {
    sample.lost.push_back({.name = std::string(TextAt(lost, "/id")),
                           .reason = std::string(TextAt(lost, "/reason")),
                           .seconds_ago = SecondsAt(lost, "/seconds_ago").value_or(0),
                           .is_back = FlagAt(lost, "/back"),
                           .moved_requests = CountAt(lost, "/moved_requests"),
                           .waiting_requests = CountAt(lost, "/waiting_requests"),
                           .failed_requests = CountAt(lost, "/failed_requests")});
  }
  return {};
}

Result<void> ReadQueues(std::string_view json, TopSample& sample) {
  simdjson::dom::parser parser;
  ROOST_ASSIGN_OR_RETURN(const simdjson::dom::element body, Parse(parser, json, "/admin/v1/queues"));
  for (const simdjson::dom::element queue : ListAt(body, "/queues")) {
    sample.queued_requests += CountAt(queue, "/waiting_requests");
    sample.oldest_wait_seconds =
        std::max(sample.oldest_wait_seconds, SecondsAt(queue, "/oldest_wait_seconds").value_or(0));
  }
  return {};
}

Result<std::vector<TopPrefix>> ReadTopPrefixes(std::string_view json) {
  simdjson::dom::parser parser;
  ROOST_ASSIGN_OR_RETURN(const simdjson::dom::element body, Parse(parser, json, "/admin/v1/prefixes"));
  std::vector<TopPrefix> prefixes;
  for (const simdjson::dom::element prefix : ListAt(body, "/prefixes")) {
    std::string_view begins;
    const bool is_shown = prefix["begins"].get(begins) == simdjson::SUCCESS;
    prefixes.push_back({.hits = CountAt(prefix, "/hits"),
                        .tokens = CountAt(prefix, "/tokens"),
                        .workers = ListAt(prefix, "/workers").size(),
                        .text = std::string(is_shown ? begins : TextAt(prefix, "/hash").substr(0, kHashDigits))});
  }
  return prefixes;
}

}  // namespace roost::roostctl
