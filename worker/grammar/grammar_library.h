// The library behind constraints: xgrammar, or none if the worker was built without it. Only
// grammar_library_xgrammar.cc knows xgrammar.
//
// Threads: any number of threads may call Compile at a time. A CompiledGrammar is immutable, and different threads may
// use automata of the same one.
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
#include "worker/grammar/job_server.h"

namespace roost {
class Tokenizer;
}  // namespace roost

namespace roost::worker {

// The text that each token of a model writes. Empty if it writes no text: special tokens, and ids without a token.
using TokenTexts = std::vector<std::string>;
// One text for each id below the model's `vocab_size`, which may be larger than the tokenizer's. Stop tokens have an
// empty text.
[[nodiscard]] TokenTexts TokenTextsOf(const Tokenizer& tokenizer, std::uint32_t vocab_size,
                                      const std::vector<TokenId>& stop_tokens);

class CompiledGrammar {
 public:
  virtual ~CompiledGrammar() = default;
  [[nodiscard]] virtual std::size_t bytes() const = 0;
  [[nodiscard]] virtual std::unique_ptr<Automaton> Start() const = 0;
};

// The time that a compilation may take. A short one is done in the caller's thread. Any other is done apart, where it
// ends at the limits.
enum class CompileLength : std::uint8_t { kShort, kLong };

class GrammarLibrary {
 public:
  virtual ~GrammarLibrary() = default;
  // kInvalidArgument names the constraint's field; so does kUnavailable, when the machine is too busy and another try
  // may succeed. Nothing of it is in the library's own words, which quote the request.
  [[nodiscard]] virtual Result<std::shared_ptr<const CompiledGrammar>> Compile(
      const wire::Constraint& constraint) const = 0;
  // O(text), without compiling.
  [[nodiscard]] virtual CompileLength LengthOf(const wire::Constraint& constraint) const = 0;
  // Ends compilations that are done apart; they fail.
  virtual void Stop() const {}
};

// Was the worker built with the library?
[[nodiscard]] bool HasGrammarLibrary();
// Starts the process that long compilations are done in. Call it before the process grows and has threads of its own.
// Null without the library.
[[nodiscard]] std::unique_ptr<JobServer> StartCompiler();
// Null without the library. `compiler` null: all compilations are done in the caller's thread, and have no end. O(texts
// · log).
[[nodiscard]] std::unique_ptr<GrammarLibrary> OpenGrammarLibrary(const TokenTexts& texts,
                                                                 std::unique_ptr<JobServer> compiler = nullptr,
                                                                 JobLimits limits = {});

}  // namespace roost::worker
