#include "deploy/roostctl/bench/sessions.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "deploy/roostctl/workload/generators.h"

namespace roost::roostctl {
namespace {

// In tokens; drawn evenly between both.
struct Lengths {
  std::uint32_t least;
  std::uint32_t most;
};

// A workload's own values.
struct Kind {
  std::string_view name;
  std::uint32_t turn_count;
  std::uint32_t shared_count;  // 0: sessions share nothing
  std::uint32_t shared_tokens;
  Lengths first_tokens;  // of a session's first turn
  Lengths turn_tokens;
  Lengths answer_tokens;
  bool by_zipf = false;  // shared texts are asked by Zipf's law, not equally often
};
constexpr Lengths kShortAnswers{24, 24};
constexpr workload::SystemPromptOptions kSystem;
constexpr Lengths kQuestions{kSystem.least_question_tokens, kSystem.most_question_tokens};
constexpr Lengths kLongAnswers{kSystem.least_answer_tokens, kSystem.most_answer_tokens};
constexpr Lengths kReasoning{workload::kLeastReasoningTokens, workload::kMostReasoningTokens};
constexpr std::uint32_t kSystems = workload::kZipfSystemPrompts;
constexpr std::uint32_t kSystemTokens = kSystem.system_token_count;
constexpr Kind kKinds[] = {
    {"chat", 3, 4, 1000, {40, 40}, {40, 40}, kShortAnswers},
    {"shared-prompt", 1, 4, 2000, {60, 60}, {60, 60}, kShortAnswers},
    {"multi-turn", 4, 0, 0, {800, 800}, {60, 60}, kShortAnswers},
    {"documents", 1, 14, 2600, {40, 40}, {40, 40}, kShortAnswers},
    {"agents", 8, 2, 3000, {100, 100}, {400, 400}, kShortAnswers},
    {"no-reuse", 1, 0, 0, {1000, 1000}, {1000, 1000}, kShortAnswers},
    {"system-prompt", 1, 1, kSystemTokens, kQuestions, kQuestions, kLongAnswers},
    {"zipf-systems", 1, kSystems, kSystemTokens, kQuestions, kQuestions, kLongAnswers, true},
    {"reasoning", 1, 1, kSystemTokens, kQuestions, kQuestions, kReasoning},
};
static_assert(std::size(kKinds) == kBenchWorkloads.size());

// Seeds of what sessions share do not depend on the load's seed.
constexpr std::uint64_t kSharedSeed = 0x5ea5;

std::uint32_t Scaled(std::uint32_t tokens, double scale) {
  return tokens == 0 ? 0 : std::max(1U, static_cast<std::uint32_t>(std::lround(tokens * scale)));
}
Lengths Scaled(Lengths lengths, double scale) { return {Scaled(lengths.least, scale), Scaled(lengths.most, scale)}; }

// Draws nothing where there is no choice, so that loads of equal lengths keep their texts.
std::uint32_t Draw(Rng& rng, Lengths lengths) {
  if (lengths.least == lengths.most) return lengths.least;
  return lengths.least + static_cast<std::uint32_t>(rng.Below(std::uint64_t{lengths.most} - lengths.least + 1));
}

Kind KindOf(const SessionShape& shape) {
  const auto* const found =
      std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Kind& kind) { return kind.name == shape.workload; });
  ROOST_CHECK(found != std::end(kKinds), "{}", shape.workload);
  Kind kind = *found;
  kind.shared_tokens = Scaled(kind.shared_tokens, shape.scale);
  kind.first_tokens = Scaled(kind.first_tokens, shape.scale);
  kind.turn_tokens = Scaled(kind.turn_tokens, shape.scale);
  kind.answer_tokens = Scaled(kind.answer_tokens, shape.scale);
  if (shape.turn_count > 0) kind.turn_count = shape.turn_count;
  if (shape.shared_count > 0 && kind.shared_count > 0) kind.shared_count = shape.shared_count;
  if (shape.shared_tokens > 0 && kind.shared_count > 0) kind.shared_tokens = shape.shared_tokens;
  if (shape.turn_tokens > 0) kind.first_tokens = kind.turn_tokens = {shape.turn_tokens, shape.turn_tokens};
  if (shape.max_tokens > 0) kind.answer_tokens = {shape.max_tokens, shape.max_tokens};
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

// Content that a trace does not name differs from all else.
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
    if (!shared.empty()) {
      const auto count = static_cast<std::uint32_t>(shared.size());
      session.front = shared[kind.by_zipf ? workload::Zipf(rng, count) : i % count];
    }
    for (std::uint32_t turn = 0; turn < kind.turn_count; ++turn) {
      BenchTurn& next = session.turns.emplace_back();
      next.max_tokens = Draw(rng, kind.answer_tokens);
      if (prompts != nullptr) {
        next.text = Given(prompts->questions[rng.Below(prompts->questions.size())]);
      } else {
        const std::uint32_t token_count = Draw(rng, turn == 0 ? kind.first_tokens : kind.turn_tokens);
        next.text = Generated(rng(), token_count);
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
