// ROOST_CHECK: an invariant that holds unless the program has a bug. It is on in every build: a daemon that continues
// with a broken invariant gives wrong answers; one that stops is restarted. Expected failures are Results, not checks.
#pragma once

#include <fmt/core.h>

#include <string>
#include <utility>

namespace roost::internal {

// Prints one line to stderr and aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition, const std::string& detail);

inline std::string CheckDetail() { return {}; }

template <typename... Args>
std::string CheckDetail(fmt::format_string<Args...> format, Args&&... args) {
  return fmt::format(format, std::forward<Args>(args)...);
}

}  // namespace roost::internal

// ROOST_CHECK(condition) or ROOST_CHECK(condition, "blocks {} of {}", used, total).
#define ROOST_CHECK(condition, ...)                                                                                \
  do {                                                                                                             \
    if (!(condition)) [[unlikely]] {                                                                               \
      ::roost::internal::CheckFailed(__FILE__, __LINE__, #condition, ::roost::internal::CheckDetail(__VA_ARGS__)); \
    }                                                                                                              \
  } while (false)
