// The way of blocks between a device and the host, beside the device's ops: streams of its own for gathers out of the
// pool and for copies each way, and the events at which copies have ended. It shares nothing that changes with the
// device, so that any thread may use it while the device computes, also while its ops are recorded.
//
//   ops      …  step n      ─┬─ wait for the latest gather ─ step n + 1: scatter, kernels …
//   gathers        gather ───┘
//   out               └─ copy, copy …      each way has kPlaces copies under way at most
//   in       copy, copy …
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/move_blocks.h"

namespace roost::kernels {

enum class CopyWay : std::uint8_t { kOut, kIn };  // to the host, to the device
inline constexpr std::size_t kCopyWays = 2;

// Rows of bytes of the device and of pinned host memory, which one copy moves. Equal pitch and width: one piece.
struct RowsCopy {
  void* device = nullptr;
  std::size_t device_pitch = 0;
  void* host = nullptr;
  std::size_t host_pitch = 0;
  std::size_t width = 0;
  std::size_t rows = 0;
};

// A call that fails ends the process with one line that says copy; see device.h. From any thread, but a place is used
// by one thread at a time. Destroy it before its device, when no copy is under way.
class CopyStreams {
 public:
  static constexpr std::size_t kPlaces = 2;

  virtual ~CopyStreams() = default;
  CopyStreams(const CopyStreams&) = delete;
  CopyStreams& operator=(const CopyStreams&) = delete;

  // Begins to gather. Nothing that the caller's thread has seen to end is missing in it.
  virtual void Gather(const MoveBlocksArgs& args) = 0;
  // Begins a copy; one out begins behind the gathers that have begun.
  virtual void Begin(CopyWay way, std::size_t place, const RowsCopy& copy) = 0;
  // Waits for the place's copy.
  virtual void Await(CopyWay way, std::size_t place) = 0;
  // Fills device memory that no copy uses with zeros, and waits for it.
  virtual void Clear(void* device, std::size_t bytes) = 0;
  // By the device's thread, and not while it records: ops that begin from here on wait for the gathers that have begun.
  virtual void HoldOps() = 0;

 protected:
  CopyStreams() = default;
};

}  // namespace roost::kernels
