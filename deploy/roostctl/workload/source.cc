#include "deploy/roostctl/workload/source.h"

#include <fmt/ranges.h>

#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/rng.h"
#include "deploy/roostctl/workload/generators.h"

namespace roost::workload {
namespace {

constexpr double kMooncakeTickSeconds = 3;
constexpr double kAgentEndSeconds = 5400;

void SpreadTicks(Trace& trace, std::uint64_t seed) {
  Rng rng(seed);
  for (TraceRequest& request : trace.requests) request.arrival_seconds += rng.Uniform() * kMooncakeTickSeconds;
  SortByArrival(trace);
}

Result<Trace> LoadAgents(const TraceSource& source) {
  ROOST_ASSIGN_OR_RETURN(const std::vector<AgentSession> sessions, LoadAgentSessions(source.path));
  return ComposeAgentTrace(sessions,
                           {.session_count = source.session_count.value_or(std::numeric_limits<std::uint32_t>::max()),
                            .end_seconds = kAgentEndSeconds,
                            .seed = source.seed});
}

Result<Trace> LoadFile(const TraceSource& source) {
  if (source.format == "mooncake") {
    ROOST_ASSIGN_OR_RETURN(Trace trace, LoadMooncakeTrace(source.path));
    if (source.ticks == Ticks::kSpread) SpreadTicks(trace, source.seed);
    return trace;
  }
  if (source.format == "weka") return LoadAgents(source);
  if (source.format == "roost") return LoadRecording(source.path);
  if (source.format == "taubench") return LoadTauBench(source.path, {.seed = source.seed});
  if (source.format == "miniswe") return LoadMiniSwe(source.path, {.seed = source.seed});
  return InvalidArgument("format", "there is no format '{}'; the formats are {}", source.format,
                         fmt::join(kTraceFormats, ", "));
}

Result<Trace> LoadRequests(const TraceSource& source) {
  ROOST_ASSIGN_OR_RETURN(Trace trace, LoadFile(source));
  if (trace.requests.empty()) return DataLoss("trace", "{} has no requests", source.path);
  return trace;
}

// The other formats in which the file can be read.
std::vector<std::string_view> FormatsOf(TraceSource source) {
  const std::string given = source.format;
  std::vector<std::string_view> formats;
  for (const std::string_view format : kTraceFormats) {
    source.format = format;
    if (format != given && LoadRequests(source).ok()) formats.push_back(format);
  }
  return formats;
}

Result<Trace> Generate(const TraceSource& source) {
  if (source.generator == "llm-d") return TenantUsers({.seed = source.seed});
  if (source.generator == "sglang-gsp") return SharedPrefix({.seed = source.seed});
  if (source.generator == "no-reuse") return NoReuse({.seed = source.seed});
  if (source.generator == "chat") {
    MultiTurnChatOptions options{.seed = source.seed};
    options.session_count = source.session_count.value_or(options.session_count);
    return MultiTurnChat(options);
  }
  SystemPromptOptions options{.seed = source.seed};
  options.request_count = source.session_count.value_or(options.request_count);
  if (source.generator == "system-prompt") return SystemPrompts(options);
  if (source.generator == "zipf-systems") {
    options.system_count = kZipfSystemPrompts;
    return SystemPrompts(options);
  }
  if (source.generator == "reasoning") {
    options.least_answer_tokens = kMinReasoningTokens;
    options.most_answer_tokens = kMaxReasoningTokens;
    return SystemPrompts(options);
  }
  return InvalidArgument("generate", "there is no generator '{}'; the generators are {}", source.generator,
                         fmt::join(kGenerators, ", "));
}

}  // namespace

Result<Trace> LoadTrace(const TraceSource& source) {
  if (source.path.empty() == source.generator.empty()) {
    return InvalidArgument("trace", "either a trace or a generator is needed");
  }
  if (!source.generator.empty()) return Generate(source);
  Result<Trace> trace = LoadRequests(source);
  if (trace.ok() || trace.error().code != ErrorCode::kDataLoss) return trace;
  const std::vector<std::string_view> formats = FormatsOf(source);
  if (formats.empty()) return trace;
  Error error = std::move(trace).error();
  error.message += fmt::format(" (not of format {}: give --format {})", source.format, fmt::join(formats, " or "));
  return error;
}

}  // namespace roost::workload
