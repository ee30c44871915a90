// The host side of the CUDA backend on doubles of CUDA's libraries: which failures are noticed and where, and which
// calls are repeated.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "kernels/collective.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/device_memory.h"
#include "kernels/matmul.h"
#include "tests/support/fake_cuda/fake_cuda.h"

namespace roost::kernels {

// As declared in cuda_primitives.cuh, which only nvcc compiles.
void LoadKernel(Device& device, const void* kernel);
void AllowShared(Device& device, const void* kernel, std::uint32_t bytes);

namespace {

using testing::ExitedWithCode;

class CudaHostTest : public testing::Test {
 protected:
  CudaHostTest() { fake_cuda::Reset(); }

  static std::unique_ptr<CudaDevice> Open(std::uint32_t ordinal) {
    return std::unique_ptr<CudaDevice>(CudaDevice::Open({.ordinal = ordinal}).value());
  }
};

TEST_F(CudaHostTest, ADeviceWithTooLittleSharedMemoryIsRefusedWithBothNumbers) {
  fake_cuda::SetSharedBytes(1, 65'536);
  const auto device = CudaDevice::Open({.ordinal = 1});
  ASSERT_FALSE(device.ok());
  EXPECT_EQ(device.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(device.error().message,
            "device 1 can not be used: its blocks have 65536 bytes of shared memory, and the kernels need 101376");
}

// RMSNorm keeps a row and 128 bytes of its own: rows of 12,257 elements are the first that do not fit 48 KiB.
TEST_F(CudaHostTest, ALaunchMayBringWhatItNeedsBesideWhatTheKernelDeclares) {
  const auto device = Open(0);
  fake_cuda::SetDeclaredShared(128);
  for (const std::uint32_t width : {8U, 12'256U, 12'257U, 12'288U, 12'289U, kMaxNormedWidth}) {
    const int kernel = 0;
    LoadKernel(*device, &kernel);
    const auto bytes = static_cast<std::uint32_t>(width * sizeof(float));
    AllowShared(*device, &kernel, bytes);
    EXPECT_GE(fake_cuda::AllowedShared(&kernel), bytes) << "rows of " << width;
  }
}

// The ring of pinned memory is full, and the device continues only when the watch is called.
TEST_F(CudaHostTest, TheWaitForPinnedMemoryIsWatched) {
  const auto device = Open(0);
  fake_cuda::Hang(0);
  int watched = 0;
  device->SetWatch([&watched] {
    ++watched;
    fake_cuda::GoOn(0);
  });
  std::array<std::byte, 64> from{};
  std::array<std::byte, 64> to{};
  for (int copy = 0; copy < 16; ++copy) device->CopyToDevice(to.data(), from.data(), from.size());
  EXPECT_GT(watched, 0);
}

TEST_F(CudaHostTest, AProductThatItsBucketsAlgorithmDoesNotTakeIsPlannedAloneOnce) {
  const auto device = Open(0);
  const std::array<float, 32> values{};
  const MatmulPart part{.weight = values.data(), .dtype = DType::kF32, .outputs = 4};
  const auto weights = PrepareMatmulCuda(*device, {.parts = {&part, 1}, .inputs = 8, .compute_dtype = DType::kBF16});
  ASSERT_TRUE(weights.ok());
  const auto tries_of = [&](std::uint32_t rows) {
    const int before = fake_cuda::ProductsTried();
    MatmulCuda(*device, {.weights = weights->get(), .rows = rows, .y_dtype = DType::kBF16});
    return fake_cuda::ProductsTried() - before;
  };
  EXPECT_EQ(tries_of(3), 1);  // as a batch of 4
  fake_cuda::TakeOnlyPlannedRows();
  EXPECT_EQ(tries_of(3), 2);
  EXPECT_EQ(tries_of(3), 1);
  EXPECT_EQ(tries_of(4), 1);
}

class CudaProductsTest : public CudaHostTest {
 protected:
  void Multiply(std::uint32_t rows) {
    MatmulCuda(*device_, {.weights = weights_.get(), .rows = rows, .y_dtype = DType::kBF16});
  }

  const std::array<float, 32> values_{};
  const MatmulPart part_{.weight = values_.data(), .dtype = DType::kF32, .outputs = 4};
  std::unique_ptr<CudaDevice> device_ = Open(0);
  std::unique_ptr<MatmulWeights> weights_ =
      PrepareMatmulCuda(*device_, {.parts = {&part_, 1}, .inputs = 8, .compute_dtype = DType::kBF16}).value();
};

TEST_F(CudaProductsTest, TheFastestAlgorithmIsMeasuredOnceForABucket) {
  fake_cuda::SetAlgorithms({3, 2, 1, 4});
  Multiply(3);
  EXPECT_EQ(fake_cuda::LastAlgorithm(), 2);
  const int before = fake_cuda::ProductsTried();
  Multiply(4);  // the same bucket
  EXPECT_EQ(fake_cuda::ProductsTried(), before + 1);
  EXPECT_EQ(fake_cuda::LastAlgorithm(), 2);
}

// A measurement would be recorded, and spoil the recording by its waits.
TEST_F(CudaProductsTest, NothingIsMeasuredWhileOpsAreRecorded) {
  fake_cuda::SetAlgorithms({3, 2, 1, 4});
  device_->BeginCapture();
  const int before = fake_cuda::ProductsTried();
  Multiply(3);
  EXPECT_EQ(fake_cuda::ProductsTried(), before + 1);
  EXPECT_EQ(fake_cuda::LastAlgorithm(), 0);
  (void)device_->EndCapture();
}

TEST_F(CudaHostTest, PartsOfAProductAreAddedInF32WhateverItGives) {
  const auto device = Open(0);
  const std::array<float, 32> values{};
  const MatmulPart part{.weight = values.data(), .dtype = DType::kF32, .outputs = 4};
  const auto weights = PrepareMatmulCuda(*device, {.parts = {&part, 1}, .inputs = 8, .compute_dtype = DType::kBF16});
  ASSERT_TRUE(weights.ok());
  for (const DType y_dtype : {DType::kBF16, DType::kF32}) {
    MatmulCuda(*device, {.weights = weights->get(), .rows = 3, .y_dtype = y_dtype});
    EXPECT_EQ(fake_cuda::LastReduction(), CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
  }
}

// The host begins the next step while the device computes one.
class CudaStepsDeathTest : public CudaHostTest {
 protected:
  CudaStepsDeathTest() {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    device_->BeginBatch({.request_count = 3, .token_count = 5});
    fake_cuda::Hang(0);
    device_->BeginReadback(memory_.data(), memory_.size());
    device_->BeginBatch({.request_count = 4, .token_count = 9});
  }

  ~CudaStepsDeathTest() override { fake_cuda::GoOn(0); }

  void EndReadback() { device_->EndReadback(memory_.data()); }
  void Upload() {
    const HostPiece piece{.data = memory_.data(), .bytes = memory_.size()};
    for (int copy = 0; copy < 4; ++copy) device_->Upload(memory_.data(), {&piece, 1});
  }

  std::array<std::byte, 8> memory_{};
  std::unique_ptr<CudaDevice> device_ = Open(0);
};

TEST_F(CudaStepsDeathTest, AFaultIsNamedWithTheStepThatHadItWhicheverCallShowsIt) {
  fake_cuda::Fail(0, cudaErrorIllegalAddress);
  const ExitedWithCode exit(kDeviceFailureExitCode);
  EXPECT_EXIT(EndReadback(), exit, "in a batch of 3 requests, 5 tokens: an illegal memory access");
  EXPECT_EXIT(Upload(), exit, "in a batch of 3 requests, 5 tokens: an illegal memory access");
}

TEST_F(CudaStepsDeathTest, ACallThatFailsOnADeviceThatGoesOnIsNamedWithItsOwnStep) {
  EXPECT_EXIT(device_->Fail("cudaMalloc", "out of memory"), ExitedWithCode(kDeviceFailureExitCode),
              "cudaMalloc failed on cuda:0 .Double. in a batch of 4 requests, 9 tokens: out of memory");
}

TEST_F(CudaStepsDeathTest, AFaultAfterAStepHasEndedIsTheNextOnes) {
  fake_cuda::GoOn(0);
  EndReadback();
  fake_cuda::Fail(0, cudaErrorIllegalAddress);
  EXPECT_EXIT(Upload(), ExitedWithCode(kDeviceFailureExitCode), "in a batch of 4 requests, 9 tokens: an illegal");
}

TEST_F(CudaHostTest, UploadsThatWereReservedTakeNoMemory) {
  const auto device = Open(0);
  constexpr std::size_t kBytes = std::size_t{5} << 20U;
  ASSERT_TRUE(device->ReserveUploads(kBytes));
  const std::vector<std::byte> memory(kBytes);
  std::vector<std::byte> to(kBytes);
  const HostPiece piece{.data = memory.data(), .bytes = kBytes};
  const int before = fake_cuda::Allocations();
  for (int copy = 0; copy < 4; ++copy) device->Upload(to.data(), {&piece, 1});
  EXPECT_EQ(fake_cuda::Allocations(), before);
}

TEST_F(CudaHostTest, UploadsThatThereIsNoMemoryForLeaveThoseThatWereReserved) {
  const auto device = Open(0);
  constexpr std::size_t kBytes = std::size_t{5} << 20U;
  ASSERT_TRUE(device->ReserveUploads(kBytes));
  fake_cuda::FailCalls("cudaMallocHost", cudaErrorMemoryAllocation);
  EXPECT_FALSE(device->ReserveUploads(4 * kBytes));
  const std::vector<std::byte> memory(kBytes, std::byte{7});
  std::vector<std::byte> to(kBytes);
  const HostPiece piece{.data = memory.data(), .bytes = kBytes};
  for (int copy = 0; copy < 4; ++copy) device->Upload(to.data(), {&piece, 1});
  EXPECT_EQ(to, memory);
}

TEST_F(CudaHostTest, ABufferThatCannotGrowStays) {
  const Backend backend = Backend::Open(CudaOps(), {}).value();
  DeviceBuffer buffer(backend);
  ASSERT_TRUE(buffer.TryReserve(64));
  void* const before = buffer.data();
  for (const char* const call : {"cudaMallocHost", "cudaMalloc"}) {
    fake_cuda::FailCalls(call, cudaErrorMemoryAllocation);
    EXPECT_FALSE(buffer.TryReserveUploads(std::size_t{64} << 20U));
    EXPECT_EQ(buffer.data(), before);
    fake_cuda::FailCalls(call, cudaSuccess);
  }
  EXPECT_TRUE(buffer.TryReserveUploads(std::size_t{64} << 20U));
}

// Each rank has its own device; rank 0 waits for its device, which waits for the others.
class CudaRanksTest : public CudaHostTest {
 protected:
  CudaRanksTest() {
    std::vector<Device*> ranks;
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      devices_.push_back(Open(rank));
      ranks.push_back(devices_.back().get());
    }
    communicators_ = ConnectCuda(ranks).value();
    devices_[0]->BeginBatch({.request_count = 3, .token_count = 5});
    fake_cuda::Hang(0);
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }

  ~CudaRanksTest() override { fake_cuda::GoOn(0); }

  void Wait() { devices_[0]->CopyToHost(nullptr, nullptr, 0); }

  std::vector<std::unique_ptr<CudaDevice>> devices_;
  Communicators communicators_;
};
using CudaRanksDeathTest = CudaRanksTest;

TEST_F(CudaRanksDeathTest, AFaultOnAnotherRanksDeviceEndsTheWaitAndNamesThatDevice) {
  fake_cuda::Fail(2, cudaErrorIllegalAddress);
  EXPECT_EXIT(Wait(), ExitedWithCode(kDeviceFailureExitCode),
              "^[^\n]*cudaStreamQuery failed on cuda:2 .Double. in a batch of 3 requests, 5 tokens: an illegal memory "
              "access was encountered[^\n]*\n$");
}

TEST_F(CudaRanksDeathTest, ABrokenCommunicatorIsItsDevices) {
  fake_cuda::FailCommunicator(1, ncclRemoteError);
  EXPECT_EXIT(Wait(), ExitedWithCode(kDeviceFailureExitCode),
              "^[^\n]*a collective op of NCCL failed on cuda:1 .Double.[^\n]*: an error of NCCL: told by it[^\n]*\n$");
}

TEST_F(CudaRanksTest, AStreamThatIsRecordedIsLeftAlone) {
  devices_[1]->BeginCapture();
  communicators_[0]->CheckPeers();
  cudaGraphDestroy(devices_[1]->EndCapture());  // a spoiled recording would end the process
}

// The rank failed to load; the others notice when they have loaded.
TEST_F(CudaRanksTest, ARankThatIsGoneIsLookedAfterNoMore) {
  communicators_[1].reset();
  devices_[1].reset();
  fake_cuda::FailCommunicator(1, ncclRemoteError);
  communicators_[0]->CheckPeers();  // a failing peer would end the process
}

TEST_F(CudaRanksTest, LookingAfterPeersKeepsTheThreadsDevice) {
  cudaSetDevice(1);
  communicators_[1]->CheckPeers();
  int device = 0;
  cudaGetDevice(&device);
  EXPECT_EQ(device, 1);
}

}  // namespace
}  // namespace roost::kernels
