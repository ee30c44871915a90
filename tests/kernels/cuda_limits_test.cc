#include "kernels/cuda_limits.h"

#include <gtest/gtest.h>

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

TEST(SharedAllowancesTest, ADeviceIsAskedOnceForAKernelAndAgainWhenItNeedsMore) {
  SharedAllowances allowances;
  const int kernel = 0;
  const int other = 0;
  EXPECT_FALSE(allowances.Raise(&kernel, SharedAllowances::kWithoutAsking));
  EXPECT_TRUE(allowances.Raise(&kernel, 60'000));
  EXPECT_FALSE(allowances.Raise(&kernel, 60'000));
  EXPECT_FALSE(allowances.Raise(&kernel, 50'000));
  EXPECT_TRUE(allowances.Raise(&kernel, 60'001));
  EXPECT_TRUE(allowances.Raise(&other, 60'000));
}

}  // namespace
}  // namespace roost::kernels
