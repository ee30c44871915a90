// A trace: requests in order of arrival, their prompts as chains of block contents. A content id names a block's tokens
// and every token before it, so equal ids mean equal prefixes and nothing needs the text.
//
//   request:   [ 17 ][ 18 ][ 19 ][ 40 ]   (tail)      blocks[0 … 3] are the prompt's full blocks
//                                   [ 41 ][ 42 ]      blocks[4 … ] those that fill up while the answer is decoded
//
// Plain values; loaders and generators make them, replays and simulations read them.
#pragma once

#include <cstdint>
#include <vector>

namespace roost::workload {

// Names the content of a block and all before it. Unique within one trace.
using ContentId = std::uint64_t;

struct TraceRequest {
  double arrival_seconds = 0;  // since the start of the trace
  std::uint32_t input_token_count = 0;
  std::uint32_t output_token_count = 0;
  // (input_token_count + output_token_count) / block_tokens ids, front to back.
  std::vector<ContentId> blocks;
  std::uint32_t tenant = 0;   // who sends it; 0: nobody in particular
  std::uint64_t session = 0;  // the conversation that it is a turn of; 0: none
};

// What makes a request come.
enum class Pacing : std::uint8_t {
  kRecorded,    // its arrival time, whatever became of others
  kTurnByTurn,  // its arrival time as well, but a turn of a session waits for the answer to the turn before it
};

struct Trace {
  std::uint32_t block_tokens = 0;
  std::vector<TraceRequest> requests;  // by arrival; the turns of a session in their order
  Pacing pacing = Pacing::kRecorded;
};

[[nodiscard]] inline std::uint32_t PromptBlockCount(const Trace& trace, const TraceRequest& request) {
  return request.input_token_count / trace.block_tokens;
}

// What a cache that forgets nothing would see.
struct TraceSummary {
  std::uint64_t request_count = 0;
  std::uint64_t input_token_count = 0;
  std::uint64_t unique_prompt_block_count = 0;
  double ideal_hit_ratio = 0;  // prompt tokens in full blocks seen before / prompt tokens
};
[[nodiscard]] TraceSummary Summarise(const Trace& trace);

// Sorts by arrival; requests that arrive together keep their order.
void SortByArrival(Trace& trace);

// For a trace that names no sessions: a request belongs to the session of the request before it that it shares the most
// blocks with, and to a new one if they share no block but the first, which may be everybody's.
void GuessSessions(Trace& trace);

}  // namespace roost::workload
