#include "router/fleet/prefix_copies.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace roost::router {
namespace {

constexpr std::uint32_t kBlockTokens = 16;
constexpr std::uint32_t kPieceBlocks = PrefixCopies::kPieceTokens / kBlockTokens;
constexpr std::uint32_t kBlocks = 2 * kPieceBlocks + 3;

struct CopyCounter final : FleetMetrics {
  void OnCopied(const std::string& model, std::uint32_t tokens) override { copied[model] += tokens; }
  std::map<std::string, std::uint64_t> copied;
};

class PrefixCopiesTest : public ::testing::Test {
 protected:
  PrefixCopiesTest() {
    worker_ = Join("a");
    roster_.SetBundle("digest", TextBundle());
    model_ = std::make_shared<ServedModel>();
    model_->name = "demo";
    model_->block_tokens = kBlockTokens;
    spec_.model = model_;
    spec_.root = {1, 1};
    spec_.tenant = "acme";
    for (TokenId token = 0; token < (kBlocks + 5) * kBlockTokens + 7; ++token) spec_.prompt.push_back(token);
    spec_.block_hashes = HashBlocks(spec_.root, spec_.prompt, kBlockTokens);
    spec_.max_output_tokens = 100;
    spec_.session_hash = 9;
  }

  Worker* Join(const std::string& id) {
    wire::Hello hello;
    hello.worker_id = id;
    hello.epoch = 1;
    hello.model = "demo";
    hello.tokenizer_digest = "digest";
    hello.block_tokens = kBlockTokens;
    hello.block_count = 4096;
    return std::move(roster_.Add(id, hello, now_)).value();
  }

  void Start(std::uint32_t held_blocks = 0) {
    copies_.Start(spec_, {.worker = worker_->slot, .held_block_count = held_blocks, .block_count = kBlocks}, now_);
  }
  // What was sent since, all of which goes to worker a.
  template <typename Message>
  std::vector<Message> Sent() {
    std::vector<Message> sent;
    for (Effect& effect : effects_.Take()) {
      auto& send = std::get<SendToWorker>(effect);
      EXPECT_EQ(send.worker_id, "a");
      sent.push_back(std::get<Message>(std::move(send.message)));
    }
    return sent;
  }
  wire::Generate SentPiece() {
    const std::vector<wire::Generate> sent = Sent<wire::Generate>();
    EXPECT_EQ(sent.size(), 1U);
    return sent.empty() ? wire::Generate() : sent.front();
  }
  [[nodiscard]] bool Say(RequestId id, std::optional<wire::FinishReason> finish, std::uint32_t cached_tokens = 0) {
    wire::TokenEvent event;
    event.request_id = id;
    event.finish = finish;
    if (finish == wire::FinishReason::kLength) {
      event.tokens = {7};
      event.cached_token_count = cached_tokens;
    }
    return copies_.OnEvent("a", event, now_);
  }
  void ExpectNothingLeft() {
    EXPECT_EQ(copies_.size(), 0U);
    EXPECT_EQ(roster_.pending().size(), 0U);
    EXPECT_EQ(worker_->ledger->request_count(), 0U);
    EXPECT_EQ(worker_->ledger->uncovered_tokens(), 0U);
    EXPECT_FALSE(worker_->receives_copy);
  }

  Instant now_{std::chrono::hours(1)};
  Roster roster_{ModeOptions{}, std::uint64_t{1} << 26U, [] { return std::int64_t{0}; }, 1};
  EffectQueue effects_;
  CopyCounter metrics_;
  PrefixCopies copies_{1000, roster_, effects_, metrics_};
  Worker* worker_ = nullptr;
  std::shared_ptr<ServedModel> model_;
  GenerateSpec spec_;
};

TEST_F(PrefixCopiesTest, SendsThePrefixPieceByPiece) {
  Start();
  std::uint32_t done = 0;
  std::uint64_t digest = 0;
  for (const std::uint32_t blocks : {kPieceBlocks, 2 * kPieceBlocks, kBlocks}) {
    SCOPED_TRACE(blocks);
    const wire::Generate piece = SentPiece();
    digest ^= wire::MixedId(piece.request_id);
    EXPECT_EQ(piece.prompt, std::vector<TokenId>(spec_.prompt.begin(), spec_.prompt.begin() + blocks * kBlockTokens));
    EXPECT_EQ(piece.block_hashes, HashBlocks(spec_.root, piece.prompt, kBlockTokens));
    EXPECT_EQ(piece.root, spec_.root);
    EXPECT_EQ(piece.max_output_tokens, 1U);
    EXPECT_EQ(piece.expected_cached_tokens, done * kBlockTokens);
    EXPECT_EQ(piece.tenant, "acme");
    EXPECT_EQ(piece.session_hash, 0U);  // it is no turn of a conversation
    EXPECT_TRUE(worker_->receives_copy);
    EXPECT_EQ(worker_->ledger->uncovered_tokens(), (blocks - done) * kBlockTokens);
    EXPECT_EQ(worker_->generate_digest, digest);
    // Siblings follow as far as the piece goes.
    std::vector<WorkerMatch> matches;
    roster_.pending().Deepen(spec_.block_hashes, now_, matches);
    ASSERT_EQ(matches.size(), 1U);
    EXPECT_EQ(matches[0].block_count, blocks);
    EXPECT_TRUE(Say(piece.request_id, wire::FinishReason::kLength, done * kBlockTokens));
    done = blocks;
  }
  EXPECT_TRUE(Sent<wire::Generate>().empty());
  EXPECT_EQ(metrics_.copied["demo"], kBlocks * kBlockTokens);
  ExpectNothingLeft();
}

TEST_F(PrefixCopiesTest, BeginsBehindWhatTheWorkerHolds) {
  Start(kBlocks - 2);
  const wire::Generate piece = SentPiece();
  EXPECT_EQ(piece.block_hashes.size(), kBlocks);
  EXPECT_EQ(piece.expected_cached_tokens, (kBlocks - 2) * kBlockTokens);
  EXPECT_TRUE(Say(piece.request_id, wire::FinishReason::kLength, (kBlocks - 1) * kBlockTokens));
  EXPECT_EQ(metrics_.copied["demo"], kBlockTokens);  // it held one more
  ExpectNothingLeft();
}

TEST_F(PrefixCopiesTest, AWorkerMakesOneAtATime) {
  Start();
  const RequestId first = SentPiece().request_id;
  Start();
  EXPECT_TRUE(Sent<wire::Generate>().empty());
  EXPECT_EQ(copies_.size(), 1U);
  EXPECT_TRUE(Say(first, wire::FinishReason::kLength));
  EXPECT_NE(SentPiece().request_id, first);
}

TEST_F(PrefixCopiesTest, WhatAWorkerDoesNotTakeIsNotTriedAgain) {
  for (const wire::FinishReason reason : {wire::FinishReason::kError, wire::FinishReason::kCancelled}) {
    Start();
    const RequestId first = SentPiece().request_id;
    EXPECT_TRUE(Say(first, wire::FinishReason::kLength));
    const RequestId second = SentPiece().request_id;
    EXPECT_TRUE(Say(second, reason));
    EXPECT_TRUE(Sent<wire::Generate>().empty());
    ExpectNothingLeft();
  }
}

TEST_F(PrefixCopiesTest, AnswersToOthersAreNoneOfItsOwn) {
  Start();
  const RequestId id = SentPiece().request_id;
  EXPECT_FALSE(Say(RequestId(7), wire::FinishReason::kLength));
  wire::TokenEvent event;
  event.request_id = id;
  event.finish = wire::FinishReason::kError;
  EXPECT_FALSE(copies_.OnEvent("b", event, now_));
  EXPECT_TRUE(Say(id, wire::FinishReason::kLength));
  EXPECT_FALSE(Say(id, wire::FinishReason::kLength));  // of a piece that is done
}

TEST_F(PrefixCopiesTest, EndsWithItsWorker) {
  Start();
  const RequestId id = SentPiece().request_id;
  const std::shared_ptr<InFlightLedger> ledger = worker_->ledger;
  roster_.Remove("a");
  copies_.OnWorkerLost("a");
  EXPECT_EQ(copies_.size(), 0U);
  EXPECT_EQ(ledger->request_count(), 0U);
  EXPECT_EQ(roster_.pending().size(), 0U);
  EXPECT_FALSE(Say(id, wire::FinishReason::kLength));
}

TEST_F(PrefixCopiesTest, EndAllCancelsThem) {
  Start();
  const RequestId id = SentPiece().request_id;
  copies_.EndAll();
  EXPECT_EQ(Sent<wire::Cancel>(), std::vector<wire::Cancel>{{id}});
  ExpectNothingLeft();
}

}  // namespace
}  // namespace roost::router
