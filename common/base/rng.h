// Randomness as a parameter: a sequential generator for decisions and tests, and a counter-based one for sampling.
// Neither is for secrets.
#pragma once

#include <cstdint>

namespace roost {

// The finaliser of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014).
[[nodiscard]] constexpr std::uint64_t Mix64(std::uint64_t x) {
  x ^= x >> 30U;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27U;
  x *= 0x94d049bb133111ebULL;
  x ^= x >> 31U;
  return x;
}

// The top 53 bits as a double in [0, 1).
[[nodiscard]] constexpr double ToUnitInterval(std::uint64_t bits) {
  return static_cast<double>(bits >> 11U) * 0x1.0p-53;
}

// SplitMix64. Same seed, same sequence, on every machine. Satisfies UniformRandomBitGenerator.
class Rng {
 public:
  using result_type = std::uint64_t;

  constexpr explicit Rng(std::uint64_t seed) : state_(seed) {}

  static constexpr std::uint64_t min() { return 0; }
  static constexpr std::uint64_t max() { return ~std::uint64_t{0}; }

  constexpr std::uint64_t operator()() {
    state_ += kGolden;
    return Mix64(state_);
  }

  // Uniform over 0 … bound-1; bound > 0. The bias is below bound / 2^64.
  constexpr std::uint64_t Below(std::uint64_t bound) {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>((*this)()) * bound) >> 64U);
  }

  constexpr double Uniform() { return ToUnitInterval((*this)()); }

 private:
  static constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15ULL;

  std::uint64_t state_;
};

// The random number at place `counter` of the stream `seed`. It depends on nothing else, so a request that is
// preempted, moved or continued on another worker draws the same numbers.
[[nodiscard]] constexpr double CounterUniform(std::uint64_t seed, std::uint64_t counter) {
  return ToUnitInterval(Mix64(Mix64(seed ^ 0xd1b54a32d192ed03ULL) + 0x9e3779b97f4a7c15ULL * (counter + 1)));
}

}  // namespace roost
