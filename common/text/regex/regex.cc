#define PCRE2_CODE_UNIT_WIDTH 8

#include "common/text/regex/regex.h"

#include <pcre2.h>

#include <algorithm>
#include <array>
#include <optional>

#include "common/base/check.h"
#include "common/base/utf8.h"

namespace roost::text {
namespace {

std::string MessageOf(int code) {
  std::array<PCRE2_UCHAR, 128> buffer{};
  pcre2_get_error_message(code, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

// Switches off an optimisation of 10.42 that loses matches: it makes the first repeat in "\h+(?:\s)?+\h" possessive.
// Tokenizers' patterns are as fast without it.
constexpr std::uint32_t kCompileOptions =
    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | PCRE2_USE_OFFSET_LIMIT | PCRE2_NO_AUTO_POSSESS;

// The JIT compiler of 10.42 looks for the first character of a match at the wrong place behind a lazy repeat or an
// atomic group: "(?>[^1]+?)C" does not match "abC". For such patterns its start searches are switched off. Others need
// them: with them, a run of characters that ends no match is scanned once, not once from each of its characters.
std::uint32_t OptionsFor(std::string_view pattern) {
  constexpr std::array<std::string_view, 5> kRisky{"(?>", "+?", "*?", "??", "}?"};
  const bool is_risky = std::any_of(kRisky.begin(), kRisky.end(), [pattern](std::string_view risky) {
    return pattern.find(risky) != std::string_view::npos;
  });
  return is_risky ? kCompileOptions | PCRE2_NO_START_OPTIMIZE : kCompileOptions;
}

// After this many start positions the clock is checked again, whatever the pattern.
constexpr std::size_t kStartsPerLook = std::size_t{64} << 10U;
// Text between the match's start and the callout, per unit of CpuBudget: a repeat may have scanned all of it.
constexpr std::size_t kBytesPerCalloutWork = std::size_t{64} << 10U;

// PCRE2 calls this wherever oniguruma.cc put a callout: behind each part of a pattern that can match in several ways.
int OnCallout(pcre2_callout_block* callout, void* budget) {
  const std::size_t length = callout->current_position - std::min(callout->start_match, callout->current_position);
  const bool has_time = static_cast<CpuBudget*>(budget)->TrySpend(1 + length / kBytesPerCalloutWork);
  return has_time ? 0 : PCRE2_ERROR_CALLOUT;
}

PCRE2_SPTR Bytes(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

}  // namespace

RegexScratch::RegexScratch()
    : context_(pcre2_match_context_create(nullptr), pcre2_match_context_free),
      match_(pcre2_match_data_create(1, nullptr), pcre2_match_data_free),
      stack_(pcre2_jit_stack_create(kRegexJitStackInitialBytes, kRegexJitStackBytes, nullptr), pcre2_jit_stack_free) {
  ROOST_CHECK(context_ != nullptr && match_ != nullptr && stack_ != nullptr, "out of memory");
  pcre2_set_match_limit(context_.get(), kRegexMatchLimit);
  pcre2_set_heap_limit(context_.get(), kRegexHeapKibibytes);
  pcre2_jit_stack_assign(context_.get(), nullptr, stack_.get());
  pcre2_set_callout(context_.get(), OnCallout, &budget_);
}

RegexScratch::~RegexScratch() = default;

Result<Regex> Regex::Compile(std::string_view oniguruma_pattern) {
  ROOST_ASSIGN_OR_RETURN(const std::string pattern, TranslateOniguruma(oniguruma_pattern));
  return CompilePcre2(pattern);
}

Result<Regex> Regex::CompilePcre2(std::string_view pattern) {
  const std::unique_ptr<pcre2_compile_context, void (*)(pcre2_compile_context*)> context(
      pcre2_compile_context_create(nullptr), pcre2_compile_context_free);
  ROOST_CHECK(context != nullptr, "out of memory");
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int code = 0;
  std::size_t offset = 0;
  pcre2_code* compiled =
      pcre2_compile(Bytes(pattern), pattern.size(), OptionsFor(pattern), &code, &offset, context.get());
  if (compiled == nullptr) {
    return InvalidArgument("", "regular expression '{}' at byte {}: {}", pattern, offset, MessageOf(code));
  }
  // Without a JIT compiler, matching is slower but gives the same results.
  pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);
  return Regex(std::shared_ptr<const pcre2_code>(
      compiled, [](const pcre2_code* owned) { pcre2_code_free(const_cast<pcre2_code*>(owned)); }));
}

bool Regex::CanMatchEmpty() const {
  std::uint32_t can_match_empty = 0;
  pcre2_pattern_info(code_.get(), PCRE2_INFO_MATCHEMPTY, &can_match_empty);
  return can_match_empty != 0;
}

Result<void> Regex::FindAll(std::string_view subject, RegexScratch& scratch, std::vector<TextRange>& matches) const {
  const std::size_t* range = pcre2_get_ovector_pointer(scratch.match_.get());
  std::optional<std::size_t> last_match_end;
  for (std::size_t start = 0; start <= subject.size();) {
    const std::size_t last_start = std::min(start + kStartsPerLook, subject.size());
    pcre2_set_offset_limit(scratch.context_.get(), last_start);
    const int code = pcre2_match(code_.get(), Bytes(subject), subject.size(), start, PCRE2_NO_UTF_CHECK,
                                 scratch.match_.get(), scratch.context_.get());
    if (!scratch.budget_.TrySpend(1)) return scratch.budget_.SpentTime();
    if (code == PCRE2_ERROR_NOMATCH && last_start == subject.size()) break;
    if (code == PCRE2_ERROR_NOMATCH) {
      if (!scratch.budget_.TrySpend(kStartsPerLook)) return scratch.budget_.SpentTime();
      start = last_start;
      while (start < subject.size() && (static_cast<unsigned char>(subject[start]) & 0xC0U) == 0x80U) ++start;
      continue;
    }
    if (code == PCRE2_ERROR_CALLOUT) return scratch.budget_.SpentTime();
    if (code < 0) {
      return InvalidArgument("", "a pattern of the tokenizer can not be matched with this text: {}", MessageOf(code));
    }
    const TextRange match{range[0], range[1]};
    if (match.begin == match.end && last_match_end == match.end) {
      start += start < subject.size() ? Utf8SequenceLength(subject.substr(start)) : 1;
      continue;
    }
    matches.push_back(match);
    start = match.end;
    last_match_end = match.end;
  }
  return {};
}

}  // namespace roost::text
