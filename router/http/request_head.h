// Strict checks on the head of an HTTP/1 request, on its raw bytes, before the library's parser and beside it.
// Everything that two parsers on a request's way could read differently is refused, because request smuggling depends
// on that (RFC 9112, sections 2.2, 5.2, 6.1, 6.3, 11.2).
//
// Pure functions; linear time.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "common/base/error.h"

namespace roost::router {

inline constexpr std::size_t kMaxHeaderCount = 100;

// Where a head ends in `input`, looked for as the bytes arrive.
struct HeadScan {
  enum class State { kIncomplete, kComplete, kMalformed };
  State state = State::kIncomplete;
  std::size_t head_size = 0;  // kComplete: bytes up to and with the empty line
};

// `scanned` is the position where the last scan of the same input stopped, at first 0; the scan moves it. A line feed
// without a carriage return is malformed at once, so that its sender need not wait for a timeout.
[[nodiscard]] HeadScan ScanHead(std::string_view input, std::size_t& scanned);

// Bytes of empty lines at the front of `input`, which a server skips before a request.
[[nodiscard]] std::size_t LeadingEmptyLines(std::string_view input);

// What is wrong with a complete head, if anything: folded lines, control bytes, a wrong request line, more than
// kMaxHeaderCount headers, Host missing or doubled, Content-Length doubled or beside Transfer-Encoding, a
// Transfer-Encoding other than chunked, a target that is neither a path nor an http or https URL.
[[nodiscard]] std::optional<Error> CheckHead(std::string_view head);

// The parts of a target that passed CheckHead: "/a?b", or "http://host:80/a?b" from a client that takes this server for
// its proxy (RFC 9112, section 3.2.2).
struct RequestTarget {
  std::string_view authority;  // empty for a path; otherwise it replaces the Host header
  std::string_view path;       // "/" where a URL has none
  std::string_view query;      // after the first '?'
};
[[nodiscard]] RequestTarget ParseTarget(std::string_view target);

}  // namespace roost::router
