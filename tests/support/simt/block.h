// One block of a grid, with its threads as fibers of one CPU thread: the basis of the CUDA names in simt/cuda.h.
//
//   barrier     a thread waits until every thread of the block that has not finished is at the same __syncthreads
//   collective  a lane waits until every lane of its mask is at the same operation with the same mask; the last one to
//               come computes for all of them
//   async copy  nothing is copied when it is issued: its destination becomes poison (bytes 0xFF, so NaN), and is filled
//               when its thread waits for its group. A missing wait or barrier gives NaN
//
// Threads run one at a time, each until it waits. The launch's seed decides which one continues next; results that
// depend on it reveal a missing barrier in global memory. In shared memory, and in global memory that a test names, a
// missing barrier is found in any order, see races.h: plain accesses (built without a sanitizer, see hooks.cc),
// atomics, cp.async and ldmatrix are all watched. A race, or a wait that can not end, prints which thread does what,
// and aborts.
//
// It does not measure costs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/rng.h"
#include "kernels/cuda/cuda_limits.h"
#include "tests/support/simt/fiber.h"
#include "tests/support/simt/races.h"

namespace roost::simt {

inline constexpr std::uint32_t kWarpLanes = 32;
inline constexpr std::uint32_t kMaxBlockThreads = 1024;
inline constexpr std::size_t kMaxSharedBytes = kernels::kMaxSharedBytes;  // of a block

struct Dim3 {
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;
  [[nodiscard]] std::size_t count() const { return std::size_t{x} * y * z; }
};

// Exactly as many bytes as requested, so that a sanitizer sees accesses beyond them; poison at first.
class SharedMemory {
 public:
  SharedMemory() = default;
  explicit SharedMemory(std::size_t bytes);
  [[nodiscard]] std::byte* data() const { return memory_.get(); }
  [[nodiscard]] bool Holds(const void* address, std::size_t bytes) const;

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t bytes_ = 0;
};

// A source line; the file name is never freed.
struct Place {
  const char* file = nullptr;
  int line = 0;
  auto operator<=>(const Place&) const = default;
};

// Counts since the launch began.
struct Counters {
  std::uint64_t barriers = 0;
  std::uint64_t collectives = 0;
  std::uint64_t matrix_products = 0;
  std::uint64_t matrix_loads = 0;
  // Passes beyond the first for each 8 rows of 16 bytes that ldmatrix reads: rows that share banks take turns.
  std::uint64_t matrix_load_conflicts = 0;
  std::uint64_t async_copies = 0;
};

class Block {
 public:
  explicit Block(std::uint64_t seed) : rng_(seed) {}

  // The block whose thread is running; aborts when there is none.
  [[nodiscard]] static Block& Current();

  // Runs `kernel` once per thread.
  void Run(const Dim3& grid, const Dim3& shape, const Dim3& index, std::size_t dynamic_shared_bytes,
           const std::function<void()>& kernel);

  // ---- from within a thread ----
  [[nodiscard]] const Dim3& grid() const { return grid_; }
  [[nodiscard]] const Dim3& shape() const { return shape_; }
  [[nodiscard]] const Dim3& index() const { return index_; }
  [[nodiscard]] Dim3 thread_index() const;
  [[nodiscard]] std::uint32_t lane() const { return thread_ % kWarpLanes; }
  [[nodiscard]] std::byte* dynamic_shared() const { return dynamic_shared_.data(); }

  // The object that belongs to the declaration `site`, the same for all threads of the block; poison at first.
  [[nodiscard]] void* StaticShared(const void* site, std::size_t bytes);

  void SyncThreads(const Place& place);

  // An access to memory by the running thread; `what` is its name in the report of a race. A plain one may also come
  // from the host, and then is ignored.
  static void NotePlain(const void* address, std::size_t bytes, Access access);
  void Note(const void* address, std::size_t bytes, Access access, const char* what);

  // `compute` gets the operands of the lanes in the mask, and null for others.
  using Operands = void* const (&)[kWarpLanes];
  void SyncWarp(const Place& place, std::uint32_t mask = 0xFFFFFFFF);
  void Collective(const char* what, std::uint32_t mask, void* operand, void (*compute)(Operands));

  void IssueCopy(void* to_shared, const void* from);  // 16 bytes; null `from`: zeros
  void CommitCopies();
  void WaitForCopies(std::size_t pending_groups);

  // Aborts unless [address, address + bytes) is this block's shared memory and aligned to `alignment`.
  void CheckShared(const void* address, std::size_t bytes, std::size_t alignment, const char* what) const;

  [[nodiscard]] Counters& counters() { return counters_; }

  // ---- from outside ----
  // The places of all __syncthreads and __syncwarp so far.
  [[nodiscard]] const std::set<Place>& barriers() const { return barriers_; }
  // In blocks that begin from now on, this global memory is watched like shared memory: a block's threads exchange
  // values through it.
  void WatchGlobal(std::vector<std::span<const std::byte>> memory) { watched_global_ = std::move(memory); }
  // From now on threads pass there as if the source had no barrier.
  void RemoveBarrier(const Place& place) { removed_barrier_ = place; }

 private:
  struct Copy {
    void* to;
    const void* from;
  };
  struct Thread {
    enum class State : std::uint8_t { kReady, kAtBarrier, kAtCollective, kFinished };
    State state = State::kReady;
    Place place;                 // kAtBarrier
    const char* what = nullptr;  // kAtCollective
    std::uint32_t mask = 0;
    void* operand = nullptr;
    std::vector<Copy> uncommitted;
    std::deque<std::vector<Copy>> groups;  // committed, oldest first
  };

  [[nodiscard]] Thread& thread() { return threads_[thread_]; }
  void TakeShared(std::size_t bytes);
  void RunThread(std::uint32_t index);
  void Finish(std::uint32_t index);
  void Wake(std::uint32_t index);
  void ReleaseBarrier();
  [[nodiscard]] bool PassesBarrier(const Place& place);
  [[noreturn]] void ReportDeadlock() const;
  [[noreturn]] void ReportRace(const void* address, const char* what, const Races::Stamp& other) const;
  [[nodiscard]] std::string Describe(const Thread& thread) const;

  FiberSet fibers_;
  Rng rng_;
  Counters counters_;
  Dim3 grid_;
  Dim3 shape_;
  Dim3 index_;
  SharedMemory dynamic_shared_;
  std::map<const void*, SharedMemory> static_shared_;  // by declaration
  std::size_t shared_bytes_ = 0;                       // static and dynamic together
  std::vector<Thread> threads_;
  std::vector<std::uint32_t> ready_;  // threads that can continue
  std::uint32_t thread_ = 0;          // the running thread
  std::uint32_t at_barrier_ = 0;
  std::uint32_t finished_ = 0;
  Races races_;
  std::vector<std::span<const std::byte>> watched_global_;
  std::uint64_t barrier_count_ = 0;         // over all blocks so far; the begin of a block counts too
  std::vector<std::uint64_t> sync_counts_;  // per warp
  Place last_barrier_;                      // of this block
  std::set<Place> barriers_;
  std::optional<Place> removed_barrier_;
};

}  // namespace roost::simt
