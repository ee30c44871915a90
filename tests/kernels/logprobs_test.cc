// Log probabilities on the CPU against the definition, which sorts and sums in f64.
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "kernels/device_memory.h"
#include "tests/kernels/kernels_testing.h"
#include "tests/kernels/logprobs_cases.h"

namespace roost::kernels {
namespace {

class LogprobsTest : public testing::Test {
 protected:
  Rng rng_{3};
};

TEST_F(LogprobsTest, TellsWhatTheDefinitionTells) {
  for (const std::uint32_t vocab_size : {1U, 2U, 7U, 16U, 511U, 512U, 513U, 3000U}) {
    for (const float scale : {0.1F, 3.0F, 20.0F, 200.0F}) {
      const LogprobsCase wanted =
          RandomLogprobs({.vocab_size = vocab_size, .rows = 5, .scored = 20, .scale = scale}, rng_);
      ForEachInstructionSet([&] { ExpectLogprobs(Logprobs(CpuOps(), wanted), Logprobs(ReferenceOps(), wanted)); });
    }
  }
}

TEST_F(LogprobsTest, AWholeVocabulary) {
  const LogprobsCase wanted = RandomLogprobs({.vocab_size = 151'936, .rows = 4, .scored = 12, .scale = 10}, rng_);
  ExpectLogprobs(Logprobs(CpuOps(), wanted), Logprobs(ReferenceOps(), wanted));
}

TEST_F(LogprobsTest, EqualLogitsAreRankedByTheirIds) {
  LogprobsCase wanted = RandomLogprobs({.vocab_size = 700, .rows = 3, .scored = 30, .scale = 1}, rng_);
  for (float& logit : wanted.logits) logit = static_cast<float>(rng_.Below(4));
  wanted.logits[5] = -0.0F;
  ExpectLogprobs(Logprobs(CpuOps(), wanted), Logprobs(ReferenceOps(), wanted));
  std::fill(wanted.logits.begin(), wanted.logits.end(), 2.5F);
  ExpectLogprobs(Logprobs(CpuOps(), wanted), Logprobs(ReferenceOps(), wanted));
}

TEST_F(LogprobsTest, MinusInfinityComesLast) {
  LogprobsCase wanted = RandomLogprobs({.vocab_size = 50, .rows = 3, .scored = 30, .scale = 3}, rng_);
  for (std::size_t i = 0; i < wanted.logits.size(); ++i) {
    if (i % 10 != 3) wanted.logits[i] = -std::numeric_limits<float>::infinity();
  }
  ExpectLogprobs(Logprobs(CpuOps(), wanted), Logprobs(ReferenceOps(), wanted));
}

// The values are meaningless then.
TEST_F(LogprobsTest, BrokenLogitsDoNoHarm) {
  for (const float broken : {std::nanf(""), std::numeric_limits<float>::infinity(), -std::nanf("")}) {
    for (const std::size_t place : {0U, 3U, 99U}) {
      LogprobsCase wanted = RandomLogprobs({.vocab_size = 100, .rows = 1, .scored = 4, .scale = 3}, rng_);
      wanted.logits[place] = broken;
      EXPECT_EQ(Logprobs(CpuOps(), wanted).scored.size(), 4U);
    }
  }
}

// Bit for bit: the result depends only on the row.
TEST_F(LogprobsTest, OthersInTheBatchChangeNoBit) {
  const LogprobsCase wanted = RandomLogprobs({.vocab_size = 40'000, .rows = 9, .scored = 40, .scale = 6}, rng_);
  const LogprobsResult together = Logprobs(CpuOps(), wanted, 5);
  for (std::size_t i = 0; i < wanted.rows.size(); ++i) {
    LogprobsCase alone = wanted;
    alone.rows = {wanted.rows[i]};
    alone.rows[0].first_top = 0;
    const LogprobsResult result = Logprobs(CpuOps(), alone, 1);
    EXPECT_EQ(result.scored[0].logprob, together.scored[i].logprob);
    for (std::uint32_t k = 0; k < wanted.rows[i].top_count; ++k) {
      EXPECT_EQ(result.top[k].logprob, together.top[wanted.rows[i].first_top + k].logprob);
    }
  }
}

}  // namespace
}  // namespace roost::kernels
