// A set of worker slots, for the entries of the index. One word without an allocation while all slots are below 64;
// words are added as higher slots come. A plain value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/ids.h"

namespace roost::router {

class HolderSet {
 public:
  // False when the slot was in already.
  bool Insert(WorkerSlot slot);
  // False when the slot was not in.
  bool Erase(WorkerSlot slot);

  [[nodiscard]] bool Contains(WorkerSlot slot) const;
  [[nodiscard]] bool empty() const;

  void IntersectWith(const HolderSet& other);
  void UniteWith(const HolderSet& other);

  // Calls visit(WorkerSlot) in ascending order.
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (std::size_t word = 0; word < word_count(); ++word) {
      for (std::uint64_t rest = Word(word); rest != 0; rest &= rest - 1) {
        visit(WorkerSlot(static_cast<std::uint32_t>(word * kWordBits) +
                         static_cast<std::uint32_t>(__builtin_ctzll(rest))));
      }
    }
  }

  // The members of this set that `other` lacks.
  [[nodiscard]] HolderSet Minus(const HolderSet& other) const;

 private:
  static constexpr std::size_t kWordBits = 64;

  [[nodiscard]] std::size_t word_count() const { return 1 + more_.size(); }
  // Zero past the last word.
  [[nodiscard]] std::uint64_t Word(std::size_t index) const;
  std::uint64_t& MutableWord(std::size_t index);

  std::uint64_t first_ = 0;          // slots 0 … 63
  std::vector<std::uint64_t> more_;  // slots 64 …
};

}  // namespace roost::router
