// A number that differs in every process, from the system's source of randomness.
#pragma once

#include <cstdint>
#include <random>

namespace roost {

[[nodiscard]] inline std::uint64_t RandomSeed() {
  std::random_device device;
  return (std::uint64_t{device()} << 32U) | device();
}

}  // namespace roost
