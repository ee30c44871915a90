#include "common/json/kept_numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <system_error>

namespace roost::json {
namespace {

constexpr std::string_view kKept = "\xF4\x8F\xBF\xBF";
// Digits and points in a row: a double holds any number of 15 digits, and 64 bits any integer of 18.
constexpr std::size_t kLongNumber = 16;

bool IsNumberByte(char c) { return (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '+' || (c | 0x20) == 'e'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// The digits of a number without its exponent, sign, point and outer zeros.
std::string DigitsOf(std::string_view number) {
  std::string digits;
  for (const char c : number.substr(0, number.find_first_of("eE"))) {
    if (IsDigit(c) && (c != '0' || !digits.empty())) digits += c;
  }
  digits.resize(digits.find_last_not_of('0') + 1);
  return digits;
}

template <typename T>
bool Fits(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// Finite: the largest double for what is larger.
double NearestTo(std::string_view number) {
  constexpr double kMost = std::numeric_limits<double>::max();
  return std::clamp(std::strtod(std::string(number).c_str(), nullptr), -kMost, kMost);
}

bool IsHeld(std::string_view number) {
  if (number.find_first_of(".eE") == std::string_view::npos) {
    return Fits<std::int64_t>(number) || Fits<std::uint64_t>(number);
  }
  return DigitsOf(fmt::format("{}", NearestTo(number))) == DigitsOf(number);
}

}  // namespace

bool IsNumber(std::string_view text) {
  std::size_t at = text.starts_with('-') ? 1 : 0;
  const auto digits = [&] {
    const std::size_t begin = at;
    while (at < text.size() && IsDigit(text[at])) ++at;
    return at > begin;
  };
  const bool is_zero = at < text.size() && text[at] == '0';
  const std::size_t first = at;
  if (!digits() || (is_zero && at > first + 1)) return false;
  if (at < text.size() && text[at] == '.') {
    ++at;
    if (!digits()) return false;
  }
  if (at < text.size() && (text[at] | 0x20) == 'e') {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    if (!digits()) return false;
  }
  return at == text.size();
}

bool HasLongNumber(std::string_view json) {
  const auto is_part = [json](std::size_t at) { return IsDigit(json[at]) || json[at] == '.'; };
  for (std::size_t i = kLongNumber - 1; i < json.size(); i += kLongNumber - 1) {
    if (!is_part(i)) continue;
    std::size_t begin = i;
    std::size_t end = i + 1;
    while (begin > 0 && end - begin < kLongNumber && is_part(begin - 1)) --begin;
    while (end < json.size() && end - begin < kLongNumber && is_part(end)) ++end;
    if (end - begin >= kLongNumber) return true;
  }
  return false;
}

std::string WithKeptNumbers(std::string_view json) {
  std::string kept;
  kept.reserve(json.size() + kKept.size() + 2);
  for (std::size_t at = 0; at < json.size();) {
    std::size_t end = at + 1;
    if (json[at] == '"') {
      while (end < json.size() && json[end] != '"') end += json[end] == '\\' ? 2 : 1;
      end = std::min(end + 1, json.size());
    } else if (json[at] == '-' || IsDigit(json[at])) {
      while (end < json.size() && IsNumberByte(json[end])) ++end;
      const std::string_view number = json.substr(at, end - at);
      if (IsNumber(number) && !IsHeld(number)) {
        kept.append("\"").append(kKept).append(number).append("\"");
        at = end;
        continue;
      }
    }
    kept.append(json.substr(at, end - at));
    at = end;
  }
  return kept;
}

std::optional<std::string_view> KeptNumber(Element value) {
  std::string_view text;
  if (value.get(text) != simdjson::SUCCESS || !text.starts_with(kKept)) return std::nullopt;
  text.remove_prefix(kKept.size());
  return IsNumber(text) ? std::optional(text) : std::nullopt;
}

std::optional<std::string_view> TextOf(Element value) {
  std::string_view text;
  if (value.get(text) != simdjson::SUCCESS || KeptNumber(value)) return std::nullopt;
  return text;
}

std::optional<double> NumberOf(Element value) {
  if (const auto kept = KeptNumber(value)) return NearestTo(*kept);
  double number = 0;
  if (value.get(number) != simdjson::SUCCESS) return std::nullopt;
  return number;
}

std::string JsonText(Element value) {
  std::string text = simdjson::minify(value);
  std::size_t mark = text.find(kKept);
  if (mark == std::string::npos) return text;
  std::string plain;
  std::size_t written = 0;
  for (; mark != std::string::npos; mark = text.find(kKept, mark + 1)) {
    const std::size_t begin = mark + kKept.size();
    const std::size_t end = text.find('"', begin);
    const std::string_view number = std::string_view(text).substr(begin, end - begin);
    if (text[mark - 1] != '"' || !IsNumber(number)) continue;
    plain.append(text, written, mark - 1 - written).append(number);
    written = end + 1;
  }
  return plain.append(text, written);
}

}  // namespace roost::json
