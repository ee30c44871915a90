// One HTTP request and one complete answer, as plain values, independent of the HTTP library.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/byte_budget.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/http/http_body.h"

namespace roost {

struct HttpHeader {
  std::string name;
  std::string value;
};

// A well-formed request within the server's bounds. `path` is as sent, up to the first '?', still percent-encoded. If
// the target is a whole URL, `path` is the part after the host, and Host is the URL's.
struct HttpRequest {
  std::string method;  // upper case
  std::string path;
  std::string query;  // after the first '?'; may be empty
  std::vector<HttpHeader> headers;
  HttpBody body;
  std::string client;      // the peer's address without its port, "unix" at a socket in the file system
  std::string request_id;  // the client's x-request-id when it is well-formed, else a new one; every answer carries it
  std::shared_ptr<void> ticket;  // of HeadVerdict; null: none

  // The first header with that name, in any letter case.
  [[nodiscard]] std::optional<std::string_view> FindHeader(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<HttpHeader> headers;  // in addition to those that the server sets: Content-Type, Content-Length, …
  std::string body;
  // The charge of `body` on a budget, kept until the client has the answer; null: the server charges its own budget.
  std::shared_ptr<ByteBudget::Guard> memory = {};
};

// The verdict on a request from its head: take it or refuse it, and which budget pays for it.
struct HeadVerdict {
  std::optional<HttpResponse> refusal = {};  // with one, the body is neither awaited nor given memory
  std::shared_ptr<ByteBudget> budget = {};   // for the body and the answer; null: the server's input_budget
  std::shared_ptr<void> ticket = {};         // goes to the handler with the request
};

// Does the head announce a body? A length of 0 is none.
[[nodiscard]] bool AnnouncesBody(const HttpRequest& head);

// {"error":{"message","type","param","code"}}, as OpenAI's clients expect it. `param` is the error's field; the message
// begins with it too, because many clients show the message alone.
[[nodiscard]] std::string ErrorBody(const Error& error);

// The answer to an error, made from the code's row in the table of common/base/error.cc. For kOverloaded and
// kUnavailable it has a Retry-After: `retry_after` rounded up to whole seconds, at least one.
[[nodiscard]] HttpResponse ErrorResponse(const Error& error, Duration retry_after = std::chrono::seconds(1));

// Compares header names, ignoring ASCII letter case.
[[nodiscard]] bool EqualsIgnoringCase(std::string_view a, std::string_view b);

// Is the Content-Type JSON: application/json or application/…+json, with any parameters?
[[nodiscard]] bool IsJson(std::string_view content_type);

// True for 1 to 128 characters of [A-Za-z0-9._:-], which are safe to echo to clients and to log.
[[nodiscard]] bool IsValidRequestId(std::string_view id);

// The value of an answer's Date header (RFC 9110, 5.6.7): "Wed, 25 Nov 2026 02:30:00 GMT". Clients compare it with
// their own clock; roostctl doctor does.

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

// Strict checks on the raw bytes of an HTTP/1 request's head, in addition to the library's parser and before it. They
// refuse everything that a proxy's parser and this server's could read differently, because request smuggling depends
// on such differences (RFC 9112, sections 2.2, 5.2, 6.1, 6.3, 11.2).
//
// Pure functions; linear time.

inline constexpr std::size_t kMaxHeaderCount = 100;

// Finds the end of a head while its bytes arrive.
struct HeadScan {
  enum class State { kIncomplete, kComplete, kMalformed };
  State state = State::kIncomplete;
  std::size_t head_size = 0;  // kComplete: bytes up to and including the empty line
};

// `scanned` is the position where the last scan of the same input stopped, initially 0; the call advances it. A line
// feed without a carriage return is malformed at once, so that the sender need not wait for a timeout.
[[nodiscard]] HeadScan ScanHead(std::string_view input, std::size_t& scanned);

// The size of the empty lines at the front of `input`. A server skips them before a request.
[[nodiscard]] std::size_t LeadingEmptyLines(std::string_view input);

// The first fault of a complete head, if it has one: folded lines, control bytes, a wrong request line, more than
// kMaxHeaderCount headers, Host missing or doubled, Content-Length doubled or beside Transfer-Encoding, a
// Transfer-Encoding other than chunked, a target that is neither a path nor an http or https URL.
[[nodiscard]] std::optional<Error> CheckHead(std::string_view head);

// The parts of a target that passed CheckHead: "/a?b", or "http://host:80/a?b" from a client that uses this server as
// its proxy (RFC 9112, section 3.2.2).
struct RequestTarget {
  std::string_view authority;  // empty for a path; otherwise it replaces the Host header
  std::string_view path;       // "/" if a URL has none
  std::string_view query;      // after the first '?'
};
[[nodiscard]] RequestTarget ParseTarget(std::string_view target);

// A path in which slashes that follow one another are one: clients append paths to addresses that end with one.
[[nodiscard]] std::string JoinedSlashes(std::string_view path);

}  // namespace roost
