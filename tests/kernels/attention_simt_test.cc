// Properties of CUDA's attention that only the SIMT shim can show.
#include "tests/kernels/attention_batch.h"
#include "tests/support/simt/simt_device.h"
#include "tests/support/simt/simt_ops.h"

namespace roost::kernels {
namespace {

// Decodes, chunks for each tile, a shared prefix.
AttentionBatch BatchOfAllKinds(std::uint32_t head_dim) {
  AttentionBatch batch({.group = 4, .head_dim = head_dim}, 1);
  batch.Add(400, 1);
  batch.Add(100, 16);
  batch.Add(50, 32);
  for (int i = 0; i < 8; ++i) batch.Add(390, 1, 0, 320);
  batch.Fill();
  return batch;
}

TEST(AttentionSimtTest, RowsThatAreReadTogetherAreInDifferentBanks) {
  OpTable ops = simt::SimtOps();
  ops.attention = [](Device& device, const AttentionArgs& args) {
    AttentionCuda(device, args);
    const simt::Counters& counters = simt::Device::Of(device).counters();
    EXPECT_GT(counters.matrix_loads, 0U);
    EXPECT_EQ(counters.matrix_load_conflicts, 0U);
  };
  for (const std::uint32_t head_dim : {64U, 128U}) (void)BatchOfAllKinds(head_dim).Run(ops, 1);
}

TEST(AttentionSimtTest, NoBitDependsOnTheOrderInWhichThreadsRun) {
  const AttentionBatch batch = BatchOfAllKinds(64);
  const Tensor wanted = batch.Run(simt::SimtOps(), 50);
  for (const std::uint32_t seed : {1U, 2U, 3U}) {
    EXPECT_EQ(batch.Run(simt::SimtOps(), 50, {.ordinal = seed}).bytes, wanted.bytes) << "seed " << seed;
  }
}

}  // namespace
}  // namespace roost::kernels
