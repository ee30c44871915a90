#include "router/api/answers/forward_usage.h"

#include <algorithm>
#include <initializer_list>

#include "common/json/json_read.h"

namespace roost::router {
namespace {

constexpr std::string_view kUsageName = "\"usage\"";

// The first of these members of the usage that is a count.
std::optional<std::uint32_t> CountIn(json::Element usage, std::initializer_list<std::string_view> pointers) {
  for (const std::string_view pointer : pointers) {
    if (const auto count = json::At<std::uint32_t>(usage, pointer)) return count;
  }
  return std::nullopt;
}

// `text` begins behind the member's name.
std::optional<ForwardTokens> TokensIn(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n:");
  if (begin == std::string_view::npos || text[begin] != '{') return std::nullopt;
  std::size_t depth = 0;
  std::size_t end = begin;
  do {
    if (text[end] == '{') ++depth;
    if (text[end] == '}') --depth;
  } while (++end < text.size() && depth > 0);
  const json::Document usage(text.substr(begin, end - begin));
  if (!usage.ok()) return std::nullopt;
  const auto output = CountIn(usage.root(), {"/completion_tokens", "/output_tokens"});
  const auto prompt = CountIn(usage.root(), {"/prompt_tokens", "/input_tokens", "/total_tokens"});
  if (!prompt && !output) return std::nullopt;
  const auto cached =
      CountIn(usage.root(), {"/prompt_tokens_details/cached_tokens", "/input_tokens_details/cached_tokens"});
  return ForwardTokens{prompt.value_or(0), std::min(cached.value_or(0), prompt.value_or(0)), output.value_or(0)};
}

std::optional<ForwardTokens> LastIn(std::string_view text) {
  for (std::size_t at = text.rfind(kUsageName); at != std::string_view::npos; at = text.rfind(kUsageName, at - 1)) {
    if (const auto tokens = TokensIn(text.substr(at + kUsageName.size()))) return tokens;
    if (at == 0) break;
  }
  return std::nullopt;
}

}  // namespace

void UsageReader::Add(std::string_view bytes) {
  begin_.append(bytes.substr(0, kKeptBytes - std::min(begin_.size(), kKeptBytes)));
  end_.append(bytes.substr(bytes.size() - std::min(bytes.size(), kKeptBytes)));
  if (end_.size() > 2 * kKeptBytes) end_.erase(0, end_.size() - kKeptBytes);
}

std::optional<ForwardTokens> UsageReader::Read() const {
  const std::optional<ForwardTokens> last = LastIn(end_);
  return last ? last : LastIn(begin_);
}

}  // namespace roost::router
