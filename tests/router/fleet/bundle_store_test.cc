#include "router/fleet/workers/bundle_store.h"

#include <gtest/gtest.h>

namespace roost::router {
namespace {

using namespace std::chrono_literals;

const BundleStore::Source kHonest{"honest", 1};
const BundleStore::Source kOther{"other", 1};
constexpr char kDigest[] = "digest";

struct BundleStoreTest : ::testing::Test {
  BundleStore store;
  Instant now{1h};

  bool Ask(const BundleStore::Source& source) {
    return store.Ask(
        kDigest, source, [](const BundleStore::Source&) { return true; }, now);
  }
  void Fail(BundleFault fault) { store.SetFault(kDigest, {fault, Error{ErrorCode::kDataLoss, "broken", ""}}, now); }
};

TEST_F(BundleStoreTest, OneWorkerIsAskedAndItsAnswerIsTakenOnce) {
  EXPECT_TRUE(Ask(kHonest));
  EXPECT_FALSE(Ask(kOther));
  EXPECT_FALSE(store.TakeAnswer(kDigest, kOther));
  EXPECT_TRUE(store.TakeAnswer(kDigest, kHonest));
  EXPECT_FALSE(store.TakeAnswer(kDigest, kHonest));
  store.SetText(kDigest, {});
  EXPECT_NE(store.Find(kDigest), nullptr);
  EXPECT_FALSE(Ask(kOther));
}

TEST_F(BundleStoreTest, ALieIsAskedOfAnotherWorkerAtOnceAndOfTheLiarLate) {
  ASSERT_TRUE(Ask(kOther));
  ASSERT_TRUE(store.TakeAnswer(kDigest, kOther));
  Fail(BundleFault::kNotAsTold);
  EXPECT_EQ(store.FindUnreadable(kDigest), nullptr);
  EXPECT_FALSE(Ask(kOther));
  EXPECT_TRUE(Ask(kHonest));
  Fail(BundleFault::kPassing);
  now += BundleStore::kFirstDistrust;
  EXPECT_TRUE(Ask(kOther));
  Fail(BundleFault::kNotAsTold);
  now += BundleStore::kFirstDistrust;
  EXPECT_FALSE(Ask(kOther));
  now += BundleStore::kFirstDistrust;
  EXPECT_TRUE(Ask(kOther));
}

TEST_F(BundleStoreTest, WhatWasNotReadForAPassingReasonIsAskedForAgain) {
  ASSERT_TRUE(Ask(kHonest));
  ASSERT_TRUE(store.TakeAnswer(kDigest, kHonest));
  Fail(BundleFault::kPassing);
  EXPECT_FALSE(Ask(kHonest));
  now += BundleStore::kPatience;
  EXPECT_TRUE(Ask(kHonest));
  EXPECT_TRUE(store.TakeAnswer(kDigest, kHonest));
}

TEST_F(BundleStoreTest, WhatIsUnreadableStaysSo) {
  ASSERT_TRUE(Ask(kHonest));
  ASSERT_TRUE(store.TakeAnswer(kDigest, kHonest));
  Fail(BundleFault::kUnreadable);
  now += 1h;
  EXPECT_FALSE(Ask(kHonest));
  EXPECT_FALSE(Ask(kOther));
  ASSERT_NE(store.FindUnreadable(kDigest), nullptr);
}

}  // namespace
}  // namespace roost::router
