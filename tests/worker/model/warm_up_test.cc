// The warm-up at load on a device that loads code late: after it no step of a rank is the first of its kind, and it
// leaves no trace in the model.
#include <gmock/gmock.h>

#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <tuple>

#include "kernels/matmul_bucket.h"
#include "tests/support/recording_ops.h"
#include "tests/worker/model/rank_testing.h"
#include "worker/model/pad_plan.h"
#include "worker/model/warm_up_plan.h"

namespace roost::worker {
namespace {

using kernels::Device;
using kernels::OpTable;
using testing_support::CountsOfRecordings;
using testing_support::RecordingOps;

// A product's plan depends on the weights' shape, the rows' bucket and the dtype of the result.
using Plan = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, kernels::DType>;

constexpr unsigned char kNotWritten = 0xA5;

// The calls to one device.
struct Asked {
  std::set<Plan> plans;
  std::uint64_t norms = 0;
  std::uint64_t draws = 0;
  std::uint64_t collectives = 0;
  std::map<void*, std::size_t> memory;
};

struct AllAsked {
  std::mutex mutex;
  std::map<const Device*, Asked> of;
  const Device* without_memory = nullptr;
};

AllAsked& All() {
  static AllAsked all;
  return all;
}

template <typename Change>
void Note(const Device& device, const Change& change) {
  const std::lock_guard lock(All().mutex);
  change(All().of[&device]);
}

template <auto kMember, typename Args>
void Collective(Device& device, const Args& args) {
  Note(device, [](Asked& asked) { ++asked.collectives; });
  (RecordingOps().*kMember)(device, args);
}

void* Allocate(Device& device, std::size_t bytes) {
  void* memory = RecordingOps().allocate(device, bytes);
  std::memset(memory, kNotWritten, bytes);
  Note(device, [&](Asked& asked) { asked.memory[memory] = bytes; });
  return memory;
}

void WatchOps(OpTable& ops) {
  ops.allocate = Allocate;
  ops.matmul = [](Device& device, const kernels::MatmulArgs& args) {
    const Plan plan{args.weights->inputs(), args.weights->outputs(), kernels::MatmulBucket(args.rows), args.y_dtype};
    Note(device, [&plan](Asked& asked) { asked.plans.insert(plan); });
    RecordingOps().matmul(device, args);
  };
  ops.rms_norm = [](Device& device, const kernels::RmsNormArgs& args) {
    Note(device, [](Asked& asked) { ++asked.norms; });
    RecordingOps().rms_norm(device, args);
  };
  ops.sample = [](Device& device, const kernels::SampleArgs& args) {
    Note(device, [](Asked& asked) { ++asked.draws; });
    RecordingOps().sample(device, args);
  };
  ops.all_reduce = Collective<&OpTable::all_reduce, kernels::AllReduceArgs>;
  ops.gather_columns = Collective<&OpTable::gather_columns, kernels::GatherColumnsArgs>;
  ops.broadcast = Collective<&OpTable::broadcast, kernels::BroadcastArgs>;
}

// The CPU's ops as those of a device that records and whose memory the worker may fill.
const OpTable& WatchedOps() {
  static const OpTable kOps = [] {
    OpTable ops = RecordingOps();
    WatchOps(ops);
    ops.memory_use = [](Device& device) -> std::optional<kernels::MemoryUse> {
      const std::lock_guard lock(All().mutex);
      return kernels::MemoryUse{.free_bytes = &device == All().without_memory ? 0 : std::size_t{1} << 28U};
    };
    return ops;
  }();
  return kOps;
}

constexpr StepBounds kBounds{.token_count = 300, .request_count = 20};
constexpr std::uint32_t kBlocks = 400;

// A decode of requests with one token each and no earlier ones.
void Decode(Model& model, std::uint32_t requests) {
  Batch batch;
  std::vector<TestSequence> sequences;
  for (std::uint32_t i = 0; i < requests; ++i) sequences.emplace_back(model, RandomTokens(i, 1, 320), i);
  for (TestSequence& sequence : sequences) sequence.AddTo(batch, 1);
  (void)model.Forward(batch);
}

class WarmUpTest : public testing::Test {
 protected:
  WarmUpTest() { All().of.clear(); }

  static TransformerOptions OptionsOf(const StepBounds& bounds) {
    return {.block_count = kBlocks, .max_context_tokens = 512, .step_bounds = bounds};
  }

  static std::unique_ptr<Transformer> Load(const OpTable& ops, const StepBounds& bounds) {
    return Transformer::Create(kernels::Backend::Open(ops, {}).value(), *SyntheticConfig("tiny"),
                               RandomWeights(kTestSeed), OptionsOf(bounds))
        .value();
  }

  static Result<std::unique_ptr<TensorParallelModel>> LoadRanks(std::uint32_t rank_count, std::optional<double> share) {
    std::vector<kernels::Backend> backends;
    for (std::uint32_t rank = 0; rank < rank_count; ++rank) {
      backends.push_back(kernels::Backend::Open(WatchedOps(), {}).value());
    }
    All().without_memory = share ? &backends.back().device() : nullptr;
    TransformerOptions options = OptionsOf(kBounds);
    options.kv_share = share;
    return TensorParallelModel::Create(std::move(backends), *SyntheticConfig("tiny"), RandomWeights(kTestSeed),
                                       options);
  }

  // Prefills of many lengths, alone and together, and decodes of any number of requests.
  static void RunStepsOfAllKinds(Model& model) {
    for (std::uint32_t tokens = 1; tokens <= kBounds.token_count; tokens += 13) Prefill(model, {tokens});
    Prefill(model, {kBounds.token_count});
    Prefill(model, std::vector<std::uint32_t>(15, 20));
    for (std::uint32_t requests = 1; requests <= kBounds.request_count; ++requests) Decode(model, requests);
  }

  static void Prefill(Model& model, const std::vector<std::uint32_t>& counts) {
    Batch batch;
    std::vector<TestSequence> sequences;
    for (const std::uint32_t count : counts) {
      const auto i = static_cast<std::uint32_t>(sequences.size());
      sequences.emplace_back(model, RandomTokens(i, count, 320), i % 2 + 4 * (i / 2));
    }
    for (TestSequence& sequence : sequences) sequence.AddTo(batch, sequence.remaining());
    (void)model.Forward(batch);
  }
};

TEST_F(WarmUpTest, EveryPlanOfAProductIsUsedBeforeTheFirstStep) {
  const auto model = Load(WatchedOps(), kBounds);
  ASSERT_EQ(All().of.size(), 1U);
  const Asked at_load = All().of.begin()->second;
  EXPECT_GT(at_load.norms, 0U);
  EXPECT_EQ(at_load.draws, 1U);
  RunStepsOfAllKinds(*model);
  EXPECT_THAT(at_load.plans, testing::ContainerEq(All().of.begin()->second.plans));
}

TEST_F(WarmUpTest, TheFirstDecodesAreReplayed) {
  const auto model = Load(WatchedOps(), kBounds);
  const auto before = CountsOfRecordings();
  EXPECT_GT(before.recorded, 0U);
  for (std::uint32_t requests = 1; requests <= kBounds.request_count; ++requests) Decode(*model, requests);
  EXPECT_EQ(CountsOfRecordings().recorded, before.recorded);
  EXPECT_EQ(CountsOfRecordings().replayed, before.replayed + kBounds.request_count);
}

TEST_F(WarmUpTest, NoBlockIsWritten) {
  const auto model = Load(WatchedOps(), kBounds);
  const HfConfig config = *SyntheticConfig("tiny");
  const std::size_t block_bytes = KvBlockBytes(config, 16, kernels::DType::kF32);
  const auto& memory = All().of.begin()->second.memory;
  // The pool has a spare block, which padding writes to.
  const auto pool = std::find_if(memory.begin(), memory.end(),
                                 [&](const auto& entry) { return entry.second == block_bytes * (kBlocks + 1); });
  ASSERT_NE(pool, memory.end());
  const auto* bytes = static_cast<const unsigned char*>(pool->first);
  EXPECT_TRUE(std::all_of(bytes, bytes + block_bytes * kBlocks, [](auto byte) { return byte == kNotWritten; }));
}

TEST_F(WarmUpTest, ResultsAreThoseOfAModelThatWasNotWarmedUp) {
  const auto warm = Load(WatchedOps(), kBounds);
  const auto cold = Load(kernels::CpuOps(), {});
  EXPECT_TRUE(warm->Logits().empty());
  const std::vector<TokenId> tokens = RandomTokens(3, 70, 320);
  EXPECT_TRUE(BitEqual(LastLogits(*warm, tokens, 9), LastLogits(*cold, tokens, 9)));
  EXPECT_TRUE(BitEqual(AllLogits(*warm, tokens), AllLogits(*cold, tokens)));
  EXPECT_EQ(DrawOnwards(*warm, TokenWay::kOnTheDevice, 20), DrawOnwards(*cold, TokenWay::kOverTheHost, 20));
}

TEST_F(WarmUpTest, TheCpuComputesNothingAtLoad) {
  OpTable ops = kernels::CpuOps();
  WatchOps(ops);
  const auto model = Load(ops, kBounds);
  for (const auto& [device, asked] : All().of) {
    EXPECT_TRUE(asked.plans.empty());
    EXPECT_EQ(asked.norms, 0U);
  }
}

TEST_F(WarmUpTest, EachRankIsWarmWithoutACollectiveOp) {
  for (const std::uint32_t rank_count : {2U, 4U}) {
    All().of.clear();
    const auto model = LoadRanks(rank_count, std::nullopt).value();
    const std::map<const Device*, Asked> at_load = All().of;
    ASSERT_EQ(at_load.size(), rank_count);
    RunStepsOfAllKinds(*model);
    for (const auto& [device, asked] : at_load) {
      EXPECT_EQ(asked.collectives, 0U);
      EXPECT_GT(asked.norms, 0U);
      EXPECT_GT(All().of[device].collectives, 0U);
      EXPECT_THAT(asked.plans, testing::ContainerEq(All().of[device].plans));
    }
  }
}

// The others warm up meanwhile, and would wait for it forever.
TEST_F(WarmUpTest, ARankThatFailsToLoadHoldsUpNoOther) {
  const auto loaded = LoadRanks(2, 0.5);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().field, "kv_memory");
}

// ---- memory of recordings ----

constexpr std::size_t kRecordingBytes = std::size_t{64} << 10U;
constexpr std::size_t kDeviceBytes = std::size_t{64} << 20U;

std::size_t& TakenBytes() {
  static std::size_t taken = 0;
  return taken;
}

class MeteredRecording final : public kernels::Recording {
 public:
  explicit MeteredRecording(std::unique_ptr<Recording> recording) : recording_(std::move(recording)) {
    TakenBytes() += kRecordingBytes;
  }
  ~MeteredRecording() override { TakenBytes() -= kRecordingBytes; }
  MeteredRecording(const MeteredRecording&) = delete;
  MeteredRecording& operator=(const MeteredRecording&) = delete;
  [[nodiscard]] const Recording& recording() const { return *recording_; }

 private:
  const std::unique_ptr<Recording> recording_;
};

// A device on which recordings take memory.
const OpTable& MeteredOps() {
  static std::map<void*, std::size_t> sizes;
  static const OpTable kOps = [] {
    OpTable ops = RecordingOps();
    ops.allocate = [](Device& device, std::size_t bytes) -> void* {
      if (TakenBytes() + bytes > kDeviceBytes) return nullptr;
      void* const memory = RecordingOps().allocate(device, bytes);
      TakenBytes() += sizes[memory] = bytes;
      return memory;
    };
    ops.release = [](Device& device, void* memory) {
      TakenBytes() -= sizes[memory];
      RecordingOps().release(device, memory);
    };
    ops.memory_use = [](Device& /*device*/) -> std::optional<kernels::MemoryUse> {
      return kernels::MemoryUse{.free_bytes = kDeviceBytes - TakenBytes(), .total_bytes = kDeviceBytes};
    };
    ops.end_recording = [](Device& device) -> std::unique_ptr<kernels::Recording> {
      auto recording = RecordingOps().end_recording(device);
      if (TakenBytes() + kRecordingBytes > kDeviceBytes) return nullptr;
      return std::make_unique<MeteredRecording>(std::move(recording));
    };
    ops.replay = [](Device& device, const kernels::Recording& recording) {
      RecordingOps().replay(device, static_cast<const MeteredRecording&>(recording).recording());
    };
    return ops;
  }();
  return kOps;
}

class RecordingMemoryTest : public testing::Test {
 protected:
  static Result<std::unique_ptr<Transformer>> Load(const TransformerOptions& options) {
    return Transformer::Create(kernels::Backend::Open(MeteredOps(), {}).value(), *SyntheticConfig("tiny"),
                               RandomWeights(kTestSeed), options);
  }
};

TEST_F(RecordingMemoryTest, AShareOfTheMemoryLeavesRoomForAllRecordings) {
  constexpr std::size_t kAll = StepRecorder::kMaxShapes * kRecordingBytes;
  for (const double share : {0.5, 0.9}) {
    const std::size_t recorded = CountsOfRecordings().recorded;
    const auto model = Load({.kv_share = share, .max_context_tokens = 512, .step_bounds = kBounds});
    ASSERT_TRUE(model.ok()) << model.error().ToString();
    EXPECT_GT(CountsOfRecordings().recorded, recorded + 8);
    const std::size_t block_bytes = KvBlockBytes(*SyntheticConfig("tiny"), 16, kernels::DType::kF32);
    const std::size_t pool = (*model)->block_count() * block_bytes;
    EXPECT_GE(TakenBytes(), pool);
    // The recordings' part, and the pool with the rest that its share leaves.
    const std::size_t without_pool = kDeviceBytes - (TakenBytes() - pool);
    EXPECT_LE(static_cast<double>(pool), share * static_cast<double>(kDeviceBytes - kAll));
    EXPECT_GE(static_cast<double>(pool),
              share * static_cast<double>(without_pool - kAll) - 2.0 * static_cast<double>(block_bytes));
    Decode(**model, 3);
  }
  EXPECT_EQ(TakenBytes(), 0U);
}

// A pool of a given size, which leaves no memory.
TEST_F(RecordingMemoryTest, WithoutMemoryForRecordingsAModelLoadsAndComputes) {
  const std::size_t block_bytes = KvBlockBytes(*SyntheticConfig("tiny"), 16, kernels::DType::kF32);
  const auto load = [&](std::size_t pool_bytes) {
    return Load({.block_count = static_cast<std::uint32_t>(pool_bytes / block_bytes),
                 .max_context_tokens = 512,
                 .step_bounds = kBounds});
  };
  std::size_t beside = 0;
  {
    const std::size_t before = CountsOfRecordings().recorded;
    const auto roomy = load(block_bytes * kBlocks);
    ASSERT_TRUE(roomy.ok());
    const std::size_t recordings = CountsOfRecordings().recorded - before;
    ASSERT_GT(recordings, 4U);
    beside = TakenBytes() - block_bytes * kBlocks - recordings * kRecordingBytes;
  }
  const auto model = load(kDeviceBytes - beside - 3 * kRecordingBytes);
  ASSERT_TRUE(model.ok()) << model.error().ToString();
  EXPECT_LT(kDeviceBytes - TakenBytes(), kRecordingBytes) << "not all the memory is taken";
  for (std::uint32_t requests = 1; requests <= kBounds.request_count; ++requests) Decode(**model, requests);
}

// ---- which steps are warmed up ----

TEST(WarmUpPlanTest, RowsAreEveryBucketsAndEveryPaddedDecodes) {
  const std::vector<std::uint32_t> rows = WarmUpRows(700);
  EXPECT_THAT(rows, testing::IsSupersetOf({1U, 2U, 4U, 8U, 16U, 24U, 32U, 64U, 80U, 128U, 256U, 512U, 700U}));
  EXPECT_THAT(rows, testing::Not(testing::Contains(3U)));
  const auto has = [&rows](std::uint32_t count) { return std::find(rows.begin(), rows.end(), count) != rows.end(); };
  for (std::uint32_t count = 1; count <= 700; ++count) EXPECT_TRUE(has(std::min(kernels::MatmulBucket(count), 700U)));
  EXPECT_TRUE(WarmUpRows(0).empty());
}

TEST(WarmUpPlanTest, DecodesLieWithinTheBoundsTheContextAndThePool) {
  const WarmUpLimits limits{.bounds = {.token_count = 2048, .request_count = 100},
                            .context_tokens = 1000,
                            .block_tokens = 32,
                            .block_count = 500};
  const std::vector<WarmUpDecode> decodes = WarmUpDecodes(limits);
  std::set<std::uint32_t> request_counts;
  std::vector<BlockId> blocks;
  for (const WarmUpDecode& decode : decodes) {
    request_counts.insert(decode.request_count);
    const Batch batch = BatchOf(decode, limits.block_tokens, blocks);
    EXPECT_LE(blocks.size(), limits.block_count);
    ASSERT_TRUE(IsDecode(batch));
    ASSERT_EQ(batch.slices.size(), decode.request_count);
    ASSERT_EQ(batch.tokens.size(), decode.request_count);
    for (const BatchSlice& slice : batch.slices) {
      EXPECT_LT(slice.first_position, limits.context_tokens);
      EXPECT_EQ(slice.blocks.size(), slice.first_position / limits.block_tokens + 1);
    }
    EXPECT_EQ(batch.slices.back().first_position, decode.longest - 1);
  }
  EXPECT_THAT(request_counts, testing::IsSupersetOf({1U, 2U, 4U, 8U, 16U, 64U, 80U, 96U, 100U}));
  EXPECT_EQ(decodes.front().request_count, 1U);
  EXPECT_EQ(decodes.front().longest, 64U);
}

TEST(WarmUpPlanTest, ShortContextsAndSmallPoolsHaveFewDecodes) {
  const auto count_of = [](std::uint32_t context_tokens, std::uint32_t block_count) {
    return WarmUpDecodes({.bounds = {.token_count = 64, .request_count = 4},
                          .context_tokens = context_tokens,
                          .block_tokens = 16,
                          .block_count = block_count})
        .size();
  };
  EXPECT_EQ(count_of(20, 100), 3U);  // of 1, 2 and 4 requests
  EXPECT_EQ(count_of(20, 5), 2U);
  EXPECT_EQ(count_of(20, 1), 0U);
}

}  // namespace
}  // namespace roost::worker
