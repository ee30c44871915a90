#include "router/api/tool_parsers/partial_text.h"

#include <algorithm>

#include "common/base/utf8.h"
#include "router/api/json_object.h"
#include "router/api/tool_parsers/lenient_json.h"

namespace roost::router {
bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

void PartialText::SkipSpace() {
  while (position_ < text_.size() && IsSpace(text_[position_])) ++position_;
}

bool PartialText::Take(std::string_view literal) {
  const std::string_view here = rest();
  if (here.substr(0, literal.size()) == literal) {
    position_ += literal.size();
    return true;
  }
  if (literal.substr(0, here.size()) == here) cut_ = true;
  return false;
}

bool PartialText::IsAt(char c) {
  if (rest().empty()) cut_ = true;
  return !rest().empty() && rest().front() == c;
}

std::string_view PartialText::TakeUntil(std::string_view characters) {
  const std::string_view before = rest().substr(0, rest().find_first_of(characters));
  position_ += before.size();
  if (rest().empty()) cut_ = true;
  return before;
}

std::optional<std::string_view> PartialText::Until(std::string_view mark) {
  const std::size_t size = rest().find(mark);
  if (size == std::string_view::npos) {
    cut_ = true;
    return std::nullopt;
  }
  const std::string_view before = rest().substr(0, size);
  position_ += size + mark.size();
  return before;
}

std::optional<std::string> PartialText::JsonText() {
  const char quote = rest().empty() ? '"' : rest().front();
  if (!IsAt('"') && !IsAt('\'')) return std::nullopt;
  std::size_t end = 1;
  const std::string_view here = rest();
  while (end < here.size() && here[end] != quote) end += here[end] == '\\' ? 2 : 1;
  if (end >= here.size()) {
    cut_ = true;
    return std::nullopt;
  }
  const std::optional<std::string> string = JsonOfLenient(here.substr(0, end + 1));
  if (!string) return std::nullopt;
  const json::Document document(*string);
  if (!document.ok()) return std::nullopt;
  position_ += end + 1;
  return std::string(std::string_view(document.root()));
}

bool PartialText::SkipJson() {
  LenientJson reader;
  std::string json;
  position_ += reader.Read(rest(), json);
  if (!reader.ended()) cut_ = true;
  return reader.is_whole();
}

void PartialText::SkipAll(std::string_view literal) {
  do SkipSpace();
  while (Take(literal));
}

std::optional<std::string> CompactJson(std::string_view text) {
  const json::Document document(text, json::Document::KeepNumbers());
  return document.ok() ? std::optional(json::JsonText(document.root())) : std::nullopt;
}

bool IsJsonObject(std::string_view text) {
  return json::Document(text, json::Document::KeepNumbers()).root().is_object();
}

std::optional<FoundMark> FindMark(std::string_view text, const std::vector<std::string_view>& marks) {
  std::optional<FoundMark> first;
  for (const std::string_view mark : marks) {
    const std::size_t position = text.find(mark);
    if (position == std::string_view::npos) continue;
    const bool is_longer = first && position == first->position && mark.size() > first->mark.size();
    if (!first || position < first->position || is_longer) first = FoundMark{position, mark};
    text = text.substr(0, std::min(text.size(), first->position + 64));  // later matches can not be first
  }
  return first;
}

std::size_t OpenMarkBytes(std::string_view text, const std::vector<std::string_view>& marks) {
  std::size_t most = 0;
  for (const std::string_view mark : marks) {
    for (std::size_t size = std::min(mark.size() - 1, text.size()); size > most; --size) {
      if (text.substr(text.size() - size) == mark.substr(0, size)) most = size;
    }
  }
  return most;
}

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && IsSpace(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsSpace(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace roost::router
