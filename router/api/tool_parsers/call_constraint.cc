#include "router/api/tool_parsers/call_constraint.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/base/json_writer.h"
#include "common/grammar/constraint_rules.h"
#include "common/json/kept_numbers.h"
#include "router/api/tool_parsers/output_parser.h"
#include "router/api/tool_parsers/tool_names.h"

namespace roost::router {
namespace {

// Formats are JSON texts, built from the inside out.
using Format = std::string;
using Formats = std::vector<Format>;

constexpr int kMaxMessages = 16;  // before Harmony's last message
constexpr int kMaxWhitespace = 32;

Format Text(std::string_view text) {
  JsonWriter json;
  json.BeginObject().Key("type").String("const_string").Key("value").String(text).EndObject();
  return json.Take();
}

Format Joined(std::string_view type, const Formats& elements) {
  return fmt::format(R"({{"type":"{}","elements":[{}]}})", type, fmt::join(elements, ","));
}
Format Sequence(const Formats& elements) { return Joined("sequence", elements); }
Format Either(const Formats& elements) { return elements.size() == 1 ? elements[0] : Joined("or", elements); }
Format Optional(const Format& content) { return fmt::format(R"({{"type":"optional","content":{}}})", content); }
Format UpTo(int most, const Format& content) {
  return fmt::format(R"({{"type":"repeat","min":0,"max":{},"content":{}}})", most, content);
}
Format Schema(std::string_view schema) {
  return fmt::format(R"({{"type":"json_schema","max_whitespace_cnt":{},"json_schema":{}}})", kMaxWhitespace, schema);
}
Format Grammar(const TextGrammar& grammar, std::string_view place) {
  JsonWriter json;
  json.BeginObject().Key("type").String("grammar").Key("place").String(place);
  json.Key(grammar.syntax == TextGrammar::Syntax::kLark ? "lark" : "regex").String(grammar.text).EndObject();
  return json.Take();
}
Format Choice(std::string_view choices) {
  const json::Document document(choices);
  Formats all;
  for (const json::Element each : json::ElementsAt(document.root(), "")) {
    if (const auto text = json::TextOf(each)) all.push_back(Text(*text));
  }
  return Either(all);
}
// The form of a whole answer. It was checked when it was read.
Format FormatOf(const wire::Constraint& form) {
  const auto rules = [&form](std::string_view syntax) {
    JsonWriter json;
    json.BeginObject().Key("type").String("grammar").Key("place").String("text").Key(syntax).String(form.text);
    return json.EndObject().Take();
  };
  switch (form.kind) {
    case wire::ConstraintKind::kJson: return Schema(R"({"type":"object"})");
    case wire::ConstraintKind::kJsonSchema: return Schema(form.text);
    case wire::ConstraintKind::kRegex: return rules("regex");
    case wire::ConstraintKind::kChoice: return Choice(form.text);
    case wire::ConstraintKind::kGrammar: return rules(grammar::IsLark(form.text) ? "lark" : "ebnf");
    case wire::ConstraintKind::kStructuralTag: break;
  }
  return Text(form.text);
}
Format AnyText() { return R"({"type":"any_text"})"; }
Format Nothing() { return R"("")"; }

class Writer {
 public:
  Writer(const ToolSet& tools, const CallSyntax& syntax) : tools_(tools), syntax_(syntax) {}

  Format Forced() const {
    if (is_harmony()) return Sequence({Messages({Text("analysis")}), HarmonyCall()});
    Formats parts = Reasoning();
    if (!Trigger().empty()) parts.push_back(Marker(Trigger()));
    parts.push_back(Calls());
    return Sequence(parts);
  }

  // An answer of the form `content`, or calls.
  Format FormOrCalls(const Format& content) const {
    if (is_harmony()) {
      const Format final = Sequence({Marker("<|channel|>"), Text("final"), Marker("<|message|>"), content});
      // Commentary would be content beside the form.
      return Sequence({Messages({Text("analysis")}), Either({HarmonyCall(), final})});
    }
    Formats parts = Reasoning();
    const Format calls = Trigger().empty() ? Calls() : Sequence({Marker(Trigger()), Calls()});
    parts.push_back(Either({content, calls}));
    return Sequence(parts);
  }

  // Reasoning, which the prompt has begun, then an answer of the form `content`.
  Format FormBehindReasoning(const Format& content) const {
    Formats parts = Reasoning();
    parts.push_back(content);
    return Sequence(parts);
  }

  Format Strict() const {
    if (is_harmony()) {
      const Format final = Sequence({Marker("<|channel|>"), Text("final"), Marker("<|message|>"), AnyText()});
      return Sequence({Messages({Text("analysis"), Text("commentary")}), Either({HarmonyCall(), final})});
    }
    Formats parts = Reasoning();
    parts.push_back(Trigger().empty() ? BareOrText() : Triggered());
    return Sequence(parts);
  }

 private:
  [[nodiscard]] bool is_harmony() const { return syntax_.family.tools == ToolFamily::kHarmony; }

  // ---- markers ----

  Format Marker(std::string_view text) const {
    const std::optional<TokenId> token = syntax_.special_token(text);
    return token ? fmt::format(R"({{"type":"token","token":{}}})", *token) : Text(text);
  }

  // The begin or end of a tag: a plain string, or a token.
  Format Edge(std::string_view text) const {
    if (syntax_.special_token(text)) return Marker(text);
    JsonWriter json;
    json.String(text);
    return json.Take();
  }

  static Format Tag(const Format& begin, const Format& content, const Format& end) {
    return fmt::format(R"({{"type":"tag","begin":{},"content":{},"end":{}}})", begin, content, end);
  }

  // ---- text before calls ----

  Formats Reasoning() const {
    if (syntax_.family.reasoning == ReasoningForm::kNone || syntax_.reasoning_start == ReasoningStart::kNever) {
      return {};
    }
    const bool is_inside = syntax_.reasoning_start == ReasoningStart::kInside;
    const ReasoningTags tags = TagsOf(syntax_.family.reasoning);
    const Format begin = is_inside ? Nothing() : Edge(tags.begin);
    const Format thinking = Sequence({Tag(begin, AnyText(), Edge(tags.end)), Optional(Text("\n\n"))});
    return {is_inside ? thinking : Optional(thinking)};
  }

  // Messages before the last one. The prompt already ends with <|start|>assistant.
  Format Messages(const Formats& channels) const {
    const Format text = Tag(Edge("<|message|>"), AnyText(), Edge("<|end|>"));
    return UpTo(kMaxMessages,
                Sequence({Marker("<|channel|>"), Either(channels), text, Marker("<|start|>"), Text("assistant")}));
  }

  Format Triggered() const {
    const bool is_token = syntax_.special_token(Trigger()).has_value();
    return fmt::format(R"({{"type":"{}","{}":[{}],"tags":[{}],"stop_after_first":true}})",
                       is_token ? "token_triggered_tags" : "triggered_tags", is_token ? "trigger_tokens" : "triggers",
                       is_token ? std::to_string(*syntax_.special_token(Trigger())) : Edge(Trigger()),
                       Tag(Edge(Trigger()), Calls(), Nothing()));
  }

  // For a family without a marker: an answer that begins with a brace is a call, any other is text.
  Format BareOrText() const {
    const Format first = R"({"type":"regex","pattern":"[^{ \\n\\t\\r]"})";
    return Either({Calls(), Optional(Sequence({first, AnyText()}))});
  }

  // ---- calls ----

  // The marker that begins calls; empty if the family has none.
  [[nodiscard]] std::string_view Trigger() const {
    switch (syntax_.family.tools) {
      case ToolFamily::kHermes:
      case ToolFamily::kQwenXml:
      case ToolFamily::kGlm: return "<tool_call>";
      case ToolFamily::kGranite: return "<|tool_call|>";
      case ToolFamily::kMistral: return "[TOOL_CALLS]";
      case ToolFamily::kKimi: return "<|tool_calls_section_begin|>";
      case ToolFamily::kDeepSeek: return "<｜tool▁calls▁begin｜>";
      default: return "";
    }
  }

  // The calls after the trigger.
  Format Calls() const {
    const auto marked = [this](std::string_view text) { return Marker(text); };
    switch (syntax_.family.tools) {
      case ToolFamily::kHermes: {
        const Format call = Sequence({Text("\n"), Objects("arguments"), Text("\n"), marked("</tool_call>")});
        return Listed(call, Sequence({Text("\n"), marked("<tool_call>"), call}));
      }
      case ToolFamily::kQwenXml:
      case ToolFamily::kGlm: return Listed(XmlCall(), Sequence({Text("\n"), marked("<tool_call>"), XmlCall()}));
      case ToolFamily::kLlama: {
        const Format call = Objects("parameters");
        return Listed(call, Sequence({Text("; "), call}));
      }
      case ToolFamily::kKimi: return Sequence({Listed(KimiCall(), KimiCall()), marked("<|tool_calls_section_end|>")});
      case ToolFamily::kDeepSeek: {
        const bool is_fenced = syntax_.family.call_dialect == CallDialect::kFenced;
        const Format more = is_fenced ? Sequence({Text("\n"), DeepSeekCall()}) : DeepSeekCall();
        return Sequence({Listed(DeepSeekCall(), more), marked("<｜tool▁calls▁end｜>")});
      }
      case ToolFamily::kMistral:
        if (syntax_.special_token("[ARGS]")) {
          return Listed(MistralCall(), Sequence({marked("[TOOL_CALLS]"), MistralCall()}));
        }
        break;
      default: break;
    }
    const Format call = Objects("arguments");
    return Sequence({Text("["), Listed(call, Sequence({Text(", "), call})), Text("]")});
  }

  Format Listed(const Format& first, const Format& other) const {
    const bool is_one = tools_.count == ToolCallCount::kOne || tools_.use == ToolUse::kNamed;
    return is_one ? first : Sequence({first, UpTo(kMaxForcedCalls - 1, other)});
  }

  // One of the functions, each written by `write`.
  template <typename Write>
  Format Functions(Write write) const {
    Formats all;
    for (const ToolFunction& function : tools_.functions) {
      if (tools_.use != ToolUse::kNamed || function.name == tools_.named) all.push_back(Sequence(write(function)));
    }
    return Either(all);
  }

  // {"name": "f", "arguments": {…}}
  Format Objects(std::string_view key) const {
    return Functions([&](const ToolFunction& function) -> Formats {
      JsonWriter name;
      name.String(function.name);
      return {Text(fmt::format(R"({{"name": {}, "{}": )", name.Take(), key)), Arguments(function), Text("}")};
    });
  }

  Format MistralCall() const {
    return Functions([&](const ToolFunction& function) -> Formats {
      return {Text(function.name), Marker("[ARGS]"), Arguments(function)};
    });
  }

  Format KimiCall() const {
    const Format index = Schema(fmt::format(R"({{"type":"integer","minimum":0,"maximum":{}}})", kMaxForcedCalls - 1));
    return Functions([&](const ToolFunction& function) -> Formats {
      return {Marker("<|tool_call_begin|>"),
              Text("functions." + function.name + ":"),
              index,
              Marker("<|tool_call_argument_begin|>"),
              Arguments(function),
              Marker("<|tool_call_end|>")};
    });
  }

  Format DeepSeekCall() const {
    const bool is_fenced = syntax_.family.call_dialect == CallDialect::kFenced;
    return Functions([&](const ToolFunction& function) -> Formats {
      const Format begin = Marker("<｜tool▁call▁begin｜>");
      const Format middle = Marker("<｜tool▁sep｜>");
      const Format end = Marker("<｜tool▁call▁end｜>");
      if (!is_fenced) return {begin, Text(function.name), middle, Arguments(function), end};
      return {begin, Text("function"), middle, Text(function.name + "\n```json\n"), Arguments(function), Text("\n```"),
              end};
    });
  }

  // Up to the end marker. Only the values of texts with a grammar are described.
  Format XmlCall() const {
    const bool is_glm = syntax_.family.tools == ToolFamily::kGlm;
    return Functions([&](const ToolFunction& function) -> Formats {
      const std::string head = is_glm ? function.name + "\n" : "\n<function=" + function.name + ">";
      if (!function.grammar) return {Tag(Edge(head), AnyText(), Edge("</tool_call>"))};
      const Format text = Grammar(*function.grammar, "text");
      if (is_glm) {
        return {Text(head),
                Marker("<arg_key>"),
                Text(kCustomToolInput),
                Marker("</arg_key>"),
                Text("\n"),
                Marker("<arg_value>"),
                text,
                Marker("</arg_value>"),
                Text("\n"),
                Marker("</tool_call>")};
      }
      return {Text(fmt::format("{}\n<parameter={}>\n", head, kCustomToolInput)), text,
              Text("\n</parameter>\n</function>\n"), Marker("</tool_call>")};
    });
  }

  // Without an end marker: a stop token ends the message.
  Format HarmonyCall() const {
    return Functions([&](const ToolFunction& function) -> Formats {
      return {Marker("<|channel|>"),   Text("commentary to=functions." + function.name + " "),
              Marker("<|constrain|>"), Text("json"),
              Marker("<|message|>"),   Arguments(function)};
    });
  }

  Format Arguments(const ToolFunction& function) const {
    if (function.grammar) {
      return Sequence({Text(fmt::format(R"({{"{}": ")", kCustomToolInput)), Grammar(*function.grammar, "json_string"),
                       Text("\"}")});
    }
    const bool by_schema = tools_.is_forced() || function.strictness == ToolStrictness::kStrict;
    const bool has_schema = !function.schema.empty() && function.schema != "{}";
    return Schema(by_schema && has_schema ? std::string_view(function.schema) : R"({"type":"object"})");
  }

  const ToolSet& tools_;
  const CallSyntax& syntax_;
};

Result<std::optional<wire::Constraint>> ConstraintOf(const Format& format, std::string field = "tools") {
  wire::Constraint constraint{.kind = wire::ConstraintKind::kStructuralTag,
                              .text = fmt::format(R"({{"type":"structural_tag","format":{}}})", format),
                              .field = std::move(field)};
  ROOST_RETURN_IF_ERROR(grammar::LibraryInputOf(constraint));
  return std::optional(std::move(constraint));
}

}  // namespace

bool HasCallSyntax(ToolFamily family) {
  switch (family) {
    case ToolFamily::kHermes:
    case ToolFamily::kLlama:
    case ToolFamily::kGranite:
    case ToolFamily::kMistral:
    case ToolFamily::kKimi:
    case ToolFamily::kDeepSeek:
    case ToolFamily::kHarmony: return true;
    default: return false;
  }
}

bool HasXmlCalls(ToolFamily family) { return family == ToolFamily::kQwenXml || family == ToolFamily::kGlm; }

Result<std::optional<wire::Constraint>> CallConstraint(const ToolSet& tools, const CallSyntax& syntax) {
  const bool has_limits = tools.limits_calls() || (tools.has_strict() && HasCallSyntax(syntax.family.tools));
  const bool is_strict = tools.use == ToolUse::kAuto && has_limits;
  if (!tools.is_forced() && !is_strict) return std::optional<wire::Constraint>();
  const Writer writer(tools, syntax);
  return ConstraintOf(tools.is_forced() ? writer.Forced() : writer.Strict());
}

Result<std::optional<wire::Constraint>> FormConstraint(const wire::Constraint& form, const ToolSet& tools,
                                                       const CallSyntax& syntax) {
  const bool is_json = form.kind == wire::ConstraintKind::kJson || form.kind == wire::ConstraintKind::kJsonSchema;
  const bool may_call = is_json && tools.is_used() && !tools.is_forced() &&
                        (HasCallSyntax(syntax.family.tools) || HasXmlCalls(syntax.family.tools));
  const bool is_reasoning = syntax.reasoning_start == ReasoningStart::kInside;
  if (!may_call && !is_reasoning) return std::optional<wire::Constraint>();
  const Writer writer(tools, syntax);
  const Format content = FormatOf(form);
  return ConstraintOf(may_call ? writer.FormOrCalls(content) : writer.FormBehindReasoning(content), form.field);
}

Result<std::optional<wire::Constraint>> CallListConstraint(const ToolSet& tools) {
  const CallSyntax list{.family = {}, .special_token = [](std::string_view) { return std::optional<TokenId>(); }};
  return ConstraintOf(Writer(tools, list).Forced());
}

}  // namespace roost::router
