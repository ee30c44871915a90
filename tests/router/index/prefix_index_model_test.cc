// The index against a model that is too simple to be wrong: a set of hashes per worker, matched block by block.
#include <gtest/gtest.h>

#include "tests/model/choices.h"
#include "tests/model/index_driver.h"

namespace roost::router {
namespace {

using testing_support::IndexDriver;
using testing_support::RandomChoices;

struct Seen {
  bool shed = false;
  bool sets = false;
  bool growth = false;
};

void Drive(std::uint64_t seed, IndexDriver::Size size, int step_count, Seen& seen) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  RandomChoices choices(seed);
  IndexDriver driver(choices, size);
  const std::uint64_t first_bytes = driver.index().memory_bytes();
  for (int i = 0; i < step_count; ++i) {
    const Result<void> step = driver.Step();
    ASSERT_TRUE(step.ok()) << "step " << i << ": " << step.error().ToString();
  }
  const PrefixIndex& index = driver.index();
  seen.shed = seen.shed || index.shed_block_total() > 0;
  seen.sets = seen.sets || index.holder_set_count() > 0;
  seen.growth = seen.growth || (index.holder_set_count() == 0 && index.memory_bytes() > first_bytes);
  const Result<void> end = driver.Finish();
  ASSERT_TRUE(end.ok()) << end.error().ToString();
}

void DriveAll(std::uint64_t seed_count, IndexDriver::Size size, int step_count) {
  Seen seen;
  for (std::uint64_t seed = 1; seed <= seed_count && !testing::Test::HasFatalFailure(); ++seed) {
    Drive(seed, size, step_count, seen);
  }
  EXPECT_TRUE(seen.shed && seen.sets && seen.growth) << "these seeds do not try it all";
}

TEST(PrefixIndexModelTest, AnswersAsTheModelDoes) { DriveAll(150, {.chains = 12, .max_length = 48}, 150); }

TEST(PrefixIndexModelTest, AnswersAsTheModelDoesWithManyBlocks) {
  DriveAll(24, {.chains = 60, .max_length = 400}, 300);
}

}  // namespace
}  // namespace roost::router
