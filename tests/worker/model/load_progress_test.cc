#include "worker/model/loading/load_progress.h"

#include <gmock/gmock.h>

#include <chrono>
#include <vector>

#include "tests/worker/model/model_testing.h"
#include "worker/model/loading/weight_shapes.h"

namespace roost::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

class LoadProgressTest : public testing::Test {
 protected:
  ProgressOutlet Outlet(ProgressPace pace) {
    return {.pace = pace,
            .tell = [this](const LoadState& state) { told_.push_back(state.bytes); },
            .finish = [this](const LoadState& state) { end_ = state; }};
  }

  static constexpr ProgressPace kPace{.least = seconds(1), .most = seconds(5), .share = 0.1};

  ManualClock clock_;
  std::vector<std::uint64_t> told_;
  std::optional<LoadState> end_;
};

TEST_F(LoadProgressTest, TellsAtEachTenth) {
  LoadProgress progress(1000, clock_, Outlet(kPace));
  for (int i = 0; i < 20; ++i) {
    clock_.Advance(seconds(1));
    progress.Add(50);
  }
  EXPECT_THAT(told_, ElementsAre(100, 200, 300, 400, 500, 600, 700, 800, 900, 1000));
}

TEST_F(LoadProgressTest, AQuickLoadIsToldAtItsEndAlone) {
  LoadProgress progress(1000, clock_, Outlet(kPace));
  for (int i = 0; i < 10; ++i) {
    clock_.Advance(milliseconds(50));
    progress.Add(100);
  }
  EXPECT_THAT(told_, IsEmpty());
  clock_.Advance(milliseconds(300));  // the time after the last weight does not count as reading
  progress.Finish();
  ASSERT_TRUE(end_.has_value());
  EXPECT_EQ(end_->bytes, 1000U);
  EXPECT_EQ(end_->seconds, 0.5);
}

TEST_F(LoadProgressTest, ASlowLoadIsToldNowAndThen) {
  LoadProgress progress(1'000'000, clock_, Outlet(kPace));
  for (int i = 0; i < 12; ++i) {
    clock_.Advance(seconds(1));
    progress.Add(1);
  }
  EXPECT_THAT(told_, ElementsAre(5, 10));
}

TEST_F(LoadProgressTest, WithoutATotalOnlyTimeCounts) {
  LoadProgress progress(std::nullopt, clock_, Outlet(kPace));
  for (int i = 0; i < 6; ++i) {
    clock_.Advance(seconds(1));
    progress.Add(1'000'000);
  }
  EXPECT_THAT(told_, ElementsAre(5'000'000));
}

TEST_F(LoadProgressTest, CountsTheWeightsThatAreGot) {
  LoadProgress progress(std::nullopt, clock_, Outlet({}));
  const RandomWeights random(1);
  const CountedWeights counted(random, progress);
  const std::vector<std::uint64_t> shape = {3, 5};
  ASSERT_TRUE(counted.Get("a.weight", shape).ok());
  ASSERT_TRUE(counted.Get("b.weight", shape).ok());
  EXPECT_THAT(told_, ElementsAre(30, 60));  // bf16
  // A rank that takes a part; another rank takes the rest.
  const CountedWeights shared(random, progress, 2);
  ASSERT_TRUE(shared.GetPart("c.weight", shape, {{0, 2}, {0, 5}}).ok());
  EXPECT_EQ(told_.back(), 75);
  EXPECT_EQ(counted.total_bytes(), std::nullopt);
}

// A synthetic model has no files whose sizes say what is to come.
TEST_F(LoadProgressTest, ASyntheticModelsTotalIsWhatIsRead) {
  const HfConfig config = *SyntheticConfig("tiny");
  const RandomWeights random(1);
  const std::uint64_t total_bytes = ElementCount(config) * SizeOf(kernels::DType::kBF16);
  LoadProgress progress(total_bytes, clock_, Outlet(kPace));
  const CountedWeights counted(random, progress);
  ASSERT_TRUE(MakeModel(config, counted, {}).ok());
  progress.Finish();
  ASSERT_TRUE(end_.has_value());
  EXPECT_EQ(end_->total_bytes, end_->bytes);
  EXPECT_GT(end_->bytes, 100'000U);
}

TEST(BarTextTest, ShowsShareBytesAndRate) {
  EXPECT_EQ(BarText({.bytes = 4'000'000'000, .total_bytes = 16'000'000'000, .seconds = 0.5}),
            "reading weights  [#######                       ]  25 %  4.0 of 16.0 GB  8.0 GB/s");
  EXPECT_EQ(BarText({.bytes = 2'000'000'000, .seconds = 1}), "reading weights  2.0 GB  2.0 GB/s");
  EXPECT_EQ(BarText({}), "reading weights  0.0 GB  0.0 GB/s");
}

}  // namespace
}  // namespace roost::worker
