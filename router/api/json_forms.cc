#include "router/api/json_forms.h"

#include <algorithm>
#include <utility>

namespace roost::router {
namespace {

constexpr std::size_t kMaxNameBytes = 256;
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

bool IsNameByte(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte > ' ' && byte != 0x7f && std::string_view("<>\"'`{}()|").find(c) == std::string_view::npos;
}

}  // namespace

bool IsFunctionName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes && std::all_of(name.begin(), name.end(), &IsNameByte);
}

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

}  // namespace roost::router
