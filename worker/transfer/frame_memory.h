// The memory for frames that have come and wait for the engine, or that are being sent: a fixed number of frames, whose
// memory is used again. A receiver waits here while it is full, and so the sender waits too. A model that has
// FrameStaging gives the frames, all at once; others come from the heap when they are first used.
//
// Where bytes of an erased block may be left, it is wiped: frames that are free at once, frames in use when they come
// back.
//
//   unused ─┐                  ┌─ taken before the wipe ─▶ to wipe ─ Wipe ─▶ unused
//           ├─▶ taken ── back ─┤                             ▲
//   used ◀──┘      └───────────┴─ taken after it ─▶ used ────┘ BeginWipe
//
// Thread-safe. Buffers keep it alive; the staging outlives it and them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "worker/model/block_reader.h"
#include "worker/transfer/frame.h"

namespace roost::worker {

class FrameMemory final : public FrameMemoryOwner, public std::enable_shared_from_this<FrameMemory> {
 public:
  FrameMemory(FrameSizes sizes, std::size_t frame_count, FrameStaging* staging = nullptr);
  ~FrameMemory() override;
  FrameMemory(const FrameMemory&) = delete;
  FrameMemory& operator=(const FrameMemory&) = delete;

  // Waits for memory while `wants` says so; it is asked whenever Wake is called. Empty when it no longer does.
  [[nodiscard]] std::optional<FrameBuffer> Take(const std::function<bool()>& wants);
  void Wake();
  // Brings a frame that has come to where the engine's batches write it from. It counts as come when this returns.
  void Stage(const FrameBuffer& frame) const {
    if (staging_ != nullptr) staging_->Stage(frame.data());
  }

  // With staging: from now on the bytes that frames have now are to be wiped. Wipe does that, on one thread: it returns
  // when all frames that were in use have come back, and nothing is left to wipe.
  void BeginWipe();
  void Wipe();
  // Wipe returns from here on.
  void StopWiping();

  void TakeBack(std::byte* memory, std::uint64_t wipe) override;

  [[nodiscard]] const FrameSizes& sizes() const { return sizes_; }
  [[nodiscard]] std::size_t limit() const { return limit_; }
  // Frames in use.
  [[nodiscard]] std::size_t used() const;

 private:
  const FrameSizes sizes_;
  const std::size_t limit_;
  FrameStaging* const staging_;  // null: frames are the heap's

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable returned_;  // for Wipe
  // Guarded by mutex_.
  std::vector<std::byte*> unused_;  // without bytes of any block
  std::vector<std::byte*> free_;
  std::vector<std::byte*> to_wipe_;
  std::size_t used_ = 0;
  std::size_t used_before_wipe_ = 0;  // of these
  std::uint64_t wipe_count_ = 0;
  bool stops_wiping_ = false;
};

// Wipes frames after erasures, on a thread of its own.
class FrameWiper {
 public:
  // `end_sends` ends, without waiting, what sends blocks that are no longer readable; `wake` is called when a wipe is
  // done. Both from the wiper's thread.
  FrameWiper(std::vector<std::shared_ptr<FrameMemory>> memories, std::function<void()> end_sends,
             std::function<void()> wake);
  ~FrameWiper();
  FrameWiper(const FrameWiper&) = delete;
  FrameWiper& operator=(const FrameWiper&) = delete;

  // Returns the number of the wipe, from 1.
  std::uint64_t Begin();
  // Wipes up to this number are done.
  [[nodiscard]] std::uint64_t done_number() const { return done_number_.load(); }

 private:
  void Run();

  const std::vector<std::shared_ptr<FrameMemory>> memories_;
  const std::function<void()> end_sends_;
  const std::function<void()> wake_;
  std::atomic<std::uint64_t> done_number_{0};

  std::mutex mutex_;
  std::condition_variable begun_;
  std::uint64_t begun_number_ = 0;  // guarded by mutex_
  bool is_stopping_ = false;        // guarded by mutex_
  std::thread thread_;
};

}  // namespace roost::worker
