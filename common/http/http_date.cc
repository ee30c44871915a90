#include "common/http/http_date.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <ctime>
#include <string_view>

namespace roost {
namespace {

// Not those of a locale.
constexpr std::array<std::string_view, 7> kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
constexpr std::array<std::string_view, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

}  // namespace

std::string HttpDate(std::int64_t unix_seconds) {
  const std::time_t seconds = unix_seconds;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT", kDays[static_cast<std::size_t>(utc.tm_wday)], utc.tm_mday,
                     kMonths[static_cast<std::size_t>(utc.tm_mon)], 1900 + utc.tm_year, utc.tm_hour, utc.tm_min,
                     utc.tm_sec);
}

const std::string& HttpDateClock::Now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::int64_t seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  if (seconds != made_for_) {
    made_for_ = seconds;
    text_ = HttpDate(seconds);
  }
  return text_;
}

}  // namespace roost
