// The copies of blocks beside the device's thread: threads that serve and fetch blocks, on late devices (late_ops.h).
#include <gtest/gtest.h>

#include "tests/support/late_ops.h"
#include "tests/worker/model/toy_pool.h"

namespace roost::worker {
namespace {

TEST(CopyThreadsTest, BytesAreRightBesideThreadsThatReadAndBringBlocks) {
  for (const std::uint32_t rank_count : {1U, 2U}) {
    testing_support::LateStreams::All().Reset(rank_count);
    ToyPool pool({.ops = &testing_support::LateOps<kernels::ReferenceOps>(), .rank_count = rank_count}, rank_count);
    pool.RunBesideThreads(2000);
    EXPECT_EQ(pool.wrong_count.load(), 0);
    EXPECT_GT(pool.read_count.load(), 0);
    EXPECT_GT(pool.written_count, 0);
  }
}

}  // namespace
}  // namespace roost::worker
