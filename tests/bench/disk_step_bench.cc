// A disk's cost to the engine: two engines with models that compute on the CPU, one of them with a disk that
// its threads write to at the default rate, take the same requests in turns. Processor time of the engine's own thread,
// so that other load on the machine does not count.
#include <time.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "tests/bench/bench.h"
#include "tests/bench/memory_folder.h"
#include "tests/bench/model_run.h"
#include "worker/disk/disk_cache.h"
#include "worker/engine/engine.h"

namespace roost::bench {
namespace {

constexpr std::uint32_t kPoolBlocks = 2048;
constexpr std::uint32_t kAtOnce = 8;
constexpr std::uint32_t kSharedTokens = 128;
constexpr std::uint32_t kLongPrompt = 256;
constexpr std::uint32_t kOutputs = 64;
constexpr BlockHash kRoot{1, 1};

std::unique_ptr<worker::Model> MakeModel() {
  auto backend = kernels::Backend::Open(kernels::CpuOps(), {.thread_count = 1}).value();
  const kernels::DType dtype = backend.ops().preferred_dtype(backend.device());
  return worker::Transformer::Create(std::move(backend), DemoLike(), worker::RandomWeights(1),
                                     {.block_tokens = kBlockTokens,
                                      .block_count = kPoolBlocks,
                                      .max_context_tokens = 1024,
                                      .compute_dtype = dtype})
      .value();
}

class DiskStation {
 public:
  explicit DiskStation(bool has_disk)
      : model_(MakeModel()), readable_(model_->MakeBlockReader(), kPoolBlocks, kBlockTokens) {
    worker::EngineOptions options{.max_batch_tokens = 512, .max_running_requests = kAtOnce};
    options.plan_ahead = true;
    if (has_disk) {
      OpenDisk();
      options.readable = &readable_;
      options.arriving = &inbox_;
      options.source = disk_.get();
      options.disk = disk_.get();
    }
    engine_ = std::make_unique<worker::Engine>(*model_, clock_, std::move(options));
  }

  // Processor time of so many steps, with as many requests running as there may be.
  double Run(std::uint32_t step_count) {
    const double begin = ThreadSeconds();
    for (std::uint32_t step = 0; step < step_count; ++step) {
      while (under_way_ < kAtOnce) Submit();
      engine_->TakeNews();
      for (const worker::RequestEvent& event : engine_->Step().tokens) {
        if (event.event.finish) --under_way_;
      }
    }
    return ThreadSeconds() - begin;
  }

  [[nodiscard]] std::uint64_t written_bytes() const { return disk_ == nullptr ? 0 : disk_->counts().written_bytes; }

 private:
  void OpenDisk() {
    disk_ = std::make_unique<worker::DiskCache>(
        OpenStore(folder_, files_, readable_.sizes(), 0), readable_, inbox_, clock_, [] {},
        worker::DiskCache::Options{.queue_limit = kPoolBlocks / worker::kDiskQueuePart});
    disk_->Start();
  }

  void Submit() {
    wire::Generate request;
    request.request_id = RequestId(++last_id_);
    request.prompt.resize(kLongPrompt);
    Rng shared(last_id_ % 4);
    Rng own(last_id_);
    for (std::uint32_t i = 0; i < kLongPrompt; ++i) {
      Rng& rng = i < kSharedTokens ? shared : own;
      request.prompt[i] = static_cast<TokenId>(rng.Below(DemoLike().vocab_size));
    }
    request.root = kRoot;
    request.block_hashes = HashBlocks(kRoot, request.prompt, kBlockTokens);
    request.sampling.temperature = 0;
    request.max_output_tokens = kOutputs;
    request.ignore_eos = true;
    ROOST_CHECK(engine_->Submit(worker::LinkId(1), std::move(request)).ok());
    ++under_way_;
  }

  const SteadyClock clock_;
  const MemoryFolder folder_;
  const std::unique_ptr<worker::Model> model_;
  worker::FrameInbox inbox_{[] {}};
  worker::ReadableBlocks readable_;
  worker::DiskFiles files_;
  std::unique_ptr<worker::DiskCache> disk_;
  std::unique_ptr<worker::Engine> engine_;
  std::uint64_t last_id_ = 0;
  std::uint32_t under_way_ = 0;
};

}  // namespace

void BenchDiskStep(Effort effort) {
  const std::size_t turns = effort == Effort::kQuick ? 1 : 41;
  const std::uint32_t steps = effort == Effort::kQuick ? 20 : 200;
  DiskStation without(false);
  DiskStation with(true);
  std::vector<double> ratios;
  for (std::size_t turn = 0; turn < turns; ++turn) {
    const double base = without.Run(steps);
    ratios.push_back(with.Run(steps) / base);
  }
  std::nth_element(ratios.begin(), ratios.begin() + static_cast<std::ptrdiff_t>(turns / 2), ratios.end());
  Figure("disk_step_over_none", ratios[turns / 2], "x");
  Figure("disk_step_written_mb", static_cast<double>(with.written_bytes()) / 1e6, "MB");
}

}  // namespace roost::bench
