#include "common/base/trace_context.h"

#include <fmt/format.h>

#include <algorithm>

namespace roost {
namespace {

constexpr std::size_t kTraceIdBegin = 3;
constexpr std::size_t kTraceIdLength = 32;
constexpr std::size_t kParentIdBegin = 36;
constexpr std::size_t kParentIdLength = 16;

bool IsHexDigit(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

bool IsDash(std::size_t place) {
  return place == kTraceIdBegin - 1 || place == kParentIdBegin - 1 || place == kParentIdBegin + kParentIdLength;
}

bool IsZero(std::string_view digits) {
  return std::all_of(digits.begin(), digits.end(), [](char c) { return c == '0'; });
}

}  // namespace

bool IsTraceParent(std::string_view text) {
  if (text.size() != kMaxTraceParentBytes || text.substr(0, 2) != "00") return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (IsDash(i) ? text[i] != '-' : !IsHexDigit(text[i])) return false;
  }
  return !IsZero(TraceIdOf(text)) && !IsZero(text.substr(kParentIdBegin, kParentIdLength));
}

std::string_view TraceIdOf(std::string_view trace_parent) {
  return trace_parent.empty() ? trace_parent : trace_parent.substr(kTraceIdBegin, kTraceIdLength);
}

std::optional<TraceContext> ParseTraceParent(std::string_view text) {
  if (!IsTraceParent(text)) return std::nullopt;
  // The last bit of the flags says whether the request is traced. The other bits mean nothing in this version.
  constexpr std::string_view kOddDigits = "13579bdf";
  return TraceContext{.trace_id = std::string(TraceIdOf(text)),
                      .parent_id = std::string(text.substr(kParentIdBegin, kParentIdLength)),
                      .is_sampled = kOddDigits.find(text.back()) != std::string_view::npos};
}

// An id of zeros would be none.
std::string SpanIdOf(std::uint64_t random) { return fmt::format("{:016x}", std::max<std::uint64_t>(random, 1)); }

std::string MakeTraceParent(const TraceContext& context) {
  return "00-" + context.trace_id + "-" + context.parent_id + (context.is_sampled ? "-01" : "-00");
}

}  // namespace roost
