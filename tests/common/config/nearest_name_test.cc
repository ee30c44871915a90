#include "common/config/nearest_name.h"

#include <gtest/gtest.h>

#include <vector>

namespace roost {
namespace {

const std::vector<std::string> kNames{"model", "threads", "kv-memory", "kv-blocks", "metrics-address", "n"};

TEST(NearestNameTest, LettersMayBeSwappedMissingAddedOrWrong) {
  for (const char* written : {"modle", "model", "mode", "modell", "nodel"}) {
    EXPECT_EQ(NearestName(written, kNames), "model") << written;
  }
  EXPECT_EQ(NearestName("metric-adress", kNames), "metrics-address");
}

TEST(NearestNameTest, CaseAndUnderscoresCountForNothing) {
  EXPECT_EQ(NearestName("KV_MEMORY", kNames), "kv-memory");
  EXPECT_EQ(NearestName("kv_blocks", kNames), "kv-blocks");
}

TEST(NearestNameTest, ABeginningIsNear) {
  EXPECT_EQ(NearestName("metrics", kNames), "metrics-address");
  EXPECT_EQ(NearestName("kv-m", kNames), "kv-memory");
}

TEST(NearestNameTest, FarNamesAreNotGuessed) {
  for (const char* written : {"", "x", "gpu", "temperature", "me"}) {
    EXPECT_EQ(NearestName(written, kNames), std::nullopt) << written;
  }
  EXPECT_EQ(NearestName(std::string(100'000, 'm'), kNames), std::nullopt);
  EXPECT_EQ(NearestName("model", {}), std::nullopt);
}

TEST(NearestNameTest, TheQuestionHasThePrefix) {
  EXPECT_EQ(DidYouMean("modle", kNames, "--"), "; did you mean --model?");
  EXPECT_EQ(DidYouMean("gpu", kNames, "--"), "");
}

}  // namespace
}  // namespace roost
