#include "router/api/tool_parsers/output_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/rng.h"
#include "router/api/tool_parsers/call_form.h"
#include "router/api/tool_parsers/partial_text.h"

namespace roost::router {
namespace {

constexpr std::size_t kMaxNameBytes = 256;

// FNV-1a. Ids only need to be spread well.
std::uint64_t SpreadHash(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

bool IsNameByte(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte > ' ' && byte != 0x7f && std::string_view("<>\"'`{}()|").find(c) == std::string_view::npos;
}

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

}  // namespace

std::string CallWriter::IdOf(std::uint32_t index, std::string_view name) const {
  if (ids_.form == CallIds::Form::kNumbered) return fmt::format("functions.{}:{}", name, ids_.earlier_calls + index);
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  constexpr int kUsualSize = 24;
  constexpr int kNineSize = 9;
  Rng random(SpreadHash(fmt::format("{}/{}/{}", ids_.answer_id, ids_.choice, index)));
  const bool is_usual = ids_.form == CallIds::Form::kUsual;
  std::string id = is_usual ? "call_" : "";
  for (int i = 0; i < (is_usual ? kUsualSize : kNineSize); ++i) id += kLetters[random.Below(kLetters.size())];
  return id;
}

void CallWriter::Begin(std::string name, AnswerDelta& delta) {
  std::string id = IdOf(count_, name);
  delta.tool_calls.push_back({.index = count_, .id = std::move(id), .name = std::move(name), .arguments = {}});
  ++count_;
}

void CallWriter::Arguments(std::string_view text, AnswerDelta& delta) {
  if (text.empty() || count_ == 0) return;
  const std::uint32_t index = count_ - 1;
  if (delta.tool_calls.empty() || delta.tool_calls.back().index != index) {
    delta.tool_calls.push_back({.index = index, .id = {}, .name = {}, .arguments = {}});
  }
  delta.tool_calls.back().arguments += text;
}

bool IsFunctionName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes && std::all_of(name.begin(), name.end(), &IsNameByte);
}

std::unique_ptr<CallForm> MakeCallForm(ToolFamily family, const ToolSet& tools) {
  switch (family) {
    case ToolFamily::kHermes:
    case ToolFamily::kLlama:
    case ToolFamily::kGranite:
    case ToolFamily::kMistral:
    case ToolFamily::kKimi:
    case ToolFamily::kDeepSeek: return MakeJsonForm(family);
    case ToolFamily::kGlm: return MakeGlmForm(tools);
    case ToolFamily::kQwenXml:
    case ToolFamily::kSeed:
    case ToolFamily::kMiniMax:
    case ToolFamily::kDsml: return MakeXmlForm(family, tools);
    case ToolFamily::kGemma: return MakeGemmaForm();
    case ToolFamily::kPythonic: return MakePythonicForm();
    case ToolFamily::kNone:
    case ToolFamily::kHarmony: break;
  }
  return nullptr;
}

ReasoningStart ReasoningStartOf(OutputFamily family, std::string_view prompt) {
  if (family.reasoning == ReasoningForm::kNone) return ReasoningStart::kNever;
  while (!prompt.empty() && IsSpace(prompt.back())) prompt.remove_suffix(1);
  const ReasoningTags tags = TagsOf(family.reasoning);
  if (EndsWith(prompt, tags.begin)) return ReasoningStart::kInside;
  return EndsWith(prompt, tags.end) ? ReasoningStart::kNever : ReasoningStart::kOutside;
}

std::vector<std::string_view> MarkersOf(OutputFamily family) {
  if (family.tools == ToolFamily::kHarmony) return HarmonyMarkers();
  std::vector<std::string_view> markers;
  if (family.reasoning != ReasoningForm::kNone) {
    markers = {TagsOf(family.reasoning).begin_token, TagsOf(family.reasoning).end};
  }
  const ToolSet none;
  if (const std::unique_ptr<CallForm> form = MakeCallForm(family.tools, none)) {
    for (const std::string_view mark : form->Begins()) markers.push_back(mark);
    for (const std::string_view mark : form->Strays()) markers.push_back(mark);
    if (family.tools == ToolFamily::kMistral) markers.insert(markers.end(), {"[ARGS]", "[CALL_ID]"});
  }
  return markers;
}

std::unique_ptr<OutputParser> MakeFamilyOutput(FamilyOutputOptions options) {
  const ToolFamily family = options.family.tools;
  if (family == ToolFamily::kMistral) options.ids.form = CallIds::Form::kNine;
  if (family == ToolFamily::kKimi) options.ids.form = CallIds::Form::kNumbered;
  const bool is_list = options.tools->is_forced() && options.tools->forced_form == ForcedForm::kList;
  if (!is_list && family == ToolFamily::kHarmony) {
    return MakeHarmonyParser(std::move(options));
  }
  // Reasoning that stays in the content has no beginning to look for.
  if (options.family.reasoning == ReasoningForm::kNone) options.reasoning_start = ReasoningStart::kNever;
  std::unique_ptr<CallForm> form;
  if (is_list) {
    form = MakeForcedCallForm();
    options.reasoning_start = ReasoningStart::kNever;
  } else if (options.tools->is_used()) {
    form = MakeCallForm(family, *options.tools);
  }
  if (form == nullptr && options.family.reasoning == ReasoningForm::kNone) return std::make_unique<PlainOutput>();
  return MakeTaggedOutputParser(std::move(options), std::move(form));
}

}  // namespace roost::router
