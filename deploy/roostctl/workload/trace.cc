#include "deploy/roostctl/workload/trace.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace roost::workload {

TraceSummary Summarise(const Trace& trace) {
  TraceSummary summary{.request_count = trace.requests.size()};
  std::unordered_set<ContentId> seen;
  std::unordered_set<ContentId> prompt_blocks;
  std::uint64_t seen_tokens = 0;
  for (const TraceRequest& request : trace.requests) {
    const std::uint32_t prompt_block_count = PromptBlockCount(trace, request);
    for (std::uint32_t i = 0; i < prompt_block_count; ++i) {
      seen_tokens += seen.contains(request.blocks[i]) ? trace.block_tokens : 0;
      prompt_blocks.insert(request.blocks[i]);
    }
    seen.insert(request.blocks.begin(), request.blocks.end());
    summary.input_token_count += request.input_token_count;
  }
  summary.unique_prompt_block_count = prompt_blocks.size();
  if (summary.input_token_count > 0) {
    summary.ideal_hit_ratio = static_cast<double>(seen_tokens) / static_cast<double>(summary.input_token_count);
  }
  return summary;
}

void SortByArrival(Trace& trace) {
  std::stable_sort(trace.requests.begin(), trace.requests.end(),
                   [](const TraceRequest& a, const TraceRequest& b) { return a.arrival_seconds < b.arrival_seconds; });
}

void GuessSessions(Trace& trace) {
  std::unordered_map<ContentId, std::uint64_t> sessions;  // of the latest request with that block, ignoring first
                                                          // blocks
  std::uint64_t session_count = 0;
  for (TraceRequest& request : trace.requests) {
    for (std::size_t i = request.blocks.size(); i > 1 && request.session == 0; --i) {
      const auto known = sessions.find(request.blocks[i - 1]);
      if (known != sessions.end()) request.session = known->second;
    }
    if (request.session == 0) request.session = ++session_count;
    for (std::size_t i = 1; i < request.blocks.size(); ++i) sessions[request.blocks[i]] = request.session;
  }
}

}  // namespace roost::workload
