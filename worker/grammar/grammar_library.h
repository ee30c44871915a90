// The library behind constraints: xgrammar, or nothing where the worker was built without it. All that is known of it
// is in grammar_library_xgrammar.cc.
//
// Threads: Compile from any number of threads at a time; a CompiledGrammar is immutable, and automata of one may be
// used by different threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/grammar/constraint_rules.h"
#include "common/wire/messages.h"
#include "worker/grammar/automaton.h"

namespace roost {
class Tokenizer;
}  // namespace roost

namespace roost::worker {

// What each token of a model writes. Empty: nothing that a text may have, as of special tokens and of ids without a
// token.
using TokenTexts = std::vector<std::string>;
// Of ids below `vocab_size`, the model's, which may be more than the tokenizer has. Stop tokens write nothing.
[[nodiscard]] TokenTexts TokenTextsOf(const Tokenizer& tokenizer, std::uint32_t vocab_size,
                                      const std::vector<TokenId>& stop_tokens);

class CompiledGrammar {
 public:
  virtual ~CompiledGrammar() = default;
  [[nodiscard]] virtual std::size_t bytes() const = 0;
  [[nodiscard]] virtual std::unique_ptr<Automaton> Start() const = 0;
};

class GrammarLibrary {
 public:
  virtual ~GrammarLibrary() = default;
  // kInvalidArgument names the constraint's field.
  [[nodiscard]] virtual Result<std::shared_ptr<const CompiledGrammar>> Compile(
      const wire::Constraint& constraint) const = 0;
};

// Was the worker built with the library?
[[nodiscard]] bool HasGrammarLibrary();
// Null without it. O(texts · log).
[[nodiscard]] std::unique_ptr<GrammarLibrary> OpenGrammarLibrary(const TokenTexts& texts);

}  // namespace roost::worker
