// Traces by name, for commands: a file in one of the known formats, or a generator.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "deploy/roostctl/workload/trace.h"

namespace roost::workload {

inline constexpr std::array<std::string_view, 5> kTraceFormats = {"mooncake", "weka", "roost", "taubench", "miniswe"};
inline constexpr std::array<std::string_view, 7> kGenerators = {"llm-d",         "sglang-gsp",   "chat",     "no-reuse",
                                                                "system-prompt", "zipf-systems", "reasoning"};
// Those of them that can have any number of requests; see SystemPromptOptions.
inline constexpr std::array<std::string_view, 3> kSystemPromptLoads = {"system-prompt", "zipf-systems", "reasoning"};

// Mooncake records times in ticks of 3 seconds.
enum class Ticks : std::uint8_t {
  kSpread,    // the requests of a tick arrive evenly over it
  kTogether,  // as recorded
};

struct TraceSource {
  std::string path;
  std::string format;     // one of kTraceFormats
  std::string generator;  // one of kGenerators; empty: the file
  // For weka, chat and the loads behind system prompts; empty: all, or the generator's default.
  std::optional<std::uint32_t> session_count = {};
  Ticks ticks = Ticks::kSpread;
  std::uint64_t seed = 1;
};

// kInvalidArgument names the field (trace, format or generate); errors of a file name the line, and the format that
// the file has instead. A file without requests is an error too. Requests of coding agents' sessions later than 90
// minutes after the first possible start are left out.
[[nodiscard]] Result<Trace> LoadTrace(const TraceSource& source);

// Recorded sessions of coding agents (kv-cache-tester's Weka traces), and traces composed of them.
//
// The file has a header line per session (`session`, `block`, `tool_tokens`, `system_tokens`), then one array per
// request: [t_s, input_tokens, output_tokens, api_time_s, think_time_s, p, k, n]. The request shares its first k blocks
// with request p of the session (-1: with none), and has n new blocks behind them.
struct AgentRequest {
  double start_seconds = 0;  // since the session's start
  double api_seconds = 0;
  double think_seconds = 0;  // between the previous answer and this request
  std::uint32_t input_token_count = 0;
  std::uint32_t output_token_count = 0;
  std::optional<std::uint32_t> parent;  // the earlier request of the session that it shares blocks with
  std::uint32_t shared_block_count = 0;
  std::uint32_t new_block_count = 0;
};

struct AgentSession {
  std::string name;
  std::uint32_t block_tokens = 0;
  std::uint32_t tool_token_count = 0;  // a common front of all sessions with an equal count
  std::vector<AgentRequest> requests;
};

// Errors name the file and the line.
[[nodiscard]] Result<std::vector<AgentSession>> LoadAgentSessions(const std::filesystem::path& path);

struct AgentTraceOptions {
  std::uint32_t session_count = 48;        // use the first ones, or all if there are fewer
  std::uint32_t block_tokens = 512;        // of the trace; a multiple of the sessions' own
  double start_span_seconds = 3600;        // sessions start at random times within this span
  double longest_gap_seconds = 300;        // between requests of one session; longer gaps are cut to this
  std::optional<double> end_seconds = {};  // later requests are left out
  std::uint64_t seed = 1;
};

// Runs the sessions in parallel, turn by turn. Blocks are shared as recorded; the tools' part is also shared between
// sessions. Blocks of answers never come back, because the record does not say which part of a prompt an answer became.
[[nodiscard]] Trace ComposeAgentTrace(const std::vector<AgentSession>& sessions, const AgentTraceOptions& options);

// Recorded sessions whose prompts are text. Four characters count as a token, 64 as a block; a block's id is a hash of
// all the text up to its end. An answer's text follows its prompt's, so if the next turn's prompt continues both, it
// finds both.
struct TextSessionOptions {
  double start_span_seconds = 600;   // sessions start at random times within this span
  double turn_seconds = 5;           // between turns, if no time is recorded
  double longest_gap_seconds = 300;  // between recorded turns; longer gaps are cut to this
  std::uint64_t seed = 1;
};

// tau-bench's trajectories: one JSON object per line with `messages`, a whole chat. Each assistant message becomes a
// request whose prompt is the chat before it. Errors name the file and the line.
[[nodiscard]] Result<Trace> LoadTauBench(const std::filesystem::path& path, const TextSessionOptions& options);

// LMCache's traces of mini-SWE-agent: one JSON object per line with `timestamp` (µs), `input`, `output` and
// `session_id`; a session's requests may be in any order. Errors name the file and the line.
[[nodiscard]] Result<Trace> LoadMiniSwe(const std::filesystem::path& path, const TextSessionOptions& options);

// Roost's own recordings, as `roost-router --record FILE` writes them: lengths and hashes, no text. One JSON object per
// line:
//
//   arrival        seconds since the recording began
//   model          the model's name
//   block_tokens   tokens per block of this model
//   input, output  tokens of the prompt and of the answer (of the first of several choices)
//   blocks         the low 64 bits of the hashes of all full blocks of prompt and answer, front to back, in hexadecimal
//   key            the API key's name, if the request came with one; older recordings lack it
//   tenant         hash of the tenant's name, in hexadecimal; "0": none
//   session        hash of the session's name, in hexadecimal; "0": none
//
// The lines are in the order in which the answers ended.

// Traces in Mooncake's format (FAST'25): one JSON object per line with `timestamp` (ms), `input_length`,
// `output_length` and `hash_ids`, the ids of the prompt's chained 512-token blocks, the last of which may be partial.
//
// Leaves partial blocks out, and guesses sessions. The trace does not contain the answers, so their blocks belong to
// one request only and never come back. Errors name the file and the line.
[[nodiscard]] Result<Trace> LoadMooncakeTrace(const std::filesystem::path& path);

// Loads a recording of one model, to replay it at its recorded times. Requests without a session get a guessed one.
// Errors name the file and the line.
[[nodiscard]] Result<Trace> LoadRecording(const std::filesystem::path& path);

}  // namespace roost::workload
