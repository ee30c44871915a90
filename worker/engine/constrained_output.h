// One output under a constraint: its automaton, and the mask of the tokens that may come next. The mask is made once
// for each position of the output. It includes the stop tokens where the text may end.
//
//   drawn   t0  t1  t2        Take(0, t0), Take(1, t1), …: each token is taken once
//   mask            └ after t2
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/base/ids.h"
#include "worker/grammar/automaton.h"

namespace roost::worker {

class ConstrainedOutput {
 public:
  // `automaton` has already taken the tokens written before. `stop_tokens` (each below `vocab_size`) may end the text.
  ConstrainedOutput(std::unique_ptr<Automaton> automaton, std::uint32_t vocab_size,
                    std::span<const TokenId> stop_tokens);

  // Takes the output's token number `index`, counted from the first one drawn here. False: the mask forbids it.
  [[nodiscard]] bool Take(std::uint32_t index, TokenId token);

  // The tokens that may come next.
  [[nodiscard]] std::span<const std::uint32_t> Mask();
  // True if the text must end here.
  [[nodiscard]] bool MustEnd();
  // True if no token may follow and the text may not end: the vocabulary can not write what the constraint asks for.
  [[nodiscard]] bool IsStuck();
  // The next token, if the constraint leaves exactly one and the text may not end.
  [[nodiscard]] std::optional<TokenId> OnlyToken();

  [[nodiscard]] std::unique_ptr<ConstrainedOutput> Fork() const;

 private:
  void MakeMask();

  std::unique_ptr<Automaton> automaton_;
  std::vector<TokenId> stop_tokens_;
  std::uint32_t taken_count_ = 0;

  // For the position after the tokens that were taken.
  bool mask_is_made_ = false;
  std::vector<std::uint32_t> mask_;
  bool may_end_ = false;
  bool may_go_on_ = false;             // a token other than a stop token is allowed
  std::optional<TokenId> only_token_;  // set if exactly one is allowed
};

}  // namespace roost::worker
