// Strict checks on the head of an HTTP/1 request, on its raw bytes, before and beside the library's parser. Whatever
// two parsers along a request's way could read differently is refused: that is what request smuggling lives on (RFC
// 9112, sections 2.2, 5.2, 6.1, 6.3, 11.2).
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

// `scanned` is where the last scan of the same input stopped, 0 at first; it is moved on. A line feed without its
// carriage return is malformed at once, so its sender is not left waiting for a timeout.
[[nodiscard]] HeadScan ScanHead(std::string_view input, std::size_t& scanned);

// Bytes of empty lines at the front of `input`, which a server skips before a request.
[[nodiscard]] std::size_t LeadingEmptyLines(std::string_view input);

// What is wrong with a complete head, if anything: folded lines, control bytes, a wrong request line, more than
// kMaxHeaderCount headers, Host missing or doubled, Content-Length doubled or beside Transfer-Encoding, a
// Transfer-Encoding other than chunked, a target that is neither a path nor an http or https URL.
[[nodiscard]] std::optional<Error> CheckHead(std::string_view head);

// The parts of a target that CheckHead let pass: "/a?b", or "http://host:80/a?b", as a client sends it that takes this
// server for its proxy (RFC 9112, section 3.2.2).
struct RequestTarget {
  std::string_view authority;  // empty for a path; else it counts, and not the Host header
  std::string_view path;       // "/" where a URL has none
  std::string_view query;      // after the first '?'
};
[[nodiscard]] RequestTarget ParseTarget(std::string_view target);

}  // namespace roost::router
