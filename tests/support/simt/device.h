// The device on which launches of the shim run. Its memory is plain memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "common/base/rng.h"
#include "kernels/device.h"
#include "kernels/host_readbacks.h"
#include "tests/support/simt/block.h"

namespace roost::simt {

class Device final : public kernels::Device {
 public:
  // Blocks of a grid, and threads of a block, run in an order drawn from the seed.
  explicit Device(std::uint64_t seed = 0) : order_(seed), block_(seed) {}

  [[nodiscard]] static Device& Of(kernels::Device& device) { return static_cast<Device&>(device); }

  // Runs `kernel` once per thread of the grid, one block after the other.
  void Run(const Dim3& grid, const Dim3& shape, std::size_t dynamic_shared_bytes, const std::function<void()>& kernel);

  [[nodiscard]] kernels::HostReadbacks& readbacks() { return readbacks_; }

  // Counters of all launches so far.
  [[nodiscard]] const Counters& counters() { return block_.counters(); }

 private:
  Rng order_;
  Block block_;
  kernels::HostReadbacks readbacks_;
};

}  // namespace roost::simt
