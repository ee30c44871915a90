// A trace: requests in order of arrival, their prompts as chains of block contents. A content id names a block's tokens
// and every token before it, so equal ids mean equal prefixes and nothing needs the text.
//
//   request:   [ 17 ][ 18 ][ 19 ][ 40 ]   (tail)      blocks[0 … 3] are the prompt's full blocks
//                                   [ 41 ][ 42 ]      blocks[4 … ] become full while the answer is decoded
//
// Plain values. Loaders and generators make them; replays and simulations read them.
#pragma once

#include <cstdint>
#include <vector>

namespace roost::workload {

// Names the content of a block and of all blocks before it. Unique within one trace.
using ContentId = std::uint64_t;

struct TraceRequest {
  double arrival_seconds = 0;  // since the start of the trace
  std::uint32_t input_token_count = 0;
  std::uint32_t output_token_count = 0;
  // (input_token_count + output_token_count) / block_tokens ids, front to back.
  std::vector<ContentId> blocks;
  std::uint32_t tenant = 0;   // the sender; 0: none
  std::uint64_t session = 0;  // the conversation of this turn; 0: none
};

// The rule that decides when a request arrives.
enum class Pacing : std::uint8_t {
  kRecorded,    // its arrival time alone
  kTurnByTurn,  // also its arrival time, but a turn of a session waits for the answer to the previous turn
};

struct Trace {
  std::uint32_t block_tokens = 0;
  std::vector<TraceRequest> requests;  // by arrival; the turns of a session in their order
  Pacing pacing = Pacing::kRecorded;
};

[[nodiscard]] inline std::uint32_t PromptBlockCount(const Trace& trace, const TraceRequest& request) {
  return request.input_token_count / trace.block_tokens;
}

// The hits of a cache that never evicts.
struct TraceSummary {
  std::uint64_t request_count = 0;
  std::uint64_t input_token_count = 0;
  std::uint64_t unique_prompt_block_count = 0;
  double ideal_hit_ratio = 0;  // prompt tokens in full blocks seen before / prompt tokens
};
[[nodiscard]] TraceSummary Summarise(const Trace& trace);

// Sorts by arrival; stable for requests that arrive together.
void SortByArrival(Trace& trace);

// For a trace without sessions. A request joins the session of the earlier request with which it shares the most
// blocks. If it shares no block but the first, which may be common to all, it starts a new session.
void GuessSessions(Trace& trace);

}  // namespace roost::workload
