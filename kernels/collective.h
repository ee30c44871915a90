// Operations that the devices of a group compute together. Each device is a rank with its own thread. All ranks call
// the same collective ops, in the same order and with the same sizes. `a`, `b` are the values of ranks 0 and 1:
//
//   all_reduce       a                   b               →   a + b               a + b
//   gather_columns   a [rows][0 … c)     b [rows][c … )  →   a b [rows][width]   (nothing)
//   broadcast        a                   (nothing)       →   a                   a
//
// An op waits, in its thread or on its device, for the same op of the other ranks. A rank that fails ends the process,
// see device.h; so no rank waits for it.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/result.h"
#include "kernels/device.h"
#include "kernels/dtype.h"
#include "kernels/watched_wait.h"

namespace roost::kernels {

enum class Vote : std::uint8_t { kNo, kYes };

// A barrier for the threads of a group's ranks. A thread's writes before it are visible to all of them after it.
//
// No thread waits for a failed one: a rank that fails ends the process (device.h, ROOST_CHECK). If the failed
// rank does not notice, a waiting thread with a watch ends the process.
class RankBarrier {
 public:
  explicit RankBarrier(std::uint32_t rank_count) : rank_count_(rank_count) { ROOST_CHECK(rank_count > 0); }

  // Returns when all ranks have called it as often as this one: true if all of them came with kYes. `watch`: see
  // watched_wait.h.
  bool ArriveAndWait(const std::function<void()>& watch = {}, Vote vote = Vote::kYes) {
    std::unique_lock lock(mutex_);
    if (vote == Vote::kNo) has_no_ = true;
    if (++arrived_ == rank_count_) {
      arrived_ = 0;
      ++round_;
      // Stays until the next round ends, for which every rank of this one must have left.
      agreed_ = !std::exchange(has_no_, false);
      all_arrived_.notify_all();
      return agreed_;
    }
    const std::uint64_t round = round_;
    WatchedWait(all_arrived_, lock, watch, [&] { return round_ != round; });
    return agreed_;
  }

 private:
  const std::uint32_t rank_count_;
  std::mutex mutex_;
  std::condition_variable all_arrived_;
  // Guarded by mutex_.
  std::uint32_t arrived_ = 0;
  std::uint64_t round_ = 0;
  bool has_no_ = false;  // among those that have arrived
  bool agreed_ = true;   // in the last round
};

// A rank's connection to the others. An op table's connect makes it; the rank's thread uses it. Destroy it before its
// device and after the recordings of its ops.
class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  [[nodiscard]] std::uint32_t rank() const { return rank_; }
  [[nodiscard]] std::uint32_t rank_count() const { return rank_count_; }
  // Returns when the threads of all ranks have called it: true if all of them came with kYes. Says nothing about the
  // progress of their devices.
  bool AwaitPeers(Vote vote = Vote::kYes) {
    return barrier_->ArriveAndWait([this] { CheckPeers(); }, vote);
  }
  // Ends the process if the device of any rank has failed, which that rank's own thread may not notice. For threads
  // that wait for other ranks; cheap enough to poll.
  virtual void CheckPeers() {}

 protected:
  Communicator(std::uint32_t rank, std::uint32_t rank_count, std::shared_ptr<RankBarrier> barrier)
      : rank_(rank), rank_count_(rank_count), barrier_(std::move(barrier)) {}

 private:
  const std::uint32_t rank_;
  const std::uint32_t rank_count_;
  const std::shared_ptr<RankBarrier> barrier_;
};

using Communicators = std::vector<std::unique_ptr<Communicator>>;  // by rank

// The sum over the ranks, in place.
struct AllReduceArgs {
  Communicator* communicator = nullptr;
  void* values = nullptr;
  std::size_t count = 0;      // the same on all ranks
  DType dtype = DType::kF32;  // kF32 or kBF16
};

// The columns of a matrix are split among ranks: `rank` has those from here to the begin of rank + 1. Begins are
// multiples of 8, so that rows of weights stay aligned; shares differ by less than 16 columns.
[[nodiscard]] constexpr std::uint32_t ColumnsBegin(std::uint32_t width, std::uint32_t rank, std::uint32_t rank_count) {
  constexpr std::uint64_t kAlignment = 8;
  if (rank == rank_count) return width;
  return static_cast<std::uint32_t>(std::uint64_t{width} * rank / rank_count / kAlignment * kAlignment);
}

// Collects the columns of all ranks as one matrix on rank 0.
struct GatherColumnsArgs {
  Communicator* communicator = nullptr;
  const float* part = nullptr;  // [rows][columns of this rank, see ColumnsBegin]
  std::uint32_t rows = 0;       // like width, the same on all ranks
  std::uint32_t width = 0;
  float* out = nullptr;  // rank 0: [rows][width]; no alias
  // rank 0: rows · width floats, where the other ranks' parts arrive one behind the other before their columns are
  // copied to `out`. No alias.
  float* scratch = nullptr;
};

// Copies the value of rank 0 to all ranks.
struct BroadcastArgs {
  Communicator* communicator = nullptr;
  void* values = nullptr;
  std::size_t bytes = 0;  // the same on all ranks
};

// Ranks are threads of this process that share its memory. Sums are in f32 in the order of ranks, so every rank and
// every run gets the same bits. `devices` may be of any backend whose memory is plain host memory.
[[nodiscard]] Result<Communicators> ConnectCpu(std::span<Device* const> devices);
void AllReduceCpu(Device& device, const AllReduceArgs& args);
void GatherColumnsCpu(Device& device, const GatherColumnsArgs& args);
void BroadcastCpu(Device& device, const BroadcastArgs& args);

// Opens NCCL and uses it. kUnavailable, naming tensor_parallel, when NCCL is missing or refuses. Each part of a matrix
// is sent to rank 0 once.
[[nodiscard]] Result<Communicators> ConnectCuda(std::span<Device* const> devices);
void AllReduceCuda(Device& device, const AllReduceArgs& args);
void GatherColumnsCuda(Device& device, const GatherColumnsArgs& args);
void BroadcastCuda(Device& device, const BroadcastArgs& args);

}  // namespace roost::kernels
