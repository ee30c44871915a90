#include "common/base/parts_digest.h"

#include <gtest/gtest.h>

namespace roost {
namespace {

// Golden values: Python's hashlib over the parts, each after its length packed as '<Q'.
TEST(PartsDigestTest, IsSha256OverPartsAfterTheirLengths) {
  EXPECT_EQ(PartsDigest().Hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(PartsDigest().Add("abc").Hex(), "ce91dc5eec0139adf091900d225971d6ad246a845bad791b5693a9d0d55dd391");
  EXPECT_EQ(PartsDigest().Add("ab").Add("c").Hex(), "43ee655579de01ca739b3f95c1c2d3f46d353b2c0df818064ea594506cdb2617");
}

}  // namespace
}  // namespace roost
