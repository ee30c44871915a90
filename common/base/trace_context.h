// The W3C's trace context (www.w3.org/TR/trace-context): the header that identifies one request across several
// programs. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace roost {

inline constexpr std::size_t kMaxTraceParentBytes = 55;

// "00-" trace id "-" parent id "-" flags, in lower-case hexadecimal of 32, 16 and 2 digits; neither id is all zero.
[[nodiscard]] bool IsTraceParent(std::string_view text);

// The 32 digits that name the trace. `trace_parent` is a trace parent, or empty: then so is the answer.
[[nodiscard]] std::string_view TraceIdOf(std::string_view trace_parent);

// A trace parent in its parts.
struct TraceContext {
  std::string trace_id = {};   // 32 digits
  std::string parent_id = {};  // 16 digits: the span that made the request
  bool is_sampled = false;
};
[[nodiscard]] std::optional<TraceContext> ParseTraceParent(std::string_view text);
[[nodiscard]] std::string MakeTraceParent(const TraceContext& context);

// The 16 digits of a random number, as a span's id; two of them are a trace's.
[[nodiscard]] std::string SpanIdOf(std::uint64_t random);

}  // namespace roost
