// The pins that a naive cache (naive_cache.h) was told of, whether or not their blocks are there.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "common/base/clock.h"
#include "common/prefix/block_hash.h"

namespace roost::testing_support {

class NaivePinTable {
 public:
  struct Pin {
    BlockHash hash;
    std::optional<Instant> end;
    std::uint64_t number;  // of the call
  };

  void Add(Pin pin) { pins_.push_back(pin); }
  void Remove(BlockHash hash) {
    pins_.erase(std::remove_if(pins_.begin(), pins_.end(), [hash](const Pin& pin) { return pin.hash == hash; }),
                pins_.end());
  }
  // Removes those that have ended. The latest end comes first; of equal ends the pin that was added last.
  [[nodiscard]] std::vector<BlockHash> TakeEnded(Instant now) {
    std::vector<Pin> ended;
    for (const Pin& pin : pins_) {
      if (pin.end && *pin.end <= now) ended.push_back(pin);
    }
    std::sort(ended.begin(), ended.end(),
              [](const Pin& a, const Pin& b) { return std::tie(a.end, a.number) > std::tie(b.end, b.number); });
    std::vector<BlockHash> hashes;
    for (const Pin& pin : ended) {
      Remove(pin.hash);
      hashes.push_back(pin.hash);
    }
    return hashes;
  }

  [[nodiscard]] bool Has(BlockHash hash) const {
    return std::any_of(pins_.begin(), pins_.end(), [hash](const Pin& pin) { return pin.hash == hash; });
  }
  [[nodiscard]] std::size_t size() const { return pins_.size(); }

 private:
  std::vector<Pin> pins_;
};

}  // namespace roost::testing_support
