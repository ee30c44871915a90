// Stores a value for each sequence and finds it by the sequence's id without a search: the low bits of an id are the
// number of a slot, which another sequence may get when this one is gone.
//
//   id      [ number, ascending in order of arrival │ slot ]
//   slots   0: id, T    1: nothing    2: id, T    …           as many as the most sequences at one time
//
// The id of a sequence that is gone finds nothing, because a new sequence in its slot has a different id. Not
// thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/prefix/block_hash.h"
#include "worker/sched/sequence.h"

namespace roost::worker {

inline constexpr std::uint32_t kSequenceSlotBits = 24;  // low bits of an id

[[nodiscard]] constexpr std::size_t SlotOf(SequenceId id) {
  return id.value() & ((std::uint64_t{1} << kSequenceSlotBits) - 1);
}

// Makes new ids.
class SequenceIds {
 public:
  [[nodiscard]] SequenceId Take() {
    if (free_.empty()) free_.push_back(slot_count_++);
    const std::uint64_t slot = free_.back();
    free_.pop_back();
    ROOST_CHECK(slot >> kSequenceSlotBits == 0, "{} sequences at a time", slot);
    return SequenceId(next_number_++ << kSequenceSlotBits | slot);
  }
  // Frees the slot of a sequence that is gone.
  void Return(SequenceId id) { free_.push_back(SlotOf(id)); }

 private:
  std::uint64_t next_number_ = 0;
  std::uint64_t slot_count_ = 0;
  std::vector<std::uint64_t> free_;
};

// Holds a T for some of the sequences. References to it stay valid until it is erased. Every operation is O(1).
template <typename T>
class SequenceSlots {
 public:
  // Adds a value for a sequence that has none.
  T& Put(SequenceId id, std::unique_ptr<T> value) {
    const std::size_t index = SlotOf(id);
    if (index >= slots_.size()) slots_.resize(index + 1);
    ROOST_CHECK(slots_[index].value == nullptr, "sequence {} takes a slot that is not free", id.value());
    slots_[index] = {id, std::move(value)};
    ++size_;
    return *slots_[index].value;
  }

  [[nodiscard]] T* Find(SequenceId id) const {
    const std::size_t index = SlotOf(id);
    return index < slots_.size() && slots_[index].id == id ? slots_[index].value.get() : nullptr;
  }

  // The value, which must be there.
  [[nodiscard]] T& At(SequenceId id) const {
    T* const value = Find(id);
    ROOST_CHECK(value != nullptr, "sequence {} is gone", id.value());
    return *value;
  }

  // Returns the value, which must be there.
  std::unique_ptr<T> Take(SequenceId id) {
    ROOST_CHECK(Find(id) != nullptr, "sequence {} is gone", id.value());
    --size_;
    return std::exchange(slots_[SlotOf(id)], {}).value;
  }
  void Erase(SequenceId id) { Take(id).reset(); }

  [[nodiscard]] std::size_t size() const { return size_; }

  struct Slot {
    SequenceId id;
    std::unique_ptr<T> value;  // null: nothing
  };
  [[nodiscard]] const std::vector<Slot>& slots() const { return slots_; }

 private:
  std::vector<Slot> slots_;
  std::size_t size_ = 0;
};

// The sequences that are here. Only the scheduler adds and removes them.
struct Sequences {
  SequenceIds ids;
  SequenceSlots<Sequence> all;
  std::vector<Sequence*> running;  // in order of admission

  template <typename Visit>
  void VisitAll(const Visit& visit) const {
    for (const auto& slot : all.slots()) {
      if (slot.value != nullptr) visit(*slot.value);
    }
  }

  // True if a sequence has this block at this place and has not committed it yet. O(sequences).
  [[nodiscard]] bool Wants(BlockHash block, std::uint32_t position) const {
    return std::any_of(all.slots().begin(), all.slots().end(), [&](const auto& slot) {
      const Sequence* const each = slot.value.get();
      return each != nullptr && each->uses_cache() && position < each->hashes.size() &&
             each->hashes[position] == block && each->committed_block_count <= position;
    });
  }
};

}  // namespace roost::worker
