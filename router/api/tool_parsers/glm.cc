// GLM's calls: names and values in tags of their own.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "router/api/tool_parsers/xml_form.h"

namespace roost::router {
namespace {

constexpr std::string_view kGlmBegin = "<tool_call>";
constexpr std::string_view kGlmEnd = "</tool_call>";
constexpr std::string_view kKeyBegin = "<arg_key>";
constexpr std::string_view kKeyEnd = "</arg_key>";
constexpr std::string_view kValueBegin = "<arg_value>";
constexpr std::string_view kValueEnd = "</arg_value>";

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

std::unique_ptr<CallForm> MakeGlmForm(const ToolSet& tools) { return std::make_unique<GlmForm>(tools); }

}  // namespace roost::router
