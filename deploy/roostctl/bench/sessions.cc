#include "deploy/roostctl/bench/sessions.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "common/base/check.h"
#include "common/base/rng.h"

namespace roost::roostctl {
namespace {

// A workload's own values.
struct Kind {
  std::string_view name;
  std::uint32_t turn_count;
  std::uint32_t shared_count;  // 0: sessions share nothing
  std::uint32_t shared_tokens;
  std::uint32_t first_tokens;  // of a session's first turn
  std::uint32_t turn_tokens;
};
constexpr Kind kKinds[] = {
    {"chat", 3, 4, 1000, 40, 40},       {"shared-prompt", 1, 4, 2000, 60, 60}, {"multi-turn", 4, 0, 0, 800, 60},
    {"documents", 1, 14, 2600, 40, 40}, {"agents", 8, 2, 3000, 100, 400},      {"no-reuse", 1, 0, 0, 1000, 1000},
};
static_assert(std::size(kKinds) == kBenchWorkloads.size());

// Seeds of what sessions share do not depend on the load's seed.
constexpr std::uint64_t kSharedSeed = 0x5ea5;

Kind KindOf(const SessionShape& shape) {
  const auto* const found =
      std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Kind& kind) { return kind.name == shape.workload; });
  ROOST_CHECK(found != std::end(kKinds), "{}", shape.workload);
  Kind kind = *found;
  if (shape.turn_count > 0) kind.turn_count = shape.turn_count;
  if (shape.shared_count > 0 && kind.shared_count > 0) kind.shared_count = shape.shared_count;
  if (shape.shared_tokens > 0 && kind.shared_count > 0) kind.shared_tokens = shape.shared_tokens;
  if (shape.turn_tokens > 0) kind.first_tokens = kind.turn_tokens = shape.turn_tokens;
  return kind;
}

std::vector<BenchText> SharedTexts(const Kind& kind, const BenchPrompts* prompts) {
  std::vector<BenchText> texts;
  if (kind.shared_count == 0) return texts;
  if (prompts != nullptr) {
    for (const std::string& text : prompts->systems) texts.push_back(Given(text));
    return texts;
  }
  for (std::uint32_t i = 0; i < kind.shared_count; ++i) {
    texts.push_back(Generated(Mix64(kSharedSeed + i), kind.shared_tokens));
  }
  return texts;
}

// What a trace does not name differs from all else.
BenchTurn TurnOf(const workload::Trace& trace, std::size_t number, std::uint64_t seed) {
  const workload::TraceRequest& request = trace.requests[number];
  BenchTurn turn;
  turn.max_tokens = std::max<std::uint32_t>(1, request.output_token_count);
  const std::uint32_t blocks = workload::PromptBlockCount(trace, request);
  for (std::uint32_t i = 0; i < blocks; ++i) {
    turn.text.pieces.push_back({Mix64(seed ^ Mix64(request.blocks[i])), trace.block_tokens});
  }
  const std::uint32_t rest = request.input_token_count - blocks * trace.block_tokens;
  if (rest > 0 || blocks == 0) {
    turn.text.pieces.push_back({Mix64(Mix64(seed) + number), std::max<std::uint32_t>(1, rest)});
  }
  return turn;
}

double Exponential(Rng& rng, double mean) { return -mean * std::log(1 - rng.Uniform()); }

}  // namespace

std::vector<BenchSession> MakeSessions(const SessionShape& shape, const BenchPrompts* prompts) {
  const Kind kind = KindOf(shape);
  const std::vector<BenchText> shared = SharedTexts(kind, prompts);
  Rng rng(shape.seed);
  std::vector<BenchSession> sessions(shape.session_count);
  for (std::size_t i = 0; i < sessions.size(); ++i) {
    BenchSession& session = sessions[i];
    session.number = i;
    if (!shared.empty()) session.front = shared[i % shared.size()];
    for (std::uint32_t turn = 0; turn < kind.turn_count; ++turn) {
      BenchTurn& next = session.turns.emplace_back();
      next.max_tokens = shape.max_tokens;
      if (prompts != nullptr) {
        next.text = Given(prompts->questions[rng.Below(prompts->questions.size())]);
      } else {
        next.text = Generated(rng(), turn == 0 ? kind.first_tokens : kind.turn_tokens);
      }
      if (turn > 0 && shape.think_seconds > 0) next.think_seconds = Exponential(rng, shape.think_seconds);
    }
  }
  // Shuffles, because the loop above puts the shared texts in a fixed cycle.
  for (std::size_t i = sessions.size(); i > 1; --i) std::swap(sessions[i - 1], sessions[rng.Below(i)]);
  return sessions;
}

std::vector<BenchSession> TraceSessions(const workload::Trace& trace, double speed, std::uint64_t seed) {
  std::vector<BenchSession> sessions;
  std::map<std::uint64_t, std::size_t> by_session;  // the index of a trace's session
  for (std::size_t number = 0; number < trace.requests.size(); ++number) {
    const workload::TraceRequest& request = trace.requests[number];
    const bool is_of_session = trace.pacing == workload::Pacing::kTurnByTurn && request.session != 0;
    std::size_t index = sessions.size();
    if (is_of_session) index = by_session.try_emplace(request.session, index).first->second;
    BenchTurn turn = TurnOf(trace, number, seed);
    turn.earliest_seconds = request.arrival_seconds / speed;
    if (index == sessions.size()) {
      sessions.push_back({.number = index, .start_seconds = *turn.earliest_seconds, .has_whole_prompts = true});
    }
    sessions[index].turns.push_back(std::move(turn));
  }
  return sessions;
}

}  // namespace roost::roostctl
