// The automaton of one output under a constraint: which tokens may come next.
//
//   output   {"na   me":   "Ann"}   ⟨stop⟩          a token is taken whole; its end may fall anywhere in the grammar
//            └ Accept ┘ FillMask → which tokens may come next
//
// FillMask never includes stop tokens; MayEnd says whether one may come. The caller that draws adds them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "common/base/ids.h"

namespace roost::worker {

// A set of tokens: token t is bit t % 32 of word t / 32.
using TokenMask = std::span<std::uint32_t>;
[[nodiscard]] constexpr std::size_t MaskWords(std::size_t vocab_size) { return (vocab_size + 31) / 32; }

// Not thread-safe; different automata may be used at the same time.
class Automaton {
 public:
  virtual ~Automaton() = default;

  // False if the token may not come next; then nothing changes.
  [[nodiscard]] virtual bool Accept(TokenId token) = 0;
  // The tokens that may come next, without stop tokens. MaskWords(vocabulary) words.
  virtual void FillMask(TokenMask mask) = 0;
  // Is the accepted text a whole text of the grammar?
  [[nodiscard]] virtual bool MayEnd() const = 0;
  // A copy in the same state.
  [[nodiscard]] virtual std::unique_ptr<Automaton> Fork() const = 0;
};

}  // namespace roost::worker
