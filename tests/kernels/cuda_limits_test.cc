#include "kernels/cuda/cuda_limits.h"

#include <gtest/gtest.h>

#include "kernels/cpu/cpu_device.h"
#include "kernels/cuda/cuda_ops.h"

namespace roost::kernels {
namespace {

TEST(CudaLimitsTest, DevicesThatTheKernelsRunOn) {
  EXPECT_EQ(WhyUnusable({.major = 8, .minor = 0, .shared_bytes = 163 * 1024}), "");
  EXPECT_EQ(WhyUnusable({.major = 8, .minor = 9, .shared_bytes = 101'376}), "");
  EXPECT_EQ(WhyUnusable({.major = 12, .minor = 0, .shared_bytes = 101'376}), "");
}

TEST(CudaLimitsTest, OthersAreToldWithWhatTheyHaveAndWhatIsNeeded) {
  EXPECT_EQ(WhyUnusable({.major = 7, .minor = 5, .shared_bytes = 64 * 1024}),
            "it has compute capability 7.5, and the kernels need 8.0");
  EXPECT_EQ(WhyUnusable({.major = 8, .minor = 0, .shared_bytes = 101'375}),
            "its blocks have 101375 bytes of shared memory, and the kernels need 101376");
}

class CheckModelTest : public testing::Test {
 protected:
  // The size that is refused; empty if none is.
  std::string Refused(const ModelDims& model) {
    const Result<void> checked = CheckModelCuda(device_, model);
    return checked.ok() ? "" : checked.error().field;
  }

  const ModelDims usual_{.kv = {.block_tokens = 16, .head_dim = 128}, .vocab_size = 128'256, .hidden_size = 4096};

 private:
  CpuDevice device_{1};
};

TEST_F(CheckModelTest, TheLargestSizesThatTheKernelsComputeAreTaken) {
  ModelDims model = usual_;
  EXPECT_EQ(Refused(model), "");
  model.vocab_size = kMaxSampledVocab;
  model.hidden_size = 25'312;  // with the sums of 32 warps, 99 KiB
  EXPECT_EQ(Refused(model), "");
}

TEST_F(CheckModelTest, ASizeThatTheyDoNotComputeIsNamed) {
  ModelDims model = usual_;
  model.vocab_size = kMaxSampledVocab + 1;
  EXPECT_EQ(Refused(model), "vocab_size");
  model = usual_;
  model.hidden_size = 25'313;
  EXPECT_EQ(Refused(model), "hidden_size");
  model = usual_;
  model.kv.head_dim = 80;
  EXPECT_EQ(Refused(model), "head_dim");
  model = usual_;
  model.kv.block_tokens = 8;
  EXPECT_EQ(Refused(model), "block_tokens");
}

TEST(SharedAllowancesTest, ADeviceIsAskedOnceForAKernelAndAgainWhenItNeedsMore) {
  SharedAllowances allowances;
  const int kernel = 0;
  const int other = 0;
  allowances.Declare(&kernel, 0);
  allowances.Declare(&other, 0);
  EXPECT_FALSE(allowances.Raise(&kernel, SharedAllowances::kWithoutAsking));
  EXPECT_TRUE(allowances.Raise(&kernel, 60'000));
  EXPECT_FALSE(allowances.Raise(&kernel, 60'000));
  EXPECT_FALSE(allowances.Raise(&kernel, 50'000));
  EXPECT_TRUE(allowances.Raise(&kernel, 60'001));
  EXPECT_TRUE(allowances.Raise(&other, 60'000));
}

TEST(SharedAllowancesTest, WhatAKernelDeclaresCounts) {
  SharedAllowances allowances;
  const int kernel = 0;
  allowances.Declare(&kernel, 128);
  EXPECT_FALSE(allowances.Raise(&kernel, SharedAllowances::kWithoutAsking - 128));
  EXPECT_TRUE(allowances.Raise(&kernel, SharedAllowances::kWithoutAsking - 127));
  EXPECT_TRUE(allowances.Raise(&kernel, kMaxSharedBytes - 128));
}

TEST(SharedAllowancesDeathTest, NoKernelHasMoreThanEveryDeviceAllows) {
  SharedAllowances allowances;
  const int kernel = 0;
  allowances.Declare(&kernel, 128);
  EXPECT_DEATH((void)allowances.Raise(&kernel, kMaxSharedBytes - 127), "128 . 101249 bytes of shared memory");
}

}  // namespace
}  // namespace roost::kernels
