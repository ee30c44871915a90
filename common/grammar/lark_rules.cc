#include "common/grammar/lark_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "common/base/utf8.h"

namespace roost::grammar {
namespace {

// Stands in the bodies of rules where ignored terminals may follow, which is known when the whole grammar is read.
constexpr char kIgnoredHere = '\x01';
constexpr std::string_view kCommon = "common.";
constexpr std::string_view kStart = "start";

bool IsNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsHexDigit(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool IsTerminal(std::string_view name) {
  return std::none_of(name.begin(), name.end(), [](char c) { return c >= 'a' && c <= 'z'; });
}

// A piece of a body. It is one element, to which a repetition can apply, unless it is a list of alternatives.
struct Piece {
  std::string text;
  CompileCost cost = 0;
};

struct Definition {
  std::string rule;  // its name in the translation
  std::optional<std::string> body;
  std::size_t line = 0;  // of its definition, else where it is named first
  bool is_terminal = false;
  std::set<std::string> names;  // the terminals that a terminal names
};

class Reader {
 public:
  Reader(std::string_view grammar, RulePlace place, const std::string& field)
      : text_(grammar), place_(place), field_(field) {}

  Result<CostedText> Run() {
    if (text_.empty() || text_.size() > kMaxLarkBytes) {
      return Complain("has {} bytes, not 1 to {}", text_.size(), kMaxLarkBytes);
    }
    if (!IsValidUtf8(text_) || text_.find('\0') != std::string_view::npos) return Complain("is not UTF-8 text");
    ROOST_ASSIGN_OR_RETURN(const std::string start, Named(kStart));
    SkipLines();
    while (!AtEnd()) {
      ROOST_RETURN_IF_ERROR(Statement());
      SkipLines();
    }
    ROOST_RETURN_IF_ERROR(CheckDefinitions());
    return Written(start);
  }

 private:
  template <typename... Args>
  Error ComplainAt(std::size_t line, fmt::format_string<Args...> format, Args&&... args) const {
    return InvalidArgument(field_, "the grammar (Lark, line {}) {}", line,
                           fmt::format(format, std::forward<Args>(args)...));
  }
  template <typename... Args>
  Error Complain(fmt::format_string<Args...> format, Args&&... args) const {
    return ComplainAt(Line(), format, std::forward<Args>(args)...);
  }

  // ---- characters ----

  [[nodiscard]] std::size_t Line() const {
    if (common_line_) return *common_line_;
    return 1 +
           static_cast<std::size_t>(std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at_), '\n'));
  }
  [[nodiscard]] bool AtEnd() const { return at_ >= text_.size(); }
  [[nodiscard]] char Now() const { return AtEnd() ? '\0' : text_[at_]; }
  bool Take(std::string_view text) {
    if (!text_.substr(at_).starts_with(text)) return false;
    at_ += text.size();
    return true;
  }

  // White space and comments of a line; of all lines.
  void SkipSpace() { Skip(" \t"); }
  void SkipLines() { Skip(" \t\r\n"); }
  void Skip(std::string_view spaces) {
    while (!AtEnd()) {
      if (spaces.find(Now()) != std::string_view::npos) {
        ++at_;
      } else if (text_.substr(at_).starts_with("//") || Now() == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else {
        return;
      }
    }
  }

  // The next character, for errors.
  [[nodiscard]] std::string Here() const {
    if (AtEnd()) return "its end";
    const bool is_shown = Now() > ' ' && Now() < 0x7F;
    return is_shown ? fmt::format("'{}'", Now()) : fmt::format("the byte {}", static_cast<unsigned char>(Now()));
  }

  std::string_view Name() {
    const std::size_t begin = at_;
    while (!AtEnd() && (IsNameStart(Now()) || IsDigit(Now()))) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  std::optional<std::size_t> Number() {
    std::optional<std::size_t> number;
    for (; IsDigit(Now()); ++at_) {
      number = std::min(number.value_or(0) * 10 + static_cast<std::size_t>(Now() - '0'), kMaxLarkCount + 1);
    }
    return number;
  }

  // ---- names ----

  // The rule of a name, whether it is defined already or not.
  Result<std::string> Named(std::string_view name) {
    if (definitions_.size() >= kMaxLarkNames) return Complain("has more than {} names", kMaxLarkNames);
    Definition& definition = definitions_[std::string(name)];
    if (!definition.rule.empty()) return definition.rule;
    definition.rule = fmt::format("r{}", definitions_.size());
    definition.line = Line();
    definition.is_terminal = IsTerminal(name.substr(name.starts_with(kCommon) ? kCommon.size() : 0));
    return definition.rule;
  }

  Result<void> Define(std::string_view name, std::string body) {
    ROOST_RETURN_IF_ERROR(Named(name));
    Definition& definition = definitions_.find(name)->second;
    if (definition.body) return Complain("defines '{}' twice", name);
    size_ += body.size();
    if (size_ > kMaxRuleBytes) return Complain("is too large");
    definition.body = std::move(body);
    definition.line = Line();
    definition.names = std::move(names_);
    names_.clear();
    return {};
  }

  // ---- statements ----

  Result<void> Statement() {
    if (Now() == '%') return Directive();
    while (Now() == '?' || Now() == '!') ++at_;
    if (!IsNameStart(Now())) return Complain("has no name of a rule or terminal where one must stand");
    const std::string name(Name());
    const bool is_terminal = IsTerminal(name);
    if (!is_terminal && std::any_of(name.begin(), name.end(), [](char c) { return c >= 'A' && c <= 'Z'; })) {
      return Complain("names '{}', which is neither a rule nor a terminal: letters are all small or all capitals",
                      name);
    }
    if (Take(".")) {
      if (is_terminal) return Complain("gives the terminal '{}' a priority, which is not supported", name);
      Take("-");
      if (!Number()) return Complain("has a priority that is no number");
    }
    if (Now() == '{') return Complain("has a template, which is not supported");
    SkipSpace();
    if (!Take(":") || Now() == ':') return Complain("has no ':' behind the name '{}'", name);
    in_terminal_ = is_terminal;
    ROOST_ASSIGN_OR_RETURN(Piece body, Alternatives(0));
    ROOST_RETURN_IF_ERROR(EndOfStatement());
    return Define(name, std::move(body.text));
  }

  Result<void> EndOfStatement() {
    SkipSpace();
    if (AtEnd() || Now() == '\n' || Now() == '\r') return {};
    return Complain("has {} where it does not belong", Here());
  }

  Result<void> Directive() {
    ++at_;
    const std::string_view word = Name();
    SkipSpace();
    if (word == "ignore") {
      in_terminal_ = true;
      ROOST_ASSIGN_OR_RETURN(const Piece ignored, Alternatives(0));
      names_.clear();
      ROOST_RETURN_IF_ERROR(EndOfStatement());
      ignored_.push_back(ignored.text);
      return {};
    }
    if (word == "import") return Import();
    return Complain("has %{}, which is not supported", word);
  }

  // %import common.INT, %import common.INT -> NUMBER, %import common (INT, WS)
  Result<void> Import() {
    if (Name() != "common") return Complain("imports something other than common.NAME, which is not supported");
    SkipSpace();
    if (!Take("(")) {
      if (!Take(".")) return Complain("imports something other than common.NAME, which is not supported");
      const std::string name(Name());
      SkipSpace();
      std::string alias = name;
      if (Take("->")) {
        SkipSpace();
        alias = Name();
        if (alias.empty() || !IsTerminal(alias)) return Complain("imports '{}' under a name that is no terminal", name);
      }
      ROOST_RETURN_IF_ERROR(ImportAs(name, alias));
      return EndOfStatement();
    }
    do {
      SkipLines();
      const std::string name(Name());
      ROOST_RETURN_IF_ERROR(ImportAs(name, name));
      SkipLines();
    } while (Take(","));
    if (!Take(")")) return Complain("has a list of imports that does not end");
    return EndOfStatement();
  }

  Result<void> ImportAs(const std::string& name, const std::string& alias) {
    ROOST_RETURN_IF_ERROR(DefineCommon(name));
    const std::string key = std::string(kCommon) + name;
    ROOST_ASSIGN_OR_RETURN(std::string rule, Named(key));
    names_ = {key};
    return Define(alias, std::move(rule));
  }

  // Reads the terminal of Lark's library, and those that it names.
  Result<void> DefineCommon(const std::string& name) {
    const std::string key = std::string(kCommon) + name;
    if (const auto found = definitions_.find(key); found != definitions_.end() && found->second.body) return {};
    const auto terminal = std::find_if(kLarkCommon.begin(), kLarkCommon.end(),
                                       [&name](const LarkTerminal& each) { return each.name == name; });
    if (terminal == kLarkCommon.end()) return Complain("imports common.{}, which is not known here", name);
    const std::size_t line = Line();
    const auto outer = std::pair(text_, at_);
    const auto outer_line = std::exchange(common_line_, line);
    text_ = terminal->definition;
    at_ = 0;
    in_terminal_ = true;
    Result<Piece> body = Alternatives(0);
    std::tie(text_, at_) = outer;
    common_line_ = outer_line;
    if (!body.ok()) return body.error();
    const std::set<std::string> names = names_;
    ROOST_RETURN_IF_ERROR(Define(key, std::move(body->text)));
    for (const std::string& each : names) ROOST_RETURN_IF_ERROR(DefineCommon(each.substr(kCommon.size())));
    return {};
  }

  // ---- expressions ----

  // Reads up to the end of the statement, or to what closes the group. At the top, lines that begin with | go on.
  Result<Piece> Alternatives(std::size_t depth) {
    if (depth > kMaxLarkDepth) return Complain("has groups more than {} deep", kMaxLarkDepth);
    Piece all;
    bool is_first = true;
    do {
      ROOST_ASSIGN_OR_RETURN(const Piece one, Sequence(depth));
      if (!std::exchange(is_first, false)) all.text += " | ";
      all.text += one.text.empty() ? "\"\"" : one.text;
      all.cost += one.cost;
    } while (TakeBar(depth));
    return all;
  }

  bool TakeBar(std::size_t depth) {
    SkipSpace();
    if (Take("|")) return true;
    const std::size_t before = at_;
    SkipLines();
    if (Take("|")) return true;
    if (depth == 0) at_ = before;
    return false;
  }

  Result<Piece> Sequence(std::size_t depth) {
    Piece all;
    while (true) {
      depth == 0 ? SkipSpace() : SkipLines();
      if (Take("->")) {
        SkipSpace();
        if (Name().empty()) return Complain("has an alias without a name");
        continue;
      }
      if (AtEnd() || std::string_view("|)]\r\n").find(Now()) != std::string_view::npos) return all;
      ROOST_ASSIGN_OR_RETURN(const Piece one, Repeated(depth));
      if (!all.text.empty()) all.text += ' ';
      all.text += one.text;
      all.cost += one.cost;
      if (all.text.size() > kMaxRuleBytes) return Complain("is too large");
    }
  }

  Result<Piece> Repeated(std::size_t depth) {
    ROOST_ASSIGN_OR_RETURN(Piece piece, Atom(depth));
    const std::size_t before = at_;
    SkipSpace();
    std::size_t copies = 1;
    if (Now() == '?' || Now() == '*' || Now() == '+') {
      piece.text += Now();
      ++at_;
      copies = 2;
    } else if (Take("~")) {
      ROOST_ASSIGN_OR_RETURN(copies, Counts(piece));
    } else {
      at_ = before;
      return piece;
    }
    SkipSpace();
    if (Now() == '?' || Now() == '*' || Now() == '+' || Now() == '~') return Complain("repeats a repetition");
    const CompileCost more = piece.cost * (std::min(copies, 2 * kWrittenOut) - 1);
    piece.cost += more;
    return Charge(more, std::move(piece));
  }

  Result<std::size_t> Counts(Piece& piece) {
    SkipSpace();
    const std::optional<std::size_t> low = Number();
    std::optional<std::size_t> high = low;
    SkipSpace();
    if (Take("..")) {
      SkipSpace();
      high = Number();
    }
    if (!low || !high) return Complain("has a ~ without numbers behind it");
    if (*high > kMaxLarkCount) return Complain("repeats more than {} times", kMaxLarkCount);
    if (*high < *low) return Complain("has a repetition whose bounds are in the wrong order");
    if (*high == 0) return Complain("repeats something no times");
    piece.text += fmt::format("{{{},{}}}", *low, *high);
    return *high;
  }

  // All that is read is counted, whether the start rule leads to it or not.
  Result<Piece> Charge(CompileCost cost, Piece piece) {
    cost_ += cost;
    if (cost_ > kMaxCompileCost) return Complain("has too many characters and repetitions to be compiled in time");
    return piece;
  }

  Result<Piece> Atom(std::size_t depth) {
    const char c = Now();
    if (c == '(' || c == '[') return Group(depth);
    if (c == '"') return Literal();
    if (c == '/') return Regex();
    if (IsNameStart(c)) return Reference();
    return Complain("has {} where it does not belong", Here());
  }

  Result<Piece> Group(std::size_t depth) {
    const bool is_optional = Now() == '[';
    ++at_;
    ROOST_ASSIGN_OR_RETURN(Piece inner, Alternatives(depth + 1));
    SkipLines();
    if (!Take(is_optional ? "]" : ")")) return Complain("has a group that does not end");
    inner.text = '(' + inner.text + (is_optional ? ")?" : ")");
    // Parentheses, because a repetition may follow.
    if (is_optional) inner.text = '(' + inner.text + ')';
    return inner;
  }

  // A terminal within a rule: what is ignored may follow.
  Piece OfTerminal(std::string text, CompileCost cost) const {
    if (in_terminal_) return {std::move(text), cost};
    return {'(' + std::move(text) + ' ' + kIgnoredHere + ')', cost};
  }

  Result<Piece> Reference() {
    const std::string name(Name());
    if (Now() == '{') return Complain("has a template, which is not supported");
    const bool is_terminal = IsTerminal(name);
    if (in_terminal_ && !is_terminal) return Complain("names the rule '{}' in a terminal", name);
    const std::string key = common_line_ ? std::string(kCommon) + name : name;
    ROOST_ASSIGN_OR_RETURN(std::string rule, Named(key));
    if (in_terminal_) names_.insert(key);
    return Charge(1, is_terminal ? OfTerminal(std::move(rule), 1) : Piece{std::move(rule), 1});
  }

  // "if", "if"i, "a".."z"
  Result<Piece> Literal() {
    ROOST_ASSIGN_OR_RETURN(const std::string text, String());
    const std::size_t before = at_;
    SkipSpace();
    if (Take("..")) {
      SkipSpace();
      if (Now() != '"') return Complain("has a range without an end");
      ROOST_ASSIGN_OR_RETURN(const std::string last, String());
      return RangeOf(text, last);
    }
    at_ = before;
    const bool ignores_case = Now() == 'i';
    if (ignores_case) ++at_;
    if (IsNameStart(Now())) return Complain("has a string with a flag other than i");
    if (text.empty()) return Complain("has an empty string");
    const CompileCost cost = text.size();
    if (!ignores_case) return Charge(cost, OfTerminal(RuleOfText(text, place_), cost));
    ROOST_ASSIGN_OR_RETURN(std::string rule, IgnoringCase(text));
    return Charge(cost, OfTerminal(std::move(rule), cost));
  }

  Result<Piece> RangeOf(std::string_view first, std::string_view last) {
    const auto low = DecodeUtf8(first);
    const auto high = DecodeUtf8(last);
    if (!low || !high || low->length != first.size() || high->length != last.size() || high->value < low->value) {
      return Complain("has a range that is not valid");
    }
    std::string rule = RuleOfSet(CodePoints({{low->value, high->value}}), place_);
    if (rule.empty()) return Complain("has a range without a character that can be written");
    constexpr CompileCost kCost = 16;
    return Charge(kCost, OfTerminal(std::move(rule), kCost));
  }

  Result<std::string> IgnoringCase(std::string_view text) const {
    std::string rule = "(";
    for (const char c : text) {
      if (static_cast<unsigned char>(c) >= 0x80) {
        return Complain("ignores the case of a character beyond ASCII, which is not supported");
      }
      const bool is_letter = IsNameStart(c) && c != '_';
      const auto code = static_cast<std::uint32_t>(static_cast<unsigned char>(c));
      if (rule.size() > 1) rule += ' ';
      rule += is_letter ? RuleOfSet(CodePoints({{code & ~0x20U, code & ~0x20U}, {code | 0x20U, code | 0x20U}}), place_)
                        : RuleOfText(std::string_view(&c, 1), place_);
    }
    return rule + ')';
  }

  Result<std::string> String() {
    std::string text;
    for (++at_; Now() != '"';) {
      if (AtEnd() || Now() == '\n') return Complain("has a string that does not end");
      if (Now() != '\\') {
        text += Now();
        ++at_;
        continue;
      }
      ++at_;
      ROOST_RETURN_IF_ERROR(Escape(text));
    }
    ++at_;
    return text;
  }

  Result<void> Escape(std::string& text) {
    constexpr std::string_view kNames = "\"\\/nrtf";
    constexpr std::string_view kMeant = "\"\\/\n\r\t\f";
    if (AtEnd()) return Complain("has a string that does not end");
    const char kind = Now();
    if (const std::size_t name = kNames.find(kind); name != std::string_view::npos) {
      ++at_;
      text += kMeant[name];
      return {};
    }
    const std::size_t digits = kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
    if (digits == 0) return Complain("has a backslash before {} in a string, which has no meaning", Here());
    ++at_;
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < digits; ++i, ++at_) {
      if (!IsHexDigit(Now())) return Complain("has an escape that is not hexadecimal");
      const auto lower = static_cast<unsigned char>(Now() | 0x20);
      value = value * 16 + (IsDigit(Now()) ? static_cast<std::uint32_t>(Now() - '0') : lower - 'a' + 10U);
    }
    const bool is_character = value > 0 && value <= CodePoints::kLast && !(value >= 0xD800 && value <= 0xDFFF);
    if (!is_character) return Complain("has an escape of what is no character");
    AppendUtf8(value, text);
    return {};
  }

  // /[a-z]+/i
  Result<Piece> Regex() {
    const std::size_t begin = ++at_;
    while (Now() != '/') {
      if (Now() == '\\') ++at_;
      if (AtEnd() || Now() == '\n') return Complain("has a regular expression that does not end");
      ++at_;
    }
    const std::string_view regex = text_.substr(begin, at_ - begin);
    ++at_;
    RuleOptions options{.place = place_, .anchors = RegexAnchors::kRefused};
    for (; IsNameStart(Now()); ++at_) {
      if (Now() == 'i') {
        options.ignores_case = true;
      } else if (Now() == 's') {
        options.dot_is_any = true;
      } else if (Now() != 'u' && Now() != 'm') {
        return Complain("has a regular expression with the flag {}, which is not supported", Here());
      }
    }
    Result<CostedText> rule = RuleOfRegex(regex, options, field_);
    if (!rule.ok()) return Complain("has a fault: {}", rule.error().message);
    return Charge(rule->cost, OfTerminal('(' + rule->text + ')', rule->cost));
  }

  // ---- the whole ----

  Result<void> CheckDefinitions() const {
    for (const auto& [name, definition] : definitions_) {
      if (!definition.body && name == kStart) return ComplainAt(1, "has no rule 'start'");
      if (!definition.body) return ComplainAt(definition.line, "names '{}', which is not defined", name);
    }
    return CheckTerminals();
  }

  // Takes away terminals whose names have all been taken away, until the rest names itself.
  Result<void> CheckTerminals() const {
    std::map<std::string, std::size_t> left;  // of the names in a terminal
    std::map<std::string, std::vector<std::string>> users;
    std::vector<std::string> plain;
    for (const auto& [name, definition] : definitions_) {
      if (!definition.is_terminal) continue;
      left[name] = definition.names.size();
      for (const std::string& each : definition.names) users[each].push_back(name);
      if (definition.names.empty()) plain.push_back(name);
    }
    while (!plain.empty()) {
      const std::string name = std::move(plain.back());
      plain.pop_back();
      left.erase(name);
      for (const std::string& user : users[name]) {
        if (--left[user] == 0) plain.push_back(user);
      }
    }
    if (left.empty()) return {};
    const std::string& name = left.begin()->first;
    return ComplainAt(definitions_.find(name)->second.line, "has the terminal '{}' in its own definition", name);
  }

  Result<CostedText> Written(const std::string& start) const {
    const std::string ignored = ignored_.empty() ? "" : "ignored";
    std::string out = fmt::format("root ::= {}{}{}\n", ignored, ignored.empty() ? "" : " ", start);
    if (!ignored.empty()) out += fmt::format("ignored ::= (({}))*\n", fmt::join(ignored_, ") | ("));
    for (const auto& [name, definition] : definitions_) {
      out += definition.rule + " ::= ";
      for (const char c : *definition.body) c == kIgnoredHere ? void(out += ignored) : void(out += c);
      out += '\n';
      if (out.size() > kMaxRuleBytes) return ComplainAt(definition.line, "is too large");
    }
    return CostedText{std::move(out), cost_};
  }

  std::string_view text_;
  const RulePlace place_;
  const std::string& field_;
  std::size_t at_ = 0;
  std::optional<std::size_t> common_line_;  // of the import, within a terminal of Lark's library
  bool in_terminal_ = false;
  std::set<std::string> names_;  // the terminals that the terminal at hand names
  std::map<std::string, Definition, std::less<>> definitions_;
  std::vector<std::string> ignored_;
  std::size_t size_ = 0;
  CompileCost cost_ = 0;
};

}  // namespace

Result<CostedText> LarkRules(std::string_view grammar, RulePlace place, const std::string& field) {
  return Reader(grammar, place, field).Run();
}

}  // namespace roost::grammar
