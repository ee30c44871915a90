// Collective ops of ranks that are threads: on every rank they give the result of a loop over the ranks, repeatedly.
#include "kernels/collective.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "common/base/rng.h"
#include "kernels/device_memory.h"

namespace roost::kernels {
namespace {

// Connected ranks on the CPU.
class Group {
 public:
  explicit Group(std::uint32_t rank_count) {
    std::vector<Device*> devices;
    for (std::uint32_t rank = 0; rank < rank_count; ++rank) {
      backends_.push_back(Backend::Open(CpuOps(), {}).value());
      devices.push_back(&backends_.back().device());
    }
    communicators_ = CpuOps().connect(devices).value();
  }

  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(backends_.size()); }

  void OnEachRank(const std::function<void(Device&, Communicator&)>& task) {
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 0; rank < size(); ++rank) {
      threads.emplace_back([this, &task, rank] { task(backends_[rank].device(), *communicators_[rank]); });
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  std::vector<Backend> backends_;
  Communicators communicators_;
};

std::vector<float> RandomValues(std::uint64_t seed, std::size_t count) {
  Rng rng(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(rng.Uniform() * 4 - 2);
  return values;
}

class CollectiveTest : public testing::TestWithParam<std::uint32_t> {};

TEST_P(CollectiveTest, EveryRankGetsTheSumInTheOrderOfRanks) {
  Group group(GetParam());
  for (const std::size_t count : {0U, 1U, 3U, 511U, 1030U, 5000U}) {
    std::vector<std::vector<float>> values;
    for (std::uint32_t rank = 0; rank < group.size(); ++rank) values.push_back(RandomValues(rank + 1, count));
    std::vector<float> wanted = values[0];
    for (std::uint32_t rank = 1; rank < group.size(); ++rank) {
      for (std::size_t i = 0; i < count; ++i) wanted[i] += values[rank][i];
    }
    group.OnEachRank([&](Device& device, Communicator& communicator) {
      AllReduceCpu(device,
                   {.communicator = &communicator, .values = values[communicator.rank()].data(), .count = count});
    });
    for (std::uint32_t rank = 0; rank < group.size(); ++rank) EXPECT_EQ(values[rank], wanted) << "rank " << rank;
  }
}

TEST_P(CollectiveTest, BF16IsRoundedOnce) {
  constexpr std::size_t kCount = 700;
  Group group(GetParam());
  std::vector<std::vector<std::uint16_t>> values;
  std::vector<float> sums(kCount);
  for (std::uint32_t rank = 0; rank < group.size(); ++rank) {
    values.emplace_back();
    const std::vector<float> floats = RandomValues(rank + 1, kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
      values[rank].push_back(FloatToBF16(floats[i]));
      sums[i] += BF16ToFloat(values[rank][i]);
    }
  }
  group.OnEachRank([&](Device& device, Communicator& communicator) {
    AllReduceCpu(device, {.communicator = &communicator,
                          .values = values[communicator.rank()].data(),
                          .count = kCount,
                          .dtype = DType::kBF16});
  });
  for (const auto& of_rank : values) {
    for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(of_rank[i], FloatToBF16(sums[i])) << i;
  }
}

TEST_P(CollectiveTest, ColumnsComeToTheirPlacesOnRankZero) {
  Group group(GetParam());
  for (const std::uint32_t width : {64U, 77U, 272U}) {
    for (const std::uint32_t rows : {0U, 1U, 5U}) {
      const std::vector<float> wanted = RandomValues(width, std::size_t{rows} * width);
      std::vector<float> out(wanted.size());
      std::vector<float> scratch(wanted.size());
      group.OnEachRank([&](Device& device, Communicator& communicator) {
        const std::uint32_t begin = ColumnsBegin(width, communicator.rank(), group.size());
        const std::uint32_t end = ColumnsBegin(width, communicator.rank() + 1, group.size());
        std::vector<float> part;
        for (std::uint32_t row = 0; row < rows; ++row) {
          for (std::uint32_t column = begin; column < end; ++column) part.push_back(wanted[row * width + column]);
        }
        const bool root = communicator.rank() == 0;
        GatherColumnsCpu(device, {.communicator = &communicator,
                                  .part = part.data(),
                                  .rows = rows,
                                  .width = width,
                                  .out = root ? out.data() : nullptr,
                                  .scratch = root ? scratch.data() : nullptr});
      });
      EXPECT_EQ(out, wanted) << rows << " rows of " << width;
    }
  }
}

TEST_P(CollectiveTest, WhatRankZeroHasComesToAll) {
  Group group(GetParam());
  for (const std::size_t count : {0U, 1U, 700U}) {
    const std::vector<float> wanted = RandomValues(1, count);
    std::vector<std::vector<float>> values;
    for (std::uint32_t rank = 0; rank < group.size(); ++rank) values.push_back(RandomValues(rank + 1, count));
    group.OnEachRank([&](Device& device, Communicator& communicator) {
      BroadcastCpu(device, {.communicator = &communicator,
                            .values = values[communicator.rank()].data(),
                            .bytes = count * sizeof(float)});
    });
    for (std::uint32_t rank = 0; rank < group.size(); ++rank) EXPECT_EQ(values[rank], wanted) << "rank " << rank;
  }
}

// An op's leftovers must not reach the next op.
TEST_P(CollectiveTest, OpsFollowEachOther) {
  constexpr int kRounds = 200;
  Group group(GetParam());
  std::vector<std::vector<float>> seen(group.size());
  group.OnEachRank([&](Device& device, Communicator& communicator) {
    for (int round = 0; round < kRounds; ++round) {
      auto value = static_cast<float>(round + static_cast<int>(communicator.rank()));
      AllReduceCpu(device, {.communicator = &communicator, .values = &value, .count = 1});
      seen[communicator.rank()].push_back(value);
    }
  });
  const auto ranks = static_cast<float>(group.size());
  for (const std::vector<float>& values : seen) {
    for (int round = 0; round < kRounds; ++round) {
      ASSERT_EQ(values[static_cast<std::size_t>(round)], static_cast<float>(round) * ranks + ranks * (ranks - 1) / 2);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, CollectiveTest, testing::Values(1U, 2U, 3U, 4U));

TEST(CollectiveDeathTest, RanksThatDisagreeAboutASizeEndTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto disagree = [] {
    Group group(2);
    std::vector<float> values(8);
    group.OnEachRank([&](Device& device, Communicator& communicator) {
      AllReduceCpu(device, {.communicator = &communicator, .values = values.data(), .count = 4 + communicator.rank()});
    });
  };
  EXPECT_DEATH(disagree(), "ranks of one collective op have");
}

TEST(ColumnsBeginTest, PartsCoverAllColumnsAlignedAndAboutEven) {
  for (const std::uint32_t width : {64U, 320U, 2047U, 128256U, 151936U}) {
    for (std::uint32_t ranks = 1; ranks <= 8; ++ranks) {
      EXPECT_EQ(ColumnsBegin(width, 0, ranks), 0U);
      EXPECT_EQ(ColumnsBegin(width, ranks, ranks), width);
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        const std::uint32_t begin = ColumnsBegin(width, rank, ranks);
        const std::uint32_t size = ColumnsBegin(width, rank + 1, ranks) - begin;
        EXPECT_EQ(begin % 8, 0U);
        EXPECT_LT(std::abs(static_cast<double>(size) - static_cast<double>(width) / ranks), 16);
      }
    }
  }
}

}  // namespace
}  // namespace roost::kernels
