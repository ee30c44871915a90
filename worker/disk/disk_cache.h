// A worker's disk of blocks: what is written to it, what is read back, and what routers are told of it.
//
//   engine ─ Offer ─▶ WriteQueue ─▶ writer: copy out of the pool, append ─▶ DiskStore
//   engine ─ Ask ───▶ reader: read, check ─▶ FrameInbox                        │
//   engine ◄─ TakeNews: what has entered and left, orders that are done ◄──────┘
//
// The writer takes from the queue as its rate allows; copies that make room count too. It alone changes the store:
// erasures go before blocks. A block that has left the pool before its turn is dropped, and so is one whose front is
// not on disk. The reader is a source of blocks like another worker: it tells the blocks of each request front to back,
// one request after the other.
//
// Trouble never fails a request: what can not be read is computed. A block that can not be read leaves with all that
// continues it. Nothing is read while a wrong one has still to leave. A full disk stops writes for kFullPause, an error
// for kErrorPause. kMostErrors errors within kErrorWindow turn the disk off: then it keeps what it has, and only
// erases.
//
// Threads: the engine's for what says so; Start and Stop are the owner's. Without Start a test does the threads' work
// with WriteNext and ReadNext.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

#include "common/base/clock.h"
#include "common/prefix/block_hash.h"
#include "common/wire/messages.h"
#include "worker/disk/disk_news.h"
#include "worker/disk/disk_source.h"
#include "worker/disk/disk_store.h"
#include "worker/disk/read_rate.h"
#include "worker/disk/segment.h"
#include "worker/disk/write_queue.h"
#include "worker/transfer/frame_memory.h"
#include "worker/transfer/frame_source.h"
#include "worker/transfer/readable_blocks.h"

namespace roost::worker {

inline constexpr std::size_t kDiskFrames = 16;
inline constexpr std::chrono::seconds kFullPause{10};
inline constexpr std::chrono::seconds kErrorPause{1};  // of writes
inline constexpr std::size_t kMostErrors = 10;
inline constexpr std::chrono::seconds kErrorWindow{60};

struct DiskCounts {
  std::array<std::uint64_t, kDiskDropNames.size()> dropped{};
  std::uint64_t written_bytes = 0;
  std::uint64_t used_bytes = 0;
  std::uint32_t blocks = 0;
  bool is_available = true;
};

class DiskCache final : public DiskSource {
 public:
  struct Options {
    std::uint64_t write_rate = kDefaultDiskWriteRate;  // bytes/s; 0: no bound
    std::size_t queue_limit = 0;                       // blocks that wait to be written
    std::size_t frame_count = kDiskFrames;             // that may wait for the engine
    FrameStaging* staging = nullptr;                   // of the model, if it has one
  };

  // All but the store outlive it. `wake` is called from its threads when there is news.
  DiskCache(std::unique_ptr<DiskStore> store, ReadableBlocks& readable, FrameInbox& inbox, const Clock& clock,
            std::function<void()> wake, const Options& options);
  ~DiskCache() override;
  DiskCache(const DiskCache&) = delete;
  DiskCache& operator=(const DiskCache&) = delete;

  void Start();
  // Waits for the threads: `wake` is not called afterwards. Idempotent.
  void Stop();

  // ---- the engine's thread; nothing waits for the disk ----

  // Blocks of a request that has ended, front to back.
  void Offer(std::span<const DiskOffer> blocks);
  // The number of the chain's first blocks that it has; none while it is off or hidden.
  [[nodiscard]] std::uint32_t CountFront(const FrameChain& chain) const override;
  // The time until so many blocks would be read, behind those that are asked for; see ReadRate.
  [[nodiscard]] double SecondsFor(std::uint32_t block_count) const override;
  // While it is hidden it has nothing for anybody.
  void SetHidden(bool is_hidden) { is_hidden_ = is_hidden; }
  // The news has the order's number once it is carried out; while files can not be removed it has not.
  void Erase(std::uint64_t id, wire::Evict order);
  // This block may be wrong, and all that continues it.
  void Drop(BlockHash block);
  [[nodiscard]] bool has_news() const { return has_news_.load(std::memory_order_acquire); }
  [[nodiscard]] DiskNews TakeNews();
  // The set, which is then told.
  [[nodiscard]] std::vector<wire::StoredRun> Snapshot();

  void Ask(FrameRequest request) override;
  void Cancel(HoldId id) override;
  // Blocks that came from here were wrong: all of them go.
  void Distrust(const std::string& worker_id) override;

  // ---- any thread ----

  // Before the worker ends: from now on what waits is written without the bound of the rate. True once nothing does,
  // or while nothing can be written.
  [[nodiscard]] bool WriteOut();
  [[nodiscard]] DiskCounts counts() const;
  [[nodiscard]] std::uint64_t frame_bytes() const { return store_->frame_bytes(); }
  // The frames of blocks between pool and disk.
  [[nodiscard]] const std::shared_ptr<FrameMemory>& memory() const { return memory_; }
  [[nodiscard]] std::uint32_t capacity() const { return store_->capacity(); }
  [[nodiscard]] const DiskStore& store() const { return *store_; }

  // ---- the threads' work ----

  // A bounded part of what there is to write or erase. False: nothing can be done now.
  bool WriteNext();
  // Tells the next block of the oldest request, or its end. False when there is none.
  bool ReadNext();

 private:
  struct EraseTask {
    std::optional<std::uint64_t> id;
    std::variant<wire::Evict, BlockHash, std::monostate> what;  // an order, a block, all
    bool is_wrong = false;                                      // nothing may be read before it is carried out
  };
  struct Asked {
    FrameRequest request;
    std::uint32_t next = 0;
    std::atomic<bool> is_cancelled = false;
  };
  void Write();
  void Read();
  void CarryOut(const EraseTask& task);
  [[nodiscard]] bool EndErasures();
  void WriteBlock(const DiskBlock& block);
  void CountWritten(std::uint64_t bytes);
  void NoteFailure(const Error& error);
  void NoteError(const Error& error);
  void PostErasure(EraseTask task);
  void EndRead(const std::shared_ptr<Asked>& asked, wire::HoldOutcome outcome);
  void Note(const DiskBlock& block, bool is_stored);
  void CountDrop(DiskDrop reason, std::uint64_t count) { dropped_[static_cast<std::size_t>(reason)] += count; }
  void WakeSoon();
  void WakeNow();

  const std::unique_ptr<DiskStore> store_;
  ReadableBlocks& readable_;
  FrameInbox& inbox_;
  const Clock& clock_;
  const std::function<void()> wake_;
  const Options options_;
  const std::shared_ptr<FrameMemory> memory_;

  bool is_hidden_ = false;  // the engine's
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> is_off_ = false;
  std::atomic<bool> is_full_ = false;  // and nothing was written since
  std::atomic<bool> writes_out_ = false;
  std::atomic<std::uint32_t> wrong_count_ = 0;  // erasures to come, of blocks that may be wrong
  std::atomic<bool> has_news_ = false;
  std::atomic<std::uint64_t> written_bytes_ = 0;
  std::array<std::atomic<std::uint64_t>, kDiskDropNames.size()> dropped_{};
  std::atomic<std::uint32_t> awaited_count_ = 0;  // blocks that are asked for and not read
  ReadRate read_rate_;

  mutable std::mutex write_mutex_;
  std::condition_variable write_changed_;
  WriteQueue queue_;                          // guarded by write_mutex_
  bool is_writing_ = false;                   // a block that was taken from it; guarded by write_mutex_
  std::deque<EraseTask> erases_;              // guarded by write_mutex_
  WritePace pace_;                            // the writer's
  std::vector<DiskNews::Erased> unfinished_;  // the writer's: their files are still there
  Instant next_removal_{};                    // the writer's
  Instant last_wake_{};                       // the writer's

  mutable std::mutex read_mutex_;
  std::condition_variable read_changed_;
  std::deque<std::shared_ptr<Asked>> asked_;  // guarded by read_mutex_; the first one is under way

  mutable std::mutex news_mutex_;  // taken under the store's lock
  UntoldChanges changes_;          // guarded by news_mutex_, as the next
  std::vector<DiskNews::Erased> erased_;
  std::deque<Instant> errors_;

  std::thread writer_;
  std::thread reader_;
};

}  // namespace roost::worker
