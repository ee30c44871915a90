// Result<T>: a value or an Error. The shape of std::expected, which GCC 12 has only in C++23 mode.
//
//   Result<Config> LoadConfig(const Path& path);
//   ROOST_ASSIGN_OR_RETURN(Config config, LoadConfig(path));   // in a function that returns a Result itself
//   ROOST_RETURN_IF_ERROR(config.Validate());
#pragma once

#include <fmt/core.h>

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "common/base/check.h"
#include "common/base/error.h"

namespace roost {

// T is void for an operation that only succeeds or fails. Holds exactly one of value and error.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // Checked: asking a failed Result for its value is a bug.
  [[nodiscard]] T& value() & {
    CheckOk();
    return *std::get_if<0>(&state_);
  }
  [[nodiscard]] const T& value() const& {
    CheckOk();
    return *std::get_if<0>(&state_);
  }
  [[nodiscard]] T&& value() && {
    CheckOk();
    return std::move(*std::get_if<0>(&state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  [[nodiscard]] const Error& error() const& {
    ROOST_CHECK(!ok());
    return *std::get_if<1>(&state_);
  }
  [[nodiscard]] Error&& error() && {
    ROOST_CHECK(!ok());
    return std::move(*std::get_if<1>(&state_));
  }

 private:
  void CheckOk() const { ROOST_CHECK(ok(), "{}", std::get_if<1>(&state_)->ToString()); }

  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }

  [[nodiscard]] const Error& error() const& {
    ROOST_CHECK(!ok());
    return *error_;
  }
  [[nodiscard]] Error&& error() && {
    ROOST_CHECK(!ok());
    return std::move(*error_);
  }

 private:
  std::optional<Error> error_;
};

// The two usual errors, with a formatted message. `field` names what is wrong: a request field, a key, a file.
template <typename... Args>
[[nodiscard]] Error InvalidArgument(std::string field, fmt::format_string<Args...> format, Args&&... args) {
  return Error{ErrorCode::kInvalidArgument, fmt::format(format, std::forward<Args>(args)...), std::move(field)};
}
template <typename... Args>
[[nodiscard]] Error DataLoss(std::string field, fmt::format_string<Args...> format, Args&&... args) {
  return Error{ErrorCode::kDataLoss, fmt::format(format, std::forward<Args>(args)...), std::move(field)};
}

}  // namespace roost

#define ROOST_CONCAT_INNER(a, b) a##b
#define ROOST_CONCAT(a, b) ROOST_CONCAT_INNER(a, b)

#define ROOST_RETURN_IF_ERROR(expression)     \
  do {                                        \
    auto roost_result = (expression);         \
    if (!roost_result.ok()) [[unlikely]]      \
      return std::move(roost_result).error(); \
  } while (false)

#define ROOST_ASSIGN_OR_RETURN_INNER(temporary, declaration, expression) \
  auto temporary = (expression);                                         \
  if (!temporary.ok()) [[unlikely]]                                      \
    return std::move(temporary).error();                                 \
  declaration = std::move(temporary).value()

#define ROOST_ASSIGN_OR_RETURN(declaration, expression) \
  ROOST_ASSIGN_OR_RETURN_INNER(ROOST_CONCAT(roost_result_, __LINE__), declaration, expression)
