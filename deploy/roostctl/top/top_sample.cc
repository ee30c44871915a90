#include "deploy/roostctl/top/top_sample.h"

#include <algorithm>

#include "deploy/roostctl/remote/json_members.h"

namespace roost::roostctl {
namespace {

constexpr std::size_t kHashDigits = 16;

Error NotJson(const char* path) { return DataLoss(path, "it is not JSON"); }

TopWorker WorkerOf(json::Element worker) {
  TopWorker row{.name = std::string(TextAt(worker, "/id")),
                .state = std::string(TextAt(worker, "/state")),
                .role = std::string(TextAt(worker, "/role")),
                .totals = {}};
  row.running_requests = CountAt(worker, "/running_requests");
  row.waiting_requests = CountAt(worker, "/waiting_requests");
  row.blocks = CountAt(worker, "/blocks");
  row.free_blocks = CountAt(worker, "/free_blocks");
  row.cached_blocks = CountAt(worker, "/cached_blocks");
  row.disk_blocks = CountAt(worker, "/disk_blocks");
  row.totals = {.requests = CountAt(worker, "/requests_total"),
                .prompt_tokens = CountAt(worker, "/prompt_tokens_total"),
                .cached_tokens = CountAt(worker, "/cached_tokens_total"),
                .output_tokens = CountAt(worker, "/output_tokens_total"),
                .first_tokens = CountAt(worker, "/first_tokens_total"),
                .ttft_seconds = SecondsAt(worker, "/ttft_seconds_total").value_or(0),
                .saved_prefill_seconds = SecondsAt(worker, "/saved_prefill_seconds_total").value_or(0),
                .computed_prefill_seconds = SecondsAt(worker, "/computed_prefill_seconds_total").value_or(0)};
  return row;
}

}  // namespace

Result<std::vector<TopWorker>> ReadTopWorkers(std::string_view text) {
  const json::Document body(text);
  if (!body.ok()) return NotJson("/admin/v1/workers");
  const auto list = json::At<json::Array>(body.root(), "workers");
  if (!list) return DataLoss("/admin/v1/workers", "it has no list of workers");
  std::vector<TopWorker> workers;
  for (const json::Element worker : *list) workers.push_back(WorkerOf(worker));
  return workers;
}

Result<void> ReadStanding(std::string_view text, TopSample& sample) {
  const json::Document body(text);
  if (!body.ok()) return NotJson("/admin/v1/workers");
  sample.verdict = json::At<std::string_view>(body.root(), "/verdict/text").value_or(sample.verdict);
  for (const json::Element lost : json::ElementsAt(body.root(), "/lost")) {
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

Result<void> ReadQueues(std::string_view text, TopSample& sample) {
  const json::Document body(text);
  if (!body.ok()) return NotJson("/admin/v1/queues");
  for (const json::Element queue : json::ElementsAt(body.root(), "/queues")) {
    sample.queued_requests += CountAt(queue, "/waiting_requests");
    sample.oldest_wait_seconds =
        std::max(sample.oldest_wait_seconds, SecondsAt(queue, "/oldest_wait_seconds").value_or(0));
  }
  return {};
}

Result<std::vector<TopPrefix>> ReadTopPrefixes(std::string_view text) {
  const json::Document body(text);
  if (!body.ok()) return NotJson("/admin/v1/prefixes");
  std::vector<TopPrefix> prefixes;
  for (const json::Element prefix : json::ElementsAt(body.root(), "/prefixes")) {
    const auto begins = json::At<std::string_view>(prefix, "begins");
    prefixes.push_back({.hits = CountAt(prefix, "/hits"),
                        .tokens = CountAt(prefix, "/tokens"),
                        .workers = json::ElementsAt(prefix, "/workers").size(),
                        .text = std::string(begins.value_or(TextAt(prefix, "/hash").substr(0, kHashDigits)))});
  }
  return prefixes;
}

}  // namespace roost::roostctl
