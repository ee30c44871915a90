// Calls with a tag for the function and one for each parameter.

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
#include "router/api/tool_parsers/xml_form.h"

namespace roost::router {
namespace {

// outer begin │ function begin f> │ parameter begin k> value parameter end │ … │ function end │ outer end
// In place of the parameters there may be one object of JSON.
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

// Removes one line break at each end, which belongs to the family's syntax; others belong to the value.
std::string_view WithoutLineBreaks(std::string_view text) {
  if (!text.empty() && text.front() == '\n') text.remove_prefix(1);
  if (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> WithoutEmpty(std::vector<std::string_view> marks) {
  std::erase(marks, std::string_view());
  return marks;
}

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
  enum class Step : std::uint8_t { kFunction, kName, kParameters, kObject, kValue, kBehind };
  // Each reads one part; nothing if another follows.
  [[nodiscard]] std::optional<CallHead> ReadFunction(std::string_view text);
  [[nodiscard]] std::optional<CallHead> ReadName(std::string_view text);
  [[nodiscard]] std::optional<CallHead> ReadParameters(std::string_view text);
  [[nodiscard]] std::optional<CallHead> ReadObject(std::string_view text);
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
      case Step::kObject: head = ReadObject(text); break;
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
  if (arguments_.empty() && at < text.size() && text[at] == '{') {
    at_ = at;
    value_ = {};
    step_ = Step::kObject;
    return std::nullopt;
  }
  const std::optional<XmlTag> tag = finder_.At(text, at);
  if (!tag) return NoCall();
  if (tag->is_open) return More();
  if (tag->mark == tags_.parameter_begin && !tag->name.empty()) {
    if (arguments_.is_set()) return NoCall();
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

std::optional<CallHead> FunctionForm::ReadObject(std::string_view text) {
  const std::optional<std::size_t> end = value_.End(text, at_);
  if (!end) return More();
  std::optional<std::string> object = JsonOfLenient(text.substr(at_, *end - at_));
  if (!object) return NoCall();
  arguments_.Set(*std::move(object));
  at_ = *end;
  step_ = Step::kParameters;
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

std::unique_ptr<CallForm> MakeXmlForm(ToolFamily family, const ToolSet& tools) {
  const XmlTags& tags = family == ToolFamily::kSeed      ? kSeedTags
                        : family == ToolFamily::kMiniMax ? kMiniMaxTags
                        : family == ToolFamily::kDsml    ? kDsmlTags
                                                         : kQwenTags;
  return std::make_unique<FunctionForm>(tags, tools);
}

}  // namespace roost::router
