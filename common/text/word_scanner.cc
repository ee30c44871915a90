#include "common/text/word_scanner.h"

#include <utf8proc.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <vector>

#include "common/text/unicode.h"

namespace roost::text {
namespace {

// The classes of these patterns. Each character belongs to exactly one of the first four kinds.
enum CharacterKind : std::uint8_t {
  kLetter = 1U << 0U,   // \p{L}
  kNumber = 1U << 1U,   // \p{N}
  kSpace = 1U << 2U,    // \s
  kOther = 1U << 3U,    // [^\s\p{L}\p{N}]
  kUpper = 1U << 4U,    // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
  kLower = 1U << 5U,    // [\p{Ll}\p{Lm}\p{Lo}\p{M}]
  kNewline = 1U << 6U,  // [\r\n]
};

std::uint8_t KindsOf(char32_t c) {
  unsigned kinds = 0;
  if (c == '\r' || c == '\n') kinds |= kNewline;
  if (IsWhitespace(c)) return static_cast<std::uint8_t>(kinds | kSpace);
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(StandInOf(c)))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LT: kinds |= kLetter | kUpper; break;
    case UTF8PROC_CATEGORY_LL: kinds |= kLetter | kLower; break;
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: kinds |= kLetter | kUpper | kLower; break;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME: kinds |= kOther | kUpper | kLower; break;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO: kinds |= kNumber; break;
    default: kinds |= kOther; break;
  }
  return static_cast<std::uint8_t>(kinds);
}

// The kinds of all code points, in pages of 256; equal pages are shared.
class KindTable {
 public:
  KindTable() {
    std::map<Page, std::uint16_t> known;
    for (std::size_t number = 0; number < page_of_.size(); ++number) {
      Page page{};
      for (std::size_t i = 0; i < page.size(); ++i) page[i] = KindsOf(static_cast<char32_t>(number * page.size() + i));
      const auto [entry, is_new] = known.try_emplace(page, static_cast<std::uint16_t>(pages_.size()));
      if (is_new) pages_.push_back(page);
      page_of_[number] = entry->second;
    }
    ascii_ = pages_[page_of_[0]];
  }

  [[nodiscard]] std::uint8_t OfAscii(unsigned char byte) const { return ascii_[byte]; }
  [[nodiscard]] std::uint8_t Of(char32_t c) const { return pages_[page_of_[c >> 8U]][c & 0xFFU]; }

 private:
  using Page = std::array<std::uint8_t, 256>;

  Page ascii_{};
  std::array<std::uint16_t, 0x110000 / 256> page_of_{};
  std::vector<Page> pages_;
};

// Built at the first use, in about ten milliseconds: when the first file with such a pattern is loaded.
const KindTable& Kinds() {
  static const KindTable table;
  return table;
}

// A text with the table. Positions are at the start of a character.
class Walk {
 public:
  explicit Walk(std::string_view text) : text_(text), kinds_(Kinds()) {}

  struct Character {
    std::uint8_t kinds;  // 0 at the end of the text
    std::uint8_t length;
  };

  [[nodiscard]] Character At(std::size_t i) const {
    if (i >= text_.size()) return {0, 0};
    const auto lead = static_cast<unsigned char>(text_[i]);
    if (lead < 0x80) return {kinds_.OfAscii(lead), 1};
    return Long(i, lead);
  }
  [[nodiscard]] bool IsAt(std::size_t i, char c) const { return i < text_.size() && text_[i] == c; }
  [[nodiscard]] std::size_t size() const { return text_.size(); }
  [[nodiscard]] std::string_view text() const { return text_; }

  // The end of the run, beginning at `i`, of characters of any of `kinds`.
  [[nodiscard]] std::size_t Skip(std::size_t i, unsigned kinds) const {
    while (true) {
      const Character c = At(i);
      if ((c.kinds & kinds) == 0) return i;
      i += c.length;
    }
  }
  // The begin of the character that ends at `end`.
  [[nodiscard]] std::size_t Before(std::size_t end) const {
    std::size_t begin = end - 1;
    while ((static_cast<unsigned char>(text_[begin]) & 0xC0U) == 0x80U) --begin;
    return begin;
  }

 private:
  [[nodiscard]] Character Long(std::size_t i, unsigned char lead) const {
    const auto tail = [&](std::size_t k) { return static_cast<unsigned char>(text_[i + k]) & 0x3FU; };
    if (lead < 0xE0) return {kinds_.Of(((lead & 0x1FU) << 6U) | tail(1)), 2};
    if (lead < 0xF0) return {kinds_.Of(((lead & 0x0FU) << 12U) | (tail(1) << 6U) | tail(2)), 3};
    return {kinds_.Of(((lead & 0x07U) << 18U) | (tail(1) << 12U) | (tail(2) << 6U) | tail(3)), 4};
  }

  std::string_view text_;
  const KindTable& kinds_;
};

// \s+(?!\S)|\s+ : white space, without its last character if a word follows.
std::size_t SpacesEnd(const Walk& walk, std::size_t begin, std::size_t run_end) {
  if (run_end == walk.size()) return run_end;
  const std::size_t last = walk.Before(run_end);
  return last == begin ? run_end : last;
}

// \s*[\r\n]+|\s+(?!\S)|\s+
std::size_t LinesOrSpacesEnd(const Walk& walk, std::size_t begin) {
  const std::size_t run_end = walk.Skip(begin, kSpace);
  const std::size_t newline = walk.text().substr(begin, run_end - begin).find_last_of("\r\n");
  return newline != std::string_view::npos ? begin + newline + 1 : SpacesEnd(walk, begin, run_end);
}

// 's|'t|'re|'ve|'m|'ll|'d
enum class Case { kCounts, kFolded };
std::optional<std::size_t> ContractionEndAtApostrophe(const Walk& walk, std::size_t begin, Case letter_case) {
  const std::string_view rest = walk.text().substr(begin);
  if (rest.size() < 2) return std::nullopt;
  constexpr char kSmall = 'a' - 'A';
  const auto letter = [&](std::size_t i) {
    if (i >= rest.size()) return '\0';
    const char c = rest[i];
    return letter_case == Case::kFolded && c >= 'A' && c <= 'Z' ? static_cast<char>(c + kSmall) : c;
  };
  switch (letter(1)) {
    case 's':
    case 't':
    case 'm':
    case 'd': return begin + 2;
    case 'r':
    case 'v':
      if (letter(2) == 'e') return begin + 3;
      return std::nullopt;
    case 'l':
      if (letter(2) == 'l') return begin + 3;
      return std::nullopt;
    default: break;
  }
  constexpr std::string_view kLongS = "\xC5\xBF";  // U+017F, which folds to s
  if (letter_case == Case::kFolded && rest.substr(1).starts_with(kLongS)) return begin + 1 + kLongS.size();
  return std::nullopt;
}

inline std::optional<std::size_t> ContractionEnd(const Walk& walk, std::size_t begin, Case letter_case) {
  if (!walk.IsAt(begin, '\'')) return std::nullopt;
  return ContractionEndAtApostrophe(walk, begin, letter_case);
}

// ---- GPT-2:  's|'t|…| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+

std::size_t Gpt2WordEnd(std::string_view text, std::size_t begin) {
  const Walk walk(text);
  if (const auto end = ContractionEnd(walk, begin, Case::kCounts)) return *end;
  const std::size_t front = walk.IsAt(begin, ' ') ? begin + 1 : begin;
  const Walk::Character first = walk.At(front);
  const unsigned kind = first.kinds & (kLetter | kNumber | kOther);
  if (kind != 0) return walk.Skip(front + first.length, kind);
  return SpacesEnd(walk, begin, walk.Skip(begin, kSpace));
}

// ---- cl100k, Llama 3 and Qwen 2 ----

std::size_t NumberEnd(const Walk& walk, std::size_t begin, std::size_t most_digits) {
  std::size_t end = begin;
  for (std::size_t i = 0; i < most_digits; ++i) {
    const Walk::Character digit = walk.At(end);
    if ((digit.kinds & kNumber) == 0) break;
    end += digit.length;
  }
  return end;
}

//  ?[^\s\p{L}\p{N}]+[tail]*, or nothing.
std::optional<std::size_t> SymbolsEnd(const Walk& walk, std::size_t begin, std::string_view tail) {
  const std::size_t front = walk.IsAt(begin, ' ') ? begin + 1 : begin;
  std::size_t end = walk.Skip(front, kOther);
  if (end == front) return std::nullopt;
  while (end < walk.size() && tail.find(walk.text()[end]) != std::string_view::npos) ++end;
  return end;
}

// (?i:'s|'t|…)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
template <std::size_t kDigits>
std::size_t Cl100kWordEnd(std::string_view text, std::size_t begin) {
  const Walk walk(text);
  if (const auto end = ContractionEnd(walk, begin, Case::kFolded)) return *end;
  const Walk::Character first = walk.At(begin);
  const std::size_t second = begin + first.length;
  if ((first.kinds & kLetter) != 0) return walk.Skip(second, kLetter);
  if ((first.kinds & kNumber) != 0) return NumberEnd(walk, begin, kDigits);
  if ((first.kinds & kNewline) == 0) {
    const std::size_t end = walk.Skip(second, kLetter);
    if (end > second) return end;
  }
  if (const auto end = SymbolsEnd(walk, begin, "\r\n")) return *end;
  return LinesOrSpacesEnd(walk, begin);
}

// ---- o200k: words end where the case changes from small to capital ----

// upper*lower+ at `begin`, with the longest upper* that leaves one for lower+.
std::optional<std::size_t> SmallWordEnd(const Walk& walk, std::size_t begin) {
  const std::size_t upper_end = walk.Skip(begin, kUpper);
  const std::size_t end = walk.Skip(upper_end, kLower);
  if (end > upper_end) return end;
  for (std::size_t last_end = upper_end; last_end > begin;) {
    const std::size_t last = walk.Before(last_end);
    if ((walk.At(last).kinds & kLower) != 0) return last_end;
    last_end = last;
  }
  return std::nullopt;
}

// upper+lower*, called only where SmallWordEnd found nothing: so there is no lower.
std::optional<std::size_t> CapitalWordEnd(const Walk& walk, std::size_t begin) {
  const std::size_t end = walk.Skip(begin, kUpper);
  if (end == begin) return std::nullopt;
  return end;
}

// [^\r\n\p{L}\p{N}]?upper*lower+(?i:'s|…)?|[^\r\n\p{L}\p{N}]?upper+lower*(?i:'s|…)?
std::optional<std::size_t> CasedWordEnd(const Walk& walk, std::size_t begin) {
  const Walk::Character first = walk.At(begin);
  const bool may_be_prefix = (first.kinds & (kLetter | kNumber | kNewline)) == 0;
  for (const auto word_end : {SmallWordEnd, CapitalWordEnd}) {
    std::optional<std::size_t> end;
    if (may_be_prefix) end = word_end(walk, begin + first.length);
    if (!end) end = word_end(walk, begin);
    if (end) return ContractionEnd(walk, *end, Case::kFolded).value_or(*end);
  }
  return std::nullopt;
}

// words as above|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
std::size_t O200kWordEnd(std::string_view text, std::size_t begin) {
  constexpr std::size_t kDigits = 3;
  const Walk walk(text);
  if (const auto end = CasedWordEnd(walk, begin)) return *end;
  if ((walk.At(begin).kinds & kNumber) != 0) return NumberEnd(walk, begin, kDigits);
  if (const auto end = SymbolsEnd(walk, begin, "\r\n/")) return *end;
  return LinesOrSpacesEnd(walk, begin);
}

struct KnownPattern {
  std::string_view pattern;
  std::size_t (*word_end)(std::string_view text, std::size_t begin);
};
constexpr KnownPattern kKnownPatterns[] = {
    {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", Gpt2WordEnd},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
     R"(\s*[\r\n]+|\s+(?!\S)|\s+)",
     Cl100kWordEnd<3>},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
     R"(\s*[\r\n]+|\s+(?!\S)|\s+)",
     Cl100kWordEnd<1>},
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
     R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     O200kWordEnd},
};

}  // namespace

std::optional<WordScanner> WordScanner::ForPattern(std::string_view oniguruma_pattern) {
  for (const KnownPattern& known : kKnownPatterns) {
    if (known.pattern != oniguruma_pattern) continue;
    (void)Kinds();  // builds the table now, not in the first request
    return WordScanner(known.word_end);
  }
  return std::nullopt;
}

}  // namespace roost::text
