#include "common/config/config_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/small_file.h"

namespace roost {
namespace {

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r";
  const std::size_t begin = text.find_first_not_of(kSpaces);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
}

std::string_view WithoutComment(std::string_view text) { return Trimmed(text.substr(0, text.find('#'))); }

std::string_view Unquoted(std::string_view key) {
  const bool quoted = key.size() >= 2 && (key.front() == '"' || key.front() == '\'') && key.back() == key.front();
  return quoted ? key.substr(1, key.size() - 2) : key;
}

// The text's lines, one after the other.
class Lines {
 public:
  explicit Lines(std::string_view text) : rest_(text) {}

  // Without spaces around it; none after the last one.
  std::optional<std::string_view> Next() {
    if (rest_.empty()) return std::nullopt;
    const std::size_t end = std::min(rest_.find('\n'), rest_.size());
    const std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    ++number_;
    return Trimmed(line);
  }
  [[nodiscard]] std::size_t number() const { return number_; }

 private:
  std::string_view rest_;
  std::size_t number_ = 0;
};

}  // namespace

Result<ConfigFile> ConfigFile::Read(const std::string& path) {
  ROOST_ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(path, kMaxConfigFileBytes));
  return Parse(text, path);
}

Result<ConfigFile> ConfigFile::Parse(std::string_view text, std::string path) {
  ConfigFile file(std::move(path));
  Lines lines(text);
  while (const std::optional<std::string_view> line = lines.Next()) {
    if (line->empty() || line->front() == '#' || line->front() == ';') continue;
    const std::size_t equals = line->find('=');
    const Key key{std::string(Unquoted(Trimmed(line->substr(0, equals)))), lines.number()};
    if (line->front() == '[' && equals == line->npos) {
      return InvalidArgument(file.PlaceOf(key), "{} is a section, and there are none: write the keys without it",
                             *line);
    }
    if (equals == line->npos) return InvalidArgument(file.PlaceOf(key), "'{}' has no value: write KEY = VALUE", *line);
    if (const std::optional<std::string> first = file.PlaceOf(key.name)) {
      return InvalidArgument(file.PlaceOf(key), "'{}' is given twice, first in {}", key.name, *first);
    }
    file.keys_.push_back(key);
    std::string_view value = WithoutComment(line->substr(equals + 1));
    if (value.empty() || value.front() != '[') continue;
    while (!value.ends_with(']')) {
      const std::optional<std::string_view> more = lines.Next();
      if (!more) return InvalidArgument(file.PlaceOf(key), "the list of '{}' has no end", key.name);
      value = WithoutComment(*more);
    }
  }
  return file;
}

std::string ConfigFile::PlaceOf(const Key& key) const { return fmt::format("{}:{}", path_, key.line); }

std::optional<std::string> ConfigFile::PlaceOf(std::string_view name) const {
  const auto found = std::find_if(keys_.begin(), keys_.end(), [name](const Key& key) { return key.name == name; });
  return found == keys_.end() ? std::nullopt : std::optional(PlaceOf(*found));
}

}  // namespace roost
