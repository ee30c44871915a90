// The warm-up of a transformer when it is loaded; see warm_up_plan.h.

#include "common/base/clock.h"
#include "common/base/log.h"
#include "worker/model/transformer.h"
#include "worker/model/warm_up_plan.h"

namespace roost::worker {
namespace {

// Leaves some places for the steps of real traffic.
constexpr std::size_t kMaxRecordings = StepRecorder::kMaxShapes * 3 / 4;

// All recordings of a model take about the same memory: their ops differ by one per layer. Drivers take memory in
// pieces of 2 MiB for several recordings, so some are measured together.
constexpr std::size_t kMeasuredRecordings = 8;
constexpr std::uint32_t kMeasuringBlocks = 32;

}  // namespace

// The inputs are whatever the workspace holds: the results are not read.
void Transformer::WarmUpProducts() {
  const std::vector<std::uint32_t> layer_rows = WarmUpRows(static_cast<std::uint32_t>(work_.reserved().rows));
  const std::vector<std::uint32_t> logits_rows = WarmUpRows(static_cast<std::uint32_t>(work_.reserved().logits_rows));
  if (layer_rows.empty()) return;
  const SteadyClock clock;
  const Instant begin = clock.Now();
  const LayerWeights& layer = weights_.layers.front();  // all have the same shapes
  for (const std::uint32_t rows : layer_rows) {
    rows_ = rows;
    Multiply(*layer.qkv, work_.normed.data(), work_.qkv.data());
    Multiply(*layer.o, work_.attended.data(), work_.delta.data());
    Multiply(*layer.gate_up, work_.normed.data(), work_.gate_up.data());
    Multiply(*layer.down, work_.activated.data(), work_.delta.data());
  }
  rows_ = 0;
  for (const std::uint32_t rows : logits_rows) MultiplyLogits(rows);
  AwaitDevice();
  LogInfo("products are warm", {{"rank", shard_.rank},
                                {"products", 4 * layer_rows.size() + logits_rows.size()},
                                {"ms", 1e3 * ToSeconds(clock.Now() - begin)}});
}

// Runs without the other ranks, which may be at another point of their loading, or have failed.
void Transformer::WarmUpSteps(const StepBounds& bounds) {
  if (work_.reserved().rows == 0 || !recorder_.enabled()) return;
  const SteadyClock clock;
  const Instant begin = clock.Now();
  peers_ = nullptr;
  RunWarmUpStep();
  // With several ranks the recordings lack the collective ops, so each is thrown away; it has made the driver load what
  // a graph needs.
  const std::size_t recording_count = RecordSteps(bounds, kMaxRecordings, communicator_ ? nullptr : &recorder_);
  peers_ = communicator_.get();
  rows_ = wanted_count_ = 0;
  LogInfo("steps are warm",
          {{"rank", shard_.rank}, {"recordings", recording_count}, {"ms", 1e3 * ToSeconds(clock.Now() - begin)}});
}

// Runs all ops of a decode and a draw directly, so that first launches happen before an op is recorded. Its K and V go
// behind the real blocks.
void Transformer::RunWarmUpStep() {
  backend_.ops().begin_batch(backend_.device(), {.request_count = 1, .token_count = 1});
  std::vector<BlockId> blocks;
  Plan(BatchOf({.request_count = 1, .shortest = 1, .longest = 1}, kv_.block_tokens, blocks));
  plan_.slots.front() = kv_.block_count * kv_.block_tokens;
  plan_.attention.blocks.front() = kv_.block_count;
  Draws draws;
  draws.Add({}, {});
  Upload({}, draws);
  RunOps();
  if (shard_.rank == 0) Draw(draws);
}

// Device memory for as many recordings as are kept, on a small pool that is there for this alone.
std::size_t Transformer::MeasureRecordings(const StepBounds& bounds) {
  if (work_.reserved().rows == 0 || !recorder_.enabled()) return 0;
  kv_.block_count = kMeasuringBlocks;
  std::size_t bytes = 0;
  if (ReserveKv().ok()) {
    peers_ = nullptr;
    RunWarmUpStep();
    AwaitDevice();
    StepRecorder recorder(backend_);
    const auto free_bytes = [this] { return backend_.ops().memory_use(backend_.device())->free_bytes; };
    RecordSteps(bounds, 1, &recorder);  // the first one also makes the driver load what all need
    const std::size_t before = free_bytes();
    const std::size_t count = RecordSteps(bounds, kMeasuredRecordings, &recorder);
    const std::size_t taken = before - std::min(before, free_bytes());
    if (count > 0) bytes = taken * StepRecorder::kMaxShapes / count;
    peers_ = communicator_.get();
    LogInfo("recordings are measured", {{"rank", shard_.rank}, {"recordings", count}, {"bytes", taken}});
  }
  kv_memory_ = kernels::DeviceBuffer(backend_);
  kv_.block_count = 0;
  return bytes;
}

// Nothing runs here. Makes at most `most` recordings; null: throws each away.
std::size_t Transformer::RecordSteps(const StepBounds& bounds, std::size_t most, StepRecorder* recorder) {
  const WarmUpLimits limits{.bounds = bounds,
                            .context_tokens = shape_.max_context_tokens,
                            .block_tokens = kv_.block_tokens,
                            .block_count = kv_.block_count};
  std::vector<BlockId> blocks;
  std::size_t count = 0;
  for (const WarmUpDecode& decode : WarmUpDecodes(limits)) {
    if (count == most) break;
    const Batch batch = BatchOf(decode, kv_.block_tokens, blocks);
    Plan(batch);
    Upload(batch, {});
    StepRecorder thrown_away(backend_);
    StepRecorder& taker = recorder == nullptr ? thrown_away : *recorder;
    if (taker.Record(StepShape(), [this] { RunOps(); })) ++count;
    AwaitDevice();
  }
  return count;
}

void Transformer::AwaitDevice() {
  backend_.ops().begin_readback(backend_.device(), nullptr, 0);
  backend_.ops().end_readback(backend_.device(), nullptr);
}

}  // namespace roost::worker
