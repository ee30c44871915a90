#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/rng.h"
#include "common/text/regex/regex.h"
#include "common/text/word_scanner.h"
#include "tests/bench/bench.h"
#include "tests/support/tokenizer_patterns.h"
#ifdef ROOST_HAS_ONIGURUMA
#include "tests/support/onig_regex.h"
#endif

namespace roost::bench {
namespace {

// Prose, code, numbers and other scripts, in the proportions of a chat about code.
std::string MixedText(std::size_t bytes) {
  constexpr std::array<std::string_view, 12> kLines = {
      "The quick brown fox jumps over the lazy dog, and they've said it isn't so.\n",
      "First Citizen: Before we proceed any further, hear me speak. All: Speak, speak!\n",
      "for (std::size_t i = 0; i < pieces.size(); ++i) {\n    out.push_back(pieces[i] * 2.5);\n}\n\n",
      "\tdef encode(self, text: str) -> list[int]:\n\t\treturn [self.ids[t] for t in self.split(text)]\n",
      "{\"role\": \"user\", \"content\": \"What's the weather in Zürich on 2024-06-17?\"}\n",
      "| latency | 12.5 ms | 1,048,576 | 99.9% |\n",
      "A prompt has a static part, which is the same for all requests, and a part of its own.\n",
      "It was the best of times, it was the worst of times, it was the age of wisdom.\n",
      "世界你好。こんにちは、世界。안녕하세요 세계\n",
      "Привет, мир! Как дела? Всё хорошо.\n",
      "naïve café über straße déjà vu — “quoted” … 😀 👍🏽\n",
      "        return nullptr;  // what is left is freed by its owner\n"};
  Rng rng(1);
  std::string text;
  while (text.size() < bytes) text += kLines[rng.Below(kLines.size())];
  return text;
}

template <typename Find>
void Measure(Effort effort, const std::string& name, std::size_t bytes, Find find) {
  std::vector<text::TextRange> matches;
  const double seconds = MedianSeconds(effort, [&] {
    matches.clear();
    const Result<void> found = find(matches);
    ROOST_CHECK(found.ok() && !matches.empty());
  });
  Figure(name, static_cast<double>(bytes) / seconds * 1e-6, "MB/s");
}

// Seconds until a pattern with quadratic time in this text has matched or is stopped. The search tries each place, and
// the look-ahead reads the whole rest each time, without backtracking that a retry limit would count.
void MeasureHostile() {
  constexpr std::string_view kPattern = "[ab](?:[ab]|[ac])?(?=[abc]*[de])";
  constexpr std::size_t kBytes = 24'000;
  std::string text;
  while (text.size() < kBytes) text += "ab";
  const SteadyClock clock;
  std::vector<text::TextRange> matches;
  const text::Regex regex = text::Regex::Compile(kPattern).value();
  text::RegexScratch scratch;
  Instant start = clock.Now();
  scratch.budget().Start(text.size());
  (void)regex.FindAll(text, scratch, matches).ok();
  Figure("regex_hostile_s_24kb", ToSeconds(clock.Now() - start), "s");
#ifdef ROOST_HAS_ONIGURUMA
  const auto other = testing_support::OnigRegex::Compile(kPattern).value();
  start = clock.Now();
  (void)other.FindAll(text, matches).ok();
  Figure("regex_hostile_s_24kb_oniguruma", ToSeconds(clock.Now() - start), "s");
#endif
}

}  // namespace

// The speed at which the patterns of common tokenizers find their words in one text, on one core: the regular
// expression, the scanner if there is one, and Oniguruma if it is installed.
void BenchRegex(Effort effort) {
  const std::string text = MixedText(effort == Effort::kQuick ? std::size_t{16} << 10U : std::size_t{2} << 20U);
  for (const auto& [name, pattern] : testing_support::kTokenizerPatterns) {
    const text::Regex regex = text::Regex::Compile(pattern).value();
    text::RegexScratch scratch;
    Measure(effort, fmt::format("regex_split_mb_s_{}", name), text.size(), [&](auto& matches) {
      scratch.budget().Start(text.size());
      return regex.FindAll(text, scratch, matches);
    });
    if (const auto scanner = text::WordScanner::ForPattern(pattern)) {
      Measure(effort, fmt::format("scanner_split_mb_s_{}", name), text.size(), [&](auto& matches) -> Result<void> {
        for (std::size_t begin = 0; begin < text.size(); begin = matches.back().end) {
          matches.push_back({begin, scanner->WordEnd(text, begin)});
        }
        return {};
      });
    }
#ifdef ROOST_HAS_ONIGURUMA
    const auto other = testing_support::OnigRegex::Compile(pattern).value();
    Measure(effort, fmt::format("regex_split_mb_s_{}_oniguruma", name), text.size(),
            [&](auto& matches) { return other.FindAll(text, matches); });
#endif
  }
  if (effort == Effort::kFull) MeasureHostile();
}

}  // namespace roost::bench
