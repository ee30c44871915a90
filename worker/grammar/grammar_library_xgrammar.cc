// The only file that knows xgrammar.
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <xgrammar/xgrammar.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/check.h"
#include "common/base/log.h"
#include "grammar_impl.h"
#include "support/logging.h"
#include "worker/grammar/grammar_library.h"

namespace {

// The first warning while this thread compiles. The library does not enforce what it warns about, so a warning is a
// refusal.
thread_local std::string* warning = nullptr;

class WarningScope {
 public:
  explicit WarningScope(std::string& first) { warning = &first; }
  ~WarningScope() { warning = nullptr; }
  WarningScope(const WarningScope&) = delete;
  WarningScope& operator=(const WarningScope&) = delete;
};

}  // namespace

namespace xgrammar {

[[noreturn]] void LogFatalImpl(const std::string& file, int line, const std::string& message) {
  throw LogFatalError(file, line, message);
}
void LogMessageImpl(const std::string& /*file*/, int /*line*/, int level, const std::string& message) {
  if (level >= XGRAMMAR_LOG_LEVEL_WARNING && warning != nullptr && warning->empty()) *warning = message;
}

}  // namespace xgrammar

namespace roost::worker {
namespace {

// The longest white space between two tokens of JSON. Indented text needs far less, and a model that would write
// nothing but white space reaches an end.
constexpr int kMaxWhitespace = 32;
constexpr bool kAnyWhitespace = true;
constexpr bool kStrict = false;  // the open parts of a schema have been made explicit before
// The longest grammar as text. Compiling a longer one takes seconds or more.
constexpr std::size_t kMaxGrammarText = std::size_t{1} << 20U;
// Memory for the masks of rules that schemas share, as JSON's strings and numbers are. The library uses a third of this
// limit for them and the rest for whole grammars.
constexpr std::int64_t kMaxCompilerBytes = std::int64_t{96} << 20U;
constexpr int kCompilerThreads = 1;  // the caller's
constexpr bool kSharesRules = true;

using TokenBits = std::vector<std::uint32_t>;

bool Holds(const TokenBits& bits, TokenId token) {
  return token / 32 < bits.size() && (bits[token / 32] >> token % 32 & 1U) != 0;
}
void Insert(std::size_t token, TokenBits& bits) {
  if (token / 32 < bits.size()) bits[token / 32] |= 1U << token % 32;
}

// Lead bytes of UTF-8 after which some continuation bytes are invalid. The library allows all of them: overlong forms,
// surrogates and code points above U+10FFFF. These are not UTF-8, and a reader sees several characters in place of
// each.
struct StrictLead {
  unsigned char lead;
  unsigned char first;  // of the forbidden continuation bytes
  unsigned char last;
};
constexpr std::array<StrictLead, 4> kStrictLeads{
    StrictLead{0xE0, 0x80, 0x9F}, {0xED, 0xA0, 0xBF}, {0xF0, 0x80, 0x8F}, {0xF4, 0x90, 0xBF}};

bool Forbids(const StrictLead& lead, char c) {
  return static_cast<unsigned char>(c) >= lead.first && static_cast<unsigned char>(c) <= lead.last;
}

// Token sets that the library does not have: the tokens that end in a strict lead byte, and those forbidden after it.
struct AfterLead {
  TokenBits ends_in_it;
  TokenBits forbidden;
};
using AfterLeads = std::array<AfterLead, kStrictLeads.size()>;
struct TokenSets {
  TokenBits known;  // tokens that may come: with a text, or special and named by the structural tag
  std::shared_ptr<const AfterLeads> leads;  // the same for all constraints
};
using SharedSets = std::shared_ptr<const TokenSets>;

// True if the text is invalid UTF-8 whatever comes before and after it.
bool IsNoUtf8(const std::string& text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte == 0xC0 || byte == 0xC1 || byte > 0xF4) return true;
    for (const StrictLead& lead : kStrictLeads) {
      if (byte == lead.lead && i + 1 < text.size() && Forbids(lead, text[i + 1])) return true;
    }
  }
  return false;
}

TokenSets SetsOf(const TokenTexts& texts) {
  const TokenBits none(MaskWords(texts.size()));
  AfterLeads leads;
  leads.fill({none, none});
  TokenSets sets{.known = none, .leads = nullptr};
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].empty() || IsNoUtf8(texts[i])) continue;
    Insert(i, sets.known);
    for (std::size_t j = 0; j < kStrictLeads.size(); ++j) {
      if (static_cast<unsigned char>(texts[i].back()) == kStrictLeads[j].lead) Insert(i, leads[j].ends_in_it);
      if (Forbids(kStrictLeads[j], texts[i].front())) Insert(i, leads[j].forbidden);
    }
  }
  sets.leads = std::make_shared<const AfterLeads>(std::move(leads));
  return sets;
}

class XgrammarAutomaton final : public Automaton {
 public:
  XgrammarAutomaton(xgrammar::GrammarMatcher matcher, SharedSets sets)
      : matcher_(std::move(matcher)), sets_(std::move(sets)) {}

  bool Accept(TokenId token) override {
    if (!Holds(sets_->known, token) || (after_ != nullptr && Holds(after_->forbidden, token))) return false;
    if (!matcher_.AcceptToken(static_cast<std::int32_t>(token))) return false;
    after_ = nullptr;
    for (const AfterLead& lead : *sets_->leads) {
      if (Holds(lead.ends_in_it, token)) after_ = &lead;
    }
    return true;
  }
  void FillMask(TokenMask mask) override {
    ROOST_CHECK(mask.size() == sets_->known.size());
    auto shape = static_cast<std::int64_t>(mask.size());
    DLTensor tensor{};
    tensor.data = mask.data();
    tensor.device = {kDLCPU, 0};
    tensor.ndim = 1;
    tensor.dtype = xgrammar::GetBitmaskDLType();
    tensor.shape = &shape;
    (void)matcher_.FillNextTokenBitmask(&tensor);
    for (std::size_t i = 0; i < mask.size(); ++i) {
      mask[i] &= sets_->known[i];
      if (after_ != nullptr) mask[i] &= ~after_->forbidden[i];
    }
  }
  [[nodiscard]] bool MayEnd() const override { return matcher_.IsCompleted(); }
  [[nodiscard]] std::unique_ptr<Automaton> Fork() const override {
    auto fork = std::make_unique<XgrammarAutomaton>(matcher_.Fork(), sets_);
    fork->after_ = after_;
    return fork;
  }

 private:
  xgrammar::GrammarMatcher matcher_;
  const SharedSets sets_;
  const AfterLead* after_ = nullptr;  // points into sets_; set if the text so far ends in its lead byte
};

class XgrammarGrammar final : public CompiledGrammar {
 public:
  XgrammarGrammar(xgrammar::CompiledGrammar grammar, SharedSets sets)
      : grammar_(std::move(grammar)), sets_(std::move(sets)) {}

  [[nodiscard]] std::size_t bytes() const override {
    return grammar_.MemorySizeBytes() + sets_->known.size() * sizeof(TokenBits::value_type);
  }
  [[nodiscard]] std::unique_ptr<Automaton> Start() const override {
    return std::make_unique<XgrammarAutomaton>(xgrammar::GrammarMatcher(grammar_), sets_);
  }

 private:
  const xgrammar::CompiledGrammar grammar_;
  const SharedSets sets_;
};

// ---- whether a grammar matches something ----

// The rules that match some text. A rule does if one of its choices consists of parts that do, so the set grows until
// it stays: O(expressions · depth).
class Productive {
 public:
  explicit Productive(const xgrammar::Grammar& grammar) : grammar_(grammar) {
    for (bool grows = true; grows;) {
      grows = false;
      for (std::int32_t rule = 0; rule < grammar->NumRules(); ++rule) {
        if (rules_.count(rule) > 0 || !Matches(grammar->GetRule(rule).body_expr_id)) continue;
        rules_.insert(rule);
        grows = true;
      }
    }
  }
  // A rule that the start rule leads to and that matches nothing.
  [[nodiscard]] bool HasDeadEnd() const {
    std::set<std::int32_t> seen;
    std::vector<std::int32_t> open{grammar_->GetRootRuleId()};
    while (!open.empty()) {
      const std::int32_t rule = open.back();
      open.pop_back();
      if (!seen.insert(rule).second) continue;
      if (rules_.count(rule) == 0) return true;
      AddNamed(grammar_->GetRule(rule).body_expr_id, open);
    }
    return false;
  }

 private:
  using Type = xgrammar::Grammar::Impl::GrammarExprType;

  [[nodiscard]] bool Matches(std::int32_t expression) const {
    const auto expr = grammar_->GetGrammarExpr(expression);
    const auto matches = [this](std::int32_t each) { return Matches(each); };
    switch (expr.type) {
      case Type::kRuleRef: return rules_.count(expr[0]) > 0;
      case Type::kRepeat: return expr[1] == 0 || rules_.count(expr[0]) > 0;
      case Type::kSequence: return std::all_of(expr.begin(), expr.end(), matches);
      case Type::kChoices: return std::any_of(expr.begin(), expr.end(), matches);
      default: return true;  // characters, tokens, and tags in free text
    }
  }
  void AddNamed(std::int32_t expression, std::vector<std::int32_t>& rules) const {
    const auto expr = grammar_->GetGrammarExpr(expression);
    if (expr.type == Type::kRuleRef || expr.type == Type::kRepeat) rules.push_back(expr[0]);
    if (expr.type != Type::kSequence && expr.type != Type::kChoices) return;
    for (const std::int32_t each : expr) AddNamed(each, rules);
  }

  const xgrammar::Grammar& grammar_;
  std::set<std::int32_t> rules_;
};

// ---- compiling, in this process or another ----

// The reason why a compilation failed. The library's own text is never shown: it quotes the request.
struct Failure {
  std::string reason;
  bool is_busy = false;  // the machine is, and the constraint may be good
};

class Compiler {
 public:
  explicit Compiler(const TokenTexts& texts)
      // No stop tokens: the engine handles them.
      : tokens_(WithNames(texts), xgrammar::VocabType::RAW, static_cast<int>(texts.size()),
                std::vector<std::int32_t>{}),
        compiler_(tokens_, kCompilerThreads, kSharesRules, kMaxCompilerBytes) {}

  [[nodiscard]] const xgrammar::TokenizerInfo& tokens() const { return tokens_; }

  // Any number of threads may compile at a time.
  [[nodiscard]] std::variant<xgrammar::CompiledGrammar, Failure> Compile(const grammar::LibraryInput& input) {
    std::string warned;
    std::string failed;
    std::optional<xgrammar::CompiledGrammar> compiled;
    const WarningScope scope(warned);
    try {
      const xgrammar::Grammar grammar = GrammarOf(input);
      if (const std::optional<Failure> refused = Check(grammar)) return *refused;
      // The compiler gets the source text again and not this grammar, because it would print and parse the grammar, and
      // that corrupts non-ASCII text. It keeps what it has compiled and warns only once; GrammarOf warns on every call.
      compiled = CompileText(input);
    } catch (const xgrammar::LogFatalError& error) {
      failed = error.std::runtime_error::what();
    } catch (const std::bad_alloc&) {
      return Failure{"needs too much memory to compile"};
    } catch (const std::exception& error) {
      failed = error.what();
    }
    if (failed.empty()) failed = warned;
    if (!failed.empty() || !compiled) return Failure{ReasonOf(input.form, failed)};
    return *compiled;
  }

 private:
  static std::optional<Failure> Check(const xgrammar::Grammar& grammar) {
    if (grammar.ToString().size() > kMaxGrammarText) return Failure{"is too large"};
    if (Productive(grammar).HasDeadEnd()) return Failure{"has a part that matches no text: it never ends"};
    return std::nullopt;
  }

  // The place in a grammar that the library could not read: all that its words say to a client.
  static std::string PlaceIn(const std::string& message) {
    const std::size_t line = message.find("at line ");
    const std::size_t colon = message.find(':', line);
    if (line == std::string::npos || colon == std::string::npos) return "";
    const std::string place = message.substr(line + 3, colon - line - 3);
    const bool is_place = place.find_first_not_of("0123456789, linecoum") == std::string::npos;
    return is_place ? " (" + place + ")" : "";
  }

  static std::string ReasonOf(grammar::LibraryForm form, const std::string& message) {
    switch (form) {
      case grammar::LibraryForm::kGrammar: return "is not a grammar that this server reads" + PlaceIn(message);
      case grammar::LibraryForm::kRegex: return "is not a regular expression that this server can enforce";
      case grammar::LibraryForm::kStructuralTag: return "can not be enforced together";
      case grammar::LibraryForm::kSchema: break;
    }
    if (message.find("oneOf") != std::string::npos) {
      return "has a 'oneOf' whose alternatives are not known to exclude each other: use 'anyOf'";
    }
    return "is a schema that this server can not enforce";
  }

  // The library never allows a token without a text, even if a structural tag names it. So each such token gets a text
  // that is not UTF-8, and therefore not part of any output.
  static TokenTexts WithNames(TokenTexts texts) {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (texts[i].empty()) texts[i] = "\xFF" + std::to_string(i);
    }
    return texts;
  }

  [[nodiscard]] xgrammar::Grammar GrammarOf(const grammar::LibraryInput& input) const {
    switch (input.form) {
      case grammar::LibraryForm::kRegex: return xgrammar::Grammar::FromRegex(input.text);
      case grammar::LibraryForm::kGrammar: return xgrammar::Grammar::FromEBNF(input.text);
      case grammar::LibraryForm::kStructuralTag: return StructuralTagOf(input.text);
      case grammar::LibraryForm::kSchema: break;
    }
    return xgrammar::Grammar::FromJSONSchema(input.text, kAnyWhitespace, std::nullopt, std::nullopt, kStrict,
                                             kMaxWhitespace);
  }

  [[nodiscard]] xgrammar::CompiledGrammar CompileText(const grammar::LibraryInput& input) {
    switch (input.form) {
      case grammar::LibraryForm::kRegex: return compiler_.CompileRegex(input.text);
      case grammar::LibraryForm::kGrammar: return compiler_.CompileGrammar(input.text);
      case grammar::LibraryForm::kStructuralTag: return compiler_.CompileStructuralTag(input.text);
      case grammar::LibraryForm::kSchema: break;
    }
    return compiler_.CompileJSONSchema(input.text, kAnyWhitespace, std::nullopt, std::nullopt, kStrict, kMaxWhitespace);
  }

  [[nodiscard]] xgrammar::Grammar StructuralTagOf(const std::string& text) const {
    auto read = xgrammar::Grammar::FromStructuralTag(text, tokens_);
    if (const auto* const grammar = std::get_if<xgrammar::Grammar>(&read)) return *grammar;
    throw std::invalid_argument(std::visit([](const auto& error) { return error.what(); }, std::get<1>(read)));
  }

  const xgrammar::TokenizerInfo tokens_;
  xgrammar::GrammarCompiler compiler_;
};

// ---- jobs of the compiler's process ----
//
//   setup     for each token: its length, four bytes; its text
//   request   the form, a byte; the text
//   answer    'g' and the grammar as the library writes it; or 'f' and the reason

std::string SetupOf(const TokenTexts& texts) {
  std::string setup;
  for (const std::string& text : texts) {
    const auto size = static_cast<std::uint32_t>(text.size());
    setup.append(reinterpret_cast<const char*>(&size), sizeof(size));
    setup += text;
  }
  return setup;
}

TokenTexts TextsOf(std::string_view setup) {
  TokenTexts texts;
  while (setup.size() >= sizeof(std::uint32_t)) {
    std::uint32_t size = 0;
    std::memcpy(&size, setup.data(), sizeof(size));
    texts.emplace_back(setup.substr(sizeof(size), size));
    setup.remove_prefix(sizeof(size) + size);
  }
  return texts;
}

std::string AnswerTo(Compiler& compiler, std::string_view request) {
  grammar::LibraryInput input;
  input.form = static_cast<grammar::LibraryForm>(request.front());
  input.text = request.substr(1);
  const auto compiled = compiler.Compile(input);
  try {
    if (const auto* const grammar = std::get_if<0>(&compiled)) return 'g' + grammar->SerializeJSON();
  } catch (const std::bad_alloc&) {
    return "fneeds too much memory to compile";
  }
  return 'f' + std::get<1>(compiled).reason;
}

JobServer::Job PrepareCompiler(std::string_view setup) {
  const auto compiler = std::make_shared<Compiler>(TextsOf(setup));
  return [compiler](std::string_view request) { return AnswerTo(*compiler, request); };
}

// A compilation up to this cost takes less than a second, with a text of this size.
constexpr grammar::CompileCost kShortCost = 1024;
constexpr std::size_t kShortText = 16 * 1024;

class XgrammarLibrary final : public GrammarLibrary {
 public:
  XgrammarLibrary(const TokenTexts& texts, std::unique_ptr<JobServer> server, JobLimits limits)
      : compiler_(texts),
        sets_(std::make_shared<const TokenSets>(SetsOf(texts))),
        server_(std::move(server)),
        limits_(limits) {
    if (server_ != nullptr && !server_->SetUp(SetupOf(texts))) LogError("the process that compiles grammars ended");
  }

  Result<std::shared_ptr<const CompiledGrammar>> Compile(const wire::Constraint& constraint) const override {
    ROOST_ASSIGN_OR_RETURN(const grammar::LibraryInput input, grammar::LibraryInputOf(constraint));
    const bool is_apart = server_ != nullptr && LengthOf(input) == CompileLength::kLong;
    auto compiled = is_apart ? CompileApart(input) : compiler_.Compile(input);
    if (const auto* const failure = std::get_if<1>(&compiled)) {
      if (failure->is_busy) return Error{ErrorCode::kUnavailable, failure->reason, constraint.field};
      return InvalidArgument(constraint.field, "{}", failure->reason);
    }
    auto grammar = std::make_shared<XgrammarGrammar>(std::get<0>(compiled), SetsFor(input));
    ROOST_RETURN_IF_ERROR(CheckBegin(*grammar, constraint.field));
    return std::shared_ptr<const CompiledGrammar>(std::move(grammar));
  }

  [[nodiscard]] CompileLength LengthOf(const wire::Constraint& constraint) const override {
    const Result<grammar::LibraryInput> input = grammar::LibraryInputOf(constraint);
    return input.ok() ? LengthOf(*input) : CompileLength::kShort;
  }

  void Stop() const override {
    if (server_ != nullptr) server_->Stop();
  }

 private:
  // A client's grammar may be anything.
  static CompileLength LengthOf(const grammar::LibraryInput& input) {
    const bool is_short = input.cost <= kShortCost && input.text.size() <= kShortText && !input.has_grammar;
    return is_short ? CompileLength::kShort : CompileLength::kLong;
  }

  [[nodiscard]] std::variant<xgrammar::CompiledGrammar, Failure> CompileApart(
      const grammar::LibraryInput& input) const {
    const JobResult result = server_->Run(static_cast<char>(input.form) + input.text, limits_);
    switch (result.end) {
      case JobResult::End::kAnswered: return ReadAnswer(result.answer);
      case JobResult::End::kTooLong:
        return Failure{fmt::format("takes more than {} s to compile", ToSeconds(limits_.processor_time))};
      case JobResult::End::kFailed: return Failure{"takes too much memory to compile"};
      case JobResult::End::kNotInTime: return Failure{"was not compiled in time; try again", true};
    }
    return Failure{"can not be enforced"};
  }

  [[nodiscard]] std::variant<xgrammar::CompiledGrammar, Failure> ReadAnswer(const std::string& answer) const {
    if (answer.empty()) return Failure{"can not be enforced"};
    if (answer.front() == 'f') return Failure{answer.substr(1)};
    try {
      auto read = xgrammar::CompiledGrammar::DeserializeJSON(answer.substr(1), compiler_.tokens());
      if (const auto* const grammar = std::get_if<xgrammar::CompiledGrammar>(&read)) return *grammar;
    } catch (const std::exception& error) {
      LogError("a compiled grammar can not be read back", {{"reason", error.what()}});
    }
    return Failure{"can not be enforced"};
  }

  [[nodiscard]] SharedSets SetsFor(const grammar::LibraryInput& input) const {
    if (input.tokens.empty()) return sets_;
    TokenSets named = *sets_;
    for (const TokenId token : input.tokens) Insert(token, named.known);
    return std::make_shared<const TokenSets>(std::move(named));
  }

  // An output has at least one token.
  [[nodiscard]] Result<void> CheckBegin(const CompiledGrammar& grammar, const std::string& field) const {
    const std::unique_ptr<Automaton> automaton = grammar.Start();
    TokenBits mask(sets_->known.size());
    automaton->FillMask(mask);
    if (std::any_of(mask.begin(), mask.end(), [](std::uint32_t word) { return word != 0; })) return {};
    if (automaton->MayEnd()) return InvalidArgument(field, "allows only the empty text");
    return InvalidArgument(field, "allows no text that this model's tokens can write");
  }

  mutable Compiler compiler_;
  const SharedSets sets_;
  const std::unique_ptr<JobServer> server_;  // null: none
  const JobLimits limits_;
};

}  // namespace

bool HasGrammarLibrary() { return true; }

std::unique_ptr<JobServer> StartCompiler() { return JobServer::Start(&PrepareCompiler); }

std::unique_ptr<GrammarLibrary> OpenGrammarLibrary(const TokenTexts& texts, std::unique_ptr<JobServer> compiler,
                                                   JobLimits limits) {
  try {
    return std::make_unique<XgrammarLibrary>(texts, std::move(compiler), limits);
  } catch (const std::exception& error) {
    spdlog::error("the vocabulary can not be used for grammars: {}", error.what());
    return nullptr;
  }
}

}  // namespace roost::worker
