#include "deploy/roostctl/bench/sessions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "deploy/roostctl/workload/generators.h"

namespace roost::roostctl {
namespace {

// Common words of a token or two in every vocabulary.
constexpr std::array<std::string_view, 64> kWords = {
    "time",  "people", "water", "light", "house", "story",  "night",  "river",  "music", "paper",  "garden",
    "stone", "market", "table", "road",  "field", "winter", "summer", "letter", "voice", "window", "morning",
    "and",   "the",    "with",  "from",  "under", "over",   "before", "after",  "when",  "where",  "because",
    "small", "large",  "quick", "quiet", "old",   "new",    "bright", "cold",   "warm",  "long",   "short",
    "goes",  "comes",  "holds", "gives", "takes", "finds",  "keeps",  "makes",  "turns", "opens",  "closes",
    "two",   "three",  "four",  "every", "some",  "many",   "other",  "same",   "next"};

void AppendPiece(const BenchText::Piece& piece, double tokens_per_word, std::string& out) {
  Rng rng(piece.seed);
  // A mark of its own, so that no two pieces begin alike.
  out += fmt::format("{:08x}", static_cast<std::uint32_t>(rng()));
  constexpr double kMarkTokens = 4;
  const double words = std::max(0.0, std::round((piece.token_count - kMarkTokens) / tokens_per_word));
  for (auto left = static_cast<std::uint64_t>(words); left > 0; --left) {
    out += ' ';
    out += kWords[rng.Below(kWords.size())];
  }
}

Result<std::string> ReadFile(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return InvalidArgument(path.string(), "can not be read");
  return std::string(std::istreambuf_iterator<char>(in), {});
}

}  // namespace

Result<BenchPrompts> LoadBenchPrompts(const std::filesystem::path& folder) {
  BenchPrompts prompts;
  std::vector<std::filesystem::path> paths;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (entry.path().filename().string().rfind("system-", 0) == 0) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  for (const auto& path : paths) {
    ROOST_ASSIGN_OR_RETURN(std::string text, ReadFile(path));
    prompts.systems.push_back(std::move(text));
  }
  if (prompts.systems.empty()) return InvalidArgument(folder.string(), "holds no system-*.txt");
  std::ifstream questions(folder / "questions.txt");
  for (std::string line; std::getline(questions, line);) {
    if (!line.empty()) prompts.questions.push_back(line);
  }
  if (prompts.questions.empty()) return InvalidArgument((folder / "questions.txt").string(), "holds no question");
  return prompts;
}

BenchText Given(std::string text) {
  return {.given = std::make_shared<const std::string>(std::move(text)), .pieces = {}};
}

BenchText Generated(std::uint64_t seed, std::uint32_t token_count) {
  return {.given = nullptr, .pieces = {{seed, token_count}}};
}

std::string Render(const BenchText& text, double tokens_per_word) {
  if (text.given != nullptr) return *text.given;
  std::string out;
  for (const BenchText::Piece& piece : text.pieces) {
    if (!out.empty()) out += ' ';
    AppendPiece(piece, tokens_per_word, out);
  }
  return out;
}

std::vector<std::string> MakeDocuments(const std::vector<std::string>& texts, std::uint32_t count) {
  std::vector<std::string> documents;
  documents.reserve(count);
  const std::size_t n = texts.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t shift = n == 1 ? 0 : 1 + (i / n) % (n - 1);
    const std::string& first = texts[i % n];
    const std::string& second = texts[(i + shift) % n];
    documents.push_back(fmt::format("Document {}.\n\n{}\n\n{}", i + 1, first, second));
  }
  return documents;
}

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
constexpr Lengths kReasoning{workload::kMinReasoningTokens, workload::kMaxReasoningTokens};
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
