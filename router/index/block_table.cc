#include "router/index/block_table.h"

#include <utility>

namespace roost::router {

BlockTable::BlockTable(const EpochGate& gate)
    : gate_(gate), current_(std::make_unique<Generation>(kFirstHomes)), published_(current_.get()) {}

BlockTable::~BlockTable() = default;

// ---- writer ----

bool BlockTable::Insert(Key key, Payload payload) { return InsertAt(HomeOf(key), key, payload); }

bool BlockTable::InsertAt(Bucket* home, Key key, Payload payload) {
  Bucket* bucket = home;
  for (std::size_t probe = 0; probe < kMaxProbes; ++probe, ++bucket) {
    for (std::size_t i = 0; i < kSlots; ++i) {
      const Slot slot(bucket, i);
      if (!IsFree(slot.key().load(std::memory_order_relaxed))) continue;
      CountPassed(home, bucket, 1);
      slot.key().store(key, std::memory_order_release);
      slot.SetPayload(payload);
      ++size_;
      return true;
    }
  }
  return false;
}

void BlockTable::Erase(Slot slot) {
  Bucket* const home = HomeOf(slot.key().load(std::memory_order_relaxed));
  slot.SetPayload(0);
  slot.key().store(gate_.now(), std::memory_order_release);
  CountPassed(home, slot.bucket_, static_cast<std::uint32_t>(-1));
  --size_;
}

void BlockTable::CountPassed(Bucket* first, const Bucket* last, std::uint32_t change) {
  for (Bucket* bucket = first; bucket != last; ++bucket) {
    bucket->passed.store(bucket->passed.load(std::memory_order_relaxed) + change, std::memory_order_release);
  }
}

std::size_t BlockTable::NextHomeCount() const {
  const std::size_t homes = newest().home_count;
  if (homes < kSmallHomes) return 2 * homes;
  return static_cast<std::size_t>(static_cast<double>(homes) * kLargeGrowth);
}

void BlockTable::StartGrowth() {
  next_ = std::make_unique<Generation>(NextHomeCount());
  current_->successor = next_.get();
  forgettable_ = 0;
  swept_ = 0;
}

void BlockTable::SetMoved(std::size_t homes) {
  current_->moved.store(homes, std::memory_order_release);
  if (homes < current_->home_count) return;
  published_.store(next_.get(), std::memory_order_release);
  retired_.push_back({std::exchange(current_, std::move(next_)), gate_.now()});
}

void BlockTable::Reclaim() {
  std::erase_if(retired_, [this](const Retired& retired) { return gate_.IsOver(retired.epoch); });
  if (!growing()) return;
  // In steps: when a step's epoch is over, frees the homes that had been moved when it began, and begins the next step.
  if (forgettable_ > 0 && !gate_.IsOver(forgettable_since_)) return;
  current_->buckets.ForgetBefore(forgettable_);
  forgettable_ = current_->moved.load(std::memory_order_relaxed);
  forgettable_since_ = gate_.now();
}

}  // namespace roost::router
