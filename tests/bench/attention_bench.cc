#include <cmath>
#include <vector>

#include "common/base/rng.h"
#include "kernels/device_memory.h"
#include "tests/bench/bench.h"
#include "worker/model/attention_plan.h"

namespace roost::bench {
namespace {

using kernels::DType;

constexpr std::uint32_t kQueryHeads = 16;
constexpr std::uint32_t kKvHeads = 8;
constexpr std::uint32_t kHeadDim = 128;
constexpr std::uint32_t kOwnTokens = 64;
constexpr std::uint32_t kThreads = 2;

// Decodes of requests with a common prompt: in the same blocks, or each in its own blocks.
class Decodes {
 public:
  enum class Prompt : std::uint8_t { kTogether, kApart };

  Decodes(const kernels::Backend& backend, std::uint32_t requests, std::uint32_t prompt_tokens, Prompt prompt)
      : backend_(backend) {
    MakeBlocks(requests, prompt_tokens, prompt);
    std::vector<worker::BatchSlice> slices;
    for (const auto& blocks : blocks_) {
      slices.push_back({.blocks = blocks, .first_position = prompt_tokens + kOwnTokens - 1, .token_count = 1});
    }
    worker::PlanAttention(slices,
                          {.block_tokens = kBlockTokens,
                           .query_head_count = kQueryHeads,
                           .kv_head_count = kKvHeads,
                           .profile = backend.ops().attention_profile(backend.device(), kHeadDim)},
                          plan_);
    kv_ = {nullptr, DType::kBF16, block_count_, 1, kKvHeads, kBlockTokens, kHeadDim};
    storage_.resize(kv_.BlockBytes() / sizeof(std::uint16_t) * block_count_);
    Rng rng(1);
    for (std::uint16_t& value : storage_) value = kernels::FloatToBF16(static_cast<float>(rng.Uniform() * 2 - 1));
    kv_.base = storage_.data();
    q_.assign(std::size_t{requests} * kQueryHeads * kHeadDim, 0.5F);
    out_.resize(q_.size());
    partials_.resize(std::size_t{plan_.partial_count} * kernels::PartialFloats(kHeadDim));
  }

  [[nodiscard]] double Seconds(Effort effort) {
    return MedianSeconds(effort, [this] {
      backend_.ops().attention(backend_.device(), {.q = q_.data(),
                                                   .q_dtype = DType::kF32,
                                                   .scale = 1 / std::sqrt(static_cast<float>(kHeadDim)),
                                                   .query_head_count = kQueryHeads,
                                                   .kv = kv_,
                                                   .layer = 0,
                                                   .blocks = plan_.blocks.data(),
                                                   .rows = plan_.rows.data(),
                                                   .items = plan_.items.data(),
                                                   .item_count = static_cast<std::uint32_t>(plan_.items.size()),
                                                   .merges = plan_.merges.data(),
                                                   .merge_count = static_cast<std::uint32_t>(plan_.merges.size()),
                                                   .parts = plan_.parts.data(),
                                                   .partials = partials_.data(),
                                                   .out = out_.data(),
                                                   .out_dtype = DType::kBF16});
    });
  }

 private:
  void MakeBlocks(std::uint32_t requests, std::uint32_t prompt_tokens, Prompt prompt) {
    for (std::uint32_t i = 0; i < requests; ++i) {
      std::vector<BlockId> blocks;
      while (blocks.size() * kBlockTokens < prompt_tokens + kOwnTokens) {
        const bool is_shared =
            prompt == Prompt::kTogether && i > 0 && (blocks.size() + 1) * kBlockTokens <= prompt_tokens;
        blocks.push_back(is_shared ? blocks_[0][blocks.size()] : BlockId(block_count_++));
      }
      blocks_.push_back(std::move(blocks));
    }
  }

  const kernels::Backend& backend_;
  std::uint32_t block_count_ = 0;
  std::vector<std::vector<BlockId>> blocks_;
  worker::AttentionPlan plan_;
  kernels::KvLayout kv_;
  std::vector<std::uint16_t> storage_;
  std::vector<float> q_;
  std::vector<std::uint16_t> out_;
  std::vector<float> partials_;
};

}  // namespace

// One layer's attention of decodes on the CPU, and the gain when the prompt's blocks are shared.
void BenchAttention(Effort effort) {
  const auto backend = kernels::Backend::Open(kernels::CpuOps(), {.thread_count = kThreads}).value();
  const std::uint32_t requests = effort == Effort::kFull ? 16 : 4;
  const std::uint32_t prompt_tokens = effort == Effort::kFull ? 2048 : 512;
  const double apart = Decodes(backend, requests, prompt_tokens, Decodes::Prompt::kApart).Seconds(effort);
  const double together = Decodes(backend, requests, prompt_tokens, Decodes::Prompt::kTogether).Seconds(effort);
  Figure("attention_cpu_decode_ms", apart * 1e3, "ms");
  Figure("attention_cpu_shared_speedup", apart / together, "x");
}

}  // namespace roost::bench
