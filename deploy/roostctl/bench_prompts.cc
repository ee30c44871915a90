// The texts that a benchmark sends.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "deploy/roostctl/bench.h"

namespace roost::roostctl {
namespace {

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
