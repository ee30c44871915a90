// Calls whose arguments are JSON: objects with a name, or a name between markers.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "router/api/tool_parsers/call_form.h"
#include "router/api/tool_parsers/partial_text.h"

namespace roost::router {
namespace {

// {"name": "f", "arguments": {…}}, alone or in a list; "parameters" is accepted for "arguments".
class JsonObjectForm : public CallForm {
 public:
  struct Markers {
    std::string_view begin = {};
    std::string_view end = {};
    char bare = '\0';
    std::string_view separator = {};  // between calls outside a list
  };
  explicit JsonObjectForm(Markers markers) : markers_(markers) {}

  [[nodiscard]] std::vector<std::string_view> Begins() const override;
  [[nodiscard]] std::vector<std::string_view> Strays() const override;
  [[nodiscard]] char bare_begin() const override { return markers_.bare; }
  void Reset() override { in_list_ = false; }
  [[nodiscard]] CallHead ReadHead(std::string_view text) override;
  [[nodiscard]] CallTail ReadTail(std::string_view text) override;

 private:
  [[nodiscard]] CallHead ReadMembers(PartialText& text, bool in_list);
  [[nodiscard]] CallTail ReadSeparator(PartialText& text);

  const Markers markers_;
  bool in_list_ = false;
  bool closed_ = false;  // the last call's object is closed
};

// Mistral: [TOOL_CALLS] and a list, or [TOOL_CALLS]f[ARGS]{…}.
class MistralForm final : public JsonObjectForm {
 public:
  MistralForm() : JsonObjectForm({.begin = "[TOOL_CALLS]"}) {}

  [[nodiscard]] CallHead ReadHead(std::string_view text) override;
  [[nodiscard]] CallTail ReadTail(std::string_view text) override;

 private:
  bool named_ = false;
};

// section begin │ call begin │ f │ argument begin │ {…} │ call end │ … │ section end
class TaggedForm final : public CallForm {
 public:
  enum class Naming : std::uint8_t {
    kKimi,      // functions.f:0
    kDeepSeek,  // f, or as V3 and R1 write it: function, argument begin, f, and the arguments in a code fence
  };
  struct Markers {
    std::string_view section_begin;
    std::string_view call_begin;
    std::string_view argument_begin;
    std::string_view call_end;
    std::string_view section_end;
  };
  TaggedForm(Markers markers, Naming naming) : markers_(markers), naming_(naming) {}

  [[nodiscard]] std::vector<std::string_view> Begins() const override;
  [[nodiscard]] std::vector<std::string_view> Strays() const override;
  [[nodiscard]] CallHead ReadHead(std::string_view text) override;
  [[nodiscard]] CallTail ReadTail(std::string_view text) override;

 private:
  const Markers markers_;
  const Naming naming_;
};

constexpr TaggedForm::Markers kKimiMarkers{"<|tool_calls_section_begin|>", "<|tool_call_begin|>",
                                           "<|tool_call_argument_begin|>", "<|tool_call_end|>",
                                           "<|tool_calls_section_end|>"};
constexpr TaggedForm::Markers kDeepSeekMarkers{"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>",
                                               "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"};

constexpr std::string_view kFence = "```";

FormVerdict FailureOf(const PartialText& text) { return text.cut() ? FormVerdict::kMore : FormVerdict::kNone; }
CallHead FailedHead(const PartialText& text) { return {.verdict = FailureOf(text)}; }
CallTail FailedTail(const PartialText& text) { return {.verdict = FailureOf(text)}; }

CallHead HeadOf(const PartialText& text, std::string name) {
  if (!IsFunctionName(name)) return {};
  return {.verdict = FormVerdict::kFound, .size = text.position(), .name = std::move(name)};
}

CallTail TailOf(const PartialText& text, CallTail::Next next) {
  return {.verdict = FormVerdict::kFound, .size = text.position(), .next = next};
}

// The tail up to its last part that was read; if the text is cut, another part may come.
CallTail EndedTail(const PartialText& text, const CallTail& ended) {
  if (text.cut()) return {.verdict = FormVerdict::kMore, .size = ended.size};
  return ended;
}

// functions.f:0
std::string KimiName(std::string_view id) {
  constexpr std::string_view kPrefix = "functions.";
  if (id.substr(0, kPrefix.size()) == kPrefix) id.remove_prefix(kPrefix.size());
  return std::string(id.substr(0, id.rfind(':')));
}

}  // namespace

// ---- objects ----

std::vector<std::string_view> JsonObjectForm::Begins() const {
  return markers_.begin.empty() ? std::vector<std::string_view>() : std::vector{markers_.begin};
}

std::vector<std::string_view> JsonObjectForm::Strays() const {
  return markers_.end.empty() ? std::vector<std::string_view>() : std::vector{markers_.end};
}

CallHead JsonObjectForm::ReadHead(std::string_view bytes) {
  PartialText text(bytes);
  text.SkipSpace();
  const bool begins_list = !in_list_ && text.Take("[");
  text.SkipSpace();
  if (!text.Take("{")) return FailedHead(text);
  return ReadMembers(text, in_list_ || begins_list);
}

CallHead JsonObjectForm::ReadMembers(PartialText& text, bool in_list) {
  std::string name;
  while (true) {
    text.SkipSpace();
    const std::optional<std::string> key = text.JsonText();
    if (!key) return FailedHead(text);
    text.SkipSpace();
    if (!text.Take(":")) return FailedHead(text);
    text.SkipSpace();
    const bool is_arguments = *key == "arguments" || *key == "parameters";
    if (is_arguments) {
      if (!text.IsAt('{')) return FailedHead(text);
      CallHead head = HeadOf(text, std::move(name));
      if (head.verdict == FormVerdict::kFound) in_list_ = in_list, closed_ = false;
      return head;
    }
    std::optional<std::string> value = text.JsonText();
    if (!value) return FailedHead(text);
    if (*key == "name") name = std::move(*value);
    text.SkipSpace();
    if (text.Take(",")) continue;
    if (!text.Take("}")) return FailedHead(text);
    if (!IsFunctionName(name)) return {};
    in_list_ = in_list;
    closed_ = true;
    return {.verdict = FormVerdict::kFound, .size = text.position(), .whole = {{{}, std::move(name), "{}"}}};
  }
}

CallTail JsonObjectForm::ReadTail(std::string_view bytes) {
  PartialText text(bytes);
  while (!closed_) {
    text.SkipSpace();
    if (text.Take("}")) break;
    if (!text.Take(",")) return FailedTail(text);
    text.SkipSpace();
    if (!text.JsonText()) return FailedTail(text);
    text.SkipSpace();
    if (!text.Take(":")) return FailedTail(text);
    text.SkipSpace();
    if (!text.JsonText()) return FailedTail(text);
  }
  return ReadSeparator(text);
}

CallTail JsonObjectForm::ReadSeparator(PartialText& text) {
  CallTail ended = TailOf(text, CallTail::Next::kContent);
  text.SkipSpace();
  if (in_list_) {
    if (text.Take(",")) return TailOf(text, CallTail::Next::kCall);
    if (!text.Take("]")) return EndedTail(text, ended);
    ended = TailOf(text, CallTail::Next::kContent);
  }
  text.SkipSpace();
  if (!markers_.separator.empty() && text.Take(markers_.separator)) {
    in_list_ = false;
    return TailOf(text, CallTail::Next::kCall);
  }
  if (!markers_.end.empty() && text.Take(markers_.end)) return TailOf(text, CallTail::Next::kContent);
  const bool may_follow = !markers_.separator.empty() || !markers_.end.empty();
  return may_follow ? EndedTail(text, ended) : ended;
}

// ---- Mistral ----

CallHead MistralForm::ReadHead(std::string_view bytes) {
  CallHead head = JsonObjectForm::ReadHead(bytes);
  named_ = false;
  if (head.verdict != FormVerdict::kNone) return head;
  PartialText text(bytes);
  text.SkipSpace();
  std::optional<std::string_view> name = text.Until("[ARGS]");
  if (!name) return FailedHead(text);
  text.SkipSpace();
  if (!text.IsAt('{')) return FailedHead(text);
  named_ = true;
  return HeadOf(text, std::string(name->substr(0, name->find("[CALL_ID]"))));
}

CallTail MistralForm::ReadTail(std::string_view bytes) {
  if (!named_) return JsonObjectForm::ReadTail(bytes);
  return {.verdict = FormVerdict::kFound, .size = 0, .next = CallTail::Next::kContent};
}

// ---- markers around names ----

std::vector<std::string_view> TaggedForm::Begins() const { return {markers_.section_begin, markers_.call_begin}; }

std::vector<std::string_view> TaggedForm::Strays() const {
  return {markers_.argument_begin, markers_.call_end, markers_.section_end};
}

CallHead TaggedForm::ReadHead(std::string_view bytes) {
  PartialText text(bytes);
  text.SkipSpace();
  if (text.Take(markers_.call_begin)) text.SkipSpace();
  std::optional<std::string_view> name = text.Until(markers_.argument_begin);
  if (!name) return FailedHead(text);
  text.SkipSpace();
  if (text.IsAt('{')) return HeadOf(text, naming_ == Naming::kKimi ? KimiName(*name) : std::string(*name));
  if (naming_ == Naming::kKimi) return FailedHead(text);
  name = text.Until("\n");
  if (!name) return FailedHead(text);
  if (!text.Take("```json")) return FailedHead(text);
  text.SkipSpace();
  if (!text.IsAt('{')) return FailedHead(text);
  return HeadOf(text, std::string(*name));
}

CallTail TaggedForm::ReadTail(std::string_view bytes) {
  PartialText text(bytes);
  text.SkipSpace();
  if (naming_ == Naming::kDeepSeek && text.Take(kFence)) text.SkipSpace();
  if (!text.Take(markers_.call_end)) return FailedTail(text);
  const CallTail call = TailOf(text, CallTail::Next::kContent);
  text.SkipSpace();
  if (text.Take(markers_.section_end)) return TailOf(text, CallTail::Next::kContent);
  if (text.Take(markers_.call_begin)) return TailOf(text, CallTail::Next::kCall);
  return EndedTail(text, call);
}

std::unique_ptr<CallForm> MakeJsonForm(ToolFamily family) {
  using Markers = JsonObjectForm::Markers;
  switch (family) {
    case ToolFamily::kHermes:
      return std::make_unique<JsonObjectForm>(Markers{.begin = "<tool_call>", .end = "</tool_call>"});
    case ToolFamily::kLlama:
      return std::make_unique<JsonObjectForm>(Markers{.begin = "<|python_tag|>", .bare = '{', .separator = ";"});
    case ToolFamily::kGranite: return std::make_unique<JsonObjectForm>(Markers{.begin = "<|tool_call|>"});
    case ToolFamily::kMistral: return std::make_unique<MistralForm>();
    case ToolFamily::kKimi: return std::make_unique<TaggedForm>(kKimiMarkers, TaggedForm::Naming::kKimi);
    case ToolFamily::kDeepSeek: return std::make_unique<TaggedForm>(kDeepSeekMarkers, TaggedForm::Naming::kDeepSeek);
    default: return nullptr;
  }
}

std::unique_ptr<CallForm> MakeForcedCallForm() {
  return std::make_unique<JsonObjectForm>(JsonObjectForm::Markers{.bare = '['});
}

}  // namespace roost::router
