// Blocks between the pools of devices and frames in pinned memory, while the devices compute. A frame has a place of
// its own in each rank's staging memory, and each rank moves its heads:
//
//   out   pool ── gather ─▶ staging[frame] ── copies ─▶ frame       the next step's first op waits for the gather alone
//   in    frame ── copies ─▶ staging[frame] ── scatter ─▶ pool      the scatter is an op of a step
//
// Only the thread that moves a block waits for the bus, and a frame's places are free when its frame is.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "kernels/copy_streams.h"
#include "kernels/device_memory.h"
#include "worker/model/block_part.h"
#include "worker/model/block_reader.h"
#include "worker/model/model.h"

namespace roost::worker {

// No copy is longer: a longer one would hold up the uploads of steps.
inline constexpr std::size_t kMostCopyBytes = std::size_t{2} << 20U;

// The frames that a model shall have; see worker/transfer/frame.h. Without any, its blocks stay where they are.
struct FrameRoom {
  std::size_t count = 0;
  std::size_t head_bytes = 0;  // before the data
  std::size_t tail_bytes = 0;  // behind it
};

// Pinned memory for frames, for all ranks of a model.
class FrameSlab {
 public:
  // kInvalidArgument, naming transfer-memory, when there is no memory for them.
  [[nodiscard]] static Result<std::unique_ptr<FrameSlab>> Pin(const kernels::Backend& backend, FrameRoom room,
                                                              std::size_t data_bytes);
  ~FrameSlab() { unpin_(memory_); }
  FrameSlab(const FrameSlab&) = delete;
  FrameSlab& operator=(const FrameSlab&) = delete;

  [[nodiscard]] std::size_t count() const { return room_.count; }
  [[nodiscard]] std::byte* Frame(std::size_t index) const { return memory_ + index * stride_; }
  [[nodiscard]] std::byte* Data(std::size_t index) const { return Frame(index) + room_.head_bytes; }
  [[nodiscard]] std::size_t frame_bytes() const { return room_.head_bytes + data_bytes_ + room_.tail_bytes; }
  [[nodiscard]] std::size_t IndexOfFrame(const std::byte* frame) const;
  // The frame with this data.
  [[nodiscard]] std::size_t IndexOf(std::span<const std::byte> data) const;

 private:
  FrameSlab(FrameRoom room, std::size_t data_bytes, std::size_t stride, std::byte* memory, void (*unpin)(void*))
      : room_(room), data_bytes_(data_bytes), stride_(stride), memory_(memory), unpin_(unpin) {}

  const FrameRoom room_;
  const std::size_t data_bytes_;
  const std::size_t stride_;
  std::byte* const memory_;
  void (*const unpin_)(void*);
};

// A rank's part in that. Shares no mutable state with its device. What it is given outlives it.
class CopyEngine {
 public:
  // The part of each block that the rank has; `sends`: no rank before it has the same.
  struct Part {
    BlockPart block;
    bool sends = true;
  };
  // kInternal when there is no memory for streams. `staging` has place for a block of each frame.
  [[nodiscard]] static Result<std::unique_ptr<CopyEngine>> Make(const kernels::Backend& backend, const FrameSlab& slab,
                                                                Part part, void* staging);

  // ---- any thread ----

  void Gather(BlockId block, std::size_t frame);
  [[nodiscard]] std::size_t piece_count(kernels::CopyWay way) const { return WayOf(way).pieces.size(); }
  // Begins to copy a piece of the frame, and returns the place that it takes; nothing while all are taken.
  [[nodiscard]] std::optional<std::size_t> TryBegin(kernels::CopyWay way, std::size_t frame, std::size_t piece);
  // Waits for the place's copy, and frees the place.
  void Await(kernels::CopyWay way, std::size_t place);
  // Waits until a place is free.
  void AwaitPlace(kernels::CopyWay way);
  // Fills the frame's place in the staging memory with zeros.
  void Clear(std::size_t frame) { streams_->Clear(PlaceOf(frame), part_.layout.BlockBytes()); }

  // ---- the rank's thread ----

  // Before the first op of a step, which may write to blocks that are being gathered.
  void HoldOps() {
    if (has_gathered_.exchange(false)) streams_->HoldOps();
  }
  // The op that writes these blocks, whose frames are staged. Valid until the next call.
  [[nodiscard]] kernels::MoveBlocksArgs Scatter(std::span<const BlockWrite> writes);

 private:
  // A part of a block that one copy moves.
  struct Piece {
    std::size_t of_rank = 0;   // in its block
    std::size_t of_whole = 0;  // in the frame's data
    std::size_t width = 0;
    std::size_t rows = 0;
  };
  struct Way {
    std::vector<Piece> pieces;
    std::mutex mutex;
    std::condition_variable freed;
    std::array<bool, kernels::CopyStreams::kPlaces> is_taken{};  // guarded by mutex
  };

  CopyEngine(const FrameSlab& slab, const Part& part, void* staging, std::unique_ptr<kernels::CopyStreams> streams);
  [[nodiscard]] static std::vector<Piece> PiecesOf(const BlockPart& part);
  [[nodiscard]] Way& WayOf(kernels::CopyWay way) { return ways_[static_cast<std::size_t>(way)]; }
  [[nodiscard]] const Way& WayOf(kernels::CopyWay way) const { return ways_[static_cast<std::size_t>(way)]; }
  [[nodiscard]] std::byte* PlaceOf(std::size_t frame) const { return staging_ + frame * part_.layout.BlockBytes(); }

  const FrameSlab& slab_;
  const BlockPart part_;
  std::byte* const staging_;
  const std::unique_ptr<kernels::CopyStreams> streams_;
  std::array<Way, kernels::kCopyWays> ways_;
  std::mutex gathering_;                   // a gather and the mark behind it are one
  std::atomic<bool> has_gathered_{false};  // since the last step began
  std::vector<kernels::BlockMove> moves_;  // the rank's thread's
};

// The engines of all ranks: the way in of frames, and readers for the way out.
class BlockCopies final : public FrameStaging {
 public:
  // At least one engine. What it is given outlives it.
  BlockCopies(const FrameSlab& slab, std::vector<CopyEngine*> engines, const BlockPart& part)
      : slab_(slab), engines_(std::move(engines)), block_bytes_(part.WholeBytes()), dtype_(part.layout.dtype) {}

  [[nodiscard]] std::vector<std::byte*> Take(std::size_t count) override;
  void Stage(std::span<const std::byte> data) override { Copy(kernels::CopyWay::kIn, slab_.IndexOf(data)); }
  void Clear(std::byte* frame) override;

  // It does not outlive this.
  [[nodiscard]] std::unique_ptr<BlockReader> MakeReader();

 private:
  class Reader;

  // Moves a frame on all ranks at the same time.
  void Copy(kernels::CopyWay way, std::size_t frame);

  const FrameSlab& slab_;
  const std::vector<CopyEngine*> engines_;
  const std::size_t block_bytes_;
  const kernels::DType dtype_;
  std::atomic<std::size_t> taken_count_{0};
};

}  // namespace roost::worker
