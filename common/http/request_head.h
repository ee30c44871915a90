// Strict checks on the raw bytes of an HTTP/1 request's head, in addition to the library's parser and before it. They
// refuse everything that a proxy's parser and this server's could read differently, because request smuggling depends
// on such differences (RFC 9112, sections 2.2, 5.2, 6.1, 6.3, 11.2).
//
// Pure functions; linear time.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "common/base/error.h"

namespace roost {

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

}  // namespace roost
