// The states of trust in a worker: each transition by name, and all sequences of inputs against the table in the
// header's drawing.
#include "router/fleet/worker_mode.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace roost::router {
namespace {

using namespace std::chrono_literals;
using ModeChange = ModeTracker::Change;
using Events = ModeTracker::Events;

constexpr ModeOptions kOptions{.window_requests = 4, .missing_share = 0.5, .quiet_time = 60s};

// A tracker with its own clock.
struct Tracked {
  explicit Tracked(Events events) : tracker(events, kOptions, now) {}

  // Requests that are promised 100 tokens each, until the window is full.
  std::optional<ModeChange> Window(std::uint32_t found) { return Window(found, now); }
  std::optional<ModeChange> Window(std::uint32_t found, Instant promised_at) {
    std::optional<ModeChange> change;
    for (std::uint32_t i = 0; i < kOptions.window_requests; ++i) {
      EXPECT_FALSE(change.has_value()) << "before the window is full";
      now += 1ms;
      change = tracker.OnOutcome({promised_at, 100, found}, now);
    }
    return change;
  }
  void Snapshot() {
    now += 1ms;
    tracker.OnSnapshot(now);
  }
  std::optional<ModeChange> Pass(Duration time) {
    now += time;
    return tracker.Tick(now);
  }

  Instant now{1s};
  ModeTracker tracker;
};

TEST(ModeTrackerTest, WorkerThatKeepsNoBlocksStaysBlind) {
  Tracked it(Events::kNoBlocks);
  EXPECT_EQ(it.tracker.mode(), WorkerMode::kBlind);
  EXPECT_EQ(it.Window(0), std::nullopt);
  EXPECT_EQ(it.Pass(1h), std::nullopt);
  EXPECT_EQ(it.tracker.mode(), WorkerMode::kBlind);
}

TEST(ModeTrackerTest, BadWindowAsksForASnapshotAndASecondOneEndsExactness) {
  Tracked it(Events::kSent);
  it.Snapshot();
  EXPECT_EQ(it.Window(49), (ModeChange{WorkerMode::kExact, ModeReason::kMissingTokens}));
  EXPECT_EQ(it.Window(0), std::nullopt);  // the snapshot is under way
  it.Snapshot();
  EXPECT_EQ(it.Window(49), (ModeChange{WorkerMode::kPredicted, ModeReason::kMissingTokens}));
  EXPECT_EQ(it.Window(49), (ModeChange{WorkerMode::kBlind, ModeReason::kMissingTokens}));
  EXPECT_EQ(it.Window(0), std::nullopt);
}

TEST(ModeTrackerTest, GoodWindowAfterTheSnapshotRestoresTrust) {
  Tracked it(Events::kSent);
  it.Snapshot();
  ASSERT_TRUE(it.Window(0).has_value());
  it.Snapshot();
  EXPECT_EQ(it.Window(50), std::nullopt);
  EXPECT_EQ(it.Window(0), (ModeChange{WorkerMode::kExact, ModeReason::kMissingTokens}));
}

TEST(ModeTrackerTest, QuietTimeClimbsTheLadderOneStepAtATime) {
  Tracked it(Events::kSent);
  it.Snapshot();
  ASSERT_TRUE(it.Window(0).has_value());
  it.Snapshot();
  ASSERT_TRUE(it.Window(0).has_value());
  ASSERT_TRUE(it.Window(0).has_value());
  ASSERT_EQ(it.tracker.mode(), WorkerMode::kBlind);
  EXPECT_EQ(it.Pass(59s), std::nullopt);
  EXPECT_EQ(it.Pass(1s), (ModeChange{WorkerMode::kPredicted, ModeReason::kQuiet}));
  EXPECT_EQ(it.Pass(59s), std::nullopt);
  EXPECT_EQ(it.Pass(1s), (ModeChange{WorkerMode::kExact, ModeReason::kQuiet}));
  it.Snapshot();
  EXPECT_EQ(it.Window(0), (ModeChange{WorkerMode::kPredicted, ModeReason::kMissingTokens})) << "it is on trial";
}

TEST(ModeTrackerTest, WorkerWithoutEventsIsPredictedAtBest) {
  Tracked it(Events::kNone);
  EXPECT_EQ(it.tracker.mode(), WorkerMode::kPredicted);
  EXPECT_EQ(it.Pass(600s), std::nullopt);
  EXPECT_EQ(it.Window(0), (ModeChange{WorkerMode::kBlind, ModeReason::kMissingTokens}));
  EXPECT_EQ(it.Pass(60s), (ModeChange{WorkerMode::kPredicted, ModeReason::kQuiet}));
  EXPECT_EQ(it.Pass(600s), std::nullopt);
}

TEST(ModeTrackerTest, WorkerThatLosesTrackOfItsCacheIsPredictedUntilItKnowsItAgain) {
  Tracked it(Events::kSent);
  it.Snapshot();
  EXPECT_EQ(it.tracker.OnEvents(Events::kSent, it.now), std::nullopt);
  EXPECT_EQ(it.tracker.OnEvents(Events::kNone, it.now),
            (ModeChange{WorkerMode::kPredicted, ModeReason::kCacheUnknown}));
  EXPECT_EQ(it.tracker.OnEvents(Events::kNone, it.now), std::nullopt);
  EXPECT_EQ(it.Pass(600s), std::nullopt) << "no quiet time makes it exact";
  EXPECT_EQ(it.tracker.OnEvents(Events::kSent, it.now), (ModeChange{WorkerMode::kExact, ModeReason::kCacheKnown}));

  Tracked blind(Events::kNone);
  EXPECT_EQ(blind.Window(0), (ModeChange{WorkerMode::kBlind, ModeReason::kMissingTokens}));
  EXPECT_EQ(blind.tracker.OnEvents(Events::kSent, blind.now),
            (ModeChange{WorkerMode::kExact, ModeReason::kCacheKnown}));

  Tracked empty(Events::kNoBlocks);
  EXPECT_EQ(empty.tracker.OnEvents(Events::kSent, empty.now), std::nullopt);
}

TEST(ModeTrackerTest, OnlyMissingTokensCountAndOnlyThoseThatWerePromised) {
  Tracked it(Events::kSent);
  it.Snapshot();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(it.Window(1000), std::nullopt);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(it.tracker.OnOutcome({it.now, 0, 0}, it.now), std::nullopt);
  EXPECT_EQ(it.Window(0).has_value(), true);
}

TEST(ModeTrackerTest, WindowIsJudgedByItsTokensNotByItsRequests) {
  Tracked it(Events::kSent);
  it.Snapshot();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(it.tracker.OnOutcome({it.now, 10, 0}, it.now), std::nullopt);
  EXPECT_EQ(it.tracker.OnOutcome({it.now, 1000, 1000}, it.now), std::nullopt);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(it.tracker.OnOutcome({it.now, 10, 10}, it.now), std::nullopt);
  EXPECT_TRUE(it.tracker.OnOutcome({it.now, 1000, 0}, it.now).has_value());
}

TEST(ModeTrackerTest, PromisesOfAnEarlierViewCountForNothing) {
  Tracked it(Events::kSent);
  it.Snapshot();
  const Instant before = it.now;
  ASSERT_TRUE(it.Window(0).has_value());
  it.Snapshot();
  EXPECT_EQ(it.Window(0, before), std::nullopt);
  EXPECT_EQ(it.tracker.mode(), WorkerMode::kExact);
  EXPECT_EQ(it.Window(0), (ModeChange{WorkerMode::kPredicted, ModeReason::kMissingTokens}));
}

// ---- all sequences ----

// The drawing as a table: state and input give the next state; an input that is not in the table changes nothing.
// Capitals await a snapshot: E exact and trusted, T exact on trial.
using Table = std::map<std::pair<std::string, char>, std::string>;
const Table& WithEvents() {
  static const Table table{
      {{"AWAIT_E", 's'}, "E"}, {{"AWAIT_T", 's'}, "T"}, {{"E", 'b'}, "AWAIT_T"}, {{"T", 'b'}, "P"},
      {{"T", 'g'}, "E"},       {{"P", 'b'}, "B"},       {{"P", 'q'}, "AWAIT_T"}, {{"B", 'q'}, "P"},
  };
  return table;
}
const Table& WithoutEvents() {
  static const Table table{{{"P", 'b'}, "B"}, {{"B", 'q'}, "P"}};
  return table;
}

WorkerMode ModeOf(const std::string& state) {
  if (state == "P") return WorkerMode::kPredicted;
  return state == "B" ? WorkerMode::kBlind : WorkerMode::kExact;
}

void RunSequence(Events events, const Table& table, const std::string& inputs) {
  SCOPED_TRACE(inputs);
  Tracked it(events);
  std::string state = events == Events::kSent ? "AWAIT_E" : "P";
  for (const char input : inputs) {
    std::optional<ModeChange> change;
    switch (input) {
      case 'g': change = it.Window(100); break;
      case 'b': change = it.Window(0); break;
      case 's': it.Snapshot(); break;
      default: change = it.Pass(kOptions.quiet_time); break;
    }
    const auto next = table.find({state, input});
    const std::string before = state;
    if (next != table.end()) state = next->second;
    ASSERT_EQ(it.tracker.mode(), ModeOf(state)) << before << " " << input;
    // Good windows and snapshots do not begin a view.
    const bool begins = next != table.end() && (input == 'b' || input == 'q');
    ASSERT_EQ(change.has_value(), begins) << before << " " << input;
    if (!begins) continue;
    ASSERT_EQ(change->to, ModeOf(state));
    ASSERT_EQ(change->reason, input == 'b' ? ModeReason::kMissingTokens : ModeReason::kQuiet);
  }
}

TEST(ModeTrackerModelTest, AllSequencesOfEightInputsFollowTheDrawing) {
  constexpr std::array kInputs{'g', 'b', 's', 'q'};
  constexpr std::size_t kLength = 8;
  const auto count = static_cast<std::size_t>(std::pow(kInputs.size(), kLength));
  for (std::size_t number = 0; number < count; ++number) {
    std::string inputs;
    for (std::size_t rest = number; inputs.size() < kLength; rest /= kInputs.size()) {
      inputs += kInputs[rest % kInputs.size()];
    }
    RunSequence(Events::kSent, WithEvents(), inputs);
    RunSequence(Events::kNone, WithoutEvents(), inputs);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace roost::router
