#include "worker/engine/constrained_output.h"

#include <bit>
#include <utility>

#include "common/base/check.h"

namespace roost::worker {

ConstrainedOutput::ConstrainedOutput(std::unique_ptr<Automaton> automaton, std::uint32_t vocab_size,
                                     std::span<const TokenId> stop_tokens)
    : automaton_(std::move(automaton)),
      stop_tokens_(stop_tokens.begin(), stop_tokens.end()),
      mask_(MaskWords(vocab_size)) {}

bool ConstrainedOutput::Take(std::uint32_t index, TokenId token) {
  if (index < taken_count_) return true;
  ROOST_CHECK(index == taken_count_, "token {} after {}", index, taken_count_);
  if (!automaton_->Accept(token)) return false;
  ++taken_count_;
  mask_is_made_ = false;
  return true;
}

void ConstrainedOutput::MakeMask() {
  if (std::exchange(mask_is_made_, true)) return;
  automaton_->FillMask(mask_);
  may_end_ = automaton_->MayEnd();
  may_go_on_ = false;
  only_token_.reset();
  for (std::size_t word = 0; word < mask_.size(); ++word) {
    if (mask_[word] == 0) continue;
    const bool is_first = !std::exchange(may_go_on_, true);
    if (!is_first || !std::has_single_bit(mask_[word])) {
      only_token_.reset();
      break;
    }
    only_token_ = static_cast<TokenId>(word * 32 + static_cast<std::size_t>(std::countr_zero(mask_[word])));
  }
  if (!may_end_) return;
  for (const TokenId stop : stop_tokens_) mask_[stop / 32] |= std::uint32_t{1} << stop % 32;
}

std::span<const std::uint32_t> ConstrainedOutput::Mask() {
  MakeMask();
  return mask_;
}

bool ConstrainedOutput::MustEnd() {
  MakeMask();
  return may_end_ && !may_go_on_;
}

bool ConstrainedOutput::IsStuck() {
  MakeMask();
  return !may_end_ && !may_go_on_;
}

std::optional<TokenId> ConstrainedOutput::OnlyToken() {
  MakeMask();
  return may_end_ ? std::nullopt : only_token_;
}

std::unique_ptr<ConstrainedOutput> ConstrainedOutput::Fork() const {
  auto fork = std::make_unique<ConstrainedOutput>(automaton_->Fork(), static_cast<std::uint32_t>(mask_.size() * 32),
                                                  stop_tokens_);
  fork->taken_count_ = taken_count_;
  return fork;
}

}  // namespace roost::worker
