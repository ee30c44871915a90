// Two engines with whole models on the CUDA backend behind the SIMT shim, on devices that compute as late as they may
// (late_ops.h): requests, pulls, preemptions, evictions and erasures at random. Every request is answered with tokens
// that the model gives without a cache, up to rounding; a block that has come has the bytes that were sent; and nothing
// is left over.
//
// ROOST_TRAVEL_SEEDS=40 for more, from ROOST_TRAVEL_FIRST_SEED on; tests/nightly.sh takes others each night.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <memory>
#include <vector>

#include "common/base/rng.h"
#include "kernels/cuda/cuda_ops.h"
#include "tests/support/engine_harness.h"
#include "tests/support/late_ops.h"
#include "tests/support/local_source.h"
#include "tests/support/simt/simt_ops.h"
#include "tests/worker/model/rank_testing.h"
#include "worker/transfer/readable_blocks.h"

namespace roost::worker {
namespace {

using testing_support::EngineHarness;
using testing_support::GreedyRequest;
using testing_support::kLink;
using testing_support::kRoot;
using testing_support::LateOps;
using testing_support::LateStreams;

constexpr std::uint32_t kBlockTokens = 16;
constexpr std::uint32_t kOutputs = 20;
constexpr std::size_t kFrames = 4;
constexpr int kRounds = 80;

HfConfig Config() {
  HfConfig config = *SyntheticConfig("tiny");
  config.head_dim = 64;
  return config;
}

std::vector<float> FloatsOf(std::span<const std::byte> bytes) {
  std::vector<float> values(bytes.size() / sizeof(std::uint16_t));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = kernels::LoadElement(bytes.data(), kernels::DType::kBF16, i);
  return values;
}

struct Side {
  Side(std::uint32_t ranks, const EngineOptions& options, std::uint32_t block_count, const Clock& clock)
      : model(MakeRanks(Config(), ranks,
                        {.dtype = kernels::DType::kBF16,
                         .block_count = block_count,
                         .step_bounds = {.token_count = options.max_batch_tokens,
                                         .request_count = options.max_running_requests},
                         .ops = &LateOps<simt::SimtOps>(),
                         .frame_count = kFrames + 2})
                  .value()),
        source(inbox, clock),
        readable(model->MakeBlockReader(), block_count, kBlockTokens),
        harness(*model, clock, WithWays(options)) {
    source.on_sent = [this](BlockHash hash, std::span<const std::byte> data) {
      sent[hash].emplace_back(data.begin(), data.end());
    };
  }

  EngineOptions WithWays(EngineOptions options) {
    options.readable = &readable;
    options.arriving = &inbox;
    options.source = &source;
    return options;
  }

  std::unique_ptr<TensorParallelModel> model;
  FrameInbox inbox{[] {}};
  testing_support::LocalSource source;
  ReadableBlocks readable;
  EngineHarness harness;
  std::map<BlockHash, std::vector<std::vector<std::byte>>> sent;  // to this side
};

struct Totals {
  std::uint64_t arrived_blocks = 0;
  std::uint64_t preemptions = 0;
  std::uint64_t evicted_blocks = 0;
  std::uint64_t compared_blocks = 0;
  std::uint64_t equal_blocks = 0;  // bit for bit
  std::uint64_t answers = 0;
};

class TravelRun {
 public:
  TravelRun(std::uint64_t seed, Model& reference) : rng_(seed), reference_(reference) {
    constexpr std::array<std::array<std::uint32_t, 2>, 4> kRanks{{{1, 1}, {1, 2}, {2, 2}, {2, 1}}};
    const EngineOptions options{.max_batch_tokens = 24 + static_cast<std::uint32_t>(rng_.Below(40)),
                                .max_running_requests = 4,
                                .check_invariants = true,
                                .plan_ahead = rng_.Below(2) == 0};
    const std::uint32_t block_count = 8 + static_cast<std::uint32_t>(rng_.Below(4));
    for (std::size_t i = 0; i < 2; ++i) {
      sides_[i] = std::make_unique<Side>(kRanks[seed % kRanks.size()][i], options, block_count, clock_);
    }
    for (std::size_t i = 0; i < 2; ++i) {
      Side& other = *sides_[1 - i];
      sides_[i]->source.Connect(&other.readable, 1 + rng_.Below(kFrames), other.model->frame_staging(),
                                sides_[i]->model->frame_staging());
      check_[i] =
          *std::make_shared<FrameMemory>(sides_[i]->readable.sizes(), 1, sides_[i]->model->frame_staging())->Take([] {
            return true;
          });
    }
  }

  void Go(Totals& totals) {
    for (int round = 0; round < kRounds && !testing::Test::HasFailure(); ++round) {
      Side& side = *sides_[rng_.Below(2)];
      switch (rng_.Below(9)) {
        case 0:
        case 1: Submit(side); break;
        case 2: Hold(side); break;
        case 3:
        case 4: Tell(side); break;
        case 5:
          if (rng_.Below(6) == 0) Erase(side);
          break;
        default: Step(side, totals);
      }
      if (rng_.Below(8) == 0) CompareBlocks(totals);
    }
    End(totals);
  }

 private:
  // Texts of up to 5 blocks, with a common front.
  std::vector<TokenId> RandomPrompt() {
    std::vector<TokenId> text = RandomTokens(rng_.Below(2), 2 * kBlockTokens, Config().vocab_size);
    const std::vector<TokenId> rest = RandomTokens(10 + rng_.Below(3), 3 * kBlockTokens, Config().vocab_size);
    text.insert(text.end(), rest.begin(), rest.end());
    text.resize(1 + rng_.Below(text.size()));
    return text;
  }

  void Submit(Side& side) {
    wire::Generate request = GreedyRequest(++last_id_, RandomPrompt(), kOutputs);
    prompts_[last_id_] = request.prompt;
    EXPECT_TRUE(side.harness.Submit(std::move(request)).ok());
  }
  void Hold(Side& side) {
    wire::Hold hold{.answer_id = ++last_id_, .root = kRoot, .parent = kRoot};
    hold.hashes = HashBlocks(kRoot, RandomPrompt(), kBlockTokens);
    hold.patience_ms = 60'000;
    if (hold.hashes.empty()) return;
    const HoldReceipt receipt{HoldId(last_id_), clock_.Now()};
    FrameRequest request{.id = receipt.id, .chain = ChainOf(hold), .peer = {}};
    if (!side.harness.engine().CarryOut(kLink, hold, receipt)) side.source.Ask(std::move(request));
  }
  void Tell(Side& side) {
    for (std::uint64_t count = rng_.Below(6); count > 0; --count) (void)side.source.Tell();
    if (rng_.Below(20) == 0) (void)side.source.End(wire::HoldOutcome::kBroken);
  }
  void Erase(Side& side) {
    wire::Evict evict;
    evict.answer_id = ++last_id_;
    const std::vector<TokenId> prompt = RandomPrompt();
    evict.what =
        wire::PromptToEvict{.root = kRoot, .tokens = prompt, .block_hashes = HashBlocks(kRoot, prompt, kBlockTokens)};
    (void)side.harness.engine().CarryOut(kLink, evict);
  }
  void Step(Side& side, Totals& totals) { totals.arrived_blocks += side.harness.Step().counts.pulled.blocks; }

  // Bit for bit, unless the engine has computed the block itself.
  void CompareBlocks(Totals& totals) {
    for (std::size_t i = 0; i < 2; ++i) {
      Side& side = *sides_[i];
      for (const auto& [hash, versions] : side.sent) {
        if (!side.readable.Read(hash, 0, check_[i])) continue;
        const std::span<const std::byte> held = check_[i].data();
        const bool is_equal = std::any_of(versions.begin(), versions.end(), [&](const auto& sent) {
          return std::equal(sent.begin(), sent.end(), held.begin(), held.end());
        });
        ++totals.compared_blocks;
        totals.equal_blocks += is_equal ? 1 : 0;
        if (is_equal) continue;
        EXPECT_LT(RelativeError(FloatsOf(held), FloatsOf(versions.back())), kernels::kCudaBatchTolerance)
            << "a block has bytes that were neither sent nor computed";
      }
    }
  }

  void End(Totals& totals) {
    for (std::size_t i = 0; i < 2; ++i) {
      Side& side = *sides_[i];
      while (side.source.End(wire::HoldOutcome::kBroken)) {
      }
      Step(side, totals);
      side.harness.Run();
    }
    CompareBlocks(totals);
    for (const auto& side : sides_) {
      EXPECT_EQ(side->source.used_frames(), 0U) << "a pinned frame is not given back";
      EXPECT_FALSE(side->harness.engine().AwaitsBlocksUntil().has_value());
      totals.preemptions += side->harness.totals().preemptions;
      totals.evicted_blocks += side->harness.totals().evicted_blocks;
      for (const auto& [key, outcome] : side->harness.outcomes()) {
        ++totals.answers;
        CheckAnswer(prompts_.at(key.request.value()), outcome);
        prompts_.erase(key.request.value());
      }
    }
    EXPECT_TRUE(prompts_.empty()) << prompts_.size() << " requests have no answer";
  }

  // Each token is the likeliest behind those before it.
  void CheckAnswer(const std::vector<TokenId>& prompt, const EngineHarness::Outcome& outcome) {
    ASSERT_EQ(outcome.finish, wire::FinishReason::kLength);
    ASSERT_EQ(outcome.tokens.size(), kOutputs);
    std::vector<TokenId> tokens = prompt;
    tokens.insert(tokens.end(), outcome.tokens.begin(), outcome.tokens.end() - 1);
    TestSequence sequence(reference_, tokens);
    Batch batch;
    sequence.AddTo(batch, static_cast<std::uint32_t>(tokens.size()));
    batch.slices.front().logits_count = kOutputs;
    const std::span<const float> logits = reference_.Forward(batch);
    const std::size_t vocab_size = reference_.shape().vocab_size;
    for (std::size_t i = 0; i < kOutputs; ++i) {
      const auto row = logits.subspan(i * vocab_size, vocab_size);
      const auto [least, most] = std::minmax_element(row.begin(), row.end());
      const float scale = std::max(*most, -*least);
      EXPECT_GE(row[outcome.tokens[i]], *most - 2 * kernels::kCudaBatchTolerance * scale) << "token " << i;
    }
  }

  Rng rng_;
  Model& reference_;
  ManualClock clock_;
  std::array<std::unique_ptr<Side>, 2> sides_;
  std::array<FrameBuffer, 2> check_;
  std::map<std::uint64_t, std::vector<TokenId>> prompts_;  // of requests
  std::uint64_t last_id_ = 0;
};

std::uint64_t NumberIn(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(LateTravelFuzzTest, AnswersAreTheModelsBytesAreThoseSentAndNothingIsLeftOver) {
  const auto reference =
      MakeModel(Config(), RandomWeights(kTestSeed), {.dtype = kernels::DType::kBF16, .ops = &simt::SimtOps()}).value();
  Totals totals;
  const std::uint64_t first = NumberIn("ROOST_TRAVEL_FIRST_SEED", 0);
  const std::uint64_t count = NumberIn("ROOST_TRAVEL_SEEDS", 1);
  for (std::uint64_t seed = first; seed < first + count && !HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    LateStreams::All().Reset(seed);
    TravelRun(seed, *reference).Go(totals);
  }
  fmt::print("{} answers, {} blocks arrived, {} compared, {} of them bit for bit; {} preemptions, {} evictions\n",
             totals.answers, totals.arrived_blocks, totals.compared_blocks, totals.equal_blocks, totals.preemptions,
             totals.evicted_blocks);
  if (count < 4) return;  // one need not have all of it
  EXPECT_GT(totals.arrived_blocks, 0U);
  EXPECT_GT(totals.equal_blocks, 0U);
  EXPECT_GT(totals.preemptions, 0U);
  EXPECT_GT(totals.evicted_blocks, 0U);
}

}  // namespace
}  // namespace roost::worker
