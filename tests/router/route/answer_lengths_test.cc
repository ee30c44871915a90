#include "router/route/answer_lengths.h"

#include <gtest/gtest.h>

namespace roost::router {
namespace {

constexpr std::uint32_t kUnbounded = 100'000;

TEST(AnswerLengthsTest, BeforeAnyAnswerTheBoundCounts) {
  const AnswerLengths lengths;
  EXPECT_EQ(lengths.Expect("m", 0, 20), 20);
  EXPECT_EQ(lengths.Expect("m", 0, kUnbounded), AnswerLengths::kFirstGuess);
}

TEST(AnswerLengthsTest, LearnsEachModelsMeanAndKeepsTheBound) {
  AnswerLengths lengths;
  for (int i = 0; i < 200; ++i) {
    lengths.Observe("long", 0, 900);
    lengths.Observe("short", 0, 30);
  }
  EXPECT_NEAR(lengths.Expect("long", 0, kUnbounded), 900, 90);
  EXPECT_NEAR(lengths.MeanOf("short"), 30, 3);
  EXPECT_EQ(lengths.Expect("long", 0, 100), 100);
}

TEST(AnswerLengthsTest, AFirstShortAnswerIsNotTakenForAllAnswers) {
  AnswerLengths lengths;
  lengths.Observe("m", 0, 8);
  EXPECT_GT(lengths.MeanOf("m"), 0.7 * AnswerLengths::kFirstGuess);
}

TEST(AnswerLengthsTest, FollowsAChange) {
  AnswerLengths lengths;
  for (int i = 0; i < 300; ++i) lengths.Observe("m", 0, 100);
  for (int i = 0; i < 150; ++i) lengths.Observe("m", 0, 1000);
  EXPECT_GT(lengths.MeanOf("m"), 900);
}

TEST(AnswerLengthsTest, AConversationCountsWhereItPredictsBetter) {
  AnswerLengths lengths;
  for (int turn = 0; turn < 5; ++turn) {
    for (std::uint64_t session = 1; session <= 8; ++session) lengths.Observe("m", session, session <= 4 ? 10 : 1000);
  }
  EXPECT_EQ(lengths.Expect("m", 1, kUnbounded), 10);
  EXPECT_EQ(lengths.Expect("m", 8, kUnbounded), 1000);
  EXPECT_NEAR(lengths.Expect("m", 99, kUnbounded), lengths.MeanOf("m"), 1e-9);
}

TEST(AnswerLengthsTest, AConversationWhoseAnswersDifferDoesNotCount) {
  AnswerLengths lengths;
  for (int turn = 0; turn < 40; ++turn) lengths.Observe("m", 7, turn % 2 == 0 ? 10 : 1000);
  EXPECT_NEAR(lengths.Expect("m", 7, kUnbounded), lengths.MeanOf("m"), 1e-9);
}

TEST(AnswerLengthsTest, AnotherConversationInTheSamePlaceIsNotTakenForIt) {
  AnswerLengths lengths;
  for (int turn = 0; turn < 5; ++turn) {
    lengths.Observe("m", 3, 10);
    lengths.Observe("m", 4, 1000);
  }
  EXPECT_NEAR(lengths.Expect("m", 3 + AnswerLengths::kConversations, kUnbounded), lengths.MeanOf("m"), 1e-9);
}

}  // namespace
}  // namespace roost::router
