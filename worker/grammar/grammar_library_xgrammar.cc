// All that is known of xgrammar.
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

// The first warning of this thread's compilation: what the library only warns of it does not hold to.
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

// White space between two signs of JSON: what lays text out in lines is well below, and a model that writes nothing
// else comes to an end.
constexpr int kMaxWhitespace = 32;
constexpr bool kAnyWhitespace = true;
constexpr bool kStrict = false;  // what a schema leaves open has been written into it
// Of a grammar written out: beyond it compiling takes seconds and more.
constexpr std::size_t kMaxGrammarText = std::size_t{1} << 20U;
// Masks of rules that schemas have in common, as JSON's strings and numbers are. The library takes a third of what it
// is given for these, and the rest for whole grammars.
constexpr std::int64_t kMaxCompilerBytes = std::int64_t{96} << 20U;
constexpr int kCompilerThreads = 1;  // the caller's
constexpr bool kSharesRules = true;

// Tokens that may come at all: those with a text, and the special ones that a structural tag names.
using KnownTokens = std::shared_ptr<const std::vector<std::uint32_t>>;

class XgrammarAutomaton final : public Automaton {
 public:
  XgrammarAutomaton(xgrammar::GrammarMatcher matcher, KnownTokens known)
      : matcher_(std::move(matcher)), known_(std::move(known)), mask_words_(known_->size()) {}

  bool Accept(TokenId token) override {
    const bool is_known = token / 32 < mask_words_ && ((*known_)[token / 32] >> token % 32 & 1U) != 0;
    return is_known && matcher_.AcceptToken(static_cast<std::int32_t>(token));
  }
  void FillMask(TokenMask mask) override {
    ROOST_CHECK(mask.size() == mask_words_);
    auto shape = static_cast<std::int64_t>(mask_words_);
    DLTensor tensor{};
    tensor.data = mask.data();
    tensor.device = {kDLCPU, 0};
    tensor.ndim = 1;
    tensor.dtype = xgrammar::GetBitmaskDLType();
    tensor.shape = &shape;
    (void)matcher_.FillNextTokenBitmask(&tensor);
    for (std::size_t i = 0; i < mask_words_; ++i) mask[i] &= (*known_)[i];
  }
  [[nodiscard]] bool MayEnd() const override { return matcher_.IsCompleted(); }
  [[nodiscard]] std::unique_ptr<Automaton> Fork() const override {
    return std::make_unique<XgrammarAutomaton>(matcher_.Fork(), known_);
  }

 private:
  xgrammar::GrammarMatcher matcher_;
  const KnownTokens known_;
  const std::size_t mask_words_;
};

class XgrammarGrammar final : public CompiledGrammar {
 public:
  XgrammarGrammar(xgrammar::CompiledGrammar grammar, KnownTokens known)
      : grammar_(std::move(grammar)), known_(std::move(known)) {}

  [[nodiscard]] std::size_t bytes() const override { return grammar_.MemorySizeBytes(); }
  [[nodiscard]] std::unique_ptr<Automaton> Start() const override {
    return std::make_unique<XgrammarAutomaton>(xgrammar::GrammarMatcher(grammar_), known_);
  }

 private:
  const xgrammar::CompiledGrammar grammar_;
  const KnownTokens known_;
};

class XgrammarLibrary final : public GrammarLibrary {
 public:
  explicit XgrammarLibrary(const TokenTexts& texts)
      // Stop tokens are the engine's business.
      : tokens_(WithNames(texts), xgrammar::VocabType::RAW, static_cast<int>(texts.size()),
                std::vector<std::int32_t>{}),
        compiler_(tokens_, kCompilerThreads, kSharesRules, kMaxCompilerBytes),
        known_(std::make_shared<const std::vector<std::uint32_t>>(KnownOf(texts))) {}

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
    if (!failed.empty()) return InvalidArgument(constraint.field, "can not be held to: {}", FirstLine(failed));
    return compiled;
  }

 private:
  // Null, and why in `failed`, for a grammar that is too large.
  [[nodiscard]] std::shared_ptr<const CompiledGrammar> CompileInput(const grammar::LibraryInput& input,
                                                                    std::string& failed) const {
    // The library warns here, each time: its compiler keeps what it has compiled, and warns once. That is told the text
    // again and not this grammar, which it would print and read, and so spoil what is not ASCII.
    if (GrammarOf(input).ToString().size() > kMaxGrammarText) {
      failed = "it makes too large a grammar";
      return nullptr;
    }
    KnownTokens known = known_;
    if (!input.tokens.empty()) {
      auto named = *known_;
      for (const TokenId token : input.tokens) {
        if (token / 32 < named.size()) named[token / 32] |= 1U << token % 32;
      }
      known = std::make_shared<const std::vector<std::uint32_t>>(std::move(named));
    }
    return std::make_shared<XgrammarGrammar>(CompileText(input), std::move(known));
  }

  // The library never allows a token without a text, not even one that a structural tag names. So each gets one that is
  // no UTF-8, and thus no part of any text.
  static TokenTexts WithNames(TokenTexts texts) {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (texts[i].empty()) texts[i] = "\xFF" + std::to_string(i);
    }
    return texts;
  }

  static std::vector<std::uint32_t> KnownOf(const TokenTexts& texts) {
    std::vector<std::uint32_t> known(MaskWords(texts.size()));
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (!texts[i].empty()) known[i / 32] |= 1U << i % 32;
    }
    return known;
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
  mutable xgrammar::GrammarCompiler compiler_;  // any number of threads at a time
  const KnownTokens known_;
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
