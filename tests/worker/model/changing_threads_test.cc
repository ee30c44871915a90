// A model computes the same bits however many threads compute, and whichever of them do: while the number in use
// changes at random all the time, and while others take their processors away. All outputs of batches that mix prompts
// and decodes are compared with those of one thread: logits, drawn tokens, log probabilities, and the cache's bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/cpu/cpu_device.h"
#include "tests/worker/model/model_testing.h"

namespace roost::worker {
namespace {

using kernels::DType;

constexpr std::uint32_t kThreads = 4;

// So large that threads share the products of a single decode, and norms, rotations and draws of a prompt.
HfConfig SharedShape() {
  HfConfig config = *SyntheticConfig("tiny");
  config.vocab_size = 4096;
  config.hidden_size = 768;
  config.intermediate_size = 1536;
  config.query_head_count = 8;
  config.head_dim = 64;
  return config;
}

// The layout of the cache to which this thread's model wrote last.
kernels::KvLayout& WrittenCache() {
  thread_local kernels::KvLayout kv;
  return kv;
}

const kernels::OpTable& OpsThatTellTheCache() {
  static const kernels::OpTable kOps = [] {
    kernels::OpTable ops = kernels::CpuOps();
    ops.rope_to_cache = [](kernels::Device& device, const kernels::RopeToCacheArgs& args) {
      WrittenCache() = args.kv;
      kernels::CpuOps().rope_to_cache(device, args);
    };
    return ops;
  }();
  return kOps;
}

struct PooledModel {
  std::unique_ptr<Transformer> model;
  kernels::WorkPool* pool;  // the model's
};

PooledModel Make(DType dtype, std::uint32_t threads) {
  auto backend = kernels::Backend::Open(OpsThatTellTheCache(), {.thread_count = threads}).value();
  kernels::WorkPool* pool = &kernels::CpuDevice::Of(backend.device()).pool();
  const HfConfig config = SharedShape();
  auto model = Transformer::Create(
      std::move(backend), config, RandomWeights(kTestSeed),
      {.block_tokens = 16, .block_count = 200, .max_context_tokens = config.max_positions, .compute_dtype = dtype});
  return {std::move(model).value(), pool};
}

struct Outputs {
  std::vector<float> logits;
  std::vector<TokenId> tokens;
  std::vector<float> logprobs;
  std::vector<std::byte> cache;
};

template <typename T>
void ExpectSameBits(const std::vector<T>& actual, const std::vector<T>& wanted, const char* what) {
  ASSERT_EQ(actual.size(), wanted.size()) << what;
  EXPECT_EQ(std::memcmp(actual.data(), wanted.data(), wanted.size() * sizeof(T)), 0) << what;
}

void ExpectSame(const Outputs& actual, const Outputs& wanted) {
  ExpectSameBits(actual.logits, wanted.logits, "logits");
  ExpectSameBits(actual.tokens, wanted.tokens, "tokens");
  ExpectSameBits(actual.logprobs, wanted.logprobs, "log probabilities");
  ExpectSameBits(actual.cache, wanted.cache, "cache");
}

// Sequences that come one after another, so that prompts are computed, in chunks, beside decodes.
class MixedRun {
 public:
  explicit MixedRun(Transformer& model) : model_(model) {
    for (std::uint32_t i = 0; i < kSequences; ++i) {
      Sequence sequence;
      sequence.tokens = RandomTokens(i, 60 + rng_.Below(140), model.shape().vocab_size);
      const auto most = static_cast<std::uint32_t>(sequence.tokens.size()) + kSteps;
      for (std::uint32_t block = 0; block * model.block_tokens() < most; ++block) {
        sequence.blocks.emplace_back(block * kSequences + i);
      }
      sequences_.push_back(std::move(sequence));
    }
  }

  Outputs Run() {
    for (std::uint32_t step = 0; step < kSteps; ++step) Step(step);
    KeepCache();
    return std::move(outputs_);
  }

 private:
  static constexpr std::uint32_t kSequences = 6;
  static constexpr std::uint32_t kSteps = 12;

  struct Sequence {
    std::vector<TokenId> tokens;
    std::vector<BlockId> blocks;
    std::uint32_t computed = 0;
  };

  // Two more sequences begin in every second step.
  void Step(std::uint32_t step) {
    batch_.Clear();
    draws_.Clear();
    std::vector<Sequence*> drawing;
    std::uint32_t row = 0;
    const std::uint32_t begun = std::min(kSequences, 2 + step / 2 * 2);
    for (std::uint32_t i = 0; i < begun; ++i) {
      Sequence& sequence = sequences_[i];
      Add(sequence);
      row += batch_.slices.back().logits_count;
      if (sequence.computed < sequence.tokens.size()) continue;
      Draw(row - 1, step);
      drawing.push_back(&sequence);
    }
    if (step == 0) DrawManyMore(row);
    model_.Compute(batch_, draws_);
    KeepResults(drawing);
  }

  // A prompt's next chunk, or the token that was drawn last. The first step's prompts come whole.
  void Add(Sequence& sequence) {
    const auto left = static_cast<std::uint32_t>(sequence.tokens.size()) - sequence.computed;
    const bool whole = left == 1 || (batch_.slices.size() < 2 && sequence.computed == 0);
    const std::uint32_t count = whole ? left : 1 + static_cast<std::uint32_t>(rng_.Below(left));
    for (std::uint32_t i = 0; i < count; ++i) batch_.tokens.push_back(sequence.tokens[sequence.computed + i]);
    const std::uint32_t logits = batch_.slices.empty() ? std::min(count, kMaxFurtherLogits) : 1;
    const auto blocks_of = [this](std::uint32_t tokens) {
      return (tokens + model_.block_tokens() - 1) / model_.block_tokens();
    };
    for (std::uint32_t block = blocks_of(sequence.computed); block < blocks_of(sequence.computed + count); ++block) {
      batch_.poisoned.push_back(sequence.blocks[block]);  // gives its rows that are never written a value
    }
    batch_.slices.push_back({sequence.blocks, sequence.computed, count, logits});
    sequence.computed += count;
  }

  void Draw(std::uint32_t row, std::uint32_t step) {
    const auto draw = static_cast<std::uint32_t>(draws_.rows.size());
    kernels::SampleRow sampled{.seed = draw, .output_index = step, .row = row};
    if (draw % 3 > 0) sampled.temperature = 1;
    if (draw % 3 == 2) {
      sampled.top_k = 40;
      sampled.top_p = 0.9F;
    }
    draws_.Add(sampled, {});
    draws_.Score({.row = row, .is_drawn = true, .draw = draw, .top_count = 4});
  }

  void DrawManyMore(std::uint32_t row_count) {
    for (std::uint32_t row = 0; row < row_count; ++row) Draw(row, 0);
  }

  void KeepResults(const std::vector<Sequence*>& drawing) {
    const std::vector<kernels::SampledToken> sampled = [this] {
      const auto awaited = model_.AwaitSampled();
      return std::vector(awaited.begin(), awaited.end());
    }();
    for (std::size_t i = 0; i < drawing.size(); ++i) drawing[i]->tokens.push_back(sampled[i].token);
    for (const kernels::SampledToken& each : sampled) outputs_.tokens.push_back(each.token);
    const Scores scores = model_.AwaitedScores();
    for (const kernels::ScoredToken& token : scores.tokens) outputs_.logprobs.push_back(token.logprob);
    for (const kernels::TopToken& top : scores.top) outputs_.logprobs.push_back(top.logprob);
    const auto logits = model_.Logits();
    outputs_.logits.insert(outputs_.logits.end(), logits.begin(), logits.end());
  }

  void KeepCache() {
    const kernels::KvLayout& kv = WrittenCache();
    for (const Sequence& sequence : sequences_) {
      const std::uint32_t used = (sequence.computed + kv.block_tokens - 1) / kv.block_tokens;
      for (std::uint32_t i = 0; i < used; ++i) {
        const auto* bytes = static_cast<const std::byte*>(kv.base) + sequence.blocks[i].value() * kv.BlockBytes();
        outputs_.cache.insert(outputs_.cache.end(), bytes, bytes + kv.BlockBytes());
      }
    }
  }

  Transformer& model_;
  Rng rng_{11};
  std::vector<Sequence> sequences_;
  Batch batch_;
  Draws draws_;
  Outputs outputs_;
};

// Changes the number of threads in use at random all the time, on a thread of its own.
class ThreadChanger {
 public:
  explicit ThreadChanger(kernels::WorkPool& pool) : thread_([this, &pool] { Change(pool); }) {}
  ~ThreadChanger() {
    stopping_.store(true);
    thread_.join();
  }
  ThreadChanger(const ThreadChanger&) = delete;
  ThreadChanger& operator=(const ThreadChanger&) = delete;

  [[nodiscard]] std::size_t changes() const { return changes_.load(); }

 private:
  void Change(kernels::WorkPool& pool) {
    for (Rng rng(5); !stopping_.load(); ++changes_) {
      pool.SetThreadsInUse(1 + static_cast<std::uint32_t>(rng.Below(kThreads)));
      std::this_thread::yield();
    }
  }

  std::atomic<bool> stopping_ = false;
  std::atomic<std::size_t> changes_ = 0;
  std::thread thread_;
};

// Threads that never wait: two for each processor, so that a compute thread has a third of one at most.
class BusyThreads {
 public:
  BusyThreads() {
    const unsigned count = 2 * std::max(1U, std::thread::hardware_concurrency());
    for (unsigned i = 0; i < count; ++i) {
      threads_.emplace_back([this] {
        while (!stopping_.load(std::memory_order_relaxed)) ++turns_;
      });
    }
  }
  ~BusyThreads() {
    stopping_.store(true);
    for (std::thread& thread : threads_) thread.join();
  }
  BusyThreads(const BusyThreads&) = delete;
  BusyThreads& operator=(const BusyThreads&) = delete;

 private:
  std::atomic<bool> stopping_ = false;
  std::atomic<std::uint64_t> turns_ = 0;
  std::vector<std::thread> threads_;
};

class ChangingThreadsTest : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    const auto dtypes = ComputeDTypes();
    if (std::find(dtypes.begin(), dtypes.end(), GetParam()) == dtypes.end()) {
      GTEST_SKIP() << "this CPU does not compute in " << NameOf(GetParam());
    }
    wanted_ = MixedRun(*Make(GetParam(), 1).model).Run();
    ASSERT_FALSE(wanted_.cache.empty());
    ASSERT_TRUE(std::all_of(wanted_.logits.begin(), wanted_.logits.end(), [](float x) { return std::isfinite(x); }));
  }

  Outputs wanted_;
};

TEST_P(ChangingThreadsTest, NoBitChangesWhileTheNumberInUseDoes) {
  constexpr std::size_t kMinChanges = 1'000;
  const PooledModel pooled = Make(GetParam(), kThreads);
  const ThreadChanger changer(*pooled.pool);
  do {
    ExpectSame(MixedRun(*pooled.model).Run(), wanted_);
  } while (changer.changes() < kMinChanges && !HasFailure());
}

TEST_P(ChangingThreadsTest, NoBitChangesWhileOthersTakeTheProcessors) {
  const PooledModel pooled = Make(GetParam(), kThreads);
  const BusyThreads busy;
  ExpectSame(MixedRun(*pooled.model).Run(), wanted_);
}

INSTANTIATE_TEST_SUITE_P(DTypes, ChangingThreadsTest, testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& param) { return std::string(NameOf(param.param)); });

}  // namespace
}  // namespace roost::worker
