// The parts of calls in XML. A call is read when it is complete, and its arguments are converted to JSON.
//
// A value or a call whose closing tag is missing ends where the next tag of the call begins. Any other tag that is
// missing or out of place makes it no call: no value ever holds a tag of its call, unless within a string of JSON.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/json_writer.h"
#include "router/api/tool_parsers/argument_value.h"
#include "router/api/tool_parsers/call_form.h"
#include "router/api/tool_parsers/lenient_json.h"
#include "router/api/tool_parsers/partial_text.h"

namespace roost::router {

inline constexpr std::size_t kMaxNameTagBytes = 512;

inline std::size_t SpaceEnd(std::string_view text, std::size_t at) {
  while (at < text.size() && IsSpace(text[at])) ++at;
  return at;
}

// A tag of the call, at a position of the text. An open tag may lack its end.
struct XmlTag {
  std::string_view mark;  // as in XmlTags
  std::size_t position = 0;
  std::size_t end = 0;
  std::string_view name = {};  // of a function or parameter
  std::string_view attributes = {};
  bool is_open = false;
};

// Finds tags. What lacks its name is a tag at the beginning of a line alone: within a line it is text about tags.
class TagFinder {
 public:
  explicit TagFinder(std::vector<std::string_view> marks) : marks_(std::move(marks)) {}

  // The first tag at or behind `from`; an open one where the end of the text may become a tag.
  [[nodiscard]] std::optional<XmlTag> Find(std::string_view text, std::size_t from) const {
    while (const std::optional<FoundMark> found = FindMark(text.substr(std::min(from, text.size())), marks_)) {
      XmlTag tag{.mark = found->mark, .position = from + found->position, .end = 0};
      tag.end = tag.position + tag.mark.size();
      if (tag.mark.back() == '>' || ReadName(text, tag)) return tag;
      if (tag.position == 0 || text[tag.position - 1] == '\n') return tag;
      from = tag.end;
    }
    const std::size_t open = OpenMarkBytes(text.substr(std::min(from, text.size())), marks_);
    if (open == 0) return std::nullopt;
    return XmlTag{.mark = {}, .position = text.size() - open, .end = text.size(), .is_open = true};
  }

  // True if a tag is in `text`, or a part of one.
  [[nodiscard]] bool IsIn(std::string_view text) const { return FindMark(text, marks_).has_value(); }
  // The tag at `at`.
  [[nodiscard]] std::optional<XmlTag> At(std::string_view text, std::size_t at) const {
    if (at == text.size()) return XmlTag{.mark = {}, .position = at, .end = at, .is_open = true};
    if (text[at] != '<') return std::nullopt;
    std::optional<XmlTag> tag = Find(text, at);
    return tag && tag->position == at ? tag : std::nullopt;
  }

 private:
  static bool ReadName(std::string_view text, XmlTag& tag) {
    const std::string_view rest = text.substr(tag.end, kMaxNameTagBytes);
    const std::size_t size = rest.find_first_of(">\n<");
    if (size == std::string_view::npos) {
      tag.is_open = true;
      return rest.size() < kMaxNameTagBytes;
    }
    if (rest[size] != '>') return false;
    std::string_view inside = rest.substr(0, size);
    if (inside.starts_with('"')) inside.remove_prefix(1);
    tag.name = Trimmed(inside.substr(0, inside.find('"')));
    tag.attributes = inside.substr(std::min(inside.size(), tag.name.size()));
    tag.end += size + 1;
    if (!IsFunctionName(tag.name)) tag.name = {};
    return !tag.name.empty();
  }

  const std::vector<std::string_view> marks_;
};

// The arguments of a call so far.
class XmlArguments {
 public:
  // False for a name that was there with another value.
  [[nodiscard]] bool Add(std::string_view name, std::string json) {
    const auto same = std::find_if(all_.begin(), all_.end(), [name](const auto& each) { return each.first == name; });
    if (same != all_.end()) return same->second == json;
    all_.emplace_back(name, std::move(json));
    return true;
  }

  // All of them at once, as an object of JSON.
  void Set(std::string object) { object_ = std::move(object); }

  [[nodiscard]] bool empty() const { return all_.empty() && object_.empty(); }
  [[nodiscard]] bool is_set() const { return !object_.empty(); }
  [[nodiscard]] std::string Json() const {
    if (is_set()) return object_;
    JsonWriter json;
    json.BeginObject();
    for (const auto& [name, value] : all_) json.Key(name).Raw(value);
    return json.EndObject().Take();
  }

 private:
  std::vector<std::pair<std::string, std::string>> all_;
  std::string object_;  // empty: not set
};

// Reads over a value of JSON, in whose strings tags are text.
class JsonValue {
 public:
  // Where tags may begin, in `text` from `begin` on; nothing while the value goes on.
  [[nodiscard]] std::optional<std::size_t> End(std::string_view text, std::size_t begin) {
    if (size_ == 0) size_ = SpaceEnd(text, begin) - begin;
    if (begin + size_ == text.size()) return std::nullopt;
    const bool may_be = started_ || text[begin + size_] == '{' || text[begin + size_] == '[';
    if (!may_be) return begin;
    started_ = true;
    std::string json;
    size_ += reader_.Read(text.substr(begin + size_), json);
    if (reader_.is_broken()) return begin;
    return reader_.ended() ? std::optional(begin + size_) : std::nullopt;
  }

 private:
  LenientJson reader_;
  std::size_t size_ = 0;
  bool started_ = false;
};

// The base of the forms in XML: the place that has been read, and the call so far.
class XmlForm : public CallForm {
 public:
  XmlForm(std::vector<std::string_view> marks, const ToolSet& tools) : finder_(std::move(marks)), tools_(tools) {}

  [[nodiscard]] bool is_whole() const override { return true; }
  void Reset(std::string_view) override {
    at_ = searched_ = 0;
    name_.clear();
    key_.clear();
    arguments_ = {};
    value_ = {};
    is_unclosed_ = false;
  }

 protected:
  [[nodiscard]] CallHead Call(std::size_t size) {
    CallHead head{.verdict = FormVerdict::kNone, .size = size};
    if (!IsFunctionName(name_)) return head;
    head.verdict = FormVerdict::kFound;
    head.whole.push_back({.id = {}, .name = std::move(name_), .arguments = arguments_.Json()});
    return head;
  }
  [[nodiscard]] CallHead NoCall() const { return {.verdict = FormVerdict::kNone, .size = at_}; }
  static CallHead More() { return {.verdict = FormVerdict::kMore}; }

  // The call's closing tag has been read. Where a value was not closed, or the function's arguments are missing, the
  // tag may stand at a wrong place: what follows must be one of `next`, or nothing.
  [[nodiscard]] CallHead ReadBehindEnd(std::string_view text, const std::vector<std::string_view>& next) {
    const FormVerdict end = EndsAt(text, at_);
    if (end != FormVerdict::kFound) return end == FormVerdict::kMore ? More() : NoCall();
    if (!is_unclosed_ || (arguments_.empty() && !HasParameters(Schema()))) return Call(at_);
    const std::optional<XmlTag> tag = finder_.At(text, SpaceEnd(text, at_));
    if (tag && tag->is_open) return More();
    return tag && std::find(next.begin(), next.end(), tag->mark) != next.end() ? Call(at_) : NoCall();
  }
  // A key or a value that follows directly belongs to a call that goes on.
  [[nodiscard]] static FormVerdict EndsAt(std::string_view text, std::size_t at) {
    if (at == text.size()) return FormVerdict::kMore;
    return IsSpace(text[at]) || text[at] == '<' ? FormVerdict::kFound : FormVerdict::kNone;
  }
  void BeginValue(std::string_view key, std::size_t at) {
    key_ = key;
    at_ = searched_ = at;
    value_ = {};
    is_json_ = !TakesText(Schema(), key_);
  }
  // The tag that ends the value; an open while none is there.
  [[nodiscard]] XmlTag ValueTag(std::string_view text) {
    XmlTag more{.mark = {}, .position = text.size(), .end = text.size(), .is_open = true};
    if (is_json_) {
      const std::optional<std::size_t> end = value_.End(text, at_);
      if (!end) return more;
      searched_ = std::max(searched_, *end);
    }
    const std::optional<XmlTag> tag = finder_.Find(text, searched_);
    searched_ = tag ? tag->position : text.size();
    return tag ? *tag : more;
  }
  [[nodiscard]] std::string_view Schema() const {
    const ToolFunction* function = tools_.Find(name_);
    return function == nullptr ? std::string_view() : std::string_view(function->schema);
  }

  const TagFinder finder_;
  const ToolSet& tools_;
  std::size_t at_ = 0;        // what is to be read next
  std::size_t searched_ = 0;  // up to here the value has no tag
  std::string name_;
  std::string key_;
  XmlArguments arguments_;
  JsonValue value_;
  bool is_json_ = false;
  bool is_unclosed_ = false;  // the last value ended without its closing tag, or there is none
};

}  // namespace roost::router
