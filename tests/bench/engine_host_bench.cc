#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "tests/bench/bench.h"
#include "tests/support/null_ops.h"
#include "worker/engine/engine.h"
#include "worker/model/copy_engine.h"
#include "worker/model/transformer.h"
#include "worker/transfer/frame_source.h"
#include "worker/transfer/readable_blocks.h"

namespace roost::bench {
namespace {

constexpr std::uint32_t kMinContext = 100;
constexpr std::uint32_t kMaxContext = 2048;
constexpr std::uint32_t kSteps = 64;  // steps per measurement; each sequence fills four blocks
constexpr std::uint32_t kTimes = 8;   // measurements
constexpr std::uint32_t kRunningRequests = 256;

// Heads of an 8B model. The rest of the shape does not matter to the host.
worker::HfConfig Config() {
  return {.architecture = "LlamaForCausalLM",
          .vocab_size = 1U << 15U,
          .hidden_size = 64,
          .intermediate_size = 64,
          .layer_count = 1,
          .query_head_count = 32,
          .kv_head_count = 8,
          .head_dim = 8,
          .max_positions = 1U << 14U,
          .rope = {}};
}

// Every second request is greedy, the others sample as chats do.
wire::Generate MakeDecode(std::uint64_t number, Rng& rng) {
  wire::Generate request;
  request.request_id = RequestId(number);
  request.root = {1, 1};
  request.prompt.resize(kMinContext + rng.Below(kMaxContext - kTimes * kSteps - kMinContext));
  for (TokenId& token : request.prompt) token = static_cast<TokenId>(rng.Below(Config().vocab_size));
  request.max_output_tokens = 1U << 12U;
  request.ignore_eos = true;
  request.sampling = {.temperature = 0};
  if (number % 2 == 1) request.sampling = {.temperature = 0.7F, .top_p = 0.9F, .top_k = 50, .seed = number};
  return request;
}

enum class Fetches {
  kOff,
  kHostMemory,  // blocks may be fetched from the pool, as the CPU's
  kThroughBus,  // through staging and pinned memory, as a device's
};

class NoCopies final : public kernels::CopyStreams {
 public:
  void Gather(const kernels::MoveBlocksArgs& /*args*/) override {}
  void Begin(kernels::CopyWay /*way*/, std::size_t /*place*/, const kernels::RowsCopy& /*copy*/) override {}
  void Await(kernels::CopyWay /*way*/, std::size_t /*place*/) override {}
  void Clear(void* /*device*/, std::size_t /*bytes*/) override {}
  void HoldOps() override {}
};

// A device that computes nothing and has memory of its own.
const kernels::OpTable& NullDeviceOps() {
  static const kernels::OpTable kOps = [] {
    kernels::OpTable ops = testing_support::NullOps();
    ops.has_host_memory = false;
    ops.open_copy_streams = [](kernels::Device& /*device*/) -> std::unique_ptr<kernels::CopyStreams> {
      return std::make_unique<NoCopies>();
    };
    ops.pin = [](kernels::Device& /*device*/, std::size_t bytes) -> void* { return std::malloc(bytes); };
    ops.unpin = [](void* memory) { std::free(memory); };
    ops.scatter_blocks = [](kernels::Device& /*device*/, const kernels::MoveBlocksArgs& /*args*/) {};
    return ops;
  }();
  return kOps;
}

// An engine with kRunningRequests requests that decode, on a device that computes nothing.
class HostStation {
 public:
  explicit HostStation(Fetches fetches) {
    auto backend =
        kernels::Backend::Open(fetches == Fetches::kThroughBus ? NullDeviceOps() : testing_support::NullOps(), {})
            .value();
    std::shared_ptr<const worker::FrameSlab> slab;
    if (fetches == Fetches::kThroughBus)
      slab = worker::FrameSlab::Pin(backend, {.count = kFrames}, kBlockBytes).value();
    model_ = worker::Transformer::Create(std::move(backend), Config(), worker::RandomWeights(1),
                                         {.block_tokens = kBlockTokens,
                                          .block_count = kBlocks,
                                          .max_context_tokens = Config().max_positions,
                                          .slab = std::move(slab)})
                 .value();
    worker::EngineOptions options{.max_batch_tokens = kRunningRequests * kMaxContext,
                                  .max_running_requests = kRunningRequests};
    options.plan_ahead = true;
    if (fetches != Fetches::kOff) {
      readable_ = std::make_unique<worker::ReadableBlocks>(model_->MakeBlockReader(), kBlocks, kBlockTokens);
      options.readable = readable_.get();
      options.arriving = &inbox_;
      options.source = &source_;
    }
    engine_ = std::make_unique<worker::Engine>(*model_, clock_, std::move(options));
    Rng rng(1);
    for (std::uint32_t i = 0; i < kRunningRequests; ++i) {
      ROOST_CHECK(engine_->Submit(worker::LinkId(1), MakeDecode(i, rng)).ok());
    }
    for (int step = 0; step < 3; ++step) (void)engine_->Step();
  }

  // A function of its own, so that callgrind can count its instructions.
  [[gnu::noinline]] void Run() {
    for (std::uint32_t step = 0; step < kSteps; ++step) ROOST_CHECK(engine_->Step().tokens.size() == kRunningRequests);
  }
  // Processor time of that.
  double RunSeconds() {
    const double begin = ThreadSeconds();
    Run();
    return ThreadSeconds() - begin;
  }

 private:
  static constexpr std::uint32_t kBlocks = 2 * kRunningRequests * kMaxContext / kBlockTokens;
  static constexpr std::size_t kFrames = 64;
  static constexpr std::size_t kBlockBytes = std::size_t{2} * 8 * kBlockTokens * 8 * sizeof(float);  // see Config

  // Nothing is asked for.
  class NoSource final : public worker::FrameSource {
   public:
    void Ask(worker::FrameRequest /*request*/) override {}
    void Cancel(worker::HoldId /*id*/) override {}
    void Distrust(const std::string& /*worker_id*/) override {}
  };

  const SteadyClock clock_;
  std::unique_ptr<worker::Model> model_;
  std::unique_ptr<worker::ReadableBlocks> readable_;
  worker::FrameInbox inbox_{[] {}};
  NoSource source_;
  std::unique_ptr<worker::Engine> engine_;
};

// The time of one over the other's in the same turn; the median of all turns.
double MedianRatio(Effort effort, Fetches fetches, Fetches base) {
  const std::uint32_t rounds = effort == Effort::kQuick ? 1 : 8;
  const std::uint32_t turns = effort == Effort::kQuick ? 1 : kTimes - 1;
  std::vector<double> ratios;
  for (std::uint32_t round = 0; round < rounds; ++round) {
    HostStation one(fetches);
    HostStation other(base);
    for (std::uint32_t turn = 0; turn < turns; ++turn) {
      const double before = turn % 2 == 0 ? other.RunSeconds() : 0;
      const double seconds = one.RunSeconds();
      ratios.push_back(seconds / (turn % 2 == 0 ? before : other.RunSeconds()));
    }
  }
  std::nth_element(ratios.begin(), ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2), ratios.end());
  return ratios[ratios.size() / 2];
}

}  // namespace

// All of the host's work in a decode step on a device, without the device's own calls: the work in BenchEngine, and the
// model's until its ops would begin. And what it is with blocks that could travel, while none does.
void BenchEngineHost(Effort effort) {
  HostStation station(Fetches::kOff);
  const double seconds = MedianSeconds(effort, [&] { station.Run(); });
  Figure(fmt::format("engine_host_step_us_{}", kRunningRequests), seconds * 1e6 / kSteps, "us");
  Figure("engine_host_bus_over_host_memory", MedianRatio(effort, Fetches::kThroughBus, Fetches::kHostMemory), "x");
  Figure("engine_host_bus_over_no_transfer", MedianRatio(effort, Fetches::kThroughBus, Fetches::kOff), "x");
}

}  // namespace roost::bench
