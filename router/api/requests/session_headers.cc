#include "router/api/requests/session_headers.h"

#include <algorithm>
#include <utility>

namespace roost::router {
namespace {

constexpr std::string_view kNameCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*-.^_`|~";

std::string_view ValueOf(const HttpRequest& request, std::string_view name) {
  const std::string_view value = request.FindHeader(name).value_or("");
  return value.size() <= SessionHeaders::kMaxValueBytes ? value : std::string_view();
}

Result<std::vector<std::string>> HeadersOf(std::string_view row) {
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin <= row.size();) {
    const std::size_t end = std::min(row.find('+', begin), row.size());
    const std::string_view name = row.substr(begin, end - begin);
    if (name.empty() || name.size() > SessionHeaders::kMaxNameBytes ||
        name.find_first_not_of(kNameCharacters) != std::string_view::npos) {
      return InvalidArgument("session-headers", "'{}' is no name of a header", name);
    }
    names.emplace_back(name);
    begin = end + 1;
  }
  if (names.size() > SessionHeaders::kMaxHeadersOfRow) {
    return InvalidArgument("session-headers", "'{}' has more than {} headers", row, SessionHeaders::kMaxHeadersOfRow);
  }
  return names;
}

}  // namespace

std::vector<std::string> UsualSessionHeaders() {
  return {"x-claude-code-session-id+x-claude-code-agent-id",
          "session-id+thread-id",
          "session_id+thread-id",
          "thread-id",
          "x-session-id",
          "x-session-affinity"};
}

Result<SessionHeaders> SessionHeaders::Parse(const std::vector<std::string>& rows) {
  SessionHeaders headers;
  if (rows.size() > kMaxRows) return InvalidArgument("session-headers", "has more than {} rows", kMaxRows);
  for (const std::string& row : rows) {
    if (row.empty() && rows.size() == 1) break;
    ROOST_ASSIGN_OR_RETURN(std::vector<std::string> names, HeadersOf(row));
    headers.rows_.push_back(std::move(names));
  }
  return headers;
}

std::string SessionHeaders::NameIn(const HttpRequest& request) const {
  for (const std::vector<std::string>& row : rows_) {
    std::string name(ValueOf(request, row.front()));
    if (name.empty()) continue;
    for (std::size_t i = 1; i < row.size(); ++i) {
      const std::string_view more = ValueOf(request, row[i]);
      // No header holds a line break.
      if (!more.empty()) name.append("\n").append(more);
    }
    return name;
  }
  return {};
}

}  // namespace roost::router
