// The device that is chosen, and the error's words if it is missing.
#include "worker/backend/choose_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace roost::worker {
namespace {

using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::size_t kMemory = std::size_t{80} << 30U;

// Any op table will do: the chosen table is not called.
Result<CudaDevices> TwoDevices() {
  return CudaDevices{&kernels::ReferenceOps(),
                     {{.ordinal = 0, .name = "Large", .architecture = "sm_90", .memory_bytes = kMemory},
                      {.ordinal = 2, .name = "Small", .architecture = "sm_80", .memory_bytes = kMemory / 2}}};
}
Result<CudaDevices> NoDevice() { return Error{ErrorCode::kUnavailable, "no driver", "device"}; }

TEST(ChooseBackendTest, AutoTakesCudaWhereThereIsADevice) {
  const auto choice = ChooseAmong({}, TwoDevices());
  ASSERT_TRUE(choice.ok());
  EXPECT_EQ(choice->ops, &kernels::ReferenceOps());
  EXPECT_EQ(choice->device, "cuda:0 Large, sm_90, 80 GiB");
  EXPECT_EQ(choice->cuda, "cuda:0 Large, sm_90, 80 GiB; cuda:2 Small, sm_80, 40 GiB");
}

TEST(ChooseBackendTest, AutoTakesTheCpuElseAndSaysWhy) {
  const auto choice = ChooseAmong({.device = 3}, NoDevice());
  ASSERT_TRUE(choice.ok());
  EXPECT_EQ(choice->ops, &kernels::CpuOps());
  EXPECT_THAT(choice->ordinals, ElementsAre(0));
  EXPECT_EQ(choice->device, "cpu");
  EXPECT_EQ(choice->cuda, "none: no driver");
}

TEST(ChooseBackendTest, TheWantedDeviceIsTakenOrMissed) {
  EXPECT_EQ(ChooseAmong({.kind = BackendKind::kCuda, .device = 2}, TwoDevices())->ordinals,
            std::vector<std::uint32_t>{2});
  for (const BackendKind kind : {BackendKind::kAuto, BackendKind::kCuda}) {
    const auto missing = ChooseAmong({.kind = kind, .device = 1}, TwoDevices());
    ASSERT_FALSE(missing.ok());
    EXPECT_EQ(missing.error().code, ErrorCode::kUnavailable);
    EXPECT_THAT(missing.error().message, HasSubstr("no CUDA device 1; found: cuda:0 Large"));
  }
}

TEST(ChooseBackendTest, ADeviceThatTheKernelsDoNotRunOnIsLeftToNobodyAndSaidSo) {
  auto found = TwoDevices();
  found->devices[0].unusable = "its blocks have 65536 bytes of shared memory, and the kernels need 101376";
  const auto choice = ChooseAmong({}, found);
  ASSERT_TRUE(choice.ok());
  EXPECT_EQ(choice->ops, &kernels::CpuOps());
  EXPECT_EQ(choice->device, "cpu");
  EXPECT_THAT(choice->cuda, HasSubstr("cuda:0 Large, sm_90, 80 GiB, not usable: its blocks have 65536 bytes of "
                                      "shared memory, and the kernels need 101376; cuda:2 Small"));
  const auto insisted = ChooseAmong({.kind = BackendKind::kCuda}, found);
  ASSERT_FALSE(insisted.ok());
  EXPECT_EQ(insisted.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(insisted.error().message,
            "cuda:0 Large: its blocks have 65536 bytes of shared memory, and the kernels need 101376");
  EXPECT_EQ(ChooseAmong({.kind = BackendKind::kAuto, .device = 2}, found)->ordinals, std::vector<std::uint32_t>{2});
}

TEST(ChooseBackendTest, RanksTakeDevicesThatFollowEachOther) {
  auto found = TwoDevices();
  EXPECT_EQ(ChooseAmong({.rank_count = 2}, found).error().field, "tensor_parallel");
  EXPECT_THAT(ChooseAmong({.rank_count = 2}, found).error().message,
              HasSubstr("2 ranks from device 0 on: there is no CUDA device 1; found: cuda:0 Large"));
  found->devices[1].ordinal = 1;
  const auto choice = ChooseAmong({.rank_count = 2}, found);
  ASSERT_TRUE(choice.ok());
  EXPECT_THAT(choice->ordinals, ElementsAre(0, 1));
  EXPECT_EQ(choice->device, "cuda:0 Large, sm_90, 80 GiB; cuda:1 Small, sm_80, 40 GiB");
}

TEST(ChooseBackendTest, RanksOfTheCpuAreAllThatDevice) {
  for (const auto& choice :
       {ChooseBackend({.kind = BackendKind::kCpu, .rank_count = 3}), ChooseAmong({.rank_count = 3}, NoDevice())}) {
    ASSERT_TRUE(choice.ok());
    EXPECT_THAT(choice->ordinals, ElementsAre(0, 0, 0));
    EXPECT_EQ(choice->device, "cpu, 3 ranks");
  }
}

TEST(ChooseBackendTest, CudaWithoutADeviceIsAnError) {
  const auto choice = ChooseAmong({.kind = BackendKind::kCuda}, NoDevice());
  ASSERT_FALSE(choice.ok());
  EXPECT_EQ(choice.error().message, "no driver");
}

TEST(ChooseBackendTest, CpuLooksForNothing) {
  const auto choice = ChooseBackend({.kind = BackendKind::kCpu, .cuda_module = "/nowhere"});
  ASSERT_TRUE(choice.ok());
  EXPECT_EQ(choice->ops, &kernels::CpuOps());
  EXPECT_TRUE(choice->cuda.empty());
}

TEST(ChooseBackendTest, KindsHaveNames) {
  EXPECT_EQ(*ParseBackendKind("auto"), BackendKind::kAuto);
  EXPECT_EQ(*ParseBackendKind("cpu"), BackendKind::kCpu);
  EXPECT_EQ(*ParseBackendKind("cuda"), BackendKind::kCuda);
  EXPECT_EQ(ParseBackendKind("gpu").error().field, "backend");
}

TEST(BackendModuleFileTest, SaysWhatIsWrongWithAFile) {
  EXPECT_THAT(OpenBackendModule("/nowhere/libroost_cuda.so").error().message,
              HasSubstr("/nowhere/libroost_cuda.so is not there"));
  EXPECT_THAT(OpenBackendModule("/proc/self/cmdline").error().message, HasSubstr("/proc/self/cmdline"));
  EXPECT_THAT(OpenBackendModule(NO_BACKEND).error().message, HasSubstr("is not a backend"));
  EXPECT_EQ(DefaultCudaModulePath().filename(), "libroost_cuda.so");
}

#ifdef CUDA_BACKEND
TEST(BackendModuleFileTest, TheCudaBackendOpensWithOrWithoutADevice) {
  const auto module = OpenBackendModule(CUDA_BACKEND);
  ASSERT_TRUE(module.ok()) << module.error().ToString();
  EXPECT_EQ((*module)->ops->name, "cuda");
  const auto devices = (*module)->list_devices();
  const auto missing = (*module)->ops->open({.ordinal = 1000});
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::kUnavailable);
  if (!devices.ok()) {
    EXPECT_THAT(devices.error().message, AnyOf(HasSubstr("NVIDIA driver"), StartsWith("cudaGetDeviceCount: ")));
    EXPECT_EQ(ChooseBackend({.kind = BackendKind::kCuda, .cuda_module = CUDA_BACKEND}).error(), devices.error());
  } else {
    EXPECT_FALSE(devices->empty());
  }
}

// With or without NCCL; on a machine that has NCCL this call opens it.
TEST(BackendModuleFileTest, TheCudaBackendConnectsNoDevicesToNothing) {
  const auto connected = (*OpenBackendModule(CUDA_BACKEND))->ops->connect({});
  ASSERT_FALSE(connected.ok());
  EXPECT_EQ(connected.error().field, "tensor_parallel");
  EXPECT_THAT(connected.error().message,
              AnyOf(StartsWith("several CUDA devices need NCCL"), StartsWith("ncclCommInitAll: ")));
}
#endif

}  // namespace
}  // namespace roost::worker
