#include "deploy/roostctl/bench/bench_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include "common/base/check.h"
#include "common/base/json_writer.h"
#include "common/base/rng.h"
#include "deploy/roostctl/remote/chat_stream.h"
#include "deploy/roostctl/remote/http_client.h"
#include "deploy/roostctl/remote/json_members.h"
#include "deploy/roostctl/remote/refusal.h"
#include "deploy/roostctl/workload/source.h"

namespace roost::roostctl {

std::vector<double> ArrivalTimes(ArrivalKind kind, std::size_t count, double per_second, std::uint64_t seed) {
  ROOST_CHECK(per_second > 0);
  Rng rng(seed);
  std::vector<double> times(count);
  double now = 0;
  for (double& time : times) {
    time = now;
    now += (kind == ArrivalKind::kConstant ? 1 : -std::log(1 - rng.Uniform())) / per_second;
  }
  return times;
}

namespace {

constexpr std::uint32_t kMaxBlocks = 10;
constexpr std::uint64_t kWarmUpSeed = 0x3a3;
constexpr std::size_t kMaxSessions = 1'000'000;
constexpr std::uint32_t kDocuments = 14;

// Base URLs of OpenAI's clients end with /v1.
std::string WithoutVersion(std::string url) {
  while (!url.empty() && url.back() == '/') url.pop_back();
  if (url.size() > 3 && url.compare(url.size() - 3, 3, "/v1") == 0) url.resize(url.size() - 3);
  return url;
}

Result<LoadTarget> TargetOf(const BenchOptions& options) {
  LoadTarget target;
  target.label = options.label;
  target.access = options.router;
  if (!options.url.empty()) target.access.url = options.url;
  target.access.url = WithoutVersion(target.access.url);
  target.api = options.api == "chat" ? BenchApi::kChat : BenchApi::kCompletions;
  target.ignore_eos = options.ignore_eos;
  target.timeout_seconds = options.timeout_seconds;
  target.model = options.model;
  if (target.model.empty()) {
    ROOST_ASSIGN_OR_RETURN(target.model, FirstModel(target.access));
  }
  return target;
}

Result<std::uint64_t> PromptTokensOf(HttpClient& client, const LoadTarget& target, const std::string& text) {
  const bool is_chat = target.api == BenchApi::kChat;
  JsonWriter body;
  body.BeginObject().Key("model").String(target.model).Key("max_tokens").Number(1);
  if (is_chat) {
    body.Key("messages").BeginArray().BeginObject().Key("role").String("user").Key("content").String(text);
    body.EndObject().EndArray();
  } else {
    body.Key("prompt").String(text);
  }
  body.EndObject();
  ROOST_ASSIGN_OR_RETURN(const HttpResponse response,
                         client.PostJson(is_chat ? "/v1/chat/completions" : "/v1/completions", body.Take()));
  if (response.status != 200) return RefusalOf(response);
  const json::Document answer(response.body);
  if (!answer.ok()) return DataLoss("answer", "it is not JSON");
  return CountAt(answer.root(), "/usage/prompt_tokens");
}

Result<std::vector<BenchSession>> TraceLoad(const BenchOptions& options) {
  ROOST_ASSIGN_OR_RETURN(const workload::Trace trace, workload::LoadTrace({.path = options.trace,
                                                                           .format = options.trace_format,
                                                                           .generator = "",
                                                                           .session_count = {},
                                                                           .seed = options.shape.seed}));
  std::vector<BenchSession> sessions = TraceSessions(trace, options.trace_speed, options.shape.seed);
  if (options.warm_up_count >= sessions.size()) {
    return InvalidArgument("warm-up", "the trace has only {} sessions", sessions.size());
  }
  for (std::uint32_t i = 0; i < options.warm_up_count; ++i) sessions[i].is_warm_up = true;
  return sessions;
}

Result<std::vector<BenchSession>> WorkloadOf(const BenchOptions& options) {
  SessionShape shape = options.shape;
  std::optional<BenchPrompts> prompts;
  if (!options.prompts.empty()) {
    ROOST_ASSIGN_OR_RETURN(prompts, LoadBenchPrompts(options.prompts));
    const std::uint32_t documents =
        options.document_count == 0 && shape.workload == "documents" ? kDocuments : options.document_count;
    if (documents > 0) prompts->systems = MakeDocuments(prompts->systems, documents);
  } else if (options.document_count > 0) {
    shape.shared_count = options.document_count;
  }
  const BenchPrompts* const given = prompts ? &*prompts : nullptr;
  if (options.seconds > 0) {
    const std::size_t turns =
        MakeSessions({.workload = shape.workload, .session_count = 1, .turn_count = shape.turn_count}, given)[0]
            .turns.size();
    const double count = std::ceil(options.seconds * options.rate / static_cast<double>(turns));
    shape.session_count = static_cast<std::uint32_t>(std::clamp(count, 1.0, static_cast<double>(kMaxSessions)));
  }
  std::vector<BenchSession> sessions = MakeSessions(shape, given);
  shape.session_count = options.warm_up_count;
  shape.seed = Mix64(shape.seed ^ kWarmUpSeed);
  std::vector<BenchSession> load = MakeSessions(shape, given);
  for (BenchSession& session : load) {
    session.number += sessions.size();
    session.is_warm_up = true;
  }
  load.insert(load.end(), std::make_move_iterator(sessions.begin()), std::make_move_iterator(sessions.end()));
  return load;
}

void SetStarts(const BenchOptions& options, std::vector<BenchSession>& sessions) {
  std::size_t requests = 0;
  for (const BenchSession& session : sessions) requests += session.turns.size();
  const double sessions_per_second =
      options.rate * static_cast<double>(sessions.size()) / static_cast<double>(requests);
  const ArrivalKind kind = options.arrivals == "constant" ? ArrivalKind::kConstant : ArrivalKind::kPoisson;
  const std::vector<double> times =
      ArrivalTimes(kind, sessions.size(), sessions_per_second, Mix64(options.shape.seed + 1));
  for (std::size_t i = 0; i < sessions.size(); ++i) sessions[i].start_seconds = times[i];
}

void BeginAtZero(std::vector<BenchSession>& block) {
  const double begin = block.front().start_seconds;
  for (BenchSession& session : block) {
    session.start_seconds -= begin;
    for (BenchTurn& turn : session.turns) {
      if (turn.earliest_seconds) *turn.earliest_seconds = std::max(0.0, *turn.earliest_seconds - begin);
    }
  }
}

// They stand in front.
std::size_t WarmUpCount(const std::vector<BenchSession>& sessions) {
  return static_cast<std::size_t>(
      std::count_if(sessions.begin(), sessions.end(), [](const BenchSession& session) { return session.is_warm_up; }));
}

}  // namespace

Result<std::vector<LoadTarget>> TargetsOf(const BenchOptions& options) {
  if (options.compare_cache && !options.compare_url.empty()) {
    return InvalidArgument("compare-cache", "can not be given together with --compare");
  }
  ROOST_ASSIGN_OR_RETURN(LoadTarget first, TargetOf(options));
  std::vector<LoadTarget> targets{first};
  if (options.compare_cache) {
    targets = {first, first};
    targets[0].label = "cache-off";
    targets[0].cache = UseCache::kNo;
    targets[1].label = "cache-on";
  } else if (!options.compare_url.empty()) {
    BenchOptions other = options;
    other.url = options.compare_url;
    other.model = options.compare_model;
    if (!options.compare_api_key_file.empty()) {
      other.router.api_key.clear();
      other.router.api_key_file = options.compare_api_key_file;
    }
    ROOST_ASSIGN_OR_RETURN(LoadTarget second, TargetOf(other));
    targets.push_back(std::move(second));
    targets[0].label = "A";
    targets[1].label = "B";
  }
  return targets;
}

// Different lengths, so that templates and marks do not count.
Result<double> MeasureTokensPerWord(const LoadTarget& target, std::uint64_t seed) {
  constexpr std::uint32_t kShort = 64;
  constexpr std::uint32_t kLong = 320;
  constexpr double kUnknown = 1.3;  // of many vocabularies
  HttpClient client(target.access, target.timeout_seconds);
  ROOST_ASSIGN_OR_RETURN(const std::uint64_t few,
                         PromptTokensOf(client, target, Render(Generated(Mix64(seed), kShort), 1)));
  ROOST_ASSIGN_OR_RETURN(const std::uint64_t many,
                         PromptTokensOf(client, target, Render(Generated(Mix64(seed + 1), kLong), 1)));
  if (many <= few) return kUnknown;
  return static_cast<double>(many - few) / (kLong - kShort);
}

Result<std::vector<BenchSession>> MakeLoad(const BenchOptions& options) {
  if (options.seconds > 0 && options.rate == 0) return InvalidArgument("seconds", "is for loads with --rate");
  if (!options.trace.empty()) {
    if (options.rate > 0) return InvalidArgument("rate", "a trace has its own pace, which --speed changes");
    return TraceLoad(options);
  }
  ROOST_ASSIGN_OR_RETURN(std::vector<BenchSession> sessions, WorkloadOf(options));
  if (options.rate > 0) SetStarts(options, sessions);
  return sessions;
}

bool IsOpen(const BenchOptions& options) { return options.rate > 0 || !options.trace.empty(); }

// A block should have many more sessions than run at a time, or its end counts too much.
std::size_t SessionsOfBlock(const BenchOptions& options) {
  return IsOpen(options) ? 20 : 4 * std::size_t{options.concurrency};
}

std::size_t BlockCount(const BenchOptions& options, const std::vector<BenchSession>& all) {
  const std::size_t sessions = all.size() - WarmUpCount(all);
  if (options.block_count > 0) return std::clamp<std::size_t>(options.block_count, 1, sessions);
  return std::clamp<std::size_t>(sessions / SessionsOfBlock(options), 1, kMaxBlocks);
}

std::vector<std::vector<BenchSession>> CutIntoBlocks(std::vector<BenchSession> sessions, std::size_t count) {
  std::vector<std::vector<BenchSession>> blocks(count);
  const std::size_t warm_ups = WarmUpCount(sessions);
  const std::size_t total = sessions.size() - warm_ups;
  for (std::size_t i = 0; i < sessions.size(); ++i) {
    const std::size_t block = i < warm_ups ? 0 : (i - warm_ups) * count / total;
    blocks[block].push_back(std::move(sessions[i]));
  }
  for (std::vector<BenchSession>& block : blocks) BeginAtZero(block);
  return blocks;
}

std::string DescribeLoad(const BenchOptions& options, const std::vector<BenchSession>& sessions) {
  std::size_t requests = 0;
  std::size_t measured = 0;
  for (const BenchSession& session : sessions) {
    if (session.is_warm_up) continue;
    ++measured;
    requests += session.turns.size();
  }
  std::string text = options.trace.empty() ? options.shape.workload : "trace " + options.trace;
  text += fmt::format(": {} sessions, {} requests", measured, requests);
  if (!options.trace.empty()) {
    text += fmt::format(", at {:g} times its pace", options.trace_speed);
  } else if (options.rate > 0) {
    text += fmt::format(", open loop: {:g} requests/s, {} arrivals", options.rate, options.arrivals);
  } else {
    text += fmt::format(", closed loop: {} sessions at a time", options.concurrency);
  }
  if (measured < sessions.size()) text += fmt::format(", after {} to warm up", sessions.size() - measured);
  return text + fmt::format(", seed {}\n", options.shape.seed);
}

}  // namespace roost::roostctl
