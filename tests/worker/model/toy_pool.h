// Blocks between toy pools and frames beside steps that write to the pools, at random moments, each byte compared with
// what the block must have. No model: a step writes patterns. The devices are doubles on which copies end late.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/rng.h"
#include "kernels/device_memory.h"
#include "worker/model/copy_engine.h"
#include "worker/transfer/frame_memory.h"
#include "worker/transfer/readable_blocks.h"

namespace roost::worker {

inline constexpr std::uint32_t kBlocks = 6;
inline constexpr std::uint32_t kTokens = 2;
inline constexpr std::size_t kFrames = 4;
inline constexpr std::size_t kReaders = 3;  // beside that of the pool's thread

// Faults of the code around the copies.
enum class Haste { kNone, kPublishesAtBegin, kFreesAtBegin };

struct ToyOptions {
  const kernels::OpTable* ops = nullptr;
  bool copies_rows = true;  // the double runs copy_block_rows
  std::uint32_t rank_count = 1;
  std::uint32_t heads = 4;  // in all; with fewer than ranks, ranks share them
  Haste haste = Haste::kNone;
};

class ToyPool {
 public:
  ToyPool(const ToyOptions& way, std::uint64_t seed) : way_(way), rng_(seed) {
    const std::uint32_t heads = std::max(1U, way.heads / way.rank_count);
    const std::uint32_t sharing = way.rank_count * heads / way.heads;
    std::vector<CopyEngine*> engines;
    for (std::uint32_t rank = 0; rank < way.rank_count; ++rank) {
      backends_.push_back(kernels::Backend::Open(*way.ops, {.ordinal = rank}).value());
    }
    BlockPart part{.layout = {.dtype = kernels::DType::kF32,
                              .block_count = kBlocks,
                              .layer_count = 2,
                              .kv_head_count = heads,
                              .block_tokens = kTokens,
                              .head_dim = 4},
                   .whole_head_count = way.heads};
    data_bytes_ = part.WholeBytes();
    const FrameSizes sizes{.block_tokens = kTokens, .data_bytes = data_bytes_, .dtype = kernels::DType::kF32};
    slab_ =
        FrameSlab::Pin(backends_.front(), {kFrames + 1 + kReaders, sizes.data_offset(), kFrameSumBytes}, data_bytes_)
            .value();
    for (std::uint32_t rank = 0; rank < way.rank_count; ++rank) {
      const kernels::Backend& backend = backends_[rank];
      pools_.emplace_back(backend).Reserve(part.layout.BlockBytes() * kBlocks);
      staging_.emplace_back(backend).Reserve(part.layout.BlockBytes() * slab_->count());
      part.layout.base = pools_.back().data();
      part.first_head = rank / sharing * heads;
      parts_.push_back(part);
      engines_.push_back(
          CopyEngine::Make(backend, *slab_, {.block = part, .sends = rank % sharing == 0}, staging_.back().data())
              .value());
      engines.push_back(engines_.back().get());
    }
    copies_ = std::make_unique<BlockCopies>(*slab_, std::move(engines), parts_.front());
    readable_ = std::make_unique<ReadableBlocks>(std::make_unique<Reader>(*this), kBlocks, kTokens);
    memory_ = std::make_shared<FrameMemory>(sizes, kFrames, copies_.get());
    sent_ = std::make_shared<FrameMemory>(sizes, 1 + kReaders, copies_.get());
    out_ = *sent_->Take([] { return true; });
  }
  ~ToyPool() {
    while (!steps_.empty()) FinishStep();
  }

  void Run(int rounds) {
    for (int i = 0; i < rounds; ++i) {
      switch (rng_.Below(4)) {
        case 0:
          if (steps_.size() < 2) BeginStep();
          break;
        case 1:
          if (!steps_.empty()) FinishStep();
          break;
        case 2: Read(rng_, out_); break;
        case 3: Arrive(); break;
      }
    }
  }

  // The same beside threads that read and bring blocks.
  void RunBesideThreads(int rounds) {
    is_alone_ = false;
    std::atomic<bool> is_over = false;
    std::vector<std::thread> threads;
    for (std::size_t reader = 0; reader < kReaders; ++reader) {
      threads.emplace_back([&, reader] {
        FrameBuffer frame = *sent_->Take([] { return true; });
        Rng rng(reader);
        while (!is_over) Read(rng, frame);
      });
    }
    threads.emplace_back([&] {
      for (; !is_over; std::this_thread::yield()) Arrive();
    });
    for (int i = 0; i < rounds; ++i) {
      if (steps_.size() == 2 || (!steps_.empty() && rng_.Below(2) == 0)) {
        FinishStep();
      } else {
        BeginStep();
      }
    }
    is_over = true;
    for (std::thread& thread : threads) thread.join();
  }

  std::atomic<int> wrong_count = 0;
  std::atomic<int> read_count = 0;
  int written_count = 0;

 private:
  // Steps begin as soon as they may, while the rest of a block is being copied.
  class Reader final : public BlockReader {
   public:
    explicit Reader(ToyPool& pool) : pool_(pool), reader_(pool.copies_->MakeReader()) {}

    [[nodiscard]] std::size_t block_bytes() const override { return reader_->block_bytes(); }
    [[nodiscard]] std::optional<kernels::DType> dtype() const override { return reader_->dtype(); }
    void Read(BlockId block, std::span<std::byte> to, const std::function<void()>& may_change) const override {
      reader_->Read(block, to, [&] {
        may_change();
        if (pool_.is_alone_ && pool_.steps_.size() < 2 && pool_.rng_.Below(2) == 0) pool_.BeginStep();
      });
    }

   private:
    ToyPool& pool_;
    const std::unique_ptr<BlockReader> reader_;
  };

  struct Step {
    std::set<std::uint32_t> blocks;    // that it writes
    std::vector<FrameBuffer> arrived;  // and from where
  };

  [[nodiscard]] std::vector<std::byte> PatternOf(std::uint64_t version) const {
    std::vector<std::byte> bytes(data_bytes_);
    Rng rng(version);
    for (std::size_t i = 0; i < bytes.size(); i += sizeof(float)) {
      const auto value = static_cast<float>(rng.Below(1U << 20U));
      std::memcpy(bytes.data() + i, &value, sizeof(value));
    }
    return bytes;
  }
  [[nodiscard]] BlockHash HashOf(std::uint32_t block) const { return {block + 1, versions_[block]}; }

  // A block that no step under way writes.
  [[nodiscard]] std::optional<std::uint32_t> TakeBlock() {
    std::vector<std::uint32_t> free;
    for (std::uint32_t block = 0; block < kBlocks; ++block) {
      if (std::none_of(steps_.begin(), steps_.end(), [&](const Step& step) { return step.blocks.contains(block); })) {
        free.push_back(block);
      }
    }
    if (free.empty()) return std::nullopt;
    return free[rng_.Below(free.size())];
  }

  // Retracts what it writes to, writes what has arrived, copies one arrived block's rows on, writes others.
  void BeginStep() {
    steps_.emplace_back();
    Step& step = steps_.back();
    std::vector<BlockId> written;
    const auto take = [&](std::uint64_t version) -> std::optional<BlockId> {
      const std::optional<std::uint32_t> block = TakeBlock();
      if (!block) return std::nullopt;
      step.blocks.insert(*block);
      versions_[*block] = version;
      written.emplace_back(*block);
      return written.back();
    };
    std::vector<BlockWrite> writes;
    for (auto& [version, frame] : TakeArrived()) {
      const std::optional<BlockId> block = take(version);
      if (!block) continue;
      writes.push_back({*block, frame.data()});
      step.arrived.push_back(std::move(frame));
    }
    std::optional<kernels::BlockRowsCopy> copy;
    if (!writes.empty() && way_.copies_rows) {
      if (const auto to = take(versions_[writes.front().to.value()])) {
        copy = {writes.front().to.value(), to->value(), kTokens};
      }
    }
    const std::optional<BlockId> computed = take(++last_version_);
    readable_->Retract(written);
    for (std::size_t rank = 0; rank < engines_.size(); ++rank) {
      const kernels::Backend& backend = backends_[rank];
      engines_[rank]->HoldOps();
      if (!writes.empty()) backend.ops().scatter_blocks(backend.device(), engines_[rank]->Scatter(writes));
      if (copy) {
        backend.ops().copy_block_rows(backend.device(), {.kv = parts_[rank].layout, .copies = &*copy, .copy_count = 1});
      }
      if (computed) Write(rank, *computed);
      backend.ops().begin_readback(backend.device(), pools_[rank].data(), rank == 0 ? 4 : 0);
    }
    if (way_.haste == Haste::kPublishesAtBegin) Publish(step);
    if (way_.haste == Haste::kFreesAtBegin) Free(step);
  }
  void Write(std::size_t rank, BlockId block) {
    const BlockPart& part = parts_[rank];
    const std::vector<std::byte> whole = PatternOf(versions_[block.value()]);
    auto* const to = static_cast<std::byte*>(part.layout.base) + block.value() * part.layout.BlockBytes();
    part.VisitPieces([&](std::size_t of_rank, std::size_t of_whole, std::size_t bytes) {
      backends_[rank].ops().copy_to_device(backends_[rank].device(), to + of_rank, whole.data() + of_whole, bytes);
    });
  }

  void FinishStep() {
    for (std::size_t rank = 0; rank < engines_.size(); ++rank) {
      float first = 0;
      backends_[rank].ops().end_readback(backends_[rank].device(), &first);
    }
    Step& step = steps_.front();
    written_count += static_cast<int>(step.arrived.size());
    if (way_.haste != Haste::kPublishesAtBegin) Publish(step);
    Free(step);
    steps_.pop_front();
  }
  // The next frame in that memory writes to it.
  void Free(Step& step) {
    for (FrameBuffer& frame : step.arrived) std::fill(frame.bytes().begin(), frame.bytes().end(), std::byte{0xFF});
    step.arrived.clear();
  }
  void Publish(const Step& step) {
    const std::vector<TokenId> tokens(kTokens);
    for (const std::uint32_t block : step.blocks) {
      FrameBlock about;
      about.hash = HashOf(block);
      const PublishedBlock published{.block = BlockId(block), .about = about, .tokens = tokens};
      readable_->Publish({&published, 1});
    }
  }

  // A thread of any kind may call it, with a frame of its own.
  void Read(Rng& rng, FrameBuffer& out) {
    const auto block = static_cast<std::uint32_t>(rng.Below(kBlocks));
    const BlockHash hash = HashOf(block);
    const std::vector<std::byte> wanted = PatternOf(hash.low);
    if (!readable_->Read(hash, 0, out)) return;
    ++read_count;
    if (!std::equal(wanted.begin(), wanted.end(), out.data().begin())) ++wrong_count;
  }
  [[nodiscard]] std::vector<std::pair<std::uint64_t, FrameBuffer>> TakeArrived() {
    const std::lock_guard lock(arrived_mutex_);
    return std::exchange(arrived_, {});
  }
  void Arrive() {
    if (memory_->used() == memory_->limit()) return;
    FrameBuffer frame = *memory_->Take([] { return true; });
    const std::uint64_t version = ++last_version_;
    const std::vector<std::byte> pattern = PatternOf(version);
    std::copy(pattern.begin(), pattern.end(), frame.data().begin());
    memory_->Stage(frame);
    const std::lock_guard lock(arrived_mutex_);
    arrived_.emplace_back(version, std::move(frame));
  }

  const ToyOptions way_;
  Rng rng_;
  std::vector<kernels::Backend> backends_;
  std::unique_ptr<FrameSlab> slab_;
  std::deque<kernels::DeviceBuffer> pools_;
  std::deque<kernels::DeviceBuffer> staging_;
  std::vector<BlockPart> parts_;
  std::vector<std::unique_ptr<CopyEngine>> engines_;
  std::unique_ptr<BlockCopies> copies_;
  std::unique_ptr<ReadableBlocks> readable_;
  std::shared_ptr<FrameMemory> memory_;  // of what comes
  std::shared_ptr<FrameMemory> sent_;
  FrameBuffer out_;
  std::size_t data_bytes_ = 0;
  std::mutex arrived_mutex_;
  std::vector<std::pair<std::uint64_t, FrameBuffer>>
      arrived_;  // guarded by arrived_mutex_; with the version of its bytes
  std::deque<Step> steps_;
  std::array<std::atomic<std::uint64_t>, kBlocks> versions_{};
  std::atomic<std::uint64_t> last_version_ = 100;
  bool is_alone_ = true;
};

struct ToyTotals {
  int wrong = 0;
  int read = 0;
  int written = 0;

  void Add(const ToyPool& pool) {
    wrong += pool.wrong_count;
    read += pool.read_count;
    written += pool.written_count;
  }
};

}  // namespace roost::worker
