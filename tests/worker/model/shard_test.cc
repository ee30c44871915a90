// The part of each weight that each rank has.
#include "worker/model/loading/shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "common/base/rng.h"
#include "worker/model/loading/synthetic.h"

namespace roost::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

HfConfig Llama8B() { return *SyntheticConfig("llama-3.1-8b"); }

TEST(ShardTest, ALlamaIsSplitByHeadsInnerLayerAndVocabulary) {
  const ShardRanges ranges = RangesOf(Llama8B(), {.rank = 3, .rank_count = 4});
  EXPECT_EQ(ranges.q, (WeightRange{24 * 128, 32 * 128}));
  EXPECT_EQ(ranges.kv, (WeightRange{6 * 128, 8 * 128}));
  EXPECT_EQ(ranges.intermediate, (WeightRange{10752, 14336}));
  EXPECT_EQ(ranges.vocabulary, (WeightRange{96192, 128256}));
  const HfConfig part = ConfigOf(Llama8B(), {.rank = 3, .rank_count = 4});
  EXPECT_EQ(part.query_head_count, 8U);
  EXPECT_EQ(part.kv_head_count, 2U);
  EXPECT_EQ(part.intermediate_size, 3584U);
  EXPECT_EQ(part.vocab_size, 128256U);
  EXPECT_EQ(part.hidden_size, 4096U);
}

TEST(ShardTest, OneRankHasAll) {
  const ShardRanges ranges = RangesOf(Llama8B(), {});
  EXPECT_EQ(ranges.q, (WeightRange{0, 4096}));
  EXPECT_EQ(ranges.kv, (WeightRange{0, 1024}));
  EXPECT_EQ(ranges.intermediate, (WeightRange{0, 14336}));
  EXPECT_EQ(ranges.vocabulary, (WeightRange{0, 128256}));
}

TEST(ShardTest, RanksFollowEachOtherAndCoverEverything) {
  for (const std::uint32_t rank_count : {2U, 4U, 8U}) {
    ShardRanges last{};
    for (std::uint32_t rank = 0; rank < rank_count; ++rank) {
      const ShardRanges ranges = RangesOf(Llama8B(), {rank, rank_count});
      EXPECT_EQ(ranges.q.begin, last.q.end);
      EXPECT_EQ(ranges.kv.begin, last.kv.end);
      EXPECT_EQ(ranges.intermediate.begin, last.intermediate.end);
      EXPECT_EQ(ranges.vocabulary.begin, last.vocabulary.end);
      last = ranges;
    }
    EXPECT_EQ(last.q.end, 4096U);
    EXPECT_EQ(last.kv.end, 1024U);
    EXPECT_EQ(last.intermediate.end, 14336U);
    EXPECT_EQ(last.vocabulary.end, 128256U);
  }
}

// Query head h uses kv head h / 4.
TEST(ShardTest, WithMoreRanksThanKvHeadsNeighboursShareOne) {
  for (std::uint32_t rank = 0; rank < 16; ++rank) {
    const ShardRanges ranges = RangesOf(Llama8B(), {rank, 16});
    EXPECT_EQ(ranges.q.size(), 2 * 128U);
    EXPECT_EQ(ranges.kv, (WeightRange{rank / 2 * 128, (rank / 2 + 1) * 128}));
  }
}

TEST(ShardTest, RankCountsThatDoNotFitAreRefused) {
  HfConfig config = Llama8B();
  for (const std::uint32_t fits : {1U, 2U, 8U, 16U, 32U}) EXPECT_TRUE(CheckRankCount(config, fits).ok()) << fits;
  for (const std::uint32_t wrong : {0U, 3U, 64U, 65U}) {
    EXPECT_EQ(CheckRankCount(config, wrong).error().field, "tensor_parallel") << wrong;
  }
  EXPECT_THAT(CheckRankCount(config, 3).error().message, HasSubstr("3 ranks can not share 32 query heads evenly"));
  config.kv_head_count = 16;
  config.query_head_count = 48;
  EXPECT_THAT(CheckRankCount(config, 24).error().message, HasSubstr("16 kv heads"));
  config = Llama8B();
  config.intermediate_size = 6;
  EXPECT_THAT(CheckRankCount(config, 4).error().message, HasSubstr("6 columns of the inner layer"));
  config = Llama8B();
  config.vocab_size = 31;
  EXPECT_THAT(CheckRankCount(config, 4).error().message, HasSubstr("31 tokens of the vocabulary"));
}

class WeightPartTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kColumns = 4;

  static std::vector<float> Values(const Weight& weight) {
    std::vector<float> values;
    for (std::size_t i = 0; i < weight.elements; ++i) {
      values.push_back(kernels::LoadElement(weight.data, weight.dtype, i));
    }
    return values;
  }

  WeightPartTest() { std::iota(values_.begin(), values_.end(), 0.0F); }

  std::vector<float> values_ = std::vector<float>(12);  // 3 rows
  Weight whole_{values_.data(), kernels::DType::kF32, 12, nullptr};
};

TEST_F(WeightPartTest, RowsLieWhereTheyLay) {
  const Weight rows = RowsOf(whole_, kColumns, {1, 3});
  EXPECT_THAT(Values(rows), ElementsAre(4, 5, 6, 7, 8, 9, 10, 11));
  EXPECT_EQ(rows.data, values_.data() + 4);
}

TEST_F(WeightPartTest, ColumnsAreCopied) {
  const Weight columns = ColumnsOf(whole_, kColumns, {1, 3});
  EXPECT_THAT(Values(columns), ElementsAre(1, 2, 5, 6, 9, 10));
  EXPECT_NE(columns.owner, nullptr);
}

TEST_F(WeightPartTest, AllColumnsAreNotCopied) {
  EXPECT_EQ(ColumnsOf(whole_, kColumns, {0, kColumns}).data, values_.data());
}

TEST_F(WeightPartTest, ElementsOfTwoBytesKeepTheirPlaces) {
  std::vector<std::uint16_t> bits;
  for (const float value : values_) bits.push_back(kernels::FloatToBF16(value));
  const Weight whole{bits.data(), kernels::DType::kBF16, 12, nullptr};
  EXPECT_THAT(Values(ColumnsOf(RowsOf(whole, kColumns, {1, 3}), kColumns, {2, 4})), ElementsAre(6, 7, 10, 11));
}

std::vector<std::uint16_t> Bits(const Weight& weight) {
  const auto* bits = static_cast<const std::uint16_t*>(weight.data);
  return {bits, bits + weight.elements};
}

// The lengths of rows are not multiples of four, although random numbers come in fours.
TEST(RandomWeightsTest, APartIsMadeAsItWouldBeCutFromTheWhole) {
  const RandomWeights random(7);
  constexpr std::uint32_t kRows = 13;
  for (const std::uint32_t columns : {1U, 3U, 8U, 22U}) {
    const std::vector<std::uint64_t> shape = {kRows, columns};
    for (const char* name : {"a.weight", "a_norm.weight"}) {
      const Weight whole = random.Get(name, shape).value();
      for (const WeightRange rows : {WeightRange{0, kRows}, {0, 5}, {3, 4}, {6, kRows}}) {
        for (const WeightRange range : {WeightRange{0, columns}, {columns / 3, columns}, {0, (columns + 1) / 2}}) {
          const Weight part = random.GetPart(name, shape, {rows, range}).value();
          const Weight cut = ColumnsOf(RowsOf(whole, columns, rows), columns, range);
          EXPECT_EQ(part.dtype, cut.dtype);
          EXPECT_EQ(Bits(part), Bits(cut));
        }
      }
    }
  }
  const std::vector<std::uint64_t> length = {kRows};
  EXPECT_EQ(Bits(random.GetPart("a.bias", length, {{2, 9}, {0, 1}}).value()),
            Bits(RowsOf(random.Get("a.bias", length).value(), 1, {2, 9})));
}

// The weights must not change between versions: figures and tests depend on them.
TEST(RandomWeightsTest, NumbersFollowEachOtherAsThoseOfRng) {
  const std::vector<std::uint64_t> shape = {5};
  const std::vector<std::uint16_t> bits = Bits(RandomWeights(0).Get("", shape).value());
  Rng rng(Mix64(0));
  const std::uint64_t words[] = {rng(), rng()};
  for (std::size_t i = 0; i < bits.size(); ++i) {
    const auto part = static_cast<std::int16_t>(words[i / 4] >> (16 * (i % 4)));
    EXPECT_EQ(bits[i], kernels::FloatToBF16(static_cast<float>(part) * (std::sqrt(3.0F / 5) / 32768)));
  }
}

}  // namespace
}  // namespace roost::worker
