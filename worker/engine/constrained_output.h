// One output under a constraint: its automaton, and the tokens that may come next, which are made once for each place
// of the output. Stop tokens are among them where the text may end.
//
//   drawn   t0  t1  t2        Take(0, t0), Take(1, t1), …: each token once, whoever knows it first
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
  // `automaton` has gone through what was written before. `stop_tokens` (below `vocab_size`) may end the text.
  ConstrainedOutput(std::unique_ptr<Automaton> automaton, std::uint32_t vocab_size,
                    std::span<const TokenId> stop_tokens);

  // The output's token number `index`, counted from the first that was drawn here. False where it may not stand there.
  [[nodiscard]] bool Take(std::uint32_t index, TokenId token);

  // The tokens that may come next.
  [[nodiscard]] std::span<const std::uint32_t> Mask();
  // Does nothing follow but the end?
  [[nodiscard]] bool MustEnd();
  // May neither a token follow nor the text end? Then the vocabulary can not write what the constraint wants.
  [[nodiscard]] bool IsStuck();
  // The one token that may follow, if there is but one and the text may not end.
  [[nodiscard]] std::optional<TokenId> OnlyToken();

  [[nodiscard]] std::unique_ptr<ConstrainedOutput> Fork() const;

 private:
  void MakeMask();

  std::unique_ptr<Automaton> automaton_;
  std::vector<TokenId> stop_tokens_;
  std::uint32_t taken_count_ = 0;

  // Of the place after the tokens that were taken.
  bool mask_is_made_ = false;
  std::vector<std::uint32_t> mask_;
  bool may_end_ = false;
  bool may_go_on_ = false;             // there is a token beside stop tokens
  std::optional<TokenId> only_token_;  // there is but one of them
};

}  // namespace roost::worker
