// An engine with a disk, whose threads the test is: what is written when a request ends, what comes back, what is told.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "common/base/rng.h"
#include "tests/support/engine_harness.h"
#include "tests/support/fake_model.h"
#include "tests/worker/disk/disk_tools.h"
#include "tests/worker/engine/travelling_side.h"
#include "worker/disk/disk_cache.h"

namespace roost::worker {
namespace {

using testing_support::GreedyRequest;
using testing_support::kLink;
using testing_support::kRoot;

constexpr std::uint32_t kOutputs = 4;

struct DiskSideOptions {
  std::uint32_t block_count = 256;
  std::uint32_t max_batch_tokens = 512;
  bool plan_ahead = false;
  std::uint64_t segment_count = 8;
};

// A worker's engine and its disk; a later one in the same folder is the worker after its next start.
struct DiskSide {
  DiskSide(const TestFolder& folder, ManualClock& clock, const DiskSideOptions& options)
      : model({.block_tokens = kTravelBlockTokens, .block_count = options.block_count, .clock = &clock}),
        source(inbox, clock),
        readable(model.MakeBlockReader(), options.block_count, kTravelBlockTokens),
        disk(Open(folder, options), readable, inbox, clock, [] {},
             {.write_rate = 0, .queue_limit = options.block_count / 4, .frame_count = 1000}),
        harness(model, clock, OptionsOf(options)) {
    (void)disk.Snapshot();
    disk.store().Visit([this](const DiskIndex& index) {
      for (const wire::StoredRun& run : index.Runs()) on_disk.insert(run.hashes.begin(), run.hashes.end());
    });
  }

  std::unique_ptr<DiskStore> Open(const TestFolder& folder, const DiskSideOptions& options) {
    const FrameSizes sizes = readable.sizes();
    const SegmentShape shape = SegmentShape::Of(1, 1, sizes.frame_bytes(), 0);
    Result<DiskFolder> taken = DiskFolder::Take(folder.path().string(), 1);
    Result<std::unique_ptr<DiskStore>> opened = DiskStore::Open(
        *taken, files, {.shape = shape, .sizes = sizes, .bytes = options.segment_count * shape.file_bytes()});
    EXPECT_TRUE(opened.ok()) << opened.error().ToString();
    return std::move(opened).value();
  }

  EngineOptions OptionsOf(const DiskSideOptions& options) {
    EngineOptions engine{.max_batch_tokens = options.max_batch_tokens, .max_running_requests = 16};
    engine.check_invariants = true;
    engine.plan_ahead = options.plan_ahead;
    engine.readable = &readable;
    engine.arriving = &inbox;
    engine.source = &source;
    engine.disk = &disk;
    return engine;
  }

  // A step, and what it tells of the disk.
  StepReport Step() {
    StepReport report = harness.Step();
    for (const wire::CacheEvent& event : report.events) {
      for (const BlockHash hash : event.disk_stored.hashes) EXPECT_TRUE(on_disk.insert(hash).second);
      for (const BlockHash hash : event.disk_removed) EXPECT_EQ(on_disk.erase(hash), 1U);
    }
    BlockHash digest;
    for (const BlockHash hash : on_disk) digest = digest ^ hash;
    EXPECT_EQ(report.load.disk_block_count, on_disk.size());
    EXPECT_EQ(report.load.disk_digest, digest);
    restored_blocks += report.counts.restored.blocks;
    return report;
  }
  void Write() {
    while (disk.WriteNext()) {
    }
  }
  void Read() {
    while (disk.ReadNext()) {
    }
  }
  void Submit(wire::Generate request) { EXPECT_TRUE(harness.Submit(std::move(request)).ok()); }
  // Until nothing is left to do, with the disk's threads.
  void Run() {
    for (int step = 0; step < 10'000; ++step) {
      Write();
      Read();
      if (!harness.engine().HasWork()) return;
      (void)Step();
    }
    ADD_FAILURE() << "it does not come to an end";
  }

  testing_support::FakeModel model;
  FrameInbox inbox{[] {}};
  testing_support::LocalSource source;
  ReadableBlocks readable;
  FaultyFiles files;
  DiskCache disk;
  testing_support::EngineHarness harness;
  std::set<BlockHash> on_disk;  // as it was told
  std::uint64_t restored_blocks = 0;
};

class EngineDiskTest : public testing::Test {
 protected:
  void SetUp() override { Start(); }

  void Start(const DiskSideOptions& options = {}) {
    side_.reset();
    side_ = std::make_unique<DiskSide>(folder_, clock_, options);
  }

  static std::vector<TokenId> Text(std::size_t count, std::uint64_t stream) {
    Rng rng(stream);
    std::vector<TokenId> tokens(count);
    for (TokenId& token : tokens) token = static_cast<TokenId>(rng.Below(90));
    return tokens;
  }
  const testing_support::EngineHarness::Outcome& Serve(const std::vector<TokenId>& prompt,
                                                       const std::string& tenant = "") {
    wire::Generate request = GreedyRequest(++last_id_, prompt, kOutputs);
    request.tenant = tenant;
    side_->Submit(std::move(request));
    side_->Run();
    return side_->harness.outcome(last_id_);
  }
  // One step at a time until the order is answered.
  wire::EvictAnswer Evict(wire::Evict order) {
    order.answer_id = 77;
    EXPECT_FALSE(side_->harness.engine().CarryOut(kLink, order).has_value());
    for (int step = 0; step < 100; ++step) {
      for (const EngineAnswer& answer : side_->Step().answers) return std::get<wire::EvictAnswer>(answer.answer);
      side_->Write();
    }
    ADD_FAILURE() << "no answer";
    return {};
  }
  static wire::Evict PromptOrder(const std::vector<TokenId>& prompt) {
    return {.what = wire::PromptToEvict{
                .root = kRoot, .tokens = prompt, .block_hashes = HashBlocks(kRoot, prompt, kTravelBlockTokens)}};
  }

  TestFolder folder_;
  ManualClock clock_;
  std::unique_ptr<DiskSide> side_;
  std::uint64_t last_id_ = 0;
};

TEST_F(EngineDiskTest, ItIsWarmAfterAStart) {
  const std::vector<TokenId> prompt = Text(161, 1);
  const std::vector<TokenId> answer = Serve(prompt).tokens;
  EXPECT_EQ(side_->on_disk.size(), 20U);
  Start();
  EXPECT_EQ(side_->on_disk.size(), 20U);
  const auto& again = Serve(prompt);
  EXPECT_EQ(again.tokens, answer);
  EXPECT_EQ(again.cached_token_count, 160U);
  EXPECT_EQ(side_->restored_blocks, 20U);
  EXPECT_EQ(side_->harness.prefill_tokens(), 1U);
}

TEST_F(EngineDiskTest, ItIsWarmWithStepsPlannedAhead) {
  Start({.plan_ahead = true});
  const std::vector<TokenId> prompt = Text(161, 1);
  const std::vector<TokenId> answer = Serve(prompt).tokens;
  Start({.plan_ahead = true});
  const auto& again = Serve(prompt);
  EXPECT_EQ(again.tokens, answer);
  EXPECT_EQ(again.cached_token_count, 160U);
}

TEST_F(EngineDiskTest, WhatThePoolLostComesBackBehindWhatItHolds) {
  Start({.block_count = 100, .segment_count = 32});  // 25 may wait
  const std::vector<TokenId> prompt = Text(201, 1);
  const std::vector<TokenId> answer = Serve(prompt).tokens;
  for (std::uint64_t stream = 2; stream < 7; ++stream) (void)Serve(Text(121, stream));  // evict a part, tails first
  const auto& again = Serve(prompt);
  EXPECT_EQ(again.tokens, answer);
  EXPECT_EQ(again.cached_token_count, 200U);
  EXPECT_GT(side_->restored_blocks, 0U);
  EXPECT_LT(side_->restored_blocks, 25U);
}

TEST_F(EngineDiskTest, FoundBlocksAreWrittenBeforeOthers) {
  Start({.block_count = 64});  // 16 may wait
  const std::vector<TokenId> front = Text(80, 1);
  const auto submit = [&](std::uint64_t stream) {
    std::vector<TokenId> prompt = front;
    const std::vector<TokenId> rest = Text(81, stream);
    prompt.insert(prompt.end(), rest.begin(), rest.end());
    side_->Submit(GreedyRequest(++last_id_, prompt, 1));
    while (side_->harness.engine().HasWork()) (void)side_->Step();
  };
  submit(2);
  submit(3);
  side_->Write();
  (void)side_->Step();
  const std::vector<BlockHash> hashes = HashBlocks(kRoot, front, kTravelBlockTokens);
  EXPECT_EQ(side_->on_disk.size(), 16U);
  for (const BlockHash hash : hashes) EXPECT_TRUE(side_->on_disk.contains(hash));
}

TEST_F(EngineDiskTest, ARequestWithoutCacheLeavesNothingOnDisk) {
  wire::Generate request = GreedyRequest(1, Text(100, 1), kOutputs);
  request.cache_mode = wire::CacheMode::kOff;
  side_->Submit(std::move(request));
  side_->Run();
  EXPECT_TRUE(side_->on_disk.empty());
}

TEST_F(EngineDiskTest, WhatCanNotBeReadIsComputed) {
  const std::vector<TokenId> prompt = Text(161, 1);
  const std::vector<TokenId> answer = Serve(prompt).tokens;
  Start();
  side_->files.fails_reads = true;
  const auto& again = Serve(prompt);
  EXPECT_EQ(again.tokens, answer);
  EXPECT_EQ(again.cached_token_count, 0U);
  EXPECT_EQ(side_->on_disk.size(), 20U) << "computed, and written again";
}

// The pace rule: nothing comes, so the request computes.
TEST_F(EngineDiskTest, ADiskThatHangsCostsNoMoreThanATenth) {
  const std::vector<TokenId> prompt = Text(161, 1);
  const std::vector<TokenId> answer = Serve(prompt).tokens;
  Start();
  (void)Serve(Text(161, 2));  // its pace is known
  side_->Submit(GreedyRequest(++last_id_, prompt, kOutputs));
  const Instant begin = clock_.Now();
  for (int step = 0; step < 1000 && side_->harness.engine().HasWork(); ++step) (void)side_->Step();
  while (!side_->harness.outcome(last_id_).finish) {
    clock_.Advance(std::chrono::microseconds(100));
    (void)side_->Step();
  }
  EXPECT_EQ(side_->harness.outcome(last_id_).tokens, answer);
  EXPECT_LT(clock_.Now() - begin, std::chrono::milliseconds(100));
  side_->Read();
  side_->Run();
}

TEST_F(EngineDiskTest, RestoresHaveEightPlaces) {
  for (std::uint64_t stream = 1; stream <= 10; ++stream) (void)Serve(Text(41, stream));
  Start();
  for (std::uint64_t stream = 1; stream <= 10; ++stream) {
    side_->Submit(GreedyRequest(++last_id_, Text(41, stream), kOutputs));
  }
  (void)side_->Step();
  std::uint32_t asked = 0;
  while (side_->disk.ReadNext()) ++asked;
  EXPECT_EQ(asked, 8 * (5 + 1));  // the blocks and the end of each
  side_->Run();
  for (std::uint64_t id = last_id_ - 9; id <= last_id_; ++id) {
    EXPECT_EQ(side_->harness.outcome(id).finish, wire::FinishReason::kLength);
  }
}

TEST_F(EngineDiskTest, AHoldThatBringsTheSameEndsTheRestore) {
  const std::vector<TokenId> prompt = Text(161, 1);
  const std::vector<TokenId> answer = Serve(prompt).tokens;
  SideOptions options;
  Side other(options, clock_);
  EXPECT_EQ(other.harness.Serve(GreedyRequest(1, prompt, kOutputs)).tokens, answer);
  Start();
  side_->source.Connect(&other.readable, 100);
  side_->Submit(GreedyRequest(++last_id_, prompt, kOutputs));
  (void)side_->Step();
  wire::Hold hold;
  hold.purpose = wire::HoldPurpose::kRequest;
  hold.answer_id = 5;
  hold.root = hold.parent = kRoot;
  hold.hashes = HashBlocks(kRoot, prompt, kTravelBlockTokens);
  hold.patience_ms = 60'000;
  const HoldReceipt receipt{HoldId(5), clock_.Now()};
  side_->source.Ask({.id = receipt.id, .chain = ChainOf(hold), .peer = {}});
  EXPECT_FALSE(side_->harness.engine().CarryOut(kLink, hold, receipt).has_value());
  const StepReport report = side_->Step();
  EXPECT_EQ(report.counts.restored.ends[static_cast<std::size_t>(wire::HoldOutcome::kCancelled)], 1U);
  side_->source.TellAll();
  side_->Run();
  EXPECT_EQ(side_->harness.outcome(last_id_).tokens, answer);
  EXPECT_EQ(side_->restored_blocks, 0U);
  EXPECT_EQ(side_->harness.outcome(last_id_).cached_token_count, 160U);
}

TEST_F(EngineDiskTest, ARestoreEndsWithItsRequest) {
  const std::vector<TokenId> prompt = Text(161, 1);
  (void)Serve(prompt);
  Start();
  side_->Submit(GreedyRequest(++last_id_, prompt, kOutputs));
  (void)side_->Step();
  side_->harness.engine().Cancel({kLink, RequestId(last_id_)});
  (void)side_->Step();
  clock_.Advance(kUnwantedPatience);
  const StepReport report = side_->Step();
  EXPECT_EQ(report.counts.restored.ends[static_cast<std::size_t>(wire::HoldOutcome::kCancelled)], 1U);
  EXPECT_EQ(report.referenced_blocks, 0U);
  side_->Run();
  EXPECT_EQ(Serve(prompt).cached_token_count, 160U) << "the disk still has it";
}

TEST_F(EngineDiskTest, AnEvictionIsAnsweredOnceTheDiskHasErased) {
  const std::vector<TokenId> prompt = Text(161, 1);
  (void)Serve(prompt);
  (void)Serve(Text(81, 2));
  wire::Evict order = PromptOrder(prompt);
  order.answer_id = 7;
  EXPECT_FALSE(side_->harness.engine().CarryOut(kLink, order).has_value());
  for (int step = 0; step < 5; ++step) EXPECT_TRUE(side_->Step().answers.empty());
  EXPECT_FALSE(side_->harness.engine().HasWork()) << "the engine does not wait";
  // Meanwhile nothing of it comes back.
  side_->Submit(GreedyRequest(++last_id_, prompt, kOutputs));
  while (side_->harness.engine().HasWork()) (void)side_->Step();
  EXPECT_EQ(side_->harness.outcome(last_id_).cached_token_count, 0U);
  side_->Write();
  const StepReport report = side_->Step();
  ASSERT_EQ(report.answers.size(), 1U);
  const auto& answer = std::get<wire::EvictAnswer>(report.answers[0].answer);
  EXPECT_EQ(answer.evicted_block_count, 21U);  // and the last one, which is not full
  EXPECT_EQ(answer.disk_block_count, 20U);
}

TEST_F(EngineDiskTest, WhatWasErasedIsGoneAfterAStart) {
  const std::vector<TokenId> prompt = Text(161, 1);
  (void)Serve(prompt, "acme");
  (void)Serve(Text(81, 2));
  Start();
  EXPECT_EQ(Evict({.what = wire::TenantToEvict{"acme"}}).disk_block_count, 20U);
  Start();
  EXPECT_EQ(side_->on_disk.size(), 10U);
  EXPECT_EQ(Serve(prompt, "acme").cached_token_count, 0U);
}

TEST_F(EngineDiskTest, BlocksWithNumbersThatAreNoneLeaveTheDiskToo) {
  const std::vector<TokenId> prompt = Text(161, 1);
  const std::vector<TokenId> answer = Serve(prompt).tokens;
  side_->model.BreakKv();  // in memory: the request is computed again without what it found
  EXPECT_EQ(Serve(prompt).tokens, answer);
  Start();
  EXPECT_EQ(Serve(prompt).tokens, answer);
}

TEST_F(EngineDiskTest, ASnapshotIsWhatTheNextReportGoesOnFrom) {
  (void)Serve(Text(81, 1));
  side_->Submit(GreedyRequest(++last_id_, Text(81, 2), kOutputs));
  while (side_->harness.engine().HasWork()) (void)side_->Step();
  side_->Write();
  side_->on_disk.clear();
  for (const wire::StoredRun& run : side_->harness.engine().DiskSnapshot()) {
    side_->on_disk.insert(run.hashes.begin(), run.hashes.end());
  }
  EXPECT_EQ(side_->on_disk.size(), 20U);
  EXPECT_TRUE(side_->Step().events.empty());
}

// ---- everything at random ----

class EngineDiskFuzzTest : public testing::TestWithParam<std::uint64_t> {};

// Requests, evictions, faults, kills and starts: every answer is the one that the model gives without any cache.
TEST_P(EngineDiskFuzzTest, EveryAnswerIsRight) {
  Rng rng(GetParam());
  const TestFolder folder;
  ManualClock clock;
  std::vector<std::vector<TokenId>> texts;
  for (std::uint64_t stream = 0; stream < 6; ++stream) {
    std::vector<TokenId> text;
    Rng common(stream / 3);
    Rng own(stream + 100);
    for (int i = 0; i < 40; ++i) text.push_back(static_cast<TokenId>(common.Below(90)));
    for (int i = 0; i < 88; ++i) text.push_back(static_cast<TokenId>(own.Below(90)));
    texts.push_back(std::move(text));
  }
  std::uint64_t last_id = 0;
  std::uint64_t restored = 0;
  for (int life = 0; life < 12; ++life) {
    DiskSide side(folder, clock,
                  {.block_count = 24 + static_cast<std::uint32_t>(rng.Below(40)),
                   .max_batch_tokens = 16 + static_cast<std::uint32_t>(rng.Below(64)),
                   .plan_ahead = rng.Below(2) == 0,
                   .segment_count = 4 + rng.Below(4)});
    std::map<std::uint64_t, std::vector<TokenId>> prompts;
    if (rng.Below(2) == 0) side.files.dies_after = rng.Below(300);
    for (int i = 0; i < 200; ++i) {
      const std::uint64_t what = rng.Below(20);
      if (what < 4) {
        const std::vector<TokenId>& text = texts[rng.Below(texts.size())];
        prompts[++last_id] = {text.begin(), text.begin() + 1 + static_cast<std::ptrdiff_t>(rng.Below(text.size()))};
        side.Submit(GreedyRequest(last_id, prompts[last_id], kOutputs));
      } else if (what < 10) {
        for (std::uint64_t count = rng.Below(8); count > 0; --count) (void)side.disk.WriteNext();
      } else if (what < 14) {
        for (std::uint64_t count = rng.Below(8); count > 0; --count) (void)side.disk.ReadNext();
      } else if (what == 14) {
        const std::vector<BlockHash> hashes = HashBlocks(kRoot, texts[rng.Below(texts.size())], kTravelBlockTokens);
        (void)side.harness.engine().CarryOut(
            kLink, wire::Evict{.what = wire::BlockToEvict{hashes[rng.Below(hashes.size())]}, .answer_id = 1});
      } else if (what == 15) {
        side.files.is_full = rng.Below(4) == 0;
        side.files.fails_reads = rng.Below(8) == 0;
        side.files.fails_writes = rng.Below(12) == 0;
      } else if (what == 16) {
        clock.Advance(std::chrono::milliseconds(rng.Below(3000)));
      }
      (void)side.Step();
    }
    side.files.fails_reads = side.files.fails_writes = side.files.is_full = false;
    for (int i = 0; i < 2000; ++i) {
      side.Write();
      side.Read();
      clock.Advance(std::chrono::milliseconds(10));
      (void)side.Step();
      if (!side.harness.engine().HasWork() && i > 20) break;
    }
    EXPECT_EQ(side.Step().referenced_blocks, 0U) << "a block was not given back";
    for (const auto& [id, prompt] : prompts) {
      std::vector<TokenId> all = prompt;
      for (std::uint32_t i = 0; i < kOutputs; ++i) {
        const std::vector<float> logits = side.model.ReferenceLogits(all);
        all.push_back(static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
      }
      EXPECT_EQ(side.harness.outcome(id).finish, wire::FinishReason::kLength) << id;
      EXPECT_EQ(side.harness.outcome(id).tokens, std::vector<TokenId>(all.end() - kOutputs, all.end())) << id;
    }
    restored += side.restored_blocks;
    if (HasFailure()) return;
  }
  EXPECT_GT(restored, 0U);
}

INSTANTIATE_TEST_SUITE_P(Seeds, EngineDiskFuzzTest, testing::Range<std::uint64_t>(1, 9));

}  // namespace
}  // namespace roost::worker
