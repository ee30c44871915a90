// Recorded sessions of coding agents (kv-cache-tester's Weka traces), and traces composed of them.
//
// The file has a header line per session (`session`, `block`, `tool_tokens`, `system_tokens`), then one array per
// request: [t_s, input_tokens, output_tokens, api_time_s, think_time_s, p, k, n]. The request shares its first k blocks
// with request p of the session (-1: with none), and has n new blocks behind them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "deploy/roostctl/workload/trace.h"

namespace roost::workload {

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

}  // namespace roost::workload
