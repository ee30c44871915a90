#include "worker/cache/hold_book.h"

#include "common/base/check.h"

namespace roost::worker {

HoldBook::HoldBook(std::uint32_t block_count, Duration min_hold)
    : block_count_(block_count), min_hold_(min_hold), timers_(block_count, Instant()) {}

void HoldBook::Begin(BlockId block, Instant now) {
  if (min_hold_ == Duration::zero()) return;
  if (entries_.empty()) entries_.resize(block_count_);
  entries_[block.value()].number = begun_count_++;
  timers_.Set(block, now + min_hold_);
}

void HoldBook::Forget(BlockId block) {
  ROOST_CHECK(!IsHeld(block) && !IsReserved(block) && held_children(block) == 0, "block {} is held", block.value());
  timers_.Clear(block);
}

void HoldBook::Hold(BlockId block, std::optional<BlockId> parent) {
  Entry& entry = entries_[block.value()];
  ROOST_CHECK(!entry.held, "block {} is held already", block.value());
  entry.held = true;
  ++held_count_;
  if (parent) ++entries_[parent->value()].held_children;
}

void HoldBook::LetGo(BlockId block, std::optional<BlockId> parent) {
  Entry& entry = entries_[block.value()];
  ROOST_CHECK(entry.held, "block {} is not held", block.value());
  entry.held = false;
  --held_count_;
  if (parent) --entries_[parent->value()].held_children;
}

}  // namespace roost::worker
