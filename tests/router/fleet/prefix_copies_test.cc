#include "router/fleet/blocks/prefix_copies.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace roost::router {
namespace {

struct CopyCounter final : FleetMetrics {
  void OnCopied(const std::string& model, std::uint32_t tokens) override { copied[model] += tokens; }
  std::map<std::string, std::uint64_t> copied;
};

class PrefixCopiesTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kBlockTokens = 16;
  static constexpr std::uint32_t kPieceBlocks = PrefixCopies::kMinPieceTokens / kBlockTokens;
  static constexpr std::uint32_t kBlocks = 2 * kPieceBlocks + 3;

  PrefixCopiesTest() {
    worker_ = Join("a");
    worker_registry_.SetBundle("digest", TextBundle());
    model_ = std::make_shared<ServedModel>();
    model_->name = "demo";
    model_->block_tokens = kBlockTokens;
    spec_.model = model_;
    spec_.generate.root = {1, 1};
    spec_.generate.tenant = "acme";
    MakePrompt((kBlocks + 5) * kBlockTokens + 7);
    spec_.generate.max_output_tokens = 100;
    spec_.generate.session_hash = 9;
  }

  static wire::Hello HelloOf(const std::string& id) {
    wire::Hello hello;
    hello.worker_id = id;
    hello.process_id = 1;
    hello.epoch = 1;
    hello.model = "demo";
    hello.tokenizer_digest = "digest";
    hello.block_tokens = kBlockTokens;
    hello.block_count = 4096;
    return hello;
  }
  Worker* Join(const std::string& id) { return std::move(worker_registry_.Add(id, HelloOf(id), now_)).value(); }

  void Start(std::uint32_t held_blocks = 0, std::uint32_t blocks = kBlocks) {
    copies_.Start(spec_, {.worker = worker_->slot, .held_block_count = held_blocks, .block_count = blocks}, now_);
  }
  void MakePrompt(std::uint32_t token_count) {
    spec_.generate.prompt.resize(token_count);
    std::iota(spec_.generate.prompt.begin(), spec_.generate.prompt.end(), TokenId{0});
    spec_.generate.block_hashes = HashBlocks(spec_.generate.root, spec_.generate.prompt, kBlockTokens);
  }
  void Measure(double tokens_per_second) {
    for (std::uint32_t tokens = 16; tokens <= 512; tokens += 16) {
      worker_->step_costs->Observe({tokens, 0, tokens / tokens_per_second}, 1, now_);
    }
  }
  // Makes all pieces of a copy; returns the tokens of each.
  std::vector<std::uint32_t> PiecesOf(std::uint32_t blocks) {
    MakePrompt(blocks * kBlockTokens + 1);
    Start(0, blocks);
    std::vector<std::uint32_t> pieces;
    for (std::size_t done = 0; copies_.size() > 0;) {
      const wire::Generate piece = SentPiece();
      pieces.push_back(static_cast<std::uint32_t>(piece.prompt.size() - done));
      done = piece.prompt.size();
      EXPECT_TRUE(Say(piece.request_id, wire::FinishReason::kLength));
    }
    EXPECT_EQ(std::accumulate(pieces.begin(), pieces.end(), 0U), blocks * kBlockTokens);
    return pieces;
  }
  // The messages sent since the last call; all of them go to worker a.
  template <typename Message>
  std::vector<Message> Sent() {
    std::vector<Message> sent;
    for (Effect& effect : effects_.Take()) {
      auto& send = std::get<SendToWorker>(effect);
      EXPECT_EQ(send.identity, "a");
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
    EXPECT_EQ(worker_registry_.pending().size(), 0U);
    EXPECT_EQ(worker_->ledger->request_count(), 0U);
    EXPECT_EQ(worker_->ledger->uncovered_tokens(), 0U);
    EXPECT_FALSE(worker_->receives_copy);
  }

  Instant now_{std::chrono::hours(1)};
  WorkerRegistry worker_registry_{
      WorkerRegistry::Options{.worker = {}, .unix_seconds = [] { return std::int64_t{0}; }, .seed = 1}};
  EffectQueue effects_;
  CopyCounter metrics_;
  HoldBook holds_{500, worker_registry_, effects_, metrics_};
  PrefixCopies copies_{1000, worker_registry_, effects_, metrics_, holds_};
  Worker* worker_ = nullptr;
  std::shared_ptr<ServedModel> model_;
  GenerateSpec spec_;
};

TEST_F(PrefixCopiesTest, WorkerThatKeepsNoPrefixesGetsNone) {
  wire::Hello hello = HelloOf("b");
  hello.keeps_prefixes = false;
  worker_ = std::move(worker_registry_.Add("b", hello, now_)).value();
  Start();
  EXPECT_EQ(copies_.size(), 0U);
  EXPECT_FALSE(worker_->receives_copy);
}

TEST_F(PrefixCopiesTest, SendsThePrefixPieceByPiece) {
  Start();
  std::uint32_t done = 0;
  std::uint64_t digest = 0;
  for (const std::uint32_t blocks : {kPieceBlocks, 2 * kPieceBlocks, kBlocks}) {
    SCOPED_TRACE(blocks);
    const wire::Generate piece = SentPiece();
    digest ^= wire::MixedId(piece.request_id);
    EXPECT_EQ(piece.prompt, std::vector<TokenId>(spec_.generate.prompt.begin(),
                                                 spec_.generate.prompt.begin() + blocks * kBlockTokens));
    EXPECT_EQ(piece.block_hashes, HashBlocks(spec_.generate.root, piece.prompt, kBlockTokens));
    EXPECT_EQ(piece.root, spec_.generate.root);
    EXPECT_EQ(piece.max_output_tokens, 1U);
    EXPECT_EQ(piece.expected_cached_tokens, done * kBlockTokens);
    EXPECT_EQ(piece.tenant, "acme");
    EXPECT_EQ(piece.session_hash, 0U);  // it is not a turn of a conversation
    EXPECT_TRUE(worker_->receives_copy);
    EXPECT_EQ(worker_->ledger->uncovered_tokens(), (blocks - done) * kBlockTokens);
    EXPECT_EQ(worker_->generate_digest, digest);
    // Siblings follow as far as the piece reaches.
    std::vector<WorkerMatch> matches;
    worker_registry_.pending().Deepen(spec_.generate.block_hashes, now_, matches);
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
  EXPECT_EQ(metrics_.copied["demo"], kBlockTokens);  // the worker held one of them already
  ExpectNothingLeft();
}

TEST_F(PrefixCopiesTest, PiecesAreWhatTheWorkerComputesInAFewMilliseconds) {
  const auto first_at = [this](double tokens_per_second) {
    now_ += 20 * StepCosts::kHalfLife;
    Measure(tokens_per_second);
    return PiecesOf(40).front();
  };
  EXPECT_EQ(first_at(1'000), PrefixCopies::kMinPieceTokens);
  EXPECT_EQ(first_at(32'500), 160U);  // 162 tokens in 5 ms
  EXPECT_EQ(first_at(1'000'000), PrefixCopies::kMaxPieceTokens);
}

TEST_F(PrefixCopiesTest, PiecesAreLongerWhereTheWayIsLong) {
  MakePrompt(40 * kBlockTokens + 1);
  Measure(1'000);
  Start(0, 40);
  const wire::Generate first = SentPiece();
  now_ += std::chrono::milliseconds(64 + 200);  // it computes for 64 ms of these
  EXPECT_TRUE(Say(first.request_id, wire::FinishReason::kLength));
  EXPECT_EQ(SentPiece().prompt.size() - first.prompt.size(), 192U);  // whole blocks of 200 tokens
}

// Each piece carries all earlier ones, so with short pieces the link's traffic would grow with the square.
TEST_F(PrefixCopiesTest, ALongPrefixIsCutIntoNoMorePiecesThanThat) {
  EXPECT_EQ(PiecesOf(4 * PrefixCopies::kMaxPieces).size(), PrefixCopies::kMaxPieces);
  EXPECT_LE(PiecesOf(4 * PrefixCopies::kMaxPieces + 1).size(), PrefixCopies::kMaxPieces);
  EXPECT_LE(PiecesOf(100 * PrefixCopies::kMaxPieces - 1).size(), PrefixCopies::kMaxPieces);
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

// Otherwise the same piece would be sent forever: its next token is a stop token each time.
TEST_F(PrefixCopiesTest, APieceThatEndsWithoutATokenIsDone) {
  Start();
  for (const std::uint32_t blocks : {kPieceBlocks, 2 * kPieceBlocks, kBlocks}) {
    const wire::Generate piece = SentPiece();
    EXPECT_EQ(piece.block_hashes.size(), blocks);
    EXPECT_TRUE(Say(piece.request_id, wire::FinishReason::kStop));
  }
  EXPECT_EQ(metrics_.copied["demo"], kBlocks * kBlockTokens);
  ExpectNothingLeft();
}

TEST_F(PrefixCopiesTest, APieceThatGoesOnIsCutShort) {
  Start(kBlocks - 1);
  const RequestId id = SentPiece().request_id;
  wire::TokenEvent event;
  event.request_id = id;
  EXPECT_TRUE(copies_.OnEvent("a", event, now_));  // without content
  EXPECT_EQ(copies_.size(), 1U);
  event.tokens = {7};
  EXPECT_TRUE(copies_.OnEvent("a", event, now_));
  EXPECT_EQ(Sent<wire::Cancel>(), std::vector<wire::Cancel>{{id}});
  EXPECT_EQ(metrics_.copied["demo"], kBlockTokens);
  ExpectNothingLeft();
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
  EXPECT_FALSE(Say(id, wire::FinishReason::kLength));  // for a piece that is done
}

TEST_F(PrefixCopiesTest, EndsWithItsWorker) {
  Start();
  const RequestId id = SentPiece().request_id;
  const std::shared_ptr<InFlightLedger> ledger = worker_->ledger;
  worker_registry_.Remove("a", now_);
  copies_.OnWorkerLost("a");
  EXPECT_EQ(copies_.size(), 0U);
  EXPECT_EQ(ledger->request_count(), 0U);
  EXPECT_EQ(worker_registry_.pending().size(), 0U);
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
