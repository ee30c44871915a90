// Finds the lines of a configuration file's keys, so that errors can name them. It reads the same lines as CLI11, which
// takes the values: KEY = VALUE, comments that begin with # or ;, and lists in brackets that may go over several lines.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"

namespace roost {

inline constexpr std::size_t kMaxConfigFileBytes = std::size_t{1} << 20U;

class ConfigFile {
 public:
  struct Key {
    std::string name;
    std::size_t line = 0;  // from 1
  };

  // kNotFound, or kInvalidArgument, naming the file.
  [[nodiscard]] static Result<ConfigFile> Read(const std::string& path);
  // kInvalidArgument names file and line: a section, a line without a value, a key given twice.
  [[nodiscard]] static Result<ConfigFile> Parse(std::string_view text, std::string path);

  [[nodiscard]] const std::vector<Key>& keys() const { return keys_; }
  // "FILE:LINE" of the key, if the file has it.
  [[nodiscard]] std::optional<std::string> PlaceOf(std::string_view name) const;
  [[nodiscard]] std::string PlaceOf(const Key& key) const;

 private:
  explicit ConfigFile(std::string path) : path_(std::move(path)) {}

  std::string path_;
  std::vector<Key> keys_;
};

}  // namespace roost
