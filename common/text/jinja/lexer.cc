#include "common/text/jinja/lexer.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "common/text/jinja/scan.h"
#include "common/text/jinja/unicode.h"

namespace roost::jinja {
namespace {

// Turns all line ends into "\n", and drops the last one.
std::string NormalizeLines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

// The tag that two opening characters begin.
enum class Tag { kPrint, kBlock, kComment };

constexpr std::string_view kOneCharacterOperators = "+-*/%~[](){}=<>.:|,;";

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  Result<std::vector<Token>> Run() {
    while (place_ < source_.size()) {
      const std::size_t tag_begin = FindTag();
      if (tag_begin == std::string::npos) {
        EmitText(place_, source_.size());
        place_ = source_.size();
        break;
      }
      ROOST_RETURN_IF_ERROR(LexTag(tag_begin));
    }
    Emit(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  [[nodiscard]] std::string_view Rest() const { return std::string_view(source_).substr(place_); }
  [[nodiscard]] bool StartsWith(std::string_view wanted) const { return Rest().substr(0, wanted.size()) == wanted; }
  [[nodiscard]] char At(std::size_t place) const { return place < source_.size() ? source_[place] : '\0'; }

  void Emit(TokenKind kind, std::string text, Value value = {}) {
    tokens_.push_back(Token{kind, line_, std::move(text), std::move(value)});
  }

  Error Fail(std::string_view what) const { return InvalidArgument("", "line {}: {}", line_, what); }

  // Moves to `place`, counting lines.
  void AdvanceTo(std::size_t place) {
    for (; place_ < place; ++place_) line_ += source_[place_] == '\n' ? 1 : 0;
  }

  [[nodiscard]] std::size_t FindTag() const {
    for (std::size_t i = source_.find('{', place_); i != std::string::npos; i = source_.find('{', i + 1)) {
      const char next = At(i + 1);
      if (next == '{' || next == '%' || next == '#') return i;
    }
    return std::string::npos;
  }

  void EmitText(std::size_t begin, std::size_t end) {
    if (begin < end) Emit(TokenKind::kText, source_.substr(begin, end - begin));
  }

  // [begin, end) is the text before a tag; `sign` is the character behind the tag's opening. Returns the end of the
  // text to keep.
  [[nodiscard]] std::size_t StripBefore(std::size_t begin, std::size_t end, char sign, Tag tag) const {
    const std::string_view text = std::string_view(source_).substr(begin, end - begin);
    if (sign == '-') return begin + StripSpace(text, Side::kRight).size();
    if (sign == '+' || tag == Tag::kPrint) return end;
    const std::size_t newline = text.rfind('\n');
    const std::size_t line_begin = newline == std::string_view::npos ? 0 : newline + 1;
    const bool is_line_start = line_begin > 0 || begin == 0 || source_[begin - 1] == '\n';
    const bool is_blank = StripSpace(text.substr(line_begin), Side::kLeft).empty();
    return is_line_start && is_blank ? begin + line_begin : end;
  }

  // The length of a tag's closing at `place`, including its sign and the white space that it drops. Nothing when the
  // tag does not close here.
  [[nodiscard]] std::optional<std::size_t> MatchEnd(std::size_t place, std::string_view closing, Tag tag) const {
    const char sign = At(place);
    const bool has_sign = sign == '-' || (sign == '+' && tag != Tag::kPrint);
    const std::size_t begin = place + (has_sign ? 1 : 0);
    if (std::string_view(source_).substr(begin, 2) != closing) return std::nullopt;
    std::size_t end = begin + 2;
    if (has_sign && sign == '-') {
      const std::string_view rest = std::string_view(source_).substr(end);
      end += rest.size() - StripSpace(rest, Side::kLeft).size();
    } else if (!has_sign && tag != Tag::kPrint && At(end) == '\n') {
      ++end;
    }
    return end - place;
  }

  Result<void> LexTag(std::size_t begin) {
    const char opener = At(begin + 1);
    const Tag tag = opener == '{' ? Tag::kPrint : opener == '%' ? Tag::kBlock : Tag::kComment;
    const char sign = At(begin + 2);
    const bool has_sign = sign == '-' || sign == '+';
    const std::size_t text_begin = place_;
    const std::size_t text_end = StripBefore(text_begin, begin, sign, tag);
    EmitText(text_begin, text_end);
    AdvanceTo(begin);
    if (tag == Tag::kBlock) {
      if (const auto raw = MatchRawBegin(begin)) return LexRaw(*raw);
    }
    AdvanceTo(begin + (has_sign ? 3 : 2));
    if (tag == Tag::kComment) return SkipComment();
    return LexInside(tag);
  }

  Result<void> SkipComment() {
    for (std::size_t i = source_.find('#', place_); i != std::string::npos; i = source_.find('#', i + 1)) {
      if (At(i + 1) != '}') continue;
      const bool has_sign = i > place_ && (At(i - 1) == '-' || At(i - 1) == '+');
      const std::size_t begin = has_sign ? i - 1 : i;
      AdvanceTo(begin + MatchEnd(begin, "#}", Tag::kComment).value_or(2));
      return {};
    }
    return Fail("a comment does not end");
  }

  // The end of "{% raw %}" if it stands at `begin`; its `-` drops the white space behind it.
  [[nodiscard]] std::optional<std::size_t> MatchRawBegin(std::size_t begin) const {
    return MatchWordTag(begin, "raw", Tag::kPrint);
  }

  // "{%", sign, white space, `word`, white space, "%}". `tag` decides whether the closing drops a newline.
  [[nodiscard]] std::optional<std::size_t> MatchWordTag(std::size_t begin, std::string_view word, Tag tag) const {
    const std::string_view source = source_;
    std::size_t i = begin + 2;
    if (At(i) == '-' || At(i) == '+') ++i;
    const auto skip_space = [&] { i = source.size() - StripSpace(source.substr(i), Side::kLeft).size(); };
    skip_space();
    if (source.substr(i, word.size()) != word) return std::nullopt;
    i += word.size();
    skip_space();
    const auto length = MatchEnd(i, "%}", tag);
    return length ? std::optional(i + *length) : std::nullopt;
  }

  Result<void> LexRaw(std::size_t raw_end) {
    AdvanceTo(raw_end);
    for (std::size_t i = source_.find("{%", place_); i != std::string::npos; i = source_.find("{%", i + 1)) {
      const auto end = MatchWordTag(i, "endraw", Tag::kBlock);
      if (!end) continue;
      EmitText(place_, StripBefore(place_, i, At(i + 2), Tag::kBlock));
      AdvanceTo(*end);
      return {};
    }
    return Fail("a raw block does not end");
  }

  Result<void> LexInside(Tag tag) {
    const bool is_print = tag == Tag::kPrint;
    const std::string_view closing = is_print ? "}}" : "%}";
    Emit(is_print ? TokenKind::kPrintBegin : TokenKind::kBlockBegin, "");
    std::string open_brackets;
    while (true) {
      AdvanceTo(source_.size() - StripSpace(Rest(), Side::kLeft).size());
      if (place_ >= source_.size()) return Fail("a tag does not end");
      if (open_brackets.empty()) {
        if (const auto length = MatchEnd(place_, closing, tag)) {
          Emit(is_print ? TokenKind::kPrintEnd : TokenKind::kBlockEnd, "");
          AdvanceTo(place_ + *length);
          return {};
        }
      }
      ROOST_RETURN_IF_ERROR(LexToken(open_brackets));
    }
  }

  Result<void> LexToken(std::string& open_brackets) {
    const char c = source_[place_];
    if (c >= '0' && c <= '9') return LexNumber();
    if (IsNameByte(c)) return LexName();
    if (c == '"' || c == '\'') return LexString();
    return LexOperator(open_brackets);
  }

  Result<void> LexNumber() {
    // Behind a point, a number is an item, not a fraction: x.0.1 is item 1 of item 0.
    const bool is_item = place_ > 0 && source_[place_ - 1] == '.';
    const NumberToken number = ScanNumber(is_item ? Rest().substr(0, Rest().find('.')) : Rest());
    if (!number.value) return Fail(fmt::format("the number '{}' is not valid", Rest().substr(0, number.length)));
    Emit(TokenKind::kNumber, "", *number.value);
    AdvanceTo(place_ + number.length);
    return {};
  }

  Result<void> LexName() {
    std::size_t end = place_;
    while (end < source_.size() && (IsNameByte(source_[end]) || (source_[end] >= '0' && source_[end] <= '9'))) ++end;
    Emit(TokenKind::kName, source_.substr(place_, end - place_));
    AdvanceTo(end);
    return {};
  }

  Result<void> LexString() {
    const char quote = source_[place_];
    std::size_t end = place_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) return Fail("a string does not end");
    Result<std::string> text = DecodeString(std::string_view(source_).substr(place_ + 1, end - place_ - 1));
    if (!text.ok()) return Fail(text.error().message);
    Emit(TokenKind::kString, "", Value::WrittenString(std::move(text).value()));
    AdvanceTo(end + 1);
    return {};
  }

  [[nodiscard]] std::size_t OperatorLength() const {
    const char next = At(place_ + 1);
    switch (source_[place_]) {
      case '/': return next == '/' ? 2 : 1;
      case '*': return next == '*' ? 2 : 1;
      case '=':
      case '<':
      case '>': return next == '=' ? 2 : 1;
      case '!': return next == '=' ? 2 : 0;
      default: return kOneCharacterOperators.find(source_[place_]) == std::string_view::npos ? 0 : 1;
    }
  }

  Result<void> LexOperator(std::string& open_brackets) {
    const std::size_t length = OperatorLength();
    if (length == 0) {
      const std::string_view rest = Rest();
      return Fail(fmt::format("unexpected character '{}'", rest.substr(0, ByteOffset(rest, 1))));
    }
    ROOST_RETURN_IF_ERROR(Balance(source_[place_], open_brackets));
    Emit(TokenKind::kOperator, source_.substr(place_, length));
    AdvanceTo(place_ + length);
    return {};
  }

  // `open` holds the closing brackets that are still expected.
  Result<void> Balance(char c, std::string& open) const {
    if (c == '(') open += ')';
    if (c == '[') open += ']';
    if (c == '{') open += '}';
    if (c != ')' && c != ']' && c != '}') return {};
    if (open.empty()) return Fail(fmt::format("unexpected '{}'", c));
    if (open.back() != c) return Fail(fmt::format("unexpected '{}', expected '{}'", c, open.back()));
    open.pop_back();
    return {};
  }

  std::string source_;
  std::size_t place_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

Result<std::vector<Token>> Tokenize(std::string_view source) { return Lexer(NormalizeLines(source)).Run(); }

}  // namespace roost::jinja
