// The shim itself: it does what PTX says, and finds what it claims to find.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "kernels/cuda/cuda_primitives.cuh"
#include "kernels/dtype.h"
#include "tests/support/simt/memory_ops.h"
#include "tests/support/simt/simt_device.h"

namespace roost::kernels {
namespace {

using simt::Device;

constexpr std::uint32_t kAll = 0xFFFFFFFF;

__global__ void SumOfBlock(const int* in, int* out) {
  using Sums = int[32];
  ROOST_SHARED(Sums, sums);
  int value = in[blockIdx.x * blockDim.x + threadIdx.x];
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(kAll, value, step);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) value += sums[warp];
    atomicAdd(out, value);
  }
}

TEST(SimtTest, BlocksWarpsAndAtomicsAddUp) {
  std::vector<int> in(3 * 96);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<int>(i);
  for (const std::uint64_t seed : {0U, 1U, 2U}) {
    Device device(seed);
    int out = 0;
    Launch(device, {.grid_x = 3, .threads = 96}, SumOfBlock, in.data(), &out);
    EXPECT_EQ(out, 287 * 288 / 2);
    EXPECT_EQ(device.counters().barriers, 3U);
  }
}

__global__ void Shuffles(int* out) {
  const int lane = static_cast<int>(threadIdx.x);
  out[lane] = __shfl_sync(kAll, lane, 3, 8);
  out[32 + lane] = __shfl_up_sync(kAll, lane, 2, 8);
  out[64 + lane] = __shfl_down_sync(kAll, lane, 2U);
  out[96 + lane] = static_cast<int>(__ballot_sync(kAll, lane % 2));
  if (lane < 16) out[128 + lane] = __shfl_xor_sync(0xFFFFU, lane, 1);
}

TEST(SimtTest, ShufflesStayInTheirSegmentAndMask) {
  Device device;
  std::array<int, 160> out{};
  Launch(device, {}, Shuffles, out.data());
  for (int lane = 0; lane < 32; ++lane) {
    const auto i = static_cast<std::size_t>(lane);
    EXPECT_EQ(out[i], lane / 8 * 8 + 3);
    EXPECT_EQ(out[32 + i], lane % 8 < 2 ? lane : lane - 2);
    EXPECT_EQ(out[64 + i], lane < 30 ? lane + 2 : lane);
    EXPECT_EQ(static_cast<unsigned>(out[96 + i]), 0xAAAAAAAAU);
    if (lane < 16) {
      EXPECT_EQ(out[128 + i], lane ^ 1);
    }
  }
}

// c = a · bᵀ with a [16][16] and b [8][16]: the layout of a tile of scores, and the transposed layout of weighted
// values.
__global__ void Product(const std::uint16_t* a, const std::uint16_t* b, const std::uint16_t* b_transposed, float* c,
                        float* c_of_transposed) {
  auto* shared = reinterpret_cast<std::uint16_t*>(DynamicShared());
  const std::uint32_t lane = threadIdx.x;
  CopyAsync16(shared + lane * 8, a + lane * 8);
  CopyAsync16OrZero(shared + 256 + lane * 8, lane < 16 ? b + lane * 8 : b, lane < 16 ? 1 : 0);
  CommitCopies();
  CopyAsync16OrZero(shared + 512 + lane * 8, lane < 16 ? b_transposed + lane * 8 : b, lane < 16 ? 1 : 0);
  CommitCopies();
  WaitForCopies<0>();
  __syncthreads();
  std::uint32_t fa[4];
  std::uint32_t fb[4];
  std::uint32_t fbt[4];
  LoadMatrices(shared + lane % 16 * 16 + lane / 16 * 8, fa);
  LoadMatrices(shared + 256 + lane % 8 * 16 + lane / 8 % 2 * 8, fb);
  LoadMatricesTransposed(shared + 512 + lane % 16 * 8, fbt);
  float sums[4] = {};
  float sums_of_transposed[4] = {};
  MultiplyAdd16x8x16(fa, fb[0], fb[1], sums);
  MultiplyAdd16x8x16(fa, fbt[0], fbt[1], sums_of_transposed);
  for (std::uint32_t i = 0; i < 4; ++i) {
    const std::uint32_t at = (lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2;
    c[at] = sums[i];
    c_of_transposed[at] = sums_of_transposed[i];
  }
}

TEST(SimtTest, FragmentsMakeAMatrixProduct) {
  alignas(16) std::array<std::uint16_t, 256> a{};
  alignas(16) std::array<std::uint16_t, 128> b{};
  alignas(16) std::array<std::uint16_t, 128> b_transposed{};
  const auto value = [](std::size_t i) { return static_cast<float>(static_cast<int>(i * 7 % 23) - 11); };
  for (std::size_t i = 0; i < 256; ++i) a[i] = FloatToBF16(value(i));
  for (std::size_t n = 0; n < 8; ++n) {
    for (std::size_t k = 0; k < 16; ++k) b[n * 16 + k] = b_transposed[k * 8 + n] = FloatToBF16(value(n * 16 + k + 5));
  }
  std::array<float, 128> c{};
  std::array<float, 128> c_of_transposed{};
  Device device(3);
  Launch(device, {.shared_bytes = 1536}, Product, a.data(), b.data(), b_transposed.data(), c.data(),
         c_of_transposed.data());
  for (std::size_t m = 0; m < 16; ++m) {
    for (std::size_t n = 0; n < 8; ++n) {
      float sum = 0;
      for (std::size_t k = 0; k < 16; ++k) sum += value(m * 16 + k) * value(n * 16 + k + 5);
      EXPECT_EQ(c[m * 8 + n], sum);
      EXPECT_EQ(c_of_transposed[m * 8 + n], sum);
    }
  }
  // Rows of 32 bytes: among eight rows, pairs share banks. The rows of 16 bytes of the transposed matrix are adjacent.
  EXPECT_EQ(device.counters().matrix_load_conflicts, 8U);
}

// Each thread copies four values, and reads one that the thread `ahead` copied.
__global__ void CopyWithWait(const float* in, float* out, unsigned ahead, int wait, int barrier) {
  auto* shared = reinterpret_cast<float*>(DynamicShared());
  CopyAsync16(shared + threadIdx.x * 4, in + threadIdx.x * 4);
  CommitCopies();
  if (wait != 0) WaitForCopies<0>();
  if (barrier != 0) __syncthreads();
  out[threadIdx.x] = shared[(threadIdx.x + ahead) * 4 % 256];
  if (wait == 0) WaitForCopies<0>();
}

// The number of threads, out of 64, that read a value that was not copied.
int WrongValues(unsigned ahead, int wait, int barrier) {
  alignas(16) std::array<float, 256> in{};
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i);
  std::array<float, 64> out{};
  Device device(1);
  Launch(device, {.threads = 64, .shared_bytes = 1024}, CopyWithWait, in.data(), out.data(), ahead, wait, barrier);
  int wrong = 0;
  for (std::size_t i = 0; i < out.size(); ++i) wrong += out[i] == in[(i + ahead) * 4 % 256] ? 0 : 1;
  return wrong;
}

TEST(SimtTest, ACopyIsPoisonUntilItsThreadWaits) {
  EXPECT_EQ(WrongValues(4, 1, 1), 0);
  EXPECT_EQ(WrongValues(0, 1, 0), 0);
  EXPECT_EQ(WrongValues(0, 0, 0), 64);
}

__global__ void Adds(const int* in, int* out, int value) { atomicAdd(out, *in * value); }

TEST(SimtTest, RecordedLaunchesRunAtEachReplayOnWhatMemoryHoldsThen) {
  Device device;
  int in = 1;
  int out = 0;
  device.BeginRecording();
  Launch(device, {}, Adds, &in, &out, 1);
  Launch(device, {.grid_x = 2}, Adds, &in, &out, 100);
  const auto recording = device.EndRecording();
  EXPECT_EQ(out, 0);
  device.Replay(*recording);
  EXPECT_EQ(out, 32 + 6400);
  in = 2;
  device.Replay(*recording);
  EXPECT_EQ(out, 3 * (32 + 6400));
  Launch(device, {}, Adds, &in, &out, 1);
  EXPECT_EQ(out, 3 * (32 + 6400) + 64);
}

__global__ void NeverWaits(const float* in) {
  CopyAsync16(DynamicShared() + threadIdx.x * 16, in);
  CommitCopies();
}

__global__ void DivergesAtABarrier() {
  if (threadIdx.x < 40) __syncthreads();
  if (threadIdx.x >= 40) __syncwarp();
}

__global__ void LeavesAWarpFunction(int* out) {
  if (threadIdx.x > 0) *out = __shfl_xor_sync(0xFFFFFFFF, *out, 1);
}

__global__ void LoadsOutside(const std::uint16_t* global) {
  std::uint32_t out[4];
  LoadMatrices(global, out);
}

// Two warps; each copies 512 bytes and loads the other's, with the given synchronisation in between.
__global__ void LoadsWhatTheOtherWarpCopied(const float* in, int barrier, int again) {
  std::byte* shared = DynamicShared();
  CopyAsync16(shared + threadIdx.x * 16, in);
  CommitCopies();
  WaitForCopies<0>();
  if (barrier != 0) {
    __syncthreads();
  } else {
    __syncwarp();
  }
  std::uint32_t out[4];
  LoadMatrices(shared + (threadIdx.x + 32) % 64 * 16, out);
  if (again == 0) return;
  CopyAsync16(shared + threadIdx.x * 16, in);
  CommitCopies();
  WaitForCopies<0>();
}

__global__ void LoadsWhatItsOwnLanesCopied(const float* in, int sync) {
  CopyAsync16(DynamicShared() + threadIdx.x * 16, in);
  CommitCopies();
  WaitForCopies<0>();
  if (sync != 0) __syncwarp();
  std::uint32_t out[4];
  LoadMatrices(DynamicShared() + threadIdx.x * 16, out);
}

using SimtDeathTest = testing::Test;

TEST(SimtDeathTest, CopiesAndLoadsWithoutABarrierBetweenAreFoundInAnyOrder) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  alignas(16) const std::array<float, 4> in{};
  for (const std::uint64_t seed : {0U, 1U, 2U}) {
    Device device(seed);
    Launch(device, {.threads = 64, .shared_bytes = 1024}, LoadsWhatTheOtherWarpCopied, in.data(), 1, 0);
    Launch(device, {.shared_bytes = 512}, LoadsWhatItsOwnLanesCopied, in.data(), 1);
    EXPECT_DEATH(
        Launch(device, {.shared_bytes = 512}, LoadsWhatItsOwnLanesCopied, in.data(), 0),
        "race in block .* shared memory: (ldmatrix|the end of cp.async) by warp 0, .*without a barrier between");
    EXPECT_DEATH(Launch(device, {.threads = 64, .shared_bytes = 1024}, LoadsWhatTheOtherWarpCopied, in.data(), 1, 1),
                 "race in block .* shared memory: cp.async by warp ., .*without a barrier between");
  }
}

#ifndef ROOST_SIMT_SEES_PLAIN_ACCESSES
TEST(SimtTest, AMissingWaitOrBarrierBehindACopyGivesPoison) {
  EXPECT_GT(WrongValues(4, 0, 1), 0);
  EXPECT_GT(WrongValues(4, 1, 0), 0);
}
#else
TEST(SimtDeathTest, AMissingWaitOrBarrierBehindACopyIsARace) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(WrongValues(4, 0, 1), "the end of cp.async by warp [01], lane .*without a barrier between");
  EXPECT_DEATH(WrongValues(4, 1, 0), "race in block");
}

// Thread 0 sums what all threads stored, after the given synchronisation.
enum class Sync : std::uint8_t { kNone, kWarp, kShuffle, kBlock };

__global__ void SumsStores(unsigned* out, Sync sync) {
  using Values = unsigned[64];
  ROOST_SHARED(Values, values);
  values[threadIdx.x] = threadIdx.x;
  if (sync == Sync::kWarp) __syncwarp();
  if (sync == Sync::kShuffle) (void)__shfl_xor_sync(kAll, threadIdx.x, 1);
  if (sync == Sync::kBlock) __syncthreads();
  if (threadIdx.x != 0) return;
  for (unsigned i = 0; i < blockDim.x; ++i) *out += values[i];
}

// The threads of a block count, and read the count after a barrier. `plain`: thread 0 counts without an atomic.
__global__ void Counts(unsigned* out, int plain, int barrier) {
  ROOST_SHARED(unsigned, count);
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  if (plain != 0 && threadIdx.x == 0) {
    ++count;
  } else {
    atomicAdd(&count, 1U);
  }
  if (barrier != 0) __syncthreads();
  out[threadIdx.x] = count;
}

// A store over what other threads have loaded.
__global__ void StoresOverLoads(unsigned* out, int barrier) {
  auto* values = reinterpret_cast<unsigned*>(DynamicShared());
  values[threadIdx.x] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = values[(threadIdx.x + 1) % blockDim.x];
  if (barrier != 0) __syncthreads();
  values[threadIdx.x] = 0;
}

constexpr char kRace[] = "race in block .*, without a barrier between; the last __syncthreads";

TEST(SimtDeathTest, PlainAccessesToSharedMemoryWithoutABarrierAreFoundInAnyOrder) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  std::array<unsigned, 64> out{};
  for (const std::uint64_t seed : {0U, 1U, 2U}) {
    Device device(seed);
    Launch(device, {.threads = 32}, SumsStores, out.data(), Sync::kWarp);
    Launch(device, {.threads = 64}, SumsStores, out.data(), Sync::kBlock);
    Launch(device, {.threads = 64, .shared_bytes = 256}, StoresOverLoads, out.data(), 1);
    Launch(device, {.threads = 64}, Counts, out.data(), 0, 1);
    EXPECT_DEATH(Launch(device, {.threads = 32}, SumsStores, out.data(), Sync::kNone), kRace);
    EXPECT_DEATH(Launch(device, {.threads = 32}, SumsStores, out.data(), Sync::kShuffle), kRace);
    EXPECT_DEATH(Launch(device, {.threads = 64}, SumsStores, out.data(), Sync::kWarp), kRace);
    EXPECT_DEATH(Launch(device, {.threads = 64, .shared_bytes = 256}, StoresOverLoads, out.data(), 0), kRace);
    EXPECT_DEATH(Launch(device, {.threads = 64}, Counts, out.data(), 0, 0), kRace);
    EXPECT_DEATH(Launch(device, {.threads = 64}, Counts, out.data(), 1, 1), kRace);
  }
}

TEST(SimtDeathTest, ARemovedBarrierIsMissed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  std::array<unsigned, 64> out{};
  Device device;
  Launch(device, {.threads = 64, .shared_bytes = 256}, StoresOverLoads, out.data(), 1);
  ASSERT_EQ(device.barriers().size(), 2U);
  for (const simt::Place& place : device.barriers()) {
    Device without;
    without.RemoveBarrier(place);
    EXPECT_DEATH(Launch(without, {.threads = 64, .shared_bytes = 256}, StoresOverLoads, out.data(), 1), kRace);
  }
}
#endif

TEST(SimtDeathTest, CopiesAndAllocationsWhileOpsAreRecordedAreFaults) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const OpTable ops = simt::MemoryOps();
  Device device;
  device.BeginRecording();
  int value = 0;
  EXPECT_DEATH((void)ops.allocate(device, 4), "an allocation while ops are recorded");
  EXPECT_DEATH(ops.copy_to_host(device, &value, &value, 4), "a copy while ops are recorded");
  EXPECT_DEATH(ops.begin_readback(device, &value, 4), "a readback while ops are recorded");
  EXPECT_DEATH(ops.begin_recording(device), "another recording while ops are recorded");
}

TEST(SimtDeathTest, FaultsAreNamed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  alignas(16) std::array<float, 4> in{};
  int out = 0;
  EXPECT_DEATH(
      {
        Device device;
        Launch(device, {.shared_bytes = 512}, NeverWaits, in.data());
      },
      "ends with copies that nobody waited for");
  EXPECT_DEATH(
      {
        Device device;
        Launch(device, {.threads = 64}, DivergesAtABarrier);
      },
      "deadlock in block \\(0, 0, 0\\)[^$]*40 at __syncthreads, .*simt_test.cc:[0-9]*, of them the first is 0 and the "
      "last 39[^$]*24 at __syncwarp");
  EXPECT_DEATH(
      {
        Device device;
        Launch(device, {}, LeavesAWarpFunction, &out);
      },
      "31 at __shfl_xor_sync, mask ffffffff");
  EXPECT_DEATH(
      {
        Device device;
        Launch(device, {}, LoadsOutside, reinterpret_cast<const std::uint16_t*>(in.data()));
      },
      "ldmatrix: not in the block's shared memory");
}

}  // namespace
}  // namespace roost::kernels
