// The source of a random test's decisions: a generator with a seed, or the bytes of a fuzzer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/base/rng.h"

namespace roost::testing_support {

class Choices {
 public:
  virtual ~Choices() = default;

  // One of 0 … bound-1; bound > 0.
  [[nodiscard]] virtual std::uint64_t Below(std::uint64_t bound) = 0;
};

class RandomChoices final : public Choices {
 public:
  explicit RandomChoices(std::uint64_t seed) : rng_(seed) {}

  [[nodiscard]] std::uint64_t Below(std::uint64_t bound) override { return rng_.Below(bound); }

 private:
  Rng rng_;
};

// One byte per choice, so that a fuzzer that changes a byte changes one decision. Zeros once the bytes are used up.
class ByteChoices final : public Choices {
 public:
  // The bytes outlive it.
  explicit ByteChoices(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  [[nodiscard]] std::uint64_t Below(std::uint64_t bound) override {
    if (is_used_up()) return 0;
    return bytes_[next_++] % bound;
  }
  [[nodiscard]] bool is_used_up() const { return next_ == bytes_.size(); }

 private:
  std::span<const std::uint8_t> bytes_;
  std::size_t next_ = 0;
};

}  // namespace roost::testing_support
