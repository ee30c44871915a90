// What an output may go on with: the state of one output in the automaton of its constraint.
//
//   output   {"na   me":   "Ann"}   ⟨stop⟩          a token is taken whole; it may end anywhere in the grammar
//            └ Accept ┘ FillMask → which tokens may come next
//
// The text's end is told apart from its stop tokens: FillMask never has these among the tokens, MayEnd says whether one
// may come. Who draws adds them.
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

  // False where the token may not come next; then nothing has changed.
  [[nodiscard]] virtual bool Accept(TokenId token) = 0;
  // The tokens that may come next, without stop tokens. MaskWords(vocabulary) words.
  virtual void FillMask(TokenMask mask) = 0;
  // Is what has been accepted a whole text of the grammar?
  [[nodiscard]] virtual bool MayEnd() const = 0;
  // Another one in the same state.
  [[nodiscard]] virtual std::unique_ptr<Automaton> Fork() const = 0;
};

}  // namespace roost::worker
