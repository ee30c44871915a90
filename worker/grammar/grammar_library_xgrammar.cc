// The only file that knows xgrammar.
#include <spdlog/spdlog.h>
#include <xgrammar/xgrammar.h>

#include <array>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/check.h"
#include "common/base/utf8.h"
#include "support/logging.h"
#include "worker/grammar/grammar_library.h"

namespace {

// The first warning while this thread compiles. The library does not enforce what it warns about, so a warning is a
// refusal.
thread_local std::string* warning = nullptr;

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
constexpr bool kStrict = false;  // what a schema leaves open has been made explicit before
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

class XgrammarLibrary final : public GrammarLibrary {
 public:
  explicit XgrammarLibrary(const TokenTexts& texts)
      // No stop tokens: the engine handles them.
      : tokens_(WithNames(texts), xgrammar::VocabType::RAW, static_cast<int>(texts.size()),
                std::vector<std::int32_t>{}),
        compiler_(tokens_, kCompilerThreads, kSharesRules, kMaxCompilerBytes),
        sets_(std::make_shared<const TokenSets>(SetsOf(texts))) {}

  Result<std::shared_ptr<const CompiledGrammar>> Compile(const wire::Constraint& constraint) const override {
    ROOST_ASSIGN_OR_RETURN(const grammar::LibraryInput input, grammar::LibraryInputOf(constraint));
    std::string warned;
    std::string failed;
    std::shared_ptr<const CompiledGrammar> compiled;
    warning = &warned;
    try {
      compiled = CompileInput(input, failed);
    } catch (const xgrammar::LogFatalError& error) {
      failed = error.std::runtime_error::what();
    } catch (const std::exception& error) {
      failed = error.what();
    }
    warning = nullptr;
    if (failed.empty()) failed = warned;
    if (!failed.empty()) return InvalidArgument(constraint.field, "can not be enforced: {}", FirstLine(failed));
    return compiled;
  }

 private:
  // Null for a grammar that is too large; `failed` then says why.
  [[nodiscard]] std::shared_ptr<const CompiledGrammar> CompileInput(const grammar::LibraryInput& input,
                                                                    std::string& failed) const {
    // GrammarOf warns on every call; the library's compiler caches what it has compiled and warns only once. The
    // compiler gets the source text again and not this grammar, because it would print and parse the grammar, and that
    // corrupts non-ASCII text.
    if (GrammarOf(input).ToString().size() > kMaxGrammarText) {
      failed = "its grammar is too large";
      return nullptr;
    }
    SharedSets sets = sets_;
    if (!input.tokens.empty()) {
      TokenSets named = *sets_;
      for (const TokenId token : input.tokens) Insert(token, named.known);
      sets = std::make_shared<const TokenSets>(std::move(named));
    }
    return std::make_shared<XgrammarGrammar>(CompileText(input), std::move(sets));
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

  [[nodiscard]] xgrammar::CompiledGrammar CompileText(const grammar::LibraryInput& input) const {
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

  static std::string FirstLine(const std::string& text) {
    constexpr std::size_t kMaxBytes = 300;
    std::string line = ReplaceInvalidUtf8(text.substr(0, std::min(text.find('\n'), kMaxBytes)));
    return line;
  }

  const xgrammar::TokenizerInfo tokens_;
  mutable xgrammar::GrammarCompiler compiler_;  // may be used by any number of threads at a time
  const SharedSets sets_;
};

}  // namespace

bool HasGrammarLibrary() { return true; }

std::unique_ptr<GrammarLibrary> OpenGrammarLibrary(const TokenTexts& texts) {
  try {
    return std::make_unique<XgrammarLibrary>(texts);
  } catch (const std::exception& error) {
    spdlog::error("the vocabulary can not be used for grammars: {}", error.what());
    return nullptr;
  }
}

}  // namespace roost::worker
