// The device on which launches of the shim run. Its memory is plain memory.
//
// It records as a CUDA stream does: between BeginRecording and EndRecording nothing runs; each launch is stored with
// its shape and its arguments. A replay runs them again, on whatever the memory behind their pointers holds by then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "common/base/rng.h"
#include "kernels/cpu/host_readbacks.h"
#include "kernels/device.h"
#include "tests/support/simt/block.h"

namespace roost::simt {

// As an H100 and an H200 have.
inline constexpr std::uint32_t kMultiprocessors = 132;

class Device final : public kernels::Device {
 public:
  // Blocks of a grid, and threads of a block, run in an order drawn from the seed.
  explicit Device(std::uint64_t seed = 0) : order_(seed), block_(seed) {}

  [[nodiscard]] static Device& Of(kernels::Device& device) { return static_cast<Device&>(device); }

  // Runs `kernel` once per thread of the grid, one block after the other.
  void Run(const Dim3& grid, const Dim3& shape, std::size_t dynamic_shared_bytes, const std::function<void()>& kernel);

  void BeginRecording();
  [[nodiscard]] std::unique_ptr<kernels::Recording> EndRecording();
  // On the device that made the recording.
  void Replay(const kernels::Recording& recording) const;
  // Calls it, or stores it while a recording is being made.
  void RunOrRecord(std::function<void()> call);
  // Aborts while a recording is being made, in which `what` is not allowed.
  void CheckNotRecording(const char* what) const;

  [[nodiscard]] kernels::HostReadbacks& readbacks() { return readbacks_; }

  // See block.h.
  [[nodiscard]] const std::set<Place>& barriers() const { return block_.barriers(); }
  void WatchGlobal(std::vector<std::span<const std::byte>> memory) { block_.WatchGlobal(std::move(memory)); }
  void RemoveBarrier(const Place& place) { block_.RemoveBarrier(place); }

  // Counters of all launches so far.
  [[nodiscard]] const Counters& counters() { return block_.counters(); }

 private:
  using Calls = std::vector<std::function<void()>>;
  struct StoredCalls;

  std::optional<Calls> recorded_;  // while a recording is being made
  Rng order_;
  Block block_;
  kernels::HostReadbacks readbacks_;
};

}  // namespace roost::simt
