#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "common/base/check.h"
#include "kernels/device_memory.h"
#include "tests/bench/gpu_bench.h"
#include "tests/bench/gpu_server.h"
#include "worker/model/copy_engine.h"
#include "worker/model/loading/synthetic.h"
#include "worker/model/transformer.h"

namespace roost::bench {
namespace {

using kernels::CopyWay;

constexpr std::size_t kFrames = 32;

// Blocks of a model between its pool and frames, as fast as they go or at a rate. They are blocks that no engine has.
class Copies {
 public:
  Copies(worker::Model& model, const worker::FrameSlab& slab, std::uint32_t first_block)
      : reader_(model.MakeBlockReader()), staging_(*model.frame_staging()), slab_(slab), first_block_(first_block) {}

  void Copy(CopyWay way, std::size_t number) {
    // Frames of one way each.
    const std::size_t frame = number % (kFrames / 2) + (way == CopyWay::kOut ? 0 : kFrames / 2);
    const std::span<std::byte> data{slab_.Data(frame), reader_->block_bytes()};
    if (way == CopyWay::kIn) {
      staging_.Stage(data);
    } else {
      reader_->Read(BlockId(first_block_ + static_cast<std::uint32_t>(number % kFrames)), data, [] {});
    }
  }
  [[nodiscard]] std::size_t block_bytes() const { return reader_->block_bytes(); }

 private:
  const std::unique_ptr<worker::BlockReader> reader_;
  worker::FrameStaging& staging_;
  const worker::FrameSlab& slab_;
  const std::uint32_t first_block_;
};

// Copies both ways, each in a thread, until it is destroyed.
class CopiesBeside {
 public:
  // `bytes_per_second` of both ways together; nothing: as fast as they go.
  CopiesBeside(Copies& copies, std::optional<double> bytes_per_second) {
    for (const CopyWay way : {CopyWay::kOut, CopyWay::kIn}) {
      threads_.emplace_back([this, &copies, way, bytes_per_second] {
        const auto begin = std::chrono::steady_clock::now();
        for (std::size_t number = 0; !is_over_; ++number) {
          copies.Copy(way, number);
          copied_bytes_ += copies.block_bytes();
          if (!bytes_per_second) continue;
          const double due = static_cast<double>((number + 1) * copies.block_bytes()) / (*bytes_per_second / 2);
          std::this_thread::sleep_until(
              begin + std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(due)));
        }
      });
    }
  }
  ~CopiesBeside() {
    is_over_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  CopiesBeside(const CopiesBeside&) = delete;
  CopiesBeside& operator=(const CopiesBeside&) = delete;

  [[nodiscard]] std::uint64_t copied_bytes() const { return copied_bytes_; }

 private:
  std::atomic<bool> is_over_ = false;
  std::atomic<std::uint64_t> copied_bytes_ = 0;
  std::vector<std::thread> threads_;
};

// A model of which some blocks are left to the copies.
class SmallerPool final : public worker::Model {
 public:
  SmallerPool(worker::Model& model, std::uint32_t block_count) : model_(model), block_count_(block_count) {}

  [[nodiscard]] const worker::ModelShape& shape() const override { return model_.shape(); }
  [[nodiscard]] std::uint32_t block_tokens() const override { return model_.block_tokens(); }
  [[nodiscard]] std::uint32_t block_count() const override { return block_count_; }
  void Compute(const worker::Batch& batch, const worker::Draws& draws) override { model_.Compute(batch, draws); }
  [[nodiscard]] std::span<const kernels::SampledToken> AwaitSampled() override { return model_.AwaitSampled(); }
  void AwaitFinished() override { model_.AwaitFinished(); }
  [[nodiscard]] worker::Scores AwaitedScores() const override { return model_.AwaitedScores(); }
  [[nodiscard]] std::span<const float> Logits() override { return model_.Logits(); }

 private:
  worker::Model& model_;
  const std::uint32_t block_count_;
};

class TravelBench {
 public:
  explicit TravelBench(const GpuUnderTest& gpu) : gpu_(gpu), config_(*worker::SyntheticConfig(gpu.sizes.small_preset)) {
    if (gpu.effort == Effort::kQuick) config_.head_dim = 64;  // CUDA's attention has no smaller heads
  }

  // Bytes per second of blocks, on a device that computes nothing.
  double Rate(CopyWay way) {
    Copies& copies = Made();
    const std::size_t count = gpu_.sizes.travel_blocks;
    const double seconds = MedianSeconds(gpu_.effort, [&] {
      for (std::size_t i = 0; i < count; ++i) copies.Copy(way, i);
    });
    return static_cast<double>(count * copies.block_bytes()) / seconds;
  }
  // Bytes per second of one plain copy of all frames.
  double PlainRate(CopyWay way) {
    (void)Made();
    const std::size_t bytes = kFrames * slab_->frame_bytes();
    kernels::DeviceBuffer device(*plain_);
    device.Reserve(bytes);
    void* const host = slab_->Frame(0);
    const bool is_out = way == CopyWay::kOut;
    return static_cast<double>(bytes) /
           gpu_.copy_seconds(is_out ? host : device.data(), is_out ? device.data() : host, bytes);
  }

  // The time between tokens of decodes beside such copies, over that without any.
  double InterTokenBeside(std::optional<double> bytes_per_second) {
    const double beside = Decode(true, bytes_per_second);
    return beside / Decode(false, {});
  }

 private:
  Copies& Made() {
    if (copies_) return *copies_;
    auto backend = kernels::Backend::Open(gpu_.ops, {}).value();
    plain_.emplace(kernels::Backend::Open(gpu_.ops, {}).value());
    const GpuSizes& sizes = gpu_.sizes;
    const std::uint32_t tokens = sizes.travel_context + sizes.decode_steps;
    engine_blocks_ = sizes.travel_sequences * (tokens / kGpuBlockTokens + 2);
    slab_ = worker::FrameSlab::Pin(backend, {.count = kFrames},
                                   worker::KvBlockBytes(config_, kGpuBlockTokens, kernels::DType::kBF16))
                .value();
    model_ = worker::Transformer::Create(
                 std::move(backend), config_, worker::RandomWeights(1),
                 {.block_tokens = kGpuBlockTokens,
                  .block_count = engine_blocks_ + static_cast<std::uint32_t>(kFrames),
                  .max_context_tokens = config_.max_positions,
                  .step_bounds = {.token_count = sizes.max_batch_tokens, .request_count = sizes.travel_sequences},
                  .compute_dtype = kernels::DType::kBF16,
                  .slab = slab_})
                 .value();
    copies_.emplace(*model_, *slab_, engine_blocks_);
    return *copies_;
  }

  double Decode(bool has_copies, std::optional<double> bytes_per_second) {
    Copies& copies = Made();
    const GpuSizes& sizes = gpu_.sizes;
    SmallerPool pool(*model_, engine_blocks_);
    Server server(pool, {.max_batch_tokens = sizes.max_batch_tokens,
                         .max_running_requests = sizes.travel_sequences,
                         .plan_ahead = true,
                         .max_partial_prefills = 0});
    const std::vector<Lengths> all(sizes.travel_sequences, {sizes.travel_context, sizes.decode_steps});
    std::optional<CopiesBeside> beside;
    if (has_copies) beside.emplace(copies, bytes_per_second);
    const double seconds = Median(server.Serve(MakeRequests(++last_name_, config_.vocab_size, all)).decode_seconds);
    if (beside) ROOST_CHECK(beside->copied_bytes() > 0);
    return seconds;
  }

  const GpuUnderTest& gpu_;
  worker::HfConfig config_;
  std::optional<kernels::Backend> plain_;
  std::shared_ptr<const worker::FrameSlab> slab_;
  std::unique_ptr<worker::Transformer> model_;
  std::optional<Copies> copies_;
  std::uint32_t engine_blocks_ = 0;
  std::uint64_t last_name_ = 0;
};

constexpr double kPace = 1e10;

}  // namespace

std::vector<GpuFigure> GpuTravelFigures(const GpuUnderTest& gpu) {
  const auto bench = std::make_shared<TravelBench>(gpu);
  const auto rate = [bench](CopyWay way) { return bench->Rate(way) / 1e6; };
  const auto over_plain = [bench](CopyWay way) { return bench->Rate(way) / bench->PlainRate(way); };
  return {{"gpu_travel_out", "MB/s", [=] { return rate(CopyWay::kOut); }},
          {"gpu_travel_in", "MB/s", [=] { return rate(CopyWay::kIn); }},
          {"gpu_travel_out_over_plain_copy", "ratio", [=] { return over_plain(CopyWay::kOut); }},
          {"gpu_travel_in_over_plain_copy", "ratio", [=] { return over_plain(CopyWay::kIn); }},
          {"gpu_travel_inter_token_beside_copies", "ratio", [bench] { return bench->InterTokenBeside({}); }},
          {"gpu_travel_inter_token_beside_10_gb_per_s", "ratio", [bench] { return bench->InterTokenBeside(kPace); }}};
}

}  // namespace roost::bench
