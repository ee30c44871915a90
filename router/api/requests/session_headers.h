// The headers by which agents and clients name a conversation, so that it is a session without `session_id` in the
// body.
//
//   x-claude-code-session-id+x-claude-code-agent-id    a conversation of its own for each sub-agent
//   session-id+thread-id                               Codex: each thread of a session
//
// The first row whose first header is there names it, with the values of the row's other headers that are there too.
// An empty value, and one that is too long, count as absent: they come from a program that knows of no error.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/http/http_message.h"

namespace roost::router {

// The default of --session-headers.
[[nodiscard]] std::vector<std::string> UsualSessionHeaders();

class SessionHeaders {
 public:
  static constexpr std::size_t kMaxRows = 32;
  static constexpr std::size_t kMaxHeadersOfRow = 4;
  static constexpr std::size_t kMaxNameBytes = 128;
  static constexpr std::size_t kMaxValueBytes = 256;

  // No header names a session.
  SessionHeaders() = default;
  // Rows of names, joined by +. The error names the flag.
  [[nodiscard]] static Result<SessionHeaders> Parse(const std::vector<std::string>& rows);

  // The session's name; empty: none. O(rows · headers).
  [[nodiscard]] std::string NameIn(const HttpRequest& request) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace roost::router
