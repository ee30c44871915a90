#include "common/base/small_file.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <system_error>

#include "common/base/log.h"

namespace roost {

Result<std::string> ReadSmallFile(const std::filesystem::path& path, std::size_t max_bytes) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) return Error{ErrorCode::kNotFound, "no such file", path.string()};
  if (!std::filesystem::is_regular_file(status)) return InvalidArgument(path.string(), "is not a regular file");
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error) return InvalidArgument(path.string(), "can not be read: {}", error.message());
  if (size > max_bytes) return InvalidArgument(path.string(), "has {} bytes, at most {} are allowed", size, max_bytes);
  std::string text(size, '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.read(text.data(), static_cast<std::streamsize>(size))) return DataLoss(path.string(), "can not be read");
  return text;
}

bool OthersMayWrite(const std::filesystem::path& path) {
  using std::filesystem::perms;
  std::error_code error;
  const perms permissions = std::filesystem::status(path, error).permissions();
  return !error && (permissions & (perms::group_write | perms::others_write)) != perms::none;
}

void WarnIfOthersMayWrite(const std::filesystem::path& path) {
  if (!OthersMayWrite(path)) return;
  LogWarning("others than its owner may write a file that decides who may do what: chmod go-w",
             {{"file", path.string()}});
}

Result<std::string> ReadTrustedFile(const std::filesystem::path& path, std::size_t max_bytes) {
  WarnIfOthersMayWrite(path);
  return ReadSmallFile(path, max_bytes);
}

Result<void> ForEachLine(std::string_view text,
                         const std::function<Result<void>(std::string_view, std::size_t)>& visit) {
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos || line[begin] == '#') continue;
    line = line.substr(begin, line.find_last_not_of(" \t\r") - begin + 1);
    ROOST_RETURN_IF_ERROR(visit(line, number));
  }
  return {};
}

}  // namespace roost
