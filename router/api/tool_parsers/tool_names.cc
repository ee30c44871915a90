#include "router/api/tool_parsers/tool_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <utility>

#include "common/base/utf8.h"
#include "router/api/json_object.h"
#include "router/api/tool_parsers/partial_text.h"

namespace roost::router {
namespace {

constexpr std::size_t kUnitBytes = 6;  // of \uHHHH
constexpr char32_t kReplacement = 0xFFFD;

// The UTF-16 unit at the beginning of `text`; nothing if there is none.
std::optional<std::uint32_t> UnitOf(std::string_view text) {
  if (text.size() < kUnitBytes || !text.starts_with("\\u")) return std::nullopt;
  std::uint32_t unit = 0;
  const char* const end = text.data() + kUnitBytes;
  const auto [read_to, error] = std::from_chars(text.data() + 2, end, unit, 16);
  return error == std::errc() && read_to == end ? std::optional(unit) : std::nullopt;
}

// True if `text` is shorter than a unit and may become one.
bool MayBecomeUnit(std::string_view text) {
  constexpr std::string_view kBegin = "\\u";
  const std::size_t size = std::min(text.size(), kBegin.size());
  return text.size() < kUnitBytes && text.substr(0, size) == kBegin.substr(0, size) &&
         text.substr(size).find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos;
}

bool IsFirstHalf(std::uint32_t unit) { return unit >= 0xD800 && unit < 0xDC00; }
bool IsSecondHalf(std::uint32_t unit) { return unit >= 0xDC00 && unit < 0xE000; }

// The character that follows a backslash; nothing for what is no escape of JSON.
std::optional<char> PlainEscape(char c) {
  constexpr std::string_view kNames = "\"\\/bfnrt";
  constexpr std::string_view kCharacters = "\"\\/\b\f\n\r\t";
  const std::size_t at = kNames.find(c);
  return at == std::string_view::npos ? std::nullopt : std::optional(kCharacters[at]);
}

// Appends what the escape at the beginning of `text` stands for. Returns its size; 0: more of it must come first.
std::size_t AppendEscape(std::string_view text, std::string& out) {
  if (text.size() < 2 || MayBecomeUnit(text)) return 0;
  const std::optional<std::uint32_t> unit = UnitOf(text);
  if (!unit) {
    const std::optional<char> plain = PlainEscape(text[1]);
    plain ? void(out += *plain) : void(out += text.substr(0, 2));
    return 2;
  }
  const std::string_view behind = text.substr(kUnitBytes);
  if (IsFirstHalf(*unit) && MayBecomeUnit(behind)) return 0;
  const std::optional<std::uint32_t> second = IsFirstHalf(*unit) ? UnitOf(behind) : std::nullopt;
  if (second && IsSecondHalf(*second)) {
    AppendUtf8(0x10000 + ((*unit - 0xD800) << 10) + (*second - 0xDC00), out);
    return 2 * kUnitBytes;
  }
  const bool is_half = IsFirstHalf(*unit) || IsSecondHalf(*unit);
  AppendUtf8(is_half ? kReplacement : *unit, out);
  return kUnitBytes;
}

}  // namespace

std::string CustomInput::Push(std::string_view piece) {
  std::string text;
  if (state_ == State::kDone) return text;
  pending_ += piece;
  if (state_ == State::kHead) ReadHead();
  if (state_ == State::kText) ReadText(text);
  return text;
}

void CustomInput::ReadHead() {
  PartialText head(pending_);
  const auto take = [&head](std::string_view literal) {
    head.SkipSpace();
    return head.Take(literal);
  };
  if (take("{") && take(fmt::format("\"{}\"", kCustomToolInput)) && take(":") && take("\"")) {
    pending_.erase(0, head.position());
    state_ = State::kText;
  } else if (!head.cut()) {
    state_ = State::kOther;
  }
}

void CustomInput::ReadText(std::string& text) {
  const std::string_view all = pending_;
  std::size_t at = 0;
  while (at < all.size() && all[at] != '"') {
    const std::size_t plain = std::min(all.find_first_of("\"\\", at), all.size());
    text += all.substr(at, plain - at);
    at = plain;
    if (at == all.size() || all[at] == '"') continue;
    const std::size_t size = AppendEscape(all.substr(at), text);
    if (size == 0) break;
    at += size;
  }
  const bool is_done = at < all.size() && all[at] == '"';
  pending_.erase(0, is_done ? pending_.size() : at);
  if (is_done) state_ = State::kDone;
}

std::string CustomInput::Finish() {
  const State state = std::exchange(state_, State::kDone);
  std::string rest = std::exchange(pending_, {});
  if (state != State::kOther) return "";
  JsonBody json(rest);
  const Result<JsonObject> object = json.Parse();
  if (!object.ok()) return rest;
  const Result<std::optional<std::string_view>> input = object->String(kCustomToolInput);
  return input.ok() && *input ? std::string(**input) : rest;
}

std::string CustomInputOf(std::string_view arguments) {
  CustomInput input;
  std::string text = input.Push(arguments);
  return text + input.Finish();
}

}  // namespace roost::router
