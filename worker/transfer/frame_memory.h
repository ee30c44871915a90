// The memory for frames that have come and wait for the engine: a fixed number of frames, whose memory is used again.
// A receiver waits here while it is full, and so the sender waits too.
//
// Thread-safe. Buffers keep it alive.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "worker/transfer/frame.h"

namespace roost::worker {

class FrameMemory final : public FrameMemoryOwner, public std::enable_shared_from_this<FrameMemory> {
 public:
  FrameMemory(FrameSizes sizes, std::size_t frame_count) : sizes_(sizes), limit_(frame_count) {}
  ~FrameMemory() override;
  FrameMemory(const FrameMemory&) = delete;
  FrameMemory& operator=(const FrameMemory&) = delete;

  // Waits for memory while `wants` says so; it is asked whenever Wake is called. Empty when it no longer does.
  [[nodiscard]] std::optional<FrameBuffer> Take(const std::function<bool()>& wants);
  void Wake();

  void TakeBack(std::byte* memory) override;

  [[nodiscard]] const FrameSizes& sizes() const { return sizes_; }
  [[nodiscard]] std::size_t limit() const { return limit_; }
  // Frames in use.
  [[nodiscard]] std::size_t used() const;

 private:
  const FrameSizes sizes_;
  const std::size_t limit_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::vector<std::byte*> free_;
  std::size_t used_ = 0;
};

}  // namespace roost::worker
