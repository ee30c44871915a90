#include "common/base/enum_set.h"

#include <gtest/gtest.h>

namespace roost {
namespace {

enum class Fruit { kApple, kPear, kLast = 63 };

TEST(EnumSetTest, HoldsWhatIsInserted) {
  EnumSet<Fruit> set{Fruit::kPear, Fruit::kLast};
  EXPECT_TRUE(set.contains(Fruit::kPear) && set.contains(Fruit::kLast));
  EXPECT_FALSE(set.contains(Fruit::kApple));
  set.erase(Fruit::kPear);
  EXPECT_EQ(set, EnumSet<Fruit>{Fruit::kLast});
  set.erase(Fruit::kLast);
  EXPECT_TRUE(set.empty());
}

TEST(EnumSetTest, ContainsItsSubsets) {
  const EnumSet<Fruit> set{Fruit::kApple, Fruit::kLast};
  EXPECT_TRUE(set.contains(EnumSet<Fruit>()));
  EXPECT_TRUE(set.contains(set));
  EXPECT_TRUE(set.contains(EnumSet<Fruit>{Fruit::kLast}));
  EXPECT_FALSE(set.contains(EnumSet<Fruit>{Fruit::kLast, Fruit::kPear}));
  EXPECT_FALSE(EnumSet<Fruit>().contains(set));
}

}  // namespace
}  // namespace roost
