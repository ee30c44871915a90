#include "common/http/http_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <ctime>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

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

namespace {

constexpr std::string_view kLineEnd = "\r\n";

Error Malformed(std::string message) { return Error{ErrorCode::kInvalidArgument, std::move(message), ""}; }

bool IsControl(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

// RFC 9110, section 5.6.2.
bool IsTokenCharacter(char c) {
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')) return true;
  return std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool IsToken(std::string_view text) { return !text.empty() && std::all_of(text.begin(), text.end(), IsTokenCharacter); }

std::string_view Trim(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// Takes the first line off the front of `rest` and returns it without its line end.
std::string_view TakeLine(std::string_view& rest) {
  const std::size_t end = std::min(rest.find(kLineEnd), rest.size());
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(std::min(end + kLineEnd.size(), rest.size()));
  return line;
}

// The length of "http://" or "https://", in any letter case, at the front of `target`; 0 if there is none.
std::size_t SchemeLength(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (EqualsIgnoringCase(target.substr(0, scheme.size()), scheme)) return scheme.size();
  }
  return 0;
}

// Accepts a host with or without a port. User names are refused, as RFC 9110, section 4.2.4, requires.
bool IsAuthority(std::string_view text) {
  return !text.empty() && text.front() != ':' && text.find_first_of("@\\") == std::string_view::npos;
}

bool IsTarget(std::string_view method, std::string_view target) {
  if (target == "*") return method == "OPTIONS";
  const auto visible = [](char c) { return c > 0x20 && c < 0x7F; };
  if (target.empty() || !std::all_of(target.begin(), target.end(), visible)) return false;
  return target.front() == '/' || (SchemeLength(target) > 0 && IsAuthority(ParseTarget(target).authority));
}

std::optional<Error> CheckRequestLine(std::string_view line) {
  const std::size_t method_end = line.find(' ');
  const std::size_t target_end = line.rfind(' ');
  if (method_end == std::string_view::npos || target_end == method_end)
    return Malformed("the request line is malformed");
  const std::string_view method = line.substr(0, method_end);
  const std::string_view target = line.substr(method_end + 1, target_end - method_end - 1);
  const std::string_view version = line.substr(target_end + 1);
  if (!IsToken(method)) return Malformed("the request line's method is malformed");
  if (version != "HTTP/1.1" && version != "HTTP/1.0") return Malformed("the HTTP version must be 1.0 or 1.1");
  if (!IsTarget(method, target))
    return Malformed("the request target must be a path, or an http or https URL, of visible ASCII");
  return std::nullopt;
}

struct HeaderCounts {
  std::size_t all = 0;
  std::size_t host = 0;
  std::size_t content_length = 0;
  std::size_t transfer_encoding = 0;
};

std::optional<Error> CheckHeaderLine(std::string_view line, HeaderCounts& counts) {
  if (++counts.all > kMaxHeaderCount) {
    return Error{ErrorCode::kHeaderTooLarge, fmt::format("the request has more than {} headers", kMaxHeaderCount), ""};
  }
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || !IsToken(line.substr(0, colon))) {
    return Malformed("a header line is malformed or folded");
  }
  const std::string_view value = Trim(line.substr(colon + 1));
  if (std::any_of(value.begin(), value.end(), [](char c) { return c != '\t' && IsControl(c); })) {
    return Malformed("a header value holds a control character");
  }
  const std::string_view name = line.substr(0, colon);
  if (EqualsIgnoringCase(name, "Host")) ++counts.host;
  if (EqualsIgnoringCase(name, "Content-Length")) {
    ++counts.content_length;
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    if (value.empty() || !std::all_of(value.begin(), value.end(), is_digit)) {
      return Malformed("Content-Length must be one decimal number");
    }
  }
  if (EqualsIgnoringCase(name, "Transfer-Encoding")) {
    ++counts.transfer_encoding;
    if (!EqualsIgnoringCase(value, "chunked")) return Malformed("Transfer-Encoding must be chunked");
  }
  return std::nullopt;
}

std::optional<Error> CheckCounts(const HeaderCounts& counts, bool is_http_1_1) {
  if (counts.host > 1 || (is_http_1_1 && counts.host == 0)) return Malformed("the request needs exactly one Host");
  if (counts.content_length > 1) return Malformed("Content-Length is given more than once");
  if (counts.transfer_encoding > 1) return Malformed("Transfer-Encoding is given more than once");
  if (counts.transfer_encoding == 1 && counts.content_length == 1) {
    return Malformed("Content-Length and Transfer-Encoding can not be given together");
  }
  if (counts.transfer_encoding == 1 && !is_http_1_1) return Malformed("HTTP/1.0 has no Transfer-Encoding");
  return std::nullopt;
}

}  // namespace

std::string JoinedSlashes(std::string_view path) {
  std::string joined;
  std::unique_copy(path.begin(), path.end(), std::back_inserter(joined),
                   [](char a, char b) { return a == '/' && b == '/'; });
  return joined;
}

RequestTarget ParseTarget(std::string_view target) {
  RequestTarget parsed;
  if (const std::size_t scheme = SchemeLength(target); scheme > 0) {
    target.remove_prefix(scheme);
    parsed.authority = target.substr(0, target.find_first_of("/?#"));
    target.remove_prefix(parsed.authority.size());
  }
  const std::size_t question = std::min(target.find('?'), target.size());
  parsed.path = target.substr(0, question);
  parsed.query = target.substr(std::min(question + 1, target.size()));
  if (parsed.path.empty()) parsed.path = "/";
  return parsed;
}

HeadScan ScanHead(std::string_view input, std::size_t& scanned) {
  for (; scanned < input.size(); ++scanned) {
    if (input[scanned] != '\n') continue;
    if (scanned == 0 || input[scanned - 1] != '\r') return {HeadScan::State::kMalformed, 0};
    if (scanned >= 3 && input[scanned - 2] == '\n') return {HeadScan::State::kComplete, scanned + 1};
  }
  return {};
}

std::size_t LeadingEmptyLines(std::string_view input) {
  std::size_t size = 0;
  while (input.substr(size, kLineEnd.size()) == kLineEnd) size += kLineEnd.size();
  return size;
}

std::optional<Error> CheckHead(std::string_view head) {
  std::string_view rest = head;
  const std::string_view request_line = TakeLine(rest);
  if (std::optional<Error> error = CheckRequestLine(request_line)) return error;
  HeaderCounts counts;
  for (std::string_view line = TakeLine(rest); !line.empty(); line = TakeLine(rest)) {
    if (std::optional<Error> error = CheckHeaderLine(line, counts)) return error;
  }
  return CheckCounts(counts, request_line.substr(request_line.size() - 8) == "HTTP/1.1");
}

}  // namespace roost
