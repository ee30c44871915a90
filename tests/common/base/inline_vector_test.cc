#include "common/base/inline_vector.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "common/base/rng.h"

namespace roost {
namespace {

using Numbers = InlineVector<std::uint32_t, 2>;

std::vector<std::uint32_t> Copied(const Numbers& numbers) { return {numbers.begin(), numbers.end()}; }

TEST(InlineVectorTest, BehavesLikeAVector) {
  Rng rng(1);
  for (int round = 0; round < 200; ++round) {
    Numbers numbers;
    std::vector<std::uint32_t> expected;
    for (int i = 0; i < 20; ++i) {
      switch (rng.Below(4)) {
        case 0: {
          const std::size_t count = rng.Below(6);
          numbers.resize(count);
          expected.resize(count);
          break;
        }
        case 1: {
          const std::vector<std::uint32_t> values(rng.Below(5), 9);
          numbers.assign(values.begin(), values.end());
          expected = values;
          break;
        }
        default: numbers.push_back(static_cast<std::uint32_t>(i)); expected.push_back(static_cast<std::uint32_t>(i));
      }
      ASSERT_EQ(Copied(numbers), expected);
      ASSERT_EQ(numbers.size(), expected.size());
      ASSERT_EQ(numbers.empty(), expected.empty());
    }
  }
}

TEST(InlineVectorTest, ComparesByItsElementsAlone) {
  Numbers shrunk{1, 2, 3};
  shrunk.resize(2);
  EXPECT_EQ(shrunk, (Numbers{1, 2}));
  EXPECT_NE(shrunk, (Numbers{1, 3}));
  EXPECT_NE(shrunk, (Numbers{1}));
}

TEST(InlineVectorTest, CopiesAndMovesTakeAllElements) {
  for (const Numbers& numbers : {Numbers{}, Numbers{1}, Numbers{1, 2}, Numbers{1, 2, 3, 4}}) {
    Numbers copy = numbers;
    EXPECT_EQ(copy, numbers);
    const Numbers moved = std::move(copy);
    EXPECT_EQ(moved, numbers);
  }
}

}  // namespace
}  // namespace roost
