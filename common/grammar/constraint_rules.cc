#include "common/grammar/constraint_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "common/base/json_writer.h"
#include "common/base/utf8.h"
#include "common/grammar/code_points.h"
#include "common/grammar/json_schema_rules.h"
#include "common/grammar/lark_rules.h"
#include "common/grammar/regex_rules.h"
#include "common/json/kept_numbers.h"

namespace roost::grammar {
namespace {

using simdjson::dom::element;

// ---- choices ----

std::string EbnfString(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      out += CodePoints::TextOf(byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

Result<std::string> ChoiceGrammar(const wire::Constraint& constraint) {
  const json::Document document(constraint.text);
  if (!document.root().is_array()) return InvalidArgument(constraint.field, "must be an array of strings");
  const json::Array choices(document.root());
  if (choices.size() == 0 || choices.size() > kMaxChoices) {
    return InvalidArgument(constraint.field, "must hold 1 to {} strings, not {}", kMaxChoices, choices.size());
  }
  std::string grammar = "root ::= ";
  bool is_first = true;
  for (const element choice : choices) {
    std::string_view text;
    if (choice.get(text) != simdjson::SUCCESS || text.empty()) {
      return InvalidArgument(constraint.field, "must hold strings that are not empty");
    }
    if (text.find('\0') != std::string_view::npos) {
      return InvalidArgument(constraint.field, "must hold strings without null characters");
    }
    if (!std::exchange(is_first, false)) grammar += " | ";
    grammar += EbnfString(text);
  }
  return grammar + '\n';
}

// ---- grammars ----

// Skips strings, classes and comments, and checks what stands between them.
class GrammarCheck {
 public:
  explicit GrammarCheck(const wire::Constraint& constraint) : text_(constraint.text), field_(constraint.field) {}

  Result<void> Run() {
    if (text_.empty() || text_.size() > kMaxGrammarBytes) {
      return Complain(fmt::format("has {} bytes, not 1 to {}", text_.size(), kMaxGrammarBytes));
    }
    if (!IsValidUtf8(text_) || text_.find('\0') != std::string_view::npos) return Complain("is not UTF-8 text");
    std::size_t depth = 0;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"' || c == '\'' || c == '[') {
        ROOST_RETURN_IF_ERROR(Skip(c == '[' ? ']' : c));
        continue;
      }
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
        continue;
      }
      if (c == '{') ROOST_RETURN_IF_ERROR(CheckCounts());
      if (c == '(') {
        if (IsMacro()) return Complain("names a macro of the library, which is not supported");
        if (++depth > kMaxGrammarDepth)
          return Complain(fmt::format("has parentheses more than {} deep", kMaxGrammarDepth));
      }
      if (c == ')' && depth > 0) --depth;
      ++at_;
    }
    return {};
  }

 private:
  Error Complain(std::string_view what) const { return InvalidArgument(field_, "the grammar {}", what); }

  Result<void> Skip(char end) {
    for (++at_; at_ < text_.size() && text_[at_] != end; ++at_) {
      if (text_[at_] != '\\') continue;
      ++at_;
      if (at_ < text_.size() && text_[at_] == 'x' && HexDigitsAfter(at_) != 2) {
        return Complain(
            "has \\x before more or less than two hexadecimal digits, which is read in two ways; write \\u0020");
      }
    }
    if (at_ >= text_.size()) return Complain(fmt::format("has no {} at the end of a string or class", end));
    ++at_;
    if (end == ']' && IsBeforeBody()) return Complain("sets an attribute of a rule, which is not supported");
    return {};
  }

  [[nodiscard]] std::size_t HexDigitsAfter(std::size_t at) const {
    const std::size_t stop = text_.find_first_not_of("0123456789abcdefABCDEF", at + 1);
    return std::min(stop, text_.size()) - at - 1;
  }
  // name[lazy] ::= …: the library would take such a bracket for more than a class.
  [[nodiscard]] bool IsBeforeBody() const {
    const std::size_t next = text_.find_first_not_of(" \t", at_);
    return next != std::string_view::npos && text_.substr(next).starts_with("::=");
  }

  Result<void> CheckCounts() const {
    std::size_t count = 0;
    for (std::size_t i = at_ + 1; i < text_.size() && text_[i] != '}'; ++i) {
      const bool is_digit = text_[i] >= '0' && text_[i] <= '9';
      count = is_digit ? count * 10 + static_cast<std::size_t>(text_[i] - '0') : 0;
      if (count > kMaxGrammarCount) return Complain(fmt::format("repeats more than {} times", kMaxGrammarCount));
    }
    return {};
  }

  // Macros could name tokens that have no text.
  [[nodiscard]] bool IsMacro() const {
    constexpr std::array<std::string_view, 6> kMacros{"TagDispatch",      "Token", "ExcludeToken",
                                                      "TokenTagDispatch", "Regex", "Substring"};
    const std::string_view before = text_.substr(0, at_);
    const std::size_t end = before.find_last_not_of(" \t\r\n");
    if (end == std::string_view::npos) return false;
    const std::size_t begin = before.find_last_of(" \t\r\n()|*+?=\"'}]", end);
    const std::string_view name = before.substr(begin == std::string_view::npos ? 0 : begin + 1).substr(0, end - begin);
    return std::find(kMacros.begin(), kMacros.end(), name) != kMacros.end();
  }

  const std::string_view text_;
  const std::string& field_;
  std::size_t at_ = 0;
};

// ---- structural tags ----

// Copies every member as it is, except schemas, which json_schema_rules.h rewrites, and grammars. These are of our own
// notation: what stands between the quotes of a JSON string, or as it is where `place` is "text".
//
//   {"type": "grammar", "lark": "start: …"}    {"type": "grammar", "regex": "[a-z]+", "place": "text"}
//   {"type": "grammar", "ebnf": "root ::= …"}, which is text always
class StructuralTag {
 public:
  explicit StructuralTag(const wire::Constraint& constraint) : field_(constraint.field) {}

  Result<std::string> Rewrite(std::string_view text) {
    const json::Document document(text, json::Document::KeepNumbers());
    if (!document.root().is_object()) return InvalidArgument(field_, "the structural tag is not a JSON object");
    ROOST_RETURN_IF_ERROR(Write(document.root(), 0));
    return json_.Take();
  }
  [[nodiscard]] CompileCost cost() const { return cost_; }
  [[nodiscard]] bool has_grammar() const { return has_grammar_; }
  [[nodiscard]] std::vector<TokenId> TakeTokens() { return std::move(tokens_); }

 private:
  static constexpr std::array<std::string_view, 14> kTypes{
      "structural_tag", "const_string",        "json_schema", "any_text", "sequence", "or",    "tag",
      "triggered_tags", "tags_with_separator", "optional",    "repeat",   "regex",    "token", "token_triggered_tags"};

  Result<void> Write(element value, std::size_t depth) {
    if (depth > 2 * kMaxStructuralDepth) return InvalidArgument(field_, "the structural tag is too deep");
    if (value.is_array()) {
      json_.BeginArray();
      for (const element each : simdjson::dom::array(value)) ROOST_RETURN_IF_ERROR(Write(each, depth + 1));
      json_.EndArray();
      return {};
    }
    if (!value.is_object()) {
      json_.Raw(json::JsonText(value));
      return {};
    }
    std::string_view kind;
    if (value["type"].get(kind) == simdjson::SUCCESS && kind == "grammar") return WriteGrammar(value);
    json_.BeginObject();
    for (const auto member : simdjson::dom::object(value)) {
      json_.Key(member.key);
      std::string_view type;
      if (member.key == "type" && member.value.get(type) == simdjson::SUCCESS &&
          std::find(kTypes.begin(), kTypes.end(), type) == kTypes.end()) {
        return InvalidArgument(field_, "the structural tag's format '{}' is not supported", type);
      }
      std::uint64_t token = 0;
      if (member.key == "token" && member.value.get(token) == simdjson::SUCCESS) {
        tokens_.push_back(static_cast<TokenId>(token));
      }
      if (member.key == "json_schema") {
        ROOST_ASSIGN_OR_RETURN(const CostedText schema, LibrarySchema(json::JsonText(member.value), field_));
        ROOST_RETURN_IF_ERROR(AddCost(schema.cost));
        json_.Raw(schema.text);
      } else {
        ROOST_RETURN_IF_ERROR(Write(member.value, depth + 1));
      }
    }
    json_.EndObject();
    return {};
  }

  Result<void> WriteGrammar(element value) {
    std::string_view lark;
    std::string_view regex;
    std::string_view ebnf;
    std::string_view place_name;
    if (value["ebnf"].get(ebnf) == simdjson::SUCCESS) return WriteEbnf(ebnf);
    const bool is_lark = value["lark"].get(lark) == simdjson::SUCCESS;
    if (!is_lark && value["regex"].get(regex) != simdjson::SUCCESS) {
      return InvalidArgument(field_, "the structural tag has a grammar without lark or regex");
    }
    const bool is_text = value["place"].get(place_name) == simdjson::SUCCESS && place_name == "text";
    const RulePlace place = is_text ? RulePlace::kText : RulePlace::kJsonString;
    ROOST_ASSIGN_OR_RETURN(CostedText rules, is_lark ? LarkRules(lark, place, field_)
                                                     : RuleOfRegex(regex, RuleOptions{.place = place}, field_));
    ROOST_RETURN_IF_ERROR(AddCost(rules.cost));
    has_grammar_ = true;
    if (!is_lark) rules.text.insert(0, "root ::= ");
    json_.BeginObject().Key("type").String("grammar").Key("grammar").String(rules.text).EndObject();
    return {};
  }

  Result<void> WriteEbnf(std::string_view text) {
    const wire::Constraint grammar{.kind = wire::ConstraintKind::kGrammar, .text = std::string(text), .field = field_};
    ROOST_RETURN_IF_ERROR(GrammarCheck(grammar).Run());
    has_grammar_ = true;
    json_.BeginObject().Key("type").String("grammar").Key("grammar").String(text).EndObject();
    return {};
  }

  Result<void> AddCost(CompileCost cost) {
    cost_ += cost;
    if (cost_ > kMaxCompileCost) return InvalidArgument(field_, "the schemas together take too long to compile");
    return {};
  }

  const std::string& field_;
  JsonWriter json_;
  CompileCost cost_ = 0;
  bool has_grammar_ = false;
  std::vector<TokenId> tokens_;
};

}  // namespace

bool IsLark(std::string_view grammar) { return grammar.find("::=") == std::string_view::npos; }

Result<LibraryInput> LibraryInputOf(const wire::Constraint& constraint) {
  if (constraint.text.size() > wire::kMaxConstraintBytes) {
    return InvalidArgument(constraint.field, "has {} bytes, at most {}", constraint.text.size(),
                           wire::kMaxConstraintBytes);
  }
  LibraryInput input;
  const auto take = [&input](Result<CostedText> read) -> Result<LibraryInput> {
    if (!read.ok()) return read.error();
    input.text = std::move(read->text);
    input.cost = read->cost;
    return std::move(input);
  };
  // Literals: a state for each byte, if texts have no beginnings in common.
  input.cost = constraint.text.size();
  switch (constraint.kind) {
    case wire::ConstraintKind::kJson: return take(LibrarySchema(R"({"type":"object"})", constraint.field));
    case wire::ConstraintKind::kJsonSchema: return take(LibrarySchema(constraint.text, constraint.field));
    case wire::ConstraintKind::kRegex: {
      input.form = LibraryForm::kRegex;
      return take(LibraryRegex(constraint.text, RegexUse::kWholeText, constraint.field));
    }
    case wire::ConstraintKind::kChoice: {
      input.form = LibraryForm::kGrammar;
      ROOST_ASSIGN_OR_RETURN(input.text, ChoiceGrammar(constraint));
      return input;
    }
    case wire::ConstraintKind::kGrammar: {
      input.form = LibraryForm::kGrammar;
      input.has_grammar = true;
      if (IsLark(constraint.text)) {
        return take(LarkRules(constraint.text, RulePlace::kText, constraint.field));
      }
      ROOST_RETURN_IF_ERROR(GrammarCheck(constraint).Run());
      input.text = constraint.text;
      return input;
    }
    case wire::ConstraintKind::kStructuralTag: {
      input.form = LibraryForm::kStructuralTag;
      StructuralTag tag(constraint);
      ROOST_ASSIGN_OR_RETURN(input.text, tag.Rewrite(constraint.text));
      input.cost = tag.cost();
      input.has_grammar = tag.has_grammar();
      input.tokens = tag.TakeTokens();
      return input;
    }
  }
  return InvalidArgument(constraint.field, "is of an unknown kind");
}

}  // namespace roost::grammar
