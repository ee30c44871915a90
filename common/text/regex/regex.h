// Unicode regular expressions of tokenizer files: PCRE2 with its JIT compiler, over a translation of Oniguruma's syntax
// (oniguruma.cc). Finds the same matches as the reference library: left to right, no empty match right after a match.
//
// A Regex is immutable and shared by threads; a RegexScratch, used by one thread at a time, holds what a match writes.
// Steps and memory of one match are limited, and all matches of one text share a CpuBudget; a text that needs more is
// refused with an Error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/byte_range.h"
#include "common/base/result.h"
#include "common/text/regex/rewrite_bounds.h"

struct pcre2_real_code_8;
struct pcre2_real_match_context_8;
struct pcre2_real_match_data_8;
struct pcre2_real_jit_stack_8;

namespace roost::text {

inline constexpr std::uint32_t kRegexMatchLimit = 10'000'000;    // in PCRE2's own unit of steps, per match
inline constexpr std::uint32_t kRegexHeapKibibytes = 64 * 1024;  // without a JIT compiler
inline constexpr std::size_t kRegexJitStackInitialBytes = std::size_t{64} << 10U;  // grows up to the next constant
inline constexpr std::size_t kRegexJitStackBytes = std::size_t{8} << 20U;

// Members of a character class, in PCRE2's syntax: the 25 code points of White_Space (PCRE2's own \s also has U+180E),
// and what \w matches in the reference library (Unicode Technical Standard 18, annex C).
inline constexpr std::string_view kSpaceCharacters =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
inline constexpr std::string_view kWordCharacters = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200c}\x{200d})";

using TextRange = ByteRange;

class RegexScratch {
 public:
  RegexScratch();
  ~RegexScratch();
  RegexScratch(const RegexScratch&) = delete;
  RegexScratch& operator=(const RegexScratch&) = delete;

  // The budget of the current text. Start it anew for each text.
  [[nodiscard]] CpuBudget& budget() { return budget_; }

 private:
  friend class Regex;

  template <typename T>
  using Owned = std::unique_ptr<T, void (*)(T*)>;
  CpuBudget budget_;
  Owned<pcre2_real_match_context_8> context_;
  Owned<pcre2_real_match_data_8> match_;
  Owned<pcre2_real_jit_stack_8> stack_;
};

class Regex {
 public:
  // The error has no field: only the caller knows the pattern's place in the file.
  static Result<Regex> Compile(std::string_view oniguruma_pattern);
  // For a pattern of our own, in PCRE2's syntax.
  static Result<Regex> CompilePcre2(std::string_view pattern);

  // Appends all matches in `subject`, which must be valid UTF-8. Look-arounds see only `subject`.
  Result<void> FindAll(std::string_view subject, RegexScratch& scratch, std::vector<TextRange>& matches) const;

  [[nodiscard]] bool CanMatchEmpty() const;

 private:
  explicit Regex(std::shared_ptr<const pcre2_real_code_8> code) : code_(std::move(code)) {}

  std::shared_ptr<const pcre2_real_code_8> code_;
};

// Longer patterns are refused. The longest in use, DeepSeek's list of letters, has under 4,000 bytes.
inline constexpr std::size_t kMaxPatternBytes = 16 * 1024;

// The pattern in PCRE2's syntax: see oniguruma.cc. Linear. The error has no field: only the caller knows the pattern's
// place in the file.
[[nodiscard]] Result<std::string> TranslateOniguruma(std::string_view pattern);

}  // namespace roost::text
