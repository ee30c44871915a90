#include "router/api/tool_parsers/partial_text.h"

#include <algorithm>

#include "common/base/utf8.h"
#include "router/api/json_object.h"

namespace roost::router {
namespace {

constexpr std::size_t kMaxSpanDepth = 512;

}  // namespace

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
  if (!IsAt('"')) return std::nullopt;
  std::size_t end = 1;
  const std::string_view here = rest();
  while (end < here.size() && here[end] != '"') end += here[end] == '\\' ? 2 : 1;
  if (end >= here.size()) {
    cut_ = true;
    return std::nullopt;
  }
  const json::Document document(here.substr(0, end + 1));
  if (!document.ok()) return std::nullopt;
  position_ += end + 1;
  return std::string(std::string_view(document.root()));
}

std::size_t JsonSpan::Read(std::string_view text) {
  std::size_t size = 0;
  while (size < text.size() && !done_ && Step(text[size])) ++size;
  return size;
}

bool JsonSpan::Step(char c) {
  if (in_string_) {
    if (c == '"' && !escaped_) in_string_ = false;
    escaped_ = c == '\\' && !escaped_;
    return true;
  }
  switch (c) {
    case '"': in_string_ = true; return true;
    case '{':
    case '[':
      done_ = open_.size() >= kMaxSpanDepth;
      if (!done_) open_.push_back(c);
      return !done_;
    case '}': return Close('{');
    case ']': return Close('[');
    default: return true;
  }
}

bool JsonSpan::Close(char open) {
  if (open_.empty() || open_.back() != open) {
    done_ = true;
    return false;
  }
  open_.pop_back();
  done_ = open_.empty();
  return true;
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
