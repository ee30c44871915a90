// A worker's disk on virtual time: the daemon's queue, rates and store, with files in memory that hold no KV, and a
// timeline instead of the threads.
//
//   a request ends ─▶ WriteQueue ─ WritePace ─▶ DiskStore            one write after the other
//   a restore      ─▶ DiskStore, front to back ─▶ the worker's news  one read after the other
//
// Reading and writing take a block's bytes by the disk's rate each, and do not slow each other.
//
// It outlives the worker's process: Attach and Detach begin and end one. Runs on one Timeline, which outlives it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/wire/messages.h"
#include "deploy/roostctl/simulate/timeline.h"
#include "worker/cache/prefix_cache.h"
#include "worker/disk/disk_files.h"
#include "worker/disk/disk_news.h"
#include "worker/disk/disk_source.h"
#include "worker/disk/disk_store.h"
#include "worker/disk/read_rate.h"
#include "worker/disk/write_queue.h"

namespace roost::simulate {

struct DiskOptions {
  std::uint64_t tokens = 0;  // 0: no disk
  double gigabits_per_second = 0;
  std::uint64_t write_rate = worker::kDefaultDiskWriteRate;  // bytes/s; 0: as fast as the disk

  [[nodiscard]] bool is_on() const { return tokens > 0; }
};

class BlockDisk final : public worker::DiskSource {
 public:
  // As many segments as hold the tokens, and at least worker::kLeastSegments.
  BlockDisk(const DiskOptions& options, std::uint32_t block_tokens, std::uint64_t frame_bytes, Timeline& timeline);
  ~BlockDisk() override;
  BlockDisk(const BlockDisk&) = delete;
  BlockDisk& operator=(const BlockDisk&) = delete;

  // ---- for the worker's engine ----

  // The cache outlives the attachment. `tell` takes the news of restores.
  void Attach(worker::PrefixCache& cache, std::function<void(worker::FrameNews)> tell);
  void Detach();
  // Blocks of a request that has ended, front to back.
  void Offer(std::span<const worker::DiskOffer> blocks);
  [[nodiscard]] std::uint32_t CountFront(const worker::FrameChain& chain) const override;
  [[nodiscard]] double SecondsFor(std::uint32_t block_count) const override;
  void Ask(worker::FrameRequest request) override;
  void Cancel(worker::HoldId id) override;
  void Distrust(const std::string& /*worker_id*/) override {}  // nothing is ever wrong

  // ---- for the worker's reports ----

  // All changes since the last call.
  [[nodiscard]] worker::DiskNews TakeNews();
  // All of it, parents before children.
  [[nodiscard]] std::vector<wire::StoredRun> Runs() const;
  [[nodiscard]] std::uint64_t frame_bytes() const { return frame_bytes_; }

  [[nodiscard]] std::uint64_t written_block_count() const { return written_block_count_; }

 private:
  class Files;
  struct Restore {
    worker::HoldId id;
    worker::FrameChain chain;
    std::uint32_t next = 0;
  };
  // That of the process that is attached.
  struct Process {
    worker::PrefixCache& cache;
    std::function<void(worker::FrameNews)> tell;
    worker::WriteQueue queue;
    worker::WritePace pace;
    bool is_writing = false;
    bool is_reading = false;
    std::deque<Restore> restores;
    std::uint32_t awaited_count = 0;  // blocks that are asked for and not read
    std::unique_ptr<worker::ReadRate> read_rate = std::make_unique<worker::ReadRate>();
  };

  void StartWrite();
  // One step of the daemon's writer. True if it wrote a block, which may be one that makes room.
  [[nodiscard]] bool WriteNext();
  [[nodiscard]] bool Write(const worker::DiskBlock& block);
  void StartRead();
  void Read();
  // Runs `then` after so long, if the process is still attached.
  void After(double seconds, std::function<void()> then);
  [[nodiscard]] double BlockSeconds() const { return static_cast<double>(frame_bytes_) / bytes_per_second_; }

  const std::uint64_t frame_bytes_;
  const double bytes_per_second_;
  const std::uint64_t write_rate_;
  const worker::FrameSizes sizes_;  // of the frames in memory
  Timeline& timeline_;
  const std::unique_ptr<Files> files_;
  const std::unique_ptr<worker::DiskStore> store_;
  worker::UntoldChanges changes_;
  std::uint64_t written_block_count_ = 0;  // with those that made room

  std::uint64_t life_ = 0;  // of the process; events of earlier ones do nothing
  std::optional<Process> process_;
};

}  // namespace roost::simulate
