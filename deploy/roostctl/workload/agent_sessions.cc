#include "deploy/roostctl/workload/source.h"

#include <algorithm>
#include <array>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "deploy/roostctl/workload/json_lines.h"

namespace roost::workload {
namespace {

constexpr std::size_t kFieldCount = 8;

Result<AgentSession> ReadHeader(json::Element object) {
  AgentSession session;
  std::string_view name;
  std::uint64_t block_tokens = 0;
  std::uint64_t tool_tokens = 0;
  if (object.at_key("session").get(name) != simdjson::SUCCESS ||
      object.at_key("block").get(block_tokens) != simdjson::SUCCESS ||
      object.at_key("tool_tokens").get(tool_tokens) != simdjson::SUCCESS || block_tokens == 0) {
    return InvalidArgument("session", "a header needs session, block and tool_tokens");
  }
  session.name = name;
  session.block_tokens = static_cast<std::uint32_t>(block_tokens);
  session.tool_token_count = static_cast<std::uint32_t>(tool_tokens);
  return session;
}

// Do the request's blocks match its tokens, and the shared blocks those of its parent?
Result<void> CheckBlocks(const AgentSession& session, const AgentRequest& request) {
  const std::uint64_t block_count = std::uint64_t{request.shared_block_count} + request.new_block_count;
  if (block_count != request.input_token_count / session.block_tokens) {
    return InvalidArgument("request", "{} blocks do not hold {} tokens", block_count, request.input_token_count);
  }
  const std::uint32_t parent_tokens = request.parent ? session.requests[*request.parent].input_token_count : 0;
  if (request.shared_block_count > parent_tokens / session.block_tokens) {
    return InvalidArgument("request", "shares {} blocks, more than there are", request.shared_block_count);
  }
  return {};
}

Result<AgentRequest> ReadAgentRequest(json::Array fields, const AgentSession& session) {
  std::array<double, kFieldCount> values{};
  if (fields.size() != kFieldCount) return InvalidArgument("request", "a request has {} fields", kFieldCount);
  for (std::size_t i = 0; i < kFieldCount; ++i) {
    const json::Element field = fields.at(i).value_unsafe();
    if (field.is_null()) continue;  // the time was not recorded
    if (field.get(values[i]) != simdjson::SUCCESS) return InvalidArgument("request", "field {} is not a number", i);
  }
  if (values[5] >= static_cast<double>(session.requests.size())) {
    return InvalidArgument("request", "shares blocks with request {}, which is not before it", values[5]);
  }
  const auto count = [&](std::size_t i) { return static_cast<std::uint32_t>(values[i]); };
  AgentRequest request{.start_seconds = values[0],
                       .api_seconds = values[3],
                       .think_seconds = values[4],
                       .input_token_count = count(1),
                       .output_token_count = count(2),
                       .parent = std::nullopt,
                       .shared_block_count = count(6),
                       .new_block_count = count(7)};
  if (values[5] >= 0) request.parent = count(5);
  ROOST_RETURN_IF_ERROR(CheckBlocks(session, request));
  return request;
}

// Assigns ids, and turns one session into requests of the trace.
class Composer {
 public:
  Composer(Trace& trace, const AgentTraceOptions& options) : trace_(trace), options_(options) {}

  void Add(const AgentSession& session, double start_seconds) {
    ROOST_CHECK(trace_.block_tokens % session.block_tokens == 0, "blocks of {} tokens", session.block_tokens);
    const std::size_t first = trace_.requests.size();
    double arrival = start_seconds;
    double previous_start = 0;
    ++session_count_;
    for (const AgentRequest& recorded : session.requests) {
      arrival += std::clamp(recorded.start_seconds - previous_start, 0.0, options_.longest_gap_seconds);
      previous_start = recorded.start_seconds;
      if (options_.end_seconds && arrival > *options_.end_seconds) return;
      TraceRequest request = Compose(session, recorded, first);
      request.arrival_seconds = arrival;
      request.session = session_count_;
      trace_.requests.push_back(std::move(request));
    }
  }

 private:
  // The tools' blocks are named by the length of the tools' part, all others by a running number.
  static constexpr ContentId kToolsBit = ContentId{1} << 63U;

  TraceRequest Compose(const AgentSession& session, const AgentRequest& recorded, std::size_t first) {
    TraceRequest request{.arrival_seconds = 0,
                         .input_token_count = recorded.input_token_count,
                         .output_token_count = recorded.output_token_count,
                         .blocks = {}};
    if (recorded.parent) {
      const std::vector<ContentId>& before = trace_.requests[first + *recorded.parent].blocks;
      const std::size_t shared = std::size_t{recorded.shared_block_count} * session.block_tokens / trace_.block_tokens;
      request.blocks.assign(before.begin(), before.begin() + static_cast<std::ptrdiff_t>(shared));
    } else if (trace_.requests.size() == first) {
      const std::uint32_t tool_tokens = std::min(session.tool_token_count, recorded.input_token_count);
      for (std::uint32_t i = 0; i < tool_tokens / trace_.block_tokens; ++i) {
        request.blocks.push_back(kToolsBit | ContentId{session.tool_token_count} << 32U | i);
      }
    }
    const std::uint64_t token_count = std::uint64_t{recorded.input_token_count} + recorded.output_token_count;
    while (request.blocks.size() < token_count / trace_.block_tokens) request.blocks.push_back(next_id_++);
    return request;
  }

  Trace& trace_;
  const AgentTraceOptions& options_;
  ContentId next_id_ = 0;
  std::uint64_t session_count_ = 0;
};

}  // namespace

Result<std::vector<AgentSession>> LoadAgentSessions(const std::filesystem::path& path) {
  std::vector<AgentSession> sessions;
  ROOST_RETURN_IF_ERROR(ForEachJsonLine(path, [&](json::Element value) -> Result<void> {
    json::Array fields;
    if (value.get(fields) != simdjson::SUCCESS) {
      ROOST_ASSIGN_OR_RETURN(AgentSession session, ReadHeader(value));
      sessions.push_back(std::move(session));
      return {};
    }
    if (sessions.empty()) return InvalidArgument("request", "a request before the first session");
    ROOST_ASSIGN_OR_RETURN(const AgentRequest request, ReadAgentRequest(fields, sessions.back()));
    sessions.back().requests.push_back(request);
    return {};
  }));
  return sessions;
}

Trace ComposeAgentTrace(const std::vector<AgentSession>& sessions, const AgentTraceOptions& options) {
  Trace trace{.block_tokens = options.block_tokens, .requests = {}, .pacing = Pacing::kTurnByTurn};
  Composer composer(trace, options);
  Rng rng(options.seed);
  const std::size_t count = std::min<std::size_t>(options.session_count, sessions.size());
  for (std::size_t i = 0; i < count; ++i) composer.Add(sessions[i], rng.Uniform() * options.start_span_seconds);
  SortByArrival(trace);
  return trace;
}

}  // namespace roost::workload
