#include "router/api/family_output.h"

#include <utility>

#include "router/api/call_form.h"
#include "router/api/harmony_output.h"
#include "router/api/json_forms.h"
#include "router/api/marked_output.h"
#include "router/api/whole_forms.h"

namespace roost::router {
namespace {

constexpr TaggedForm::Markers kKimiMarkers{"<|tool_calls_section_begin|>", "<|tool_call_begin|>",
                                           "<|tool_call_argument_begin|>", "<|tool_call_end|>",
                                           "<|tool_calls_section_end|>"};
constexpr TaggedForm::Markers kDeepSeekMarkers{"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>",
                                               "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"};

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

}  // namespace

const ToolFunction* ToolSet::Find(std::string_view name) const {
  for (const ToolFunction& function : functions) {
    if (function.name == name) return &function;
  }
  return nullptr;
}

std::unique_ptr<CallForm> MakeCallForm(ToolFamily family, const ToolSet& tools) {
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
    case ToolFamily::kGlm: return std::make_unique<XmlForm>(XmlForm::Dialect::kGlm, tools);
    case ToolFamily::kQwenXml: return std::make_unique<XmlForm>(XmlForm::Dialect::kQwen, tools);
    case ToolFamily::kPythonic: return std::make_unique<PythonicForm>();
    case ToolFamily::kNone:
    case ToolFamily::kHarmony: break;
  }
  return nullptr;
}

std::unique_ptr<CallForm> MakeForcedCallForm() {
  return std::make_unique<JsonObjectForm>(JsonObjectForm::Markers{.bare = '['});
}

ReasoningStart ReasoningStartOf(OutputFamily family, std::string_view prompt) {
  if (family.reasoning == ReasoningForm::kNone) return ReasoningStart::kNever;
  while (!prompt.empty() && IsSpace(prompt.back())) prompt.remove_suffix(1);
  if (EndsWith(prompt, kThinkBegin)) return ReasoningStart::kInside;
  return EndsWith(prompt, kThinkEnd) ? ReasoningStart::kNever : ReasoningStart::kOutside;
}

std::vector<std::string_view> MarkersOf(OutputFamily family) {
  if (family.tools == ToolFamily::kHarmony) return HarmonyMarkers();
  std::vector<std::string_view> markers;
  if (family.reasoning == ReasoningForm::kThink) markers = {kThinkBegin, kThinkEnd};
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
  const bool is_list = options.tools->is_forced() && options.tools->forced_form == ForcedForm::kList;
  if (!is_list && family == ToolFamily::kHarmony) {
    return std::make_unique<HarmonyOutput>(std::move(options));
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
  return std::make_unique<MarkedOutput>(std::move(options), std::move(form));
}

}  // namespace roost::router
