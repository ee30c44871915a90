// The texts of a benchmark's prompts: those of a folder, or generated ones of a length in tokens.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace roost::roostctl {

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

}  // namespace roost::roostctl
