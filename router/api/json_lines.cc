#include "router/api/json_lines.h"

#include <fmt/format.h>

#include "common/base/small_file.h"

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
  return ForEachLine(text, [&](std::string_view line, std::size_t number) -> Result<void> {
    const Result<void> taken = TakeLine(line, take);
    if (taken.ok()) return {};
    return Error{ErrorCode::kInvalidArgument, taken.error().ToString(), fmt::format("{}:{}", path, number)};
  });
}

Result<std::string> ReadOperatorsFile(const std::string& path, std::size_t most_bytes) {
  Result<std::string> text = ReadTrustedFile(path, most_bytes);
  if (text.ok()) return text;
  return Error{ErrorCode::kInvalidArgument, text.error().message, text.error().field};
}

}  // namespace roost::router
