// The CPU's compute threads: how many there are, and that they are kept.
#include <filesystem>
#include <set>
#include <string>
#include <thread>

#include "tests/kernels/kernels_testing.h"

namespace roost::kernels {
namespace {

std::set<std::string> ThreadsOfThisProcess() {
  std::set<std::string> threads;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    threads.insert(entry.path().filename().string());
  }
  return threads;
}

// Ops with more and with less work than there are threads.
class MixedOps {
 public:
  explicit MixedOps(std::uint32_t threads) : device_(CpuOps(), threads) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const MatmulPart part{weight_.data(), DType::kF32, nullptr, kWidth};
      weights_.push_back(PrepareMatmulCpu(device_, {{&part, 1}, kWidth, dtype}).value());
    }
  }

  void Run(std::uint32_t rows) {
    std::vector<float> values(std::size_t{rows} * kWidth, 1);
    std::vector<float> out(values.size());
    RmsNormCpu(device_, {.hidden = values.data(),
                         .weight = weight_.data(),
                         .epsilon = 1e-6F,
                         .rows = rows,
                         .width = kWidth,
                         .out = out.data()});
    for (const auto& weights : weights_) MatmulCpu(device_, {weights.get(), values.data(), rows, out.data()});
  }

 private:
  static constexpr std::uint32_t kWidth = 1024;

  OpenDevice device_;
  std::vector<float> weight_ = std::vector<float>(std::size_t{kWidth} * kWidth, 0.5F);
  std::vector<std::unique_ptr<MatmulWeights>> weights_;
};

TEST(CpuThreadsTest, AreTheSameHoweverMuchThereIsToDo) {
  std::thread([] {}).join();  // with the first one, a sanitizer may start a thread of its own
  const std::size_t before = ThreadsOfThisProcess().size();
  constexpr std::uint32_t kThreads = 8;
  MixedOps ops(kThreads);
  ops.Run(512);
  const std::set<std::string> threads = ThreadsOfThisProcess();
  EXPECT_EQ(threads.size(), before + kThreads - 1);
  for (const std::uint32_t rows : {300U, 1U, 33U, 2U, 512U, 64U, 3U, 260U, 20U}) {
    ops.Run(rows);
    EXPECT_EQ(ThreadsOfThisProcess(), threads) << "after " << rows << " rows";
  }
}

}  // namespace
}  // namespace roost::kernels
