// The copies of blocks by the CUDA backend on doubles of CUDA's libraries, whose streams are queues and end late:
// pools, frames and steps as in toy_pool.h; the calls that it makes; and how a failure ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "kernels/cuda/cuda_ops.h"
#include "tests/support/fake_cuda/fake_cuda.h"
#include "tests/support/late_device.h"
#include "tests/worker/model/toy_pool.h"

namespace roost::worker {
namespace {

using fake_cuda::Fault;
using testing::ExitedWithCode;
using testing_support::LateStreams;

ToyTotals RunSeeds(ToyOptions options, std::uint64_t seed_count, Fault fault = Fault::kNone) {
  options.ops = &kernels::CudaOps();
  options.copies_rows = false;
  ToyTotals totals;
  for (std::uint64_t seed = 0; seed < seed_count; ++seed) {
    LateStreams::All().Reset(seed);
    fake_cuda::Reset();
    fake_cuda::EndLate();
    fake_cuda::Plant(fault);
    ToyPool pool(options, seed);
    pool.Run(60);
    totals.Add(pool);
  }
  return totals;
}

TEST(CudaCopiesHostTest, BytesAreRightHoweverLateAndInWhicheverOrderCopiesEnd) {
  for (const ToyOptions& options :
       {ToyOptions{.rank_count = 1}, ToyOptions{.rank_count = 2}, ToyOptions{.rank_count = 2, .heads = 1}}) {
    const ToyTotals totals = RunSeeds(options, 100);
    EXPECT_EQ(totals.wrong, 0) << options.rank_count << " ranks, " << options.heads << " heads";
    EXPECT_GT(totals.read, 0);
    EXPECT_GT(totals.written, 0);
  }
}

TEST(CudaCopiesHostTest, ItShowsWhenStreamsDoNotWaitForEachOther) {
  EXPECT_GT(RunSeeds({}, 50, Fault::kStreamsDoNotWait).wrong, 0);
}
TEST(CudaCopiesHostTest, ItShowsWhenNothingWaitsForTheEndOfACopy) {
  EXPECT_GT(RunSeeds({}, 50, Fault::kEventsAreNotAwaited).wrong, 0);
}

// A block of 5 MiB on one rank, which must be cut, and beside it the frames of a slab.
class CudaCopyTest : public testing::Test {
 protected:
  CudaCopyTest() {
    LateStreams::All().Reset(1);
    fake_cuda::Reset();
    backend_.emplace(kernels::Backend::Open(kernels::CudaOps(), {}).value());
    part_.whole_head_count = part_.layout.kv_head_count;
    slab_ = FrameSlab::Pin(*backend_, {2, 80, 16}, part_.WholeBytes()).value();
    pool_.emplace(*backend_).Reserve(part_.WholeBytes() * part_.layout.block_count);
    staging_.emplace(*backend_).Reserve(part_.WholeBytes() * 2);
    part_.layout.base = pool_->data();
    engine_ = CopyEngine::Make(*backend_, *slab_, {.block = part_}, staging_->data()).value();
    copies_ = std::make_unique<BlockCopies>(*slab_, std::vector<CopyEngine*>{engine_.get()}, part_);
  }

  void Read() {
    copies_->MakeReader()->Read(BlockId(1), {slab_->Data(0), part_.WholeBytes()}, [] {});
  }
  void Stage() { copies_->Stage({slab_->Data(1), part_.WholeBytes()}); }

  std::optional<kernels::Backend> backend_;
  BlockPart part_{.layout = {.dtype = kernels::DType::kBF16,
                             .block_count = 2,
                             .layer_count = 5,
                             .kv_head_count = 32,
                             .block_tokens = 64,
                             .head_dim = 128}};
  std::unique_ptr<FrameSlab> slab_;
  std::optional<kernels::DeviceBuffer> pool_;
  std::optional<kernels::DeviceBuffer> staging_;
  std::unique_ptr<CopyEngine> engine_;
  std::unique_ptr<BlockCopies> copies_;
};

TEST_F(CudaCopyTest, NoCopyIsLongerThan2MiB) {
  ASSERT_EQ(part_.WholeBytes(), std::size_t{5} << 20U);
  Read();
  Stage();
  EXPECT_EQ(fake_cuda::LongestCopy(), std::size_t{2} << 20U);
  EXPECT_EQ(fake_cuda::CallCounts()["cudaMemcpyAsync"], 6);
}

TEST_F(CudaCopyTest, AStepWaitsOnceForTheGathersBeforeItAndMakesNoCallWithoutAny) {
  Read();
  Read();
  const std::map<std::string, int> before = fake_cuda::CallCounts();
  engine_->HoldOps();
  const std::map<std::string, int> held = fake_cuda::CallCounts();
  EXPECT_EQ(held.at("cudaStreamWaitEvent"), before.at("cudaStreamWaitEvent") + 1);
  engine_->HoldOps();
  EXPECT_EQ(fake_cuda::CallCounts(), held);
}

TEST_F(CudaCopyTest, AThreadThatMovesABlockHasTheRanksDevice) {
  cudaSetDevice(2);
  Read();
  Stage();
  int device = 0;
  cudaGetDevice(&device);
  EXPECT_EQ(device, 0);
}

using CudaCopyDeathTest = CudaCopyTest;

TEST_F(CudaCopyDeathTest, AFailedCopyEndsTheProcessAndTheLineSaysCopy) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  fake_cuda::FailCalls("cudaMemcpyAsync", cudaErrorIllegalAddress);
  const ExitedWithCode exit(kernels::kDeviceFailureExitCode);
  EXPECT_EXIT(Stage(), exit, "a copy of blocks .cudaMemcpyAsync. failed on cuda:0 .Double.: an illegal memory access");
  EXPECT_EXIT(Read(), exit, "a copy of blocks .cudaMemcpyAsync. failed on cuda:0 .Double.: an illegal memory access");
}

TEST_F(CudaCopyTest, FramesWithoutMemoryAreRefusedWithTheirBytes) {
  fake_cuda::FailCalls("cudaHostAlloc", cudaErrorMemoryAllocation);
  const auto slab = FrameSlab::Pin(*backend_, {4, 80, 16}, 1'000'000);
  ASSERT_FALSE(slab.ok());
  EXPECT_EQ(slab.error().field, "transfer-memory");
  EXPECT_THAT(slab.error().message, testing::HasSubstr("4 blocks on their way, 4000512 bytes"));
}

}  // namespace
}  // namespace roost::worker
