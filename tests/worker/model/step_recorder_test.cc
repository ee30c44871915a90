// Decode steps from recordings: the logits equal those of the ops called one by one, bit for bit, whatever comes in
// between.
#include "worker/model/step_recorder.h"

#include <gmock/gmock.h>

#include <array>
#include <thread>
#include <vector>

#include "tests/support/recording_ops.h"
#include "tests/worker/model/model_testing.h"
#include "worker/model/pad_plan.h"

namespace roost::worker {
namespace {

using testing_support::CountsOfRecordings;
using testing_support::RecordingOps;

TEST(PadPlanTest, RowsArePaddedByLittle) {
  EXPECT_EQ(PaddedRows(1), 1U);
  EXPECT_EQ(PaddedRows(3), 4U);
  EXPECT_EQ(PaddedRows(8), 8U);
  EXPECT_EQ(PaddedRows(9), 16U);
  EXPECT_EQ(PaddedRows(64), 64U);
  EXPECT_EQ(PaddedRows(65), 80U);
  for (std::uint32_t rows = 1; rows <= kMaxPaddedRows; ++rows) {
    EXPECT_GE(PaddedRows(rows), rows);
    EXPECT_LE(PaddedRows(rows) - rows, kMaxPadding);
    EXPECT_EQ(PaddedRows(PaddedRows(rows)), PaddedRows(rows));
  }
}

TEST(PadPlanTest, PaddingWritesToSpareSlotsAndAttendsToNothing) {
  std::vector<TokenId> tokens(5, TokenId(7));
  BatchPlan plan;
  plan.positions.assign(5, 3);
  plan.slots = {1, 2, 3, 4, 5};
  plan.logits_rows = {0, 1, 2, 3, 4};
  plan.attention.items.resize(5, {.row_count = 1});
  plan.attention.merges.resize(3, {.part_count = 2});
  plan.attention.parts.resize(6);
  PadPlan(1000, tokens, plan);
  EXPECT_EQ(tokens.size(), 8U);
  EXPECT_EQ(plan.positions.size(), 8U);
  EXPECT_EQ(plan.slots, (std::vector<std::uint32_t>{1, 2, 3, 4, 5, 1000, 1001, 1002}));
  EXPECT_EQ(plan.logits_rows, (std::vector<std::uint32_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  ASSERT_EQ(plan.attention.items.size(), 8U);
  EXPECT_EQ(plan.attention.items.back().row_count, 0U);
  ASSERT_EQ(plan.attention.merges.size(), 4U);
  EXPECT_EQ(plan.attention.merges.back().part_count, 0U);
}

TEST(PadPlanTest, ManyItemsAreFilledUpByLessThanAQuarter) {
  for (std::size_t count = 65; count < 3000; count += 7) {
    std::vector<TokenId> tokens(1, TokenId(7));
    BatchPlan plan;
    plan.attention.items.resize(count, {.row_count = 1});
    PadPlan(1000, tokens, plan);
    const std::size_t padded = plan.attention.items.size();
    ASSERT_GE(padded, count);
    ASSERT_LT((padded - count) * 4, count);
    PadPlan(1000, tokens, plan);
    ASSERT_EQ(plan.attention.items.size(), padded);
  }
}

TEST(PadPlanTest, OnlySingleTokensWithLogitsAreDecodes) {
  const std::vector<BlockId> blocks(2);
  Batch batch;
  batch.slices = {{blocks, 3, 1, true}, {blocks, 5, 1, true}};
  EXPECT_TRUE(IsDecode(batch));
  batch.slices.push_back({blocks, 0, 2, 1});
  EXPECT_FALSE(IsDecode(batch));
  batch.slices.back() = {blocks, 0, 1, false};
  EXPECT_FALSE(IsDecode(batch));
}

// The same sequences in two models with the same weights.
class StepRecorderTest : public testing::Test {
 protected:
  // Both models compute the next tokens: `counts[i]` tokens of sequence i.
  void Step(const std::vector<std::uint32_t>& counts) {
    std::vector<std::vector<float>> logits;
    for (Side* side : {&plain_, &recorded_}) {
      Batch batch;
      for (std::size_t i = 0; i < counts.size(); ++i) {
        if (counts[i] > 0) side->sequences[i].AddTo(batch, counts[i]);
      }
      const auto result = side->model->Forward(batch);
      logits.emplace_back(result.begin(), result.end());
    }
    ASSERT_TRUE(BitEqual(logits[1], logits[0]));
  }

  struct Side {
    std::unique_ptr<Transformer> model;
    std::vector<TestSequence> sequences;
  };

  static Side Make(const kernels::OpTable& ops) {
    constexpr std::uint32_t kSequences = 6;
    Side side{MakeTestModel({.block_count = 12 * kSequences, .ops = &ops}), {}};
    for (std::uint32_t i = 0; i < kSequences; ++i) {
      // Sequences use even or odd blocks, one range after another.
      side.sequences.emplace_back(*side.model, RandomTokens(i, 90, 320), i % 2 + 24 * (i / 2));
    }
    return side;
  }

  Side plain_ = Make(kernels::CpuOps());
  Side recorded_ = Make(RecordingOps());
};

TEST_F(StepRecorderTest, GivesWhatTheOpsGive) {
  Step({20, 7, 33, 1, 16, 2});  // prefills are not recorded
  const auto before = CountsOfRecordings();
  for (int i = 0; i < 12; ++i) Step({1, 1, 1, 0, 0, 1});
  const auto after = CountsOfRecordings();
  EXPECT_GT(after.recorded, before.recorded);
  EXPECT_GT(after.replayed, before.replayed + 5);
  Step({1, 0, 0, 12, 0, 0});                             // a prefill in between
  for (int i = 0; i < 8; ++i) Step({0, 1, 1, 1, 0, 0});  // three rows, padded to the same four
  for (int i = 0; i < 12; ++i) Step({1, 1, 1, 1, 1, 1});
  Step({0, 30, 0, 0, 0, 0});
  for (int i = 0; i < 4; ++i) Step({1, 1, 0, 1, 0, 0});
}

TEST_F(StepRecorderTest, ShapesComeAgainAndAreForgotten) {
  auto backend = kernels::Backend::Open(RecordingOps(), {}).value();
  StepRecorder recorder(backend);
  ASSERT_TRUE(recorder.enabled());
  int runs = 0;
  const auto ops = [&runs] { ++runs; };
  const auto before = CountsOfRecordings();
  for (int i = 0; i < 5; ++i) recorder.Run({1}, ops);
  EXPECT_EQ(runs, 2);  // directly, and for the recording
  EXPECT_EQ(CountsOfRecordings().replayed, before.replayed + 4);
  for (std::uint64_t shape = 2; shape <= StepRecorder::kMaxShapes + 1; ++shape) recorder.Run({shape}, ops);
  runs = 0;
  recorder.Run({1}, ops);
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(CountsOfRecordings().replayed, before.replayed + 4);
}

TEST_F(StepRecorderTest, AShapeThatIsRecordedAheadIsReplayedTheFirstTime) {
  auto backend = kernels::Backend::Open(RecordingOps(), {}).value();
  StepRecorder recorder(backend);
  int runs = 0;
  const auto ops = [&runs] { ++runs; };
  const auto before = CountsOfRecordings();
  EXPECT_TRUE(recorder.Record({1}, ops));
  EXPECT_FALSE(recorder.Record({1}, ops));
  EXPECT_EQ(CountsOfRecordings().recorded, before.recorded + 1);
  EXPECT_EQ(CountsOfRecordings().replayed, before.replayed);
  recorder.Run({1}, ops);
  EXPECT_EQ(runs, 1);  // for the recording
  EXPECT_EQ(CountsOfRecordings().replayed, before.replayed + 1);
}

TEST_F(StepRecorderTest, TheShapeThatWasNotRunForLongestIsForgotten) {
  auto backend = kernels::Backend::Open(RecordingOps(), {}).value();
  StepRecorder recorder(backend);
  int runs = 0;
  const auto ops = [&runs] { ++runs; };
  const auto runs_of = [&](std::uint64_t shape) {
    runs = 0;
    recorder.Run({shape}, ops);
    return runs;
  };
  const auto replayed = [] { return CountsOfRecordings().replayed; };
  for (int i = 0; i < 2; ++i) {
    for (std::uint64_t shape = 1; shape <= StepRecorder::kMaxShapes; ++shape) recorder.Run({shape}, ops);
  }
  EXPECT_EQ(runs_of(1), 0);  // 2 is the least recently used
  // One shape more than fit comes once, then twice.
  for (int i = 0; i < 3; ++i) recorder.Run({1'000}, ops);
  const std::uint64_t before = replayed();
  EXPECT_EQ(runs_of(1), 0);
  for (std::uint64_t shape = 3; shape <= StepRecorder::kMaxShapes; ++shape) EXPECT_EQ(runs_of(shape), 0);
  EXPECT_EQ(runs_of(1'000), 0);
  EXPECT_EQ(replayed(), before + StepRecorder::kMaxShapes);
  EXPECT_EQ(runs_of(2), 1);
  EXPECT_EQ(replayed(), before + StepRecorder::kMaxShapes);
}

// A device whose recordings the test gives memory, thread by thread.
bool& HasMemory() {
  thread_local bool has_memory = true;
  return has_memory;
}

const kernels::OpTable& OpsWithLittleMemory() {
  static const kernels::OpTable kOps = [] {
    kernels::OpTable ops = RecordingOps();
    ops.end_recording = [](kernels::Device& device) {
      auto recording = RecordingOps().end_recording(device);
      return HasMemory() ? std::move(recording) : nullptr;
    };
    return ops;
  }();
  return kOps;
}

TEST_F(StepRecorderTest, AShapeWithoutMemoryForItsRecordingRunsOpByOp) {
  auto backend = kernels::Backend::Open(OpsWithLittleMemory(), {}).value();
  StepRecorder recorder(backend);
  int runs = 0;
  const auto ops = [&runs] { ++runs; };
  const auto before = CountsOfRecordings();
  HasMemory() = false;
  EXPECT_FALSE(recorder.Record({7}, ops));
  for (int i = 0; i < 5; ++i) recorder.Run({1}, ops);
  recorder.Run({7}, ops);
  HasMemory() = true;
  EXPECT_EQ(runs, 1 + (5 + 1) + 1) << "each time, and once for the recording that could not be made";
  EXPECT_EQ(CountsOfRecordings().recorded, before.recorded + 2) << "it is tried once";
  EXPECT_EQ(CountsOfRecordings().replayed, before.replayed);
  for (int i = 0; i < 3; ++i) recorder.Run({2}, ops);
  EXPECT_EQ(CountsOfRecordings().replayed, before.replayed + 2) << "other shapes are recorded when there is memory";
}

TEST_F(StepRecorderTest, StepsWithoutMemoryForRecordingsGiveTheSameBits) {
  const auto plain = MakeTestModel({});
  HasMemory() = false;
  const auto tested = MakeTestModel({.ops = &OpsWithLittleMemory()});
  EXPECT_EQ(DrawOnwards(*tested, TokenWay::kOnTheDevice, 12), DrawOnwards(*plain, TokenWay::kOverTheHost, 12));
  HasMemory() = true;
}

// A collective op may take another way in a recording than outside of one.
TEST_F(StepRecorderTest, AllRanksReplayAShapeOrNone) {
  std::vector<kernels::Backend> backends;
  std::vector<kernels::Device*> devices;
  for (int rank = 0; rank < 2; ++rank) {
    backends.push_back(kernels::Backend::Open(OpsWithLittleMemory(), {}).value());
    devices.push_back(&backends.back().device());
  }
  const kernels::Communicators communicators = kernels::ConnectCpu(devices).value();
  const auto before = CountsOfRecordings();
  std::array<int, 2> runs{};
  const auto serve = [&](std::size_t rank) {
    HasMemory() = rank == 0;
    StepRecorder recorder(backends[rank], communicators[rank].get());
    for (int i = 0; i < 4; ++i) recorder.Run({1}, [&] { ++runs[rank]; });
    HasMemory() = true;
    for (int i = 0; i < 4; ++i) recorder.Run({2}, [&] { ++runs[rank]; });
  };
  std::thread other([&] { serve(1); });
  serve(0);
  other.join();
  EXPECT_THAT(runs, testing::Each(4 + 1 + 2));
  EXPECT_EQ(CountsOfRecordings().recorded, before.recorded + 4);
  EXPECT_EQ(CountsOfRecordings().replayed, before.replayed + 6) << "of the second shape alone";
}

TEST(StepRecorderOffTest, TheCpuDoesNotRecord) {
  auto backend = kernels::Backend::Open(kernels::CpuOps(), {}).value();
  EXPECT_FALSE(StepRecorder(backend).enabled());
}

TEST_F(StepRecorderTest, TokensPlacedWhereTheyWereDrawnGetIntoRecordedSteps) {
  const auto plain = MakeTestModel({});
  const auto recorded = MakeTestModel({.ops = &RecordingOps()});
  const auto before = CountsOfRecordings();
  EXPECT_EQ(DrawOnwards(*recorded, TokenWay::kOnTheDevice, 40), DrawOnwards(*plain, TokenWay::kOverTheHost, 40));
  EXPECT_GT(CountsOfRecordings().replayed, before.replayed);
}

}  // namespace
}  // namespace roost::worker
