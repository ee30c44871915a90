#include "router/api/json_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

namespace roost::router {
namespace {

Result<void> TakeLine(std::string_view line, const std::function<Result<void>(const JsonObject&)>& take) {
  JsonBody body{std::string(line)};
  ROOST_ASSIGN_OR_RETURN(const JsonObject object, body.Parse());
  return take(object);
}

}  // namespace

Result<void> ForEachJsonLine(std::string_view text, const std::string& path,
                             const std::function<Result<void>(const JsonObject&)>& take) {
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos || line[begin] == '#') continue;
    const Result<void> taken = TakeLine(line, take);
    if (!taken.ok()) {
      return Error{ErrorCode::kInvalidArgument, taken.error().ToString(), fmt::format("{}:{}", path, number)};
    }
  }
  return {};
}

Result<std::string> ReadTextFile(const std::string& path, std::size_t most_bytes) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return InvalidArgument(path, "can not be read: {}", std::strerror(errno));
  std::string text(most_bytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return InvalidArgument(path, "can not be read: {}", std::strerror(errno));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > most_bytes) return InvalidArgument(path, "is larger than {} bytes", most_bytes);
  return text;
}

}  // namespace roost::router
