#include "worker/model/tensor_parallel.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "kernels/watched_wait.h"
#include "worker/model/loading/shard.h"

namespace roost::worker {

RankThreads::RankThreads(std::uint32_t rank_count) {
  ROOST_CHECK(rank_count > 0);
  for (std::uint32_t rank = 1; rank < rank_count; ++rank) threads_.emplace_back([this, rank] { Serve(rank); });
}

RankThreads::~RankThreads() {
  {
    const std::lock_guard lock(mutex_);
    task_ = nullptr;
    ++round_;
  }
  begun_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void RankThreads::Run(const std::function<void(std::uint32_t rank)>& task) {
  {
    const std::lock_guard lock(mutex_);
    ROOST_CHECK(busy_ == 0, "a task within a task");
    task_ = &task;
    ++round_;
    busy_ = threads_.size();
  }
  begun_.notify_all();
  task(0);
  std::unique_lock lock(mutex_);
  kernels::WatchedWait(done_, lock, watch_, [this] { return busy_ == 0; });
}

Result<void> RankThreads::TryRun(const std::function<Result<void>(std::uint32_t rank)>& task) {
  std::vector<Result<void>> results(threads_.size() + 1);  // each written by its rank
  Run([&](std::uint32_t rank) { results[rank] = task(rank); });
  for (const Result<void>& result : results) ROOST_RETURN_IF_ERROR(result);
  return {};
}

void RankThreads::Serve(std::uint32_t rank) {
  for (std::uint64_t seen = 0;;) {
    const std::function<void(std::uint32_t)>* task = nullptr;
    {
      std::unique_lock lock(mutex_);
      begun_.wait(lock, [&] { return round_ != seen; });
      seen = round_;
      task = task_;
    }
    if (task == nullptr) return;
    (*task)(rank);
    const std::lock_guard lock(mutex_);
    if (--busy_ == 0) done_.notify_one();
  }
}

namespace {

Result<kernels::Communicators> Connect(const std::vector<kernels::Backend>& backends) {
  std::vector<kernels::Device*> devices;
  devices.reserve(backends.size());
  for (const kernels::Backend& backend : backends) devices.push_back(&backend.device());
  return backends.front().ops().connect(devices);
}

}  // namespace

Result<std::unique_ptr<TensorParallelModel>> TensorParallelModel::Create(std::vector<kernels::Backend> backends,
                                                                         const HfConfig& config,
                                                                         const WeightSource& source,
                                                                         const TransformerOptions& options) {
  const auto rank_count = static_cast<std::uint32_t>(backends.size());
  ROOST_RETURN_IF_ERROR(CheckRankCount(config, rank_count));
  ROOST_ASSIGN_OR_RETURN(kernels::Communicators communicators, Connect(backends));
  std::unique_ptr<TensorParallelModel> model(new TensorParallelModel(rank_count));
  kernels::Communicator* const first = communicators.front().get();
  const auto create = [&](std::uint32_t rank) -> Result<void> {
    kernels::Backend& backend = backends[rank];
    backend.ops().begin_batch(backend.device(), {});  // another thread opened the device
    ROOST_ASSIGN_OR_RETURN(model->ranks_[rank],
                           Transformer::Create(std::move(backend), config, source, options,
                                               {{rank, rank_count}, std::move(communicators[rank])}));
    return {};
  };
  ROOST_RETURN_IF_ERROR(model->threads_.TryRun(create));
  model->ConnectCopies(options.slab.get());
  model->threads_.SetWatch([first] { first->CheckPeers(); });  // rank 0's thread runs the others
  return model;
}

void TensorParallelModel::ConnectCopies(const FrameSlab* slab) {
  std::vector<CopyEngine*> engines;
  for (const auto& rank : ranks_) engines.push_back(rank->copy_engine());
  if (engines.front() == nullptr) return;
  block_copies_ = std::make_unique<BlockCopies>(*slab, std::move(engines), ranks_.front()->part());
}

// Destroys all ranks at the same time: destroying a communicator waits for the other ranks.
TensorParallelModel::~TensorParallelModel() {
  threads_.SetWatch(nullptr);
  threads_.Run([this](std::uint32_t rank) { ranks_[rank].reset(); });
}

std::vector<kernels::MemoryUse> TensorParallelModel::DeviceMemory() {
  std::vector<std::vector<kernels::MemoryUse>> by_rank(ranks_.size());
  threads_.Run([&](std::uint32_t rank) { by_rank[rank] = ranks_[rank]->DeviceMemory(); });
  std::vector<kernels::MemoryUse> all;
  for (const auto& of_rank : by_rank) all.insert(all.end(), of_rank.begin(), of_rank.end());
  return all;
}

std::uint32_t TensorParallelModel::block_count() const {
  std::uint32_t count = ranks_.front()->block_count();
  for (const auto& rank : ranks_) count = std::min(count, rank->block_count());
  return count;
}

std::unique_ptr<BlockReader> TensorParallelModel::MakeBlockReader() const {
  if (!ranks_.front()->has_host_memory()) return block_copies_ ? block_copies_->MakeReader() : nullptr;
  std::vector<BlockPart> parts;
  for (const auto& rank : ranks_) parts.push_back(rank->part());
  return MakePartsReader(std::move(parts));
}

bool TensorParallelModel::MakeRoomFor(const DrawLists& lists) {
  if (ranks_.front()->HasRoomFor(lists)) return true;
  std::vector<char> has_room(ranks_.size());  // each written by its rank
  threads_.Run([&](std::uint32_t rank) { has_room[rank] = ranks_[rank]->MakeRoomFor(lists) ? 1 : 0; });
  return std::all_of(has_room.begin(), has_room.end(), [](char has) { return has != 0; });
}

// Other ranks may still compute when rank 0's tokens are there: it takes no part in what follows a chunk's last
// collective op. Their threads are idle between batches.
void TensorParallelModel::AwaitFinished() {
  for (; finished_count_ < awaited_count_; ++finished_count_) {
    for (std::size_t rank = 1; rank < ranks_.size(); ++rank) (void)ranks_[rank]->AwaitSampled();
  }
}

std::span<const kernels::SampledToken> TensorParallelModel::AwaitSampled() {
  ++awaited_count_;
  return ranks_.front()->AwaitSampled();
}

void TensorParallelModel::Compute(const Batch& batch, const Draws& draws) {
  AwaitFinished();  // for callers that read no blocks beside it, and so do not ask
  threads_.Run([&](std::uint32_t rank) { ranks_[rank]->Compute(batch, draws); });
}

}  // namespace roost::worker
