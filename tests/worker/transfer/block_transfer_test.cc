// Sizes and hashes that decide with whom blocks travel.
#include "worker/transfer/block_transfer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/support/fake_model.h"

namespace roost::worker {
namespace {

using testing::HasSubstr;
using testing_support::FakeModel;

constexpr FrameSizes kSizes{.block_tokens = 16, .data_bytes = 48 * 1024};
constexpr std::uint64_t kMiB = 1U << 20U;

TEST(TransferMemoryTest, TakesAsManyFramesAsTheGivenBytesHold) {
  EXPECT_EQ(FrameCountOf(kSizes, 100 * kSizes.frame_bytes() + 1, 64 * kMiB).value(), 100U);
  EXPECT_EQ(FrameCountOf(kSizes, kMinFrames * kSizes.frame_bytes(), std::nullopt).value(), kMinFrames);
}

TEST(TransferMemoryTest, FewerThanEightFramesAreAnErrorWithTheSizeOfABlock) {
  const Result<std::size_t> count = FrameCountOf(kSizes, kMinFrames * kSizes.frame_bytes() - 1, std::nullopt);
  ASSERT_FALSE(count.ok());
  EXPECT_EQ(count.error().field, "transfer-memory");
  EXPECT_THAT(count.error().message, HasSubstr(std::to_string(kSizes.frame_bytes()) + " bytes"));
}

TEST(TransferMemoryTest, TheDefaultIsBoundedByTheMemoryThatThereIs) {
  EXPECT_EQ(FrameCountOf(kSizes, 0, std::nullopt).value(), kDefaultTransferBytes / kSizes.frame_bytes());
  EXPECT_EQ(FrameCountOf(kSizes, 0, 1024 * 1024 * kMiB).value(), kDefaultTransferBytes / kSizes.frame_bytes());
  EXPECT_EQ(FrameCountOf(kSizes, 0, 160 * kMiB).value(), 10 * kMiB / kSizes.frame_bytes());
  EXPECT_EQ(FrameCountOf(kSizes, 0, 1).value(), kMinFrames);
  // Blocks so large that the default holds fewer: they travel all the same.
  EXPECT_EQ(FrameCountOf({.block_tokens = 256, .data_bytes = 100 * kMiB}, 0, std::nullopt).value(), kMinFrames);
}

TEST(TransferMemoryTest, CountsTheFramesThatWaitAndOneForEachReader) {
  const auto frames = [](std::uint32_t pulls, std::uint32_t readers) {
    return FrameCountOf(
        TransferSetup{.worker_id = "w", .frame_count = 100, .pull_count = pulls, .reader_count = readers});
  };
  EXPECT_EQ(frames(8, 16), 116U);
  EXPECT_EQ(frames(1, 256), 356U);
  EXPECT_EQ(frames(8, 0), 100U);
  EXPECT_EQ(frames(0, 16), 16U) << "nothing comes";
}

TEST(LayoutHashTest, DiffersWithAllThatDecidesABlocksBytes) {
  const FakeModel model({.block_tokens = 16});
  const FakeModel larger_blocks({.block_tokens = 32});
  const std::set<std::uint64_t> hashes{LayoutHash(model, "fingerprint", "bf16"), LayoutHash(model, "another", "bf16"),
                                       LayoutHash(model, "fingerprint", "f32"),
                                       LayoutHash(larger_blocks, "fingerprint", "bf16"), 0};
  EXPECT_EQ(hashes.size(), 5U);
  // Not with the size of the pool.
  EXPECT_EQ(LayoutHash(FakeModel({.block_tokens = 16, .block_count = 7}), "fingerprint", "bf16"),
            LayoutHash(model, "fingerprint", "bf16"));
}

TEST(NumericsHashTest, IsThatOfTheComputedBits) {
  FakeModel one({.block_tokens = 16});
  FakeModel same({.block_tokens = 16, .block_count = 7});
  FakeModel other({.block_tokens = 16, .vocab_size = 50});
  const std::uint64_t hash = NumericsHash(one, 512);
  EXPECT_NE(hash, 0U);
  EXPECT_EQ(NumericsHash(same, 5), hash);
  EXPECT_NE(NumericsHash(other, 512), hash);
}

// As on CUDA, where the fastest algorithms are chosen at each start, so equal cards compute other bits.
TEST(NumericsHashTest, IsThatOfTheArithmeticsNameIfThereIsOne) {
  const auto named = [](const char* name, std::uint32_t vocab_size) {
    return FakeModel({.block_tokens = 16, .vocab_size = vocab_size, .arithmetic = {.name = name}});
  };
  FakeModel one = named("card 1, bf16", 97);
  FakeModel other_bits = named("card 1, bf16", 50);
  FakeModel other_card = named("card 2, bf16", 97);
  FakeModel unnamed({.block_tokens = 16});
  const std::uint64_t hash = NumericsHash(one, 512);
  EXPECT_NE(hash, 0U);
  EXPECT_EQ(NumericsHash(other_bits, 512), hash);
  EXPECT_NE(NumericsHash(other_card, 512), hash);
  EXPECT_NE(NumericsHash(unnamed, 512), hash);
  EXPECT_EQ(one.computed_token_count(), 0U);
  EXPECT_EQ(NumericsPromise(one), "like: equal up to rounding");
  EXPECT_EQ(NumericsPromise(unnamed), "same");
}

TEST(NumericsHashTest, AModelWithoutAWholeBlockHasNone) {
  FakeModel model({.block_tokens = 16, .max_context_tokens = 15});
  EXPECT_EQ(NumericsHash(model, 512), 0U);
}

}  // namespace
}  // namespace roost::worker
