// The expectation of a random test, as a result: the error says what differs.
#pragma once

#include <fmt/format.h>

#include <utility>

#include "common/base/result.h"

namespace roost::testing_support {

template <typename... Args>
[[nodiscard]] Result<void> Expect(bool holds, fmt::format_string<Args...> format, Args&&... args) {
  if (holds) return {};
  return Error{ErrorCode::kInternal, fmt::format(format, std::forward<Args>(args)...), "driver"};
}

}  // namespace roost::testing_support
