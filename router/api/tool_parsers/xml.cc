// Calls in XML. A call is read when it is complete, and its arguments are converted to JSON.
//
// A value or a call whose closing tag is missing ends where the next tag of the call begins. Any other tag that is
// missing or out of place makes it no call: no value ever holds a tag of its call, unless within a string of JSON.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
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
namespace {

// outer begin │ function begin f> │ parameter begin k> value parameter end │ … │ function end │ outer end
struct XmlTags {
  std::string_view outer_begin;
  std::string_view outer_end;
  std::string_view function_begin;
  std::string_view function_end;
  std::string_view parameter_begin;
  std::string_view parameter_end;
  enum class Values : std::uint8_t { kOnLines, kInline } values = Values::kOnLines;
  std::string_view other_begin = {};  // in place of the outer tags
  std::string_view other_end = {};
};

constexpr XmlTags kQwenTags{"<tool_call>", "</tool_call>", "<function=", "</function>", "<parameter=", "</parameter>"};
constexpr XmlTags kSeedTags{
    "<seed:tool_call>", "</seed:tool_call>", "<function=", "</function>", "<parameter=", "</parameter>"};
constexpr XmlTags kMiniMaxTags{"<minimax:tool_call>", "</minimax:tool_call>", "<invoke name=",         "</invoke>",
                               "<parameter name=",    "</parameter>",         XmlTags::Values::kInline};
constexpr XmlTags kDsmlTags{"<｜DSML｜function_calls>", "</｜DSML｜function_calls>", "<｜DSML｜invoke name=",
                            "</｜DSML｜invoke>",        "<｜DSML｜parameter name=",  "</｜DSML｜parameter>",
                            XmlTags::Values::kInline,   "<｜DSML｜tool_calls>",      "</｜DSML｜tool_calls>"};

constexpr std::string_view kGlmBegin = "<tool_call>";
constexpr std::string_view kGlmEnd = "</tool_call>";
constexpr std::string_view kKeyBegin = "<arg_key>";
constexpr std::string_view kKeyEnd = "</arg_key>";
constexpr std::string_view kValueBegin = "<arg_value>";
constexpr std::string_view kValueEnd = "</arg_value>";

constexpr std::size_t kMaxNameTagBytes = 512;

// Removes one line break at each end, which belongs to the family's syntax; others belong to the value.
std::string_view WithoutLineBreaks(std::string_view text) {
  if (!text.empty() && text.front() == '\n') text.remove_prefix(1);
  if (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  return text;
}

std::size_t SpaceEnd(std::string_view text, std::size_t at) {
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

  [[nodiscard]] bool empty() const { return all_.empty(); }
  [[nodiscard]] std::string Json() const {
    JsonWriter json;
    json.BeginObject();
    for (const auto& [name, value] : all_) json.Key(name).Raw(value);
    return json.EndObject().Take();
  }

 private:
  std::vector<std::pair<std::string, std::string>> all_;
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

std::vector<std::string_view> WithoutEmpty(std::vector<std::string_view> marks) {
  std::erase(marks, std::string_view());
  return marks;
}

// What all calls in XML have in common: the place that has been read, and the call so far.
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

// Qwen3-Coder: <tool_call> <function=f> <parameter=k> v </parameter> … </function> </tool_call>
class FunctionForm final : public XmlForm {
 public:
  FunctionForm(const XmlTags& tags, const ToolSet& tools)
      : XmlForm(WithoutEmpty({tags.outer_begin, tags.outer_end, tags.function_begin, tags.function_end,
                              tags.parameter_begin, tags.parameter_end, tags.other_begin, tags.other_end}),
                tools),
        tags_(tags) {}

  [[nodiscard]] std::vector<std::string_view> Begins() const override {
    return WithoutEmpty({tags_.outer_begin, tags_.function_begin, tags_.other_begin});
  }
  [[nodiscard]] std::vector<std::string_view> Strays() const override {
    return WithoutEmpty(
        {tags_.outer_end, tags_.function_end, tags_.parameter_begin, tags_.parameter_end, tags_.other_end});
  }
  [[nodiscard]] bool NeedsKnownName(std::string_view begin) const override { return !IsOuterBegin(begin); }
  void Reset(std::string_view begin) override;
  [[nodiscard]] CallHead ReadHead(std::string_view text) override;
  [[nodiscard]] CallHead ReadLastHead(std::string_view text) override;
  [[nodiscard]] CallTail ReadTail(std::string_view text) override;

 private:
  enum class Step : std::uint8_t { kFunction, kName, kParameters, kValue, kBehind };
  // Each reads one part; nothing if another follows.
  [[nodiscard]] std::optional<CallHead> ReadFunction(std::string_view text);
  [[nodiscard]] std::optional<CallHead> ReadName(std::string_view text);
  [[nodiscard]] std::optional<CallHead> ReadParameters(std::string_view text);
  [[nodiscard]] std::optional<CallHead> ReadValue(std::string_view text);
  [[nodiscard]] CallHead ReadBehind(std::string_view text);
  [[nodiscard]] std::string ValueJson(std::string_view value) const;
  [[nodiscard]] bool IsOuterBegin(std::string_view mark) const {
    return mark == tags_.outer_begin || (!mark.empty() && mark == tags_.other_begin);
  }
  [[nodiscard]] bool IsOuterEnd(std::string_view mark) const {
    return mark == tags_.outer_end || (!mark.empty() && mark == tags_.other_end);
  }

  const XmlTags& tags_;
  Step step_ = Step::kFunction;
  std::string attributes_;
};

// GLM: <tool_call>f ⏎ <arg_key>k</arg_key> ⏎ <arg_value>v</arg_value> … </tool_call>
class GlmForm final : public XmlForm {
 public:
  explicit GlmForm(const ToolSet& tools)
      : XmlForm({kGlmBegin, kGlmEnd, kKeyBegin, kKeyEnd, kValueBegin, kValueEnd}, tools) {}

  [[nodiscard]] std::vector<std::string_view> Begins() const override { return {kGlmBegin}; }
  [[nodiscard]] std::vector<std::string_view> Strays() const override { return {kGlmEnd, kKeyEnd, kValueEnd}; }
  [[nodiscard]] bool MayBeginBare(char) const override { return true; }
  [[nodiscard]] BareCall ReadBare(std::string_view text, BarePlace place, const ToolSet& tools) const override;
  void Reset(std::string_view begin) override;
  [[nodiscard]] CallHead ReadHead(std::string_view text) override;
  [[nodiscard]] CallHead ReadLastHead(std::string_view text) override;
  [[nodiscard]] CallTail ReadTail(std::string_view text) override;

 private:
  enum class Step : std::uint8_t { kName, kKeys, kKey, kBeforeValue, kValue, kBehind };
  [[nodiscard]] std::optional<CallHead> ReadName(std::string_view text);
  [[nodiscard]] std::optional<CallHead> ReadKeys(std::string_view text);
  [[nodiscard]] std::optional<CallHead> ReadKey(std::string_view text);
  [[nodiscard]] std::optional<CallHead> ReadValue(std::string_view text);
  [[nodiscard]] CallHead ReadBehind(std::string_view text);
  [[nodiscard]] static FormVerdict ReadCallBegin(std::string_view text, const std::vector<std::string_view>& ends,
                                                 const ToolSet& tools);
  [[nodiscard]] FormVerdict ReadNext(std::string_view text) const;

  Step step_ = Step::kName;
};

}  // namespace

// ---- functions and parameters ----

void FunctionForm::Reset(std::string_view begin) {
  XmlForm::Reset(begin);
  step_ = begin == tags_.function_begin ? Step::kName : Step::kFunction;
}

CallHead FunctionForm::ReadHead(std::string_view text) {
  while (true) {
    std::optional<CallHead> head;
    switch (step_) {
      case Step::kFunction: head = ReadFunction(text); break;
      case Step::kName: head = ReadName(text); break;
      case Step::kParameters: head = ReadParameters(text); break;
      case Step::kValue: head = ReadValue(text); break;
      case Step::kBehind: return ReadBehind(text);
    }
    if (head) return *std::move(head);
  }
}

std::optional<CallHead> FunctionForm::ReadFunction(std::string_view text) {
  const std::size_t at = SpaceEnd(text, at_);
  const std::optional<XmlTag> tag = finder_.At(text, at);
  if (tag && tag->is_open) return More();
  if (tag && IsOuterBegin(tag->mark)) {
    at_ = tag->end;
    return std::nullopt;
  }
  if (!tag || tag->mark != tags_.function_begin) return NoCall();
  at_ = at + tags_.function_begin.size();
  step_ = Step::kName;
  return std::nullopt;
}

std::optional<CallHead> FunctionForm::ReadName(std::string_view text) {
  const std::size_t size = text.substr(at_).find_first_of(">\n<");
  if (size == std::string_view::npos) return text.size() - at_ < kMaxNameTagBytes ? More() : NoCall();
  std::string_view inside = text.substr(at_, size);
  if (inside.starts_with('"')) inside.remove_prefix(1);
  name_ = Trimmed(inside.substr(0, inside.find('"')));
  if (text[at_ + size] != '>' || !IsFunctionName(name_)) return NoCall();
  at_ += size + 1;
  step_ = Step::kParameters;
  return std::nullopt;
}

std::optional<CallHead> FunctionForm::ReadParameters(std::string_view text) {
  const std::size_t at = SpaceEnd(text, at_);
  const std::optional<XmlTag> tag = finder_.At(text, at);
  if (!tag) return NoCall();
  if (tag->is_open) return More();
  if (tag->mark == tags_.parameter_begin && !tag->name.empty()) {
    attributes_ = tag->attributes;
    BeginValue(tag->name, tag->end);
    step_ = Step::kValue;
  } else if (tag->mark == tags_.parameter_end && !arguments_.empty()) {
    at_ = tag->end;
  } else if (tag->mark == tags_.function_end) {
    at_ = tag->end;
    step_ = Step::kBehind;
    is_unclosed_ = is_unclosed_ || arguments_.empty();
  } else {
    const bool is_next = tag->mark == tags_.function_begin && tools_.Find(tag->name) != nullptr;
    const bool may_end = IsOuterEnd(tag->mark) || (is_next && !arguments_.empty());
    const FormVerdict end = is_next ? FormVerdict::kFound : EndsAt(text, tag->end);
    if (may_end && end == FormVerdict::kMore) return More();
    return may_end && end == FormVerdict::kFound ? Call(at) : NoCall();
  }
  return std::nullopt;
}

std::optional<CallHead> FunctionForm::ReadValue(std::string_view text) {
  const XmlTag tag = ValueTag(text);
  if (tag.is_open) return More();
  const bool is_closed = tag.mark == tags_.parameter_end;
  const std::string_view written = text.substr(at_, tag.position - at_);
  const bool may_end = (tag.mark == tags_.parameter_begin && !tag.name.empty()) || tag.mark == tags_.function_end;
  if (!is_closed && (!may_end || Trimmed(written).empty() || finder_.IsIn(written))) {
    // An opening tag that stands twice.
    if (tag.mark != tags_.parameter_begin || tag.name != key_) return NoCall();
    BeginValue(tag.name, tag.end);
    return std::nullopt;
  }
  const std::string value = ValueJson(is_closed ? written : Trimmed(written));
  at_ = is_closed ? tag.end : tag.position;
  is_unclosed_ = !is_closed;
  step_ = Step::kParameters;
  if (!arguments_.Add(key_, value)) return NoCall();
  return std::nullopt;
}

CallHead FunctionForm::ReadBehind(std::string_view text) {
  return ReadBehindEnd(text, {tags_.outer_begin, tags_.outer_end, tags_.function_begin, tags_.function_end,
                              tags_.other_begin, tags_.other_end});
}

CallHead FunctionForm::ReadLastHead(std::string_view text) {
  std::size_t end = SpaceEnd(text, at_);
  const std::optional<XmlTag> tag = finder_.At(text, end);
  if (step_ == Step::kParameters && tag && IsOuterEnd(tag->mark)) end = tag->end;
  return end == text.size() && (step_ == Step::kParameters || step_ == Step::kBehind) ? Call(end) : NoCall();
}

CallTail FunctionForm::ReadTail(std::string_view bytes) {
  PartialText text(bytes);
  text.SkipSpace();
  const bool is_other = !tags_.other_end.empty() && text.Take(tags_.other_end);
  if (is_other || text.Take(tags_.outer_end)) return {.verdict = FormVerdict::kFound, .size = text.position()};
  return {.verdict = text.cut() ? FormVerdict::kMore : FormVerdict::kFound};
}

std::string FunctionForm::ValueJson(std::string_view value) const {
  if (tags_.values == XmlTags::Values::kOnLines) value = WithoutLineBreaks(value);
  if (attributes_.find(R"(string="true")") != std::string::npos) {  // DeepSeek says it
    std::string string;
    AppendJsonString(value, string);
    return string;
  }
  return ArgumentJson(Schema(), key_, value);
}

// ---- keys and values ----

BareCall GlmForm::ReadBare(std::string_view text, BarePlace, const ToolSet& tools) const {
  return {.verdict = ReadCallBegin(text, {kKeyBegin}, tools)};
}

// A function's name with one of `ends` behind it.
FormVerdict GlmForm::ReadCallBegin(std::string_view bytes, const std::vector<std::string_view>& ends,
                                   const ToolSet& tools) {
  FormVerdict verdict = FormVerdict::kNone;
  for (const ToolFunction& function : tools.functions) {
    PartialText text(bytes);
    if (text.Take(function.name)) {
      text.SkipSpace();
      for (const std::string_view end : ends) {
        if (text.Take(end)) return FormVerdict::kFound;
      }
    }
    if (text.cut()) verdict = FormVerdict::kMore;
  }
  return verdict;
}

// Another call in the same pair of tags.
FormVerdict GlmForm::ReadNext(std::string_view text) const {
  return ReadCallBegin(text.substr(0, kMaxNameTagBytes), {kKeyBegin, kGlmEnd}, tools_);
}

void GlmForm::Reset(std::string_view begin) {
  XmlForm::Reset(begin);
  step_ = Step::kName;
}

CallHead GlmForm::ReadHead(std::string_view text) {
  while (true) {
    std::optional<CallHead> head;
    switch (step_) {
      case Step::kName: head = ReadName(text); break;
      case Step::kKeys: head = ReadKeys(text); break;
      case Step::kKey: head = ReadKey(text); break;
      case Step::kBeforeValue: {
        const std::size_t at = SpaceEnd(text, at_);
        const std::optional<XmlTag> tag = finder_.At(text, at);
        if (tag && tag->is_open) return More();
        if (!tag || tag->mark != kValueBegin) return NoCall();
        BeginValue(std::string(key_), tag->end);
        step_ = Step::kValue;
        break;
      }
      case Step::kValue: head = ReadValue(text); break;
      case Step::kBehind: return ReadBehind(text);
    }
    if (head) return *std::move(head);
  }
}

std::optional<CallHead> GlmForm::ReadName(std::string_view text) {
  const std::optional<XmlTag> tag = finder_.Find(text, std::max(at_, searched_));
  searched_ = tag ? tag->position : text.size();
  if (!tag || tag->is_open) return searched_ - at_ < kMaxNameTagBytes ? More() : NoCall();
  name_ = Trimmed(text.substr(at_, tag->position - at_));
  if (name_.empty() && tag->mark == kGlmBegin) {
    at_ = searched_ = tag->end;
    return std::nullopt;
  }
  if (!IsFunctionName(name_)) return NoCall();
  at_ = tag->position;
  step_ = Step::kKeys;
  return std::nullopt;
}

std::optional<CallHead> GlmForm::ReadKeys(std::string_view text) {
  const std::size_t at = SpaceEnd(text, at_);
  const std::optional<XmlTag> tag = finder_.At(text, at);
  if (!tag) {
    const FormVerdict next = ReadNext(text.substr(at));
    if (next == FormVerdict::kMore) return More();
    return next == FormVerdict::kFound ? Call(at) : NoCall();
  }
  if (tag->is_open) return More();
  if (tag->mark == kKeyBegin) {
    at_ = searched_ = tag->end;
    step_ = Step::kKey;
  } else if (tag->mark == kValueEnd && !arguments_.empty()) {
    at_ = tag->end;
  } else if (tag->mark == kGlmEnd) {
    at_ = tag->end;
    step_ = Step::kBehind;
    is_unclosed_ = is_unclosed_ || arguments_.empty();
  } else if (tag->mark == kGlmBegin && !arguments_.empty()) {
    const FormVerdict next = ReadNext(text.substr(SpaceEnd(text, tag->end)));
    if (next == FormVerdict::kMore) return More();
    return next == FormVerdict::kFound ? Call(at) : NoCall();
  } else {
    return NoCall();
  }
  return std::nullopt;
}

std::optional<CallHead> GlmForm::ReadKey(std::string_view text) {
  const std::optional<XmlTag> tag = finder_.Find(text, searched_);
  searched_ = tag ? tag->position : text.size();
  if (!tag || tag->is_open) return searched_ - at_ < kMaxNameTagBytes ? More() : NoCall();
  key_ = Trimmed(text.substr(at_, tag->position - at_));
  if (key_.empty() && tag->mark == kKeyBegin) {
    at_ = searched_ = tag->end;
    return std::nullopt;
  }
  const bool is_closed = tag->mark == kKeyEnd;
  if (key_.empty() || (!is_closed && tag->mark != kValueBegin)) return NoCall();
  at_ = is_closed ? tag->end : tag->position;
  step_ = Step::kBeforeValue;
  return std::nullopt;
}

std::optional<CallHead> GlmForm::ReadValue(std::string_view text) {
  const XmlTag tag = ValueTag(text);
  if (tag.is_open) return More();
  const std::string_view value = text.substr(at_, tag.position - at_);
  if (tag.mark == kValueBegin && value.empty()) {
    BeginValue(std::string(key_), tag.end);
    return std::nullopt;
  }
  const bool is_closed = tag.mark == kValueEnd;
  const bool may_end = tag.mark == kKeyBegin || tag.mark == kGlmEnd;
  if (!is_closed && (!may_end || Trimmed(value).empty() || finder_.IsIn(value))) return NoCall();
  const bool is_added = arguments_.Add(key_, ArgumentJson(Schema(), key_, is_closed ? value : Trimmed(value)));
  at_ = is_closed ? tag.end : tag.position;
  is_unclosed_ = !is_closed;
  step_ = Step::kKeys;
  if (!is_added) return NoCall();
  return std::nullopt;
}

CallHead GlmForm::ReadBehind(std::string_view text) { return ReadBehindEnd(text, {kGlmBegin, kGlmEnd}); }

CallHead GlmForm::ReadLastHead(std::string_view text) {
  const bool is_all = SpaceEnd(text, at_) == text.size();
  return is_all && (step_ == Step::kKeys || step_ == Step::kBehind) ? Call(text.size()) : NoCall();
}

CallTail GlmForm::ReadTail(std::string_view bytes) {
  const std::size_t at = SpaceEnd(bytes, 0);
  if (step_ == Step::kBehind) return {.verdict = FormVerdict::kFound};
  const FormVerdict next = ReadNext(bytes.substr(at));
  if (next != FormVerdict::kFound) return {.verdict = next == FormVerdict::kMore ? next : FormVerdict::kFound};
  Reset({});
  return {.verdict = FormVerdict::kFound, .size = at, .next = CallTail::Next::kCall};
}

std::unique_ptr<CallForm> MakeXmlForm(ToolFamily family, const ToolSet& tools) {
  const XmlTags& tags = family == ToolFamily::kSeed      ? kSeedTags
                        : family == ToolFamily::kMiniMax ? kMiniMaxTags
                        : family == ToolFamily::kDsml    ? kDsmlTags
                                                         : kQwenTags;
  return std::make_unique<FunctionForm>(tags, tools);
}

std::unique_ptr<CallForm> MakeGlmForm(const ToolSet& tools) { return std::make_unique<GlmForm>(tools); }

}  // namespace roost::router
