// The W3C's trace context (www.w3.org/TR/trace-context): the header by which a request's way through several programs
// can be put together. Pure.
#pragma once

#include <cstddef>
#include <string_view>

namespace roost {

inline constexpr std::size_t kMaxTraceParentBytes = 55;

// "00-" trace id "-" parent id "-" flags, in lower-case hexadecimal of 32, 16 and 2 digits; neither id is all zero.
[[nodiscard]] bool IsTraceParent(std::string_view text);

// The 32 digits that name the trace. Empty for an empty text; any other is a trace parent.
[[nodiscard]] std::string_view TraceIdOf(std::string_view trace_parent);

}  // namespace roost
