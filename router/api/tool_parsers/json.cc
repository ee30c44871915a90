// Calls whose arguments are JSON: objects with a name, or a name between markers.

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "router/api/tool_parsers/call_form.h"
#include "router/api/tool_parsers/partial_text.h"

namespace roost::router {
namespace {

enum class Stop : std::uint8_t { kOpen, kStopped };  // kStopped: the model stopped at the end of the text

// {"name": "f", "arguments": {…}}, alone or in a list; "parameters" is accepted for "arguments", and the members may
// come in any order. As the API writes calls they may stand in an object: {"type": "function", "function": {"name":
// …}}. Several objects within a pair of markers are several calls.
class JsonObjectForm : public CallForm {
 public:
  struct Markers {
    std::string_view begin = {};
    std::string_view end = {};
    std::string_view bare = {};       // the first characters of a call without a begin marker
    std::string_view separator = {};  // between calls outside a list
  };
  explicit JsonObjectForm(Markers markers) : markers_(markers) {}

  [[nodiscard]] std::vector<std::string_view> Begins() const override;
  [[nodiscard]] std::vector<std::string_view> Strays() const override;
  [[nodiscard]] bool MayBeginBare(char c) const override { return markers_.bare.find(c) != std::string_view::npos; }
  [[nodiscard]] BareCall ReadBare(std::string_view text, BarePlace place, const ToolSet& tools) const override;
  void Reset(std::string_view begin) override;
  [[nodiscard]] CallHead ReadHead(std::string_view text) override;
  [[nodiscard]] CallHead ReadLateName(std::string_view text) override;
  [[nodiscard]] CallTail ReadTail(std::string_view text) override;

 protected:
  [[nodiscard]] bool in_list() const { return in_list_; }

 private:
  [[nodiscard]] CallHead ReadMembers(PartialText& text, bool in_list);
  [[nodiscard]] CallTail ReadSeparator(PartialText& text, CallTail ended);

  const Markers markers_;
  bool in_list_ = false;
  bool is_marked_ = false;  // a begin marker stands in front
  bool nested_ = false;     // the last call's object stands in another one
  bool closed_ = false;     // it is closed
};

// Llama: an object, or <function=f>{…}</function>.
class LlamaForm final : public JsonObjectForm {
 public:
  LlamaForm() : JsonObjectForm({.begin = "<|python_tag|>", .bare = "{", .separator = ";"}) {}

  [[nodiscard]] std::vector<std::string_view> Begins() const override { return {"<|python_tag|>", kFunctionBegin}; }
  [[nodiscard]] std::vector<std::string_view> Strays() const override { return {kFunctionEnd}; }
  [[nodiscard]] bool NeedsKnownName(std::string_view begin) const override { return begin != "<|python_tag|>"; }
  void Reset(std::string_view begin) override {
    JsonObjectForm::Reset(begin);
    begins_tagged_ = begin == kFunctionBegin;
  }
  [[nodiscard]] CallHead ReadHead(std::string_view text) override;
  [[nodiscard]] CallTail ReadTail(std::string_view text) override;

 private:
  static constexpr std::string_view kFunctionBegin = "<function=";
  static constexpr std::string_view kFunctionEnd = "</function>";
  bool begins_tagged_ = false;  // <function= has been read
  bool tagged_ = false;         // so is the call
};

// Mistral: [TOOL_CALLS] and a list, or [TOOL_CALLS]f[ARGS]{…}.
class MistralForm final : public JsonObjectForm {
 public:
  MistralForm() : JsonObjectForm({.begin = "[TOOL_CALLS]", .bare = "[{"}) {}

  [[nodiscard]] bool MayBeginBare(char) const override { return true; }
  [[nodiscard]] BareCall ReadBare(std::string_view text, BarePlace place, const ToolSet& tools) const override;
  [[nodiscard]] CallHead ReadHead(std::string_view text) override;
  [[nodiscard]] CallHead ReadLastHead(std::string_view text) override { return ReadNamed(text, Stop::kStopped); }
  [[nodiscard]] CallTail ReadTail(std::string_view text) override;

 private:
  [[nodiscard]] CallHead ReadNamed(std::string_view text, Stop stop);

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
  [[nodiscard]] bool MayBeginBare(char) const override { return true; }
  [[nodiscard]] BareCall ReadBare(std::string_view text, BarePlace place, const ToolSet& tools) const override;
  [[nodiscard]] CallHead ReadHead(std::string_view text) override;
  [[nodiscard]] CallHead ReadLastHead(std::string_view text) override;
  [[nodiscard]] CallTail ReadTail(std::string_view text) override;

 private:
  [[nodiscard]] CallHead Read(std::string_view text, Stop stop) const;

  const Markers markers_;
  const Naming naming_;
};

constexpr TaggedForm::Markers kKimiMarkers{"<|tool_calls_section_begin|>", "<|tool_call_begin|>",
                                           "<|tool_call_argument_begin|>", "<|tool_call_end|>",
                                           "<|tool_calls_section_end|>"};
constexpr TaggedForm::Markers kDeepSeekMarkers{"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>",
                                               "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"};

constexpr std::string_view kFence = "```";
constexpr std::string_view kNamedArguments = "[ARGS]";

FormVerdict FailureOf(const PartialText& text) { return text.cut() ? FormVerdict::kMore : FormVerdict::kNone; }
CallHead FailedHead(const PartialText& text) { return {.verdict = FailureOf(text)}; }
CallTail FailedTail(const PartialText& text) { return {.verdict = FailureOf(text)}; }

CallHead HeadOf(const PartialText& text, std::string name) {
  if (!IsFunctionName(name)) return {};
  return {.verdict = FormVerdict::kFound, .size = text.position(), .name = std::move(name)};
}

CallHead WithoutArguments(const PartialText& text, std::string name) {
  if (!IsFunctionName(name)) return {};
  return {.verdict = FormVerdict::kFound, .size = text.position(), .whole = {{{}, std::move(name), "{}"}}};
}

CallTail TailOf(const PartialText& text, CallTail::Next next, CallTail::End end = CallTail::End::kOpen) {
  return {.verdict = FormVerdict::kFound, .size = text.position(), .next = next, .end = end};
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

// True if the arguments may begin here: an object, a string that holds one, or null.
bool IsAtArguments(PartialText& text) {
  return text.IsAt('{') || text.IsAt('"') || text.IsAt('\'') || text.IsAt('n') || text.IsAt('N');
}

// A call without its marker: one of the functions, between `front` and `behind`.
BareCall ReadBareName(std::string_view bytes, std::string_view front, std::string_view behind, const ToolSet& tools) {
  BareCall bare;
  for (const ToolFunction& function : tools.functions) {
    PartialText text(bytes);
    if (text.Take(front) && text.Take(function.name) && text.Take(behind)) return {.verdict = FormVerdict::kFound};
    if (text.cut()) bare.verdict = FormVerdict::kMore;
  }
  return bare;
}

}  // namespace

// ---- objects ----

std::vector<std::string_view> JsonObjectForm::Begins() const {
  return markers_.begin.empty() ? std::vector<std::string_view>() : std::vector{markers_.begin};
}

std::vector<std::string_view> JsonObjectForm::Strays() const {
  return markers_.end.empty() ? std::vector<std::string_view>() : std::vector{markers_.end};
}

void JsonObjectForm::Reset(std::string_view begin) {
  in_list_ = false;
  is_marked_ = !begin.empty();
}

// Behind other text, JSON with a function's name may be an example: then the end marker decides.
BareCall JsonObjectForm::ReadBare(std::string_view bytes, BarePlace place, const ToolSet& tools) const {
  const bool needs_end = !markers_.end.empty();
  if (place == BarePlace::kLine && !needs_end) return {};
  PartialText begin(bytes);
  if (begin.Take("[")) begin.SkipSpace();
  if (!begin.Take("{")) return {.verdict = FailureOf(begin)};
  begin.SkipSpace();
  const std::optional<std::string> first = begin.JsonText();
  constexpr std::array<std::string_view, 6> kKeys{"name", "arguments", "parameters", "type", "id", "function"};
  if (first && std::find(kKeys.begin(), kKeys.end(), *first) == kKeys.end()) return {};
  JsonObjectForm form(markers_);
  const CallHead head = form.ReadHead(bytes);
  BareCall bare{.verdict = head.verdict, .needs = needs_end ? BareCall::Needs::kEndMarker : BareCall::Needs::kNothing};
  const std::string& name = head.whole.empty() ? head.name : head.whole.front().name;
  const bool is_known = head.name_place == CallHead::Name::kLate || tools.Find(name) != nullptr;
  if (head.verdict == FormVerdict::kFound && !is_known) bare.verdict = FormVerdict::kNone;
  return bare;
}

CallHead JsonObjectForm::ReadHead(std::string_view bytes) {
  PartialText text(bytes);
  markers_.begin.empty() ? text.SkipSpace() : text.SkipAll(markers_.begin);
  const bool begins_list = !in_list_ && text.Take("[");
  text.SkipSpace();
  if (!text.Take("{")) return FailedHead(text);
  return ReadMembers(text, in_list_ || begins_list);
}

CallHead JsonObjectForm::ReadMembers(PartialText& text, bool in_list) {
  std::string name;
  bool nested = false;
  const auto found = [&](CallHead head, bool closed) {
    if (head.verdict == FormVerdict::kFound) in_list_ = in_list, closed_ = closed, nested_ = nested;
    return head;
  };
  while (true) {
    text.SkipSpace();
    const std::optional<std::string> key = text.JsonText();
    if (!key) return FailedHead(text);
    text.SkipSpace();
    if (!text.Take(":")) return FailedHead(text);
    text.SkipSpace();
    if (*key == "arguments" || *key == "parameters") {
      if (!IsAtArguments(text)) return FailedHead(text);
      if (!name.empty()) return found(HeadOf(text, std::move(name)), false);
      return found({.verdict = FormVerdict::kFound, .size = text.position(), .name_place = CallHead::Name::kLate},
                   false);
    }
    if (*key == "function" && !nested && text.Take("{")) {
      nested = true;
      continue;
    }
    if (*key == "name" || (*key == "function" && !nested)) {
      std::optional<std::string> value = text.JsonText();
      if (!value) return FailedHead(text);
      name = std::move(*value);
    } else if (!text.SkipJson()) {
      return FailedHead(text);
    }
    text.SkipSpace();
    if (text.Take(",")) continue;
    if (!text.Take("}")) return FailedHead(text);
    return found(WithoutArguments(text, std::move(name)), true);
  }
}

CallHead JsonObjectForm::ReadLateName(std::string_view bytes) {
  PartialText text(bytes);
  text.SkipSpace();
  while (text.Take(",")) {
    text.SkipSpace();
    const std::optional<std::string> key = text.JsonText();
    if (!key) break;
    text.SkipSpace();
    if (!text.Take(":")) break;
    text.SkipSpace();
    if (*key == "name") {
      std::optional<std::string> name = text.JsonText();
      return name ? HeadOf(text, *std::move(name)) : FailedHead(text);
    }
    if (!text.SkipJson()) break;
    text.SkipSpace();
  }
  return FailedHead(text);
}

CallTail JsonObjectForm::ReadTail(std::string_view bytes) {
  PartialText text(bytes);
  bool closed = closed_;
  for (bool nested = nested_;; nested = false) {
    while (!closed) {
      text.SkipSpace();
      if (!text.Take(",")) break;
      text.SkipSpace();
      if (!text.JsonText()) return FailedTail(text);
      text.SkipSpace();
      if (!text.Take(":")) return FailedTail(text);
      text.SkipSpace();
      if (!text.SkipJson()) return FailedTail(text);
    }
    if (!nested || (!closed && !text.Take("}"))) break;
    closed = false;
  }
  // Models write a brace too few, or too many.
  CallTail ended;
  do {
    ended = TailOf(text, CallTail::Next::kContent);
    text.SkipSpace();
  } while (text.Take("}"));
  return ReadSeparator(text, ended);
}

CallTail JsonObjectForm::ReadSeparator(PartialText& text, CallTail ended) {
  using Next = CallTail::Next;
  if (in_list_) {
    if (text.Take(",")) return TailOf(text, Next::kCall);
    if (!text.Take("]")) return EndedTail(text, ended);
    ended = TailOf(text, Next::kContent);
  }
  text.SkipSpace();
  if (!markers_.separator.empty() && text.Take(markers_.separator)) {
    in_list_ = false;
    return TailOf(text, Next::kCall);
  }
  if (!markers_.end.empty() && text.Take(markers_.end)) return TailOf(text, Next::kContent, CallTail::End::kMarked);
  const bool may_follow = !markers_.separator.empty() || !markers_.end.empty();
  if (may_follow && !in_list_) {
    if (text.Take(",")) text.SkipSpace();
    if (text.IsAt('{')) return TailOf(text, Next::kCall);
  }
  return EndedTail(text, ended);
}

// ---- Llama ----

CallHead LlamaForm::ReadHead(std::string_view bytes) {
  PartialText text(bytes);
  text.SkipAll("<|python_tag|>");
  tagged_ = begins_tagged_ || text.Take(kFunctionBegin);
  if (!tagged_) return text.cut() ? CallHead{.verdict = FormVerdict::kMore} : JsonObjectForm::ReadHead(bytes);
  std::string name(Trimmed(text.TakeUntil(">\n<{")));
  if (!text.Take(">")) return FailedHead(text);
  text.SkipSpace();
  return IsAtArguments(text) ? HeadOf(text, std::move(name)) : FailedHead(text);
}

CallTail LlamaForm::ReadTail(std::string_view bytes) {
  if (!tagged_) return JsonObjectForm::ReadTail(bytes);
  PartialText text(bytes);
  const CallTail ended = TailOf(text, CallTail::Next::kContent);
  text.SkipSpace();
  return text.Take(kFunctionEnd) ? TailOf(text, CallTail::Next::kContent) : EndedTail(text, ended);
}

// ---- Mistral ----

BareCall MistralForm::ReadBare(std::string_view bytes, BarePlace place, const ToolSet& tools) const {
  const BareCall named = ReadBareName(bytes, "", kNamedArguments, tools);
  return named.verdict == FormVerdict::kNone ? JsonObjectForm::ReadBare(bytes, place, tools) : named;
}

CallHead MistralForm::ReadHead(std::string_view bytes) {
  CallHead head = JsonObjectForm::ReadHead(bytes);
  named_ = false;
  return head.verdict == FormVerdict::kNone && !in_list() ? ReadNamed(bytes, Stop::kOpen) : head;
}

// f[CALL_ID]123456789[ARGS]{…}
CallHead MistralForm::ReadNamed(std::string_view bytes, Stop stop) {
  constexpr std::string_view kBegin = "[TOOL_CALLS]";
  constexpr std::string_view kEnds = "[{\"' \n";
  PartialText text(bytes);
  text.SkipAll(kBegin);
  std::string name(text.TakeUntil(kEnds));
  if (!IsFunctionName(name)) return FailedHead(text);
  text.SkipSpace();
  if (text.Take("[CALL_ID]")) (void)text.TakeUntil(kEnds);
  const bool has_mark = text.Take(kNamedArguments);
  text.SkipSpace();
  named_ = true;
  if (IsAtArguments(text)) return HeadOf(text, std::move(name));
  const bool is_last = stop == Stop::kStopped && text.rest().empty();
  const bool is_empty = is_last || text.rest().starts_with(kBegin);
  if (is_empty) return has_mark ? WithoutArguments(text, std::move(name)) : CallHead();
  return text.cut() || kBegin.starts_with(text.rest()) ? CallHead{.verdict = FormVerdict::kMore} : CallHead();
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

BareCall TaggedForm::ReadBare(std::string_view bytes, BarePlace, const ToolSet& tools) const {
  if (naming_ == Naming::kDeepSeek) {
    PartialText text(bytes);
    if (text.Take("function") && text.Take(markers_.argument_begin)) return {.verdict = FormVerdict::kFound};
    if (text.cut()) return {.verdict = FormVerdict::kMore};
    return ReadBareName(bytes, "", markers_.argument_begin, tools);
  }
  return ReadBareName(bytes, "functions.", ":", tools);
}

CallHead TaggedForm::ReadHead(std::string_view bytes) { return Read(bytes, Stop::kOpen); }
CallHead TaggedForm::ReadLastHead(std::string_view bytes) { return Read(bytes, Stop::kStopped); }

CallHead TaggedForm::Read(std::string_view bytes, Stop stop) const {
  constexpr std::string_view kEnds = "{<\n`\"";
  PartialText text(bytes);
  text.SkipAll(markers_.section_begin);
  text.SkipAll(markers_.call_begin);
  std::string name(Trimmed(text.TakeUntil(kEnds)));
  if (name.empty() || text.rest().empty()) return FailedHead(text);
  const bool has_mark = text.Take(markers_.argument_begin);
  if (!has_mark && text.cut()) return FailedHead(text);
  text.SkipSpace();
  bool may_be_empty = has_mark;
  if (naming_ == Naming::kDeepSeek && name == "function" && has_mark && !text.IsAt('{')) {
    name = Trimmed(text.TakeUntil(kEnds));
    if (text.cut()) return FailedHead(text);
    text.SkipSpace();
    may_be_empty = text.Take(kFence);
    if (may_be_empty) (void)text.Take("json");
    text.SkipSpace();
    if (may_be_empty && text.Take(kFence)) text.SkipSpace();
  }
  if (naming_ == Naming::kKimi) name = KimiName(name);
  if (has_mark ? IsAtArguments(text) : text.IsAt('{')) return HeadOf(text, std::move(name));
  const PartialText before = text;
  const bool is_last = stop == Stop::kStopped && text.rest().empty();
  return may_be_empty && (is_last || text.Take(markers_.call_end)) ? WithoutArguments(before, std::move(name))
                                                                   : FailedHead(text);
}

CallTail TaggedForm::ReadTail(std::string_view bytes) {
  PartialText text(bytes);
  text.SkipSpace();
  if (naming_ == Naming::kDeepSeek && text.Take(kFence)) text.SkipSpace();
  CallTail call = TailOf(text, CallTail::Next::kContent);
  if (text.Take(markers_.call_end)) call = TailOf(text, CallTail::Next::kContent);
  text.SkipSpace();
  if (text.Take(markers_.section_end)) return TailOf(text, CallTail::Next::kContent);
  if (text.Take(markers_.call_begin)) return TailOf(text, CallTail::Next::kCall);
  return EndedTail(text, call);
}

std::unique_ptr<CallForm> MakeJsonForm(ToolFamily family) {
  using Markers = JsonObjectForm::Markers;
  switch (family) {
    case ToolFamily::kHermes:
      return std::make_unique<JsonObjectForm>(Markers{.begin = "<tool_call>", .end = "</tool_call>", .bare = "{["});
    case ToolFamily::kLlama: return std::make_unique<LlamaForm>();
    case ToolFamily::kGranite: return std::make_unique<JsonObjectForm>(Markers{.begin = "<|tool_call|>", .bare = "["});
    case ToolFamily::kMistral: return std::make_unique<MistralForm>();
    case ToolFamily::kKimi: return std::make_unique<TaggedForm>(kKimiMarkers, TaggedForm::Naming::kKimi);
    case ToolFamily::kDeepSeek: return std::make_unique<TaggedForm>(kDeepSeekMarkers, TaggedForm::Naming::kDeepSeek);
    default: return nullptr;
  }
}

std::unique_ptr<CallForm> MakeForcedCallForm() {
  return std::make_unique<JsonObjectForm>(JsonObjectForm::Markers{.bare = "["});
}

}  // namespace roost::router
