// The value of an answer's Date header (RFC 9110, 5.6.7): "Wed, 25 Nov 2026 02:30:00 GMT". Clients compare it with
// their own clock; roostctl doctor does.
#pragma once

#include <cstdint>
#include <string>

namespace roost {

[[nodiscard]] std::string HttpDate(std::int64_t unix_seconds);

// Makes the text once a second. Not thread-safe.
class HttpDateClock {
 public:
  // The date of the wall clock. The reference holds until the next call.
  [[nodiscard]] const std::string& Now();

 private:
  std::int64_t made_for_ = -1;
  std::string text_;
};

}  // namespace roost
