#include "deploy/roostctl/bench/texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>

#include "common/base/rng.h"

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

}  // namespace roost::roostctl
