// Small files of the operator's or of a model: read whole, and by lines.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace roost {

// The bytes of a regular file with at most `max_bytes`. Errors name the path. kNotFound: there is no such file.
[[nodiscard]] Result<std::string> ReadSmallFile(const std::filesystem::path& path, std::size_t max_bytes);

// True if users other than the file's owner may change it.
[[nodiscard]] bool OthersMayWrite(const std::filesystem::path& path);

// For a file that decides who may do what, such as one with keys: logs a warning if OthersMayWrite.
void WarnIfOthersMayWrite(const std::filesystem::path& path);

// ReadSmallFile with that warning.
[[nodiscard]] Result<std::string> ReadTrustedFile(const std::filesystem::path& path, std::size_t max_bytes);

// Calls `visit` with each line that says something, and its number from 1: not with blank ones and those that begin
// with #. Stops at the first error.
[[nodiscard]] Result<void> ForEachLine(std::string_view text,
                                       const std::function<Result<void>(std::string_view, std::size_t)>& visit);

}  // namespace roost
