// The load of a benchmark: sessions of turns, made from a seed. A session's next turn waits for the answer to the last
// one; sessions are independent of each other.
//
//   workload        what its sessions have in common
//   chat            long system prompts; each session asks several questions behind one of them
//   shared-prompt   the same with one question each
//   multi-turn      nothing; each has several turns behind a long first one of its own
//   documents       long documents, of which each has several questions, in random order
//   agents          instructions and tools; each session gathers long results of tools over many turns
//   no-reuse        nothing
//   system-prompt   one system prompt for all; questions and answers of very different lengths
//   zipf-systems    the same with ten system prompts, asked by Zipf's law
//   reasoning       one system prompt for all, and very long answers
//   trace           what a recorded trace says
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "deploy/roostctl/workload/trace.h"

namespace roost::roostctl {

// The texts of a benchmark's prompts: those of a folder, or generated ones of a length in tokens.

// The texts of a folder: system-*.txt, and the lines of questions.txt.
struct BenchPrompts {
  std::vector<std::string> systems = {};
  std::vector<std::string> questions = {};
};
[[nodiscard]] Result<BenchPrompts> LoadBenchPrompts(const std::filesystem::path& folder);

// Makes `count` documents, each with its own title and two of the texts (different ones if there are two). Each begins
// differently, so each needs its own KV. `texts` must not be empty.
[[nodiscard]] std::vector<std::string> MakeDocuments(const std::vector<std::string>& texts, std::uint32_t count);

// A text that is given, or made when it is needed: so a long load takes little memory before it is sent.
struct BenchText {
  struct Piece {
    std::uint64_t seed = 0;
    std::uint32_t token_count = 0;
  };
  std::shared_ptr<const std::string> given = {};  // null: the pieces
  std::vector<Piece> pieces = {};                 // in order
};
[[nodiscard]] BenchText Given(std::string text);
[[nodiscard]] BenchText Generated(std::uint64_t seed, std::uint32_t token_count);

// English words. Pieces of equal seeds and lengths are equal; pieces of other seeds differ from the first word on.
// `tokens_per_word` is the endpoint's, see MeasureTokensPerWord; above 0.
[[nodiscard]] std::string Render(const BenchText& text, double tokens_per_word);

inline constexpr std::array<std::string_view, 9> kBenchWorkloads = {"chat",          "shared-prompt", "multi-turn",
                                                                    "documents",     "agents",        "no-reuse",
                                                                    "system-prompt", "zipf-systems",  "reasoning"};

struct BenchTurn {
  BenchText text = {};
  std::uint32_t max_tokens = 0;
  double think_seconds = 0;                     // after the answer to the turn before
  std::optional<double> earliest_seconds = {};  // since the load's start: not before this
};

struct BenchSession {
  std::size_t number = 0;
  double start_seconds = 0;             // since the load's start, for loads with arrival times
  std::optional<BenchText> front = {};  // the system prompt
  std::vector<BenchTurn> turns = {};
  // Each turn's text is a whole prompt. Otherwise it follows the turns and the answers before it.
  bool has_whole_prompts = false;
  bool is_warm_up = false;  // it is sent, and its requests are not counted
};

// The sizes and counts of a workload. Zero: the workload's own value.
struct SessionShape {
  std::string workload = "chat";
  std::uint32_t session_count = 16;
  std::uint32_t turn_count = 0;
  std::uint32_t shared_count = 0;   // different system prompts, documents or sets of tools
  std::uint32_t shared_tokens = 0;  // of each
  std::uint32_t turn_tokens = 0;    // of a user's text
  std::uint32_t max_tokens = 0;     // of an answer
  double scale = 1;                 // of the workload's own lengths
  double think_seconds = 0;         // mean; exponential
  std::uint64_t seed = 1;
};

// With `prompts` its texts are the shared ones and the questions; without, texts are generated. Sessions that are made
// of another `seed` share the same system prompts, documents or tools with these, and nothing else.
[[nodiscard]] std::vector<BenchSession> MakeSessions(const SessionShape& shape, const BenchPrompts* prompts);

// The trace's requests with generated texts: equal blocks have equal texts. Its times are divided by `speed`.
[[nodiscard]] std::vector<BenchSession> TraceSessions(const workload::Trace& trace, double speed, std::uint64_t seed);

}  // namespace roost::roostctl
