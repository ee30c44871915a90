#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <ctime>
#include <string_view>

#include "common/base/json_writer.h"

namespace roost {
namespace {

constexpr std::size_t kMaxRequestIdLength = 128;

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool IsRequestIdCharacter(char c) {
  const char lower = Lower(c);
  return (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == ':' || c == '-';
}

}  // namespace

bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return Lower(x) == Lower(y); });
}

std::optional<std::string_view> HttpRequest::FindHeader(std::string_view name) const {
  const auto found = std::find_if(headers.begin(), headers.end(),
                                  [&](const HttpHeader& header) { return EqualsIgnoringCase(header.name, name); });
  if (found == headers.end()) return std::nullopt;
  return found->value;
}

bool AnnouncesBody(const HttpRequest& head) {
  if (head.FindHeader("transfer-encoding")) return true;
  const std::string_view length = head.FindHeader("content-length").value_or("0");
  return length.find_first_not_of('0') != std::string_view::npos;
}

bool IsJson(std::string_view content_type) {
  constexpr std::string_view kPrefix = "application/";
  constexpr std::string_view kSuffix = "+json";
  std::string_view media_type = content_type.substr(0, content_type.find(';'));
  while (!media_type.empty() && (media_type.back() == ' ' || media_type.back() == '\t')) media_type.remove_suffix(1);
  if (!EqualsIgnoringCase(media_type.substr(0, kPrefix.size()), kPrefix)) return false;
  media_type.remove_prefix(kPrefix.size());
  if (EqualsIgnoringCase(media_type, "json")) return true;
  return media_type.size() > kSuffix.size() &&
         EqualsIgnoringCase(media_type.substr(media_type.size() - kSuffix.size()), kSuffix);
}

std::string ErrorBody(const Error& error) {
  const ErrorTraits& traits = TraitsOf(error.code);
  JsonWriter json;
  json.BeginObject().Key("error").BeginObject();
  json.Key("message").String(error.ToString()).Key("type").String(traits.openai_type).Key("param");
  error.field.empty() ? json.Null() : json.String(error.field);
  json.Key("code");
  traits.openai_code.empty() ? json.Null() : json.String(traits.openai_code);
  json.EndObject().EndObject();
  return json.Take();
}

HttpResponse ErrorResponse(const Error& error, Duration retry_after) {
  HttpResponse response;
  response.status = TraitsOf(error.code).http_status;
  response.body = ErrorBody(error);
  if (error.code == ErrorCode::kUnauthenticated) response.headers.push_back({"WWW-Authenticate", "Bearer"});
  if (error.code == ErrorCode::kOverloaded || error.code == ErrorCode::kUnavailable ||
      error.code == ErrorCode::kRateLimited) {
    const auto seconds = std::max(std::chrono::ceil<std::chrono::seconds>(retry_after), std::chrono::seconds(1));
    response.headers.push_back({"Retry-After", fmt::to_string(seconds.count())});
    response.headers.push_back({"retry-after-ms", fmt::to_string(std::chrono::milliseconds(seconds).count())});
  }
  return response;
}

bool IsValidRequestId(std::string_view id) {
  return !id.empty() && id.size() <= kMaxRequestIdLength && std::all_of(id.begin(), id.end(), IsRequestIdCharacter);
}

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
