// Log probabilities on the device against the definition; see tested_ops.h.
#include <limits>
#include <optional>

#include "kernels/device_memory.h"
#include "tests/kernels/logprobs_cases.h"
#include "tests/kernels/tested_ops.h"

namespace roost::kernels {
namespace {

class LogprobsCudaTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto ops = TestedOps();
    if (!ops.ok()) GTEST_SKIP() << ops.error().ToString();
    tested_.emplace(Backend::Open(**ops, {}).value());
  }
  void Expect(const LogprobsCase& wanted) const {
    ExpectLogprobs(Logprobs(*tested_, wanted), Logprobs(ReferenceOps(), wanted));
  }

  Rng rng_{7};
  std::optional<Backend> tested_;
};

TEST_F(LogprobsCudaTest, TellsWhatTheDefinitionTells) {
  for (const std::uint32_t vocab_size : {1U, 3U, 1023U, 1024U, 1025U, 5000U}) {
    for (const float scale : {0.1F, 20.0F}) {
      Expect(RandomLogprobs({.vocab_size = vocab_size, .rows = 3, .scored = 6, .scale = scale}, rng_));
    }
  }
}

// A column that is likelier than all others gives one token after the other.
TEST_F(LogprobsCudaTest, TheLikeliestMayStandInOneColumn) {
  LogprobsCase wanted = RandomLogprobs({.vocab_size = 40'000, .rows = 1, .scored = 3, .scale = 3}, rng_);
  for (std::size_t token = 17; token < wanted.logits.size(); token += 1024) {
    wanted.logits[token] += 20;
  }
  wanted.rows[0].top_count = 20;
  wanted.rows.resize(1);
  wanted.rows[0].is_drawn = false;
  Expect(wanted);
}

TEST_F(LogprobsCudaTest, EqualAndInfiniteLogits) {
  LogprobsCase wanted = RandomLogprobs({.vocab_size = 2500, .rows = 3, .scored = 6, .scale = 1}, rng_);
  for (std::size_t i = 0; i < wanted.logits.size(); ++i) {
    wanted.logits[i] = i % 300 == 7 ? static_cast<float>(rng_.Below(2)) : -std::numeric_limits<float>::infinity();
  }
  wanted.logits[307] = -0.0F;
  Expect(wanted);
}

}  // namespace
}  // namespace roost::kernels
