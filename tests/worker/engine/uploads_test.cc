// The upload to a device with each step: one copy on each rank, whatever the step computes and draws.
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "tests/support/engine_harness.h"
#include "tests/support/recording_ops.h"
#include "worker/model/load_model.h"

namespace roost::testing_support {
namespace {

using kernels::Device;
using kernels::OpTable;

struct DeviceCounts {
  std::uint64_t uploads = 0;
  std::uint64_t other_copies = 0;  // to the device
  std::uint64_t decode_batches = 0;
  std::uint64_t other_batches = 0;
  std::uint64_t adjusted_draws = 0;
  std::uint64_t resets = 0;  // of token counts for penalties

  [[nodiscard]] std::uint64_t batches() const { return decode_batches + other_batches; }
};

// Counts by device; each device has its own thread.
struct Counts {
  std::mutex mutex;
  std::map<const Device*, DeviceCounts> of;
};

Counts& AllCounts() {
  static Counts counts;
  return counts;
}

template <typename Count>
void Note(const Device& device, const Count& count) {
  const std::lock_guard lock(AllCounts().mutex);
  count(AllCounts().of[&device]);
}

// A device that records, and counts what goes to it.
const OpTable& CountingOps() {
  static const OpTable kOps = [] {
    OpTable ops = RecordingOps();
    ops.begin_batch = [](Device& device, const kernels::BatchShape& shape) {
      Note(device, [&shape](DeviceCounts& counts) {
        ++(shape.token_count == shape.request_count ? counts.decode_batches : counts.other_batches);
      });
    };
    ops.upload = [](Device& device, void* to, std::span<const kernels::HostPiece> pieces) {
      Note(device, [](DeviceCounts& counts) { ++counts.uploads; });
      RecordingOps().upload(device, to, pieces);
    };
    ops.copy_to_device = [](Device& device, void* to, const void* from, std::size_t bytes) {
      Note(device, [](DeviceCounts& counts) { ++counts.other_copies; });
      RecordingOps().copy_to_device(device, to, from, bytes);
    };
    ops.sample = [](Device& device, const kernels::SampleArgs& args) {
      for (std::uint32_t i = 0; i < args.row_count; ++i) {
        const kernels::SampleRow& draw = args.rows[i];
        if (kernels::IsAdjusted(draw)) Note(device, [](DeviceCounts& counts) { ++counts.adjusted_draws; });
        if (draw.resets_counts) Note(device, [](DeviceCounts& counts) { ++counts.resets; });
      }
      RecordingOps().sample(device, args);
    };
    return ops;
  }();
  return kOps;
}

class UploadsTest : public testing::TestWithParam<std::uint32_t> {
 protected:
  void Make(worker::EngineOptions options) {
    harness_.reset();
    loaded_ = worker::LoadModel({"synthetic:tiny"}, {.compute_dtype = worker::ComputeDType::kF32,
                                                     .block_count = 100,
                                                     .ops = &CountingOps(),
                                                     .device_ordinals = std::vector<std::uint32_t>(GetParam(), 0)})
                  .value();
    AllCounts().of.clear();  // forgets the copies of loading
    options.max_batch_tokens = 32;
    harness_ = std::make_unique<EngineHarness>(*loaded_.model, clock_, std::move(options));
  }

  // A different prompt for each `text`, longer than a step computes.
  static wire::Generate Request(std::uint64_t id, TokenId text) {
    std::vector<TokenId> prompt;
    for (TokenId i = 0; i < 40; ++i) prompt.push_back((text * 50 + i) % 256);
    return GreedyRequest(id, std::move(prompt), 12);
  }

  // Serves all requests to their ends. One more is submitted every few steps, so that prefills meet decodes.
  void Serve(std::vector<wire::Generate> requests) {
    for (wire::Generate& request : requests) {
      ASSERT_TRUE(harness_->Submit(std::move(request)).ok());
      for (int step = 0; step < 4; ++step) harness_->Step();
    }
    harness_->Run();
  }

  // Rank 0 may have copies for draws, the other ranks have none.
  void ExpectOneCopyPerBatch() const {
    ASSERT_EQ(AllCounts().of.size(), GetParam());
    for (const auto& [device, counts] : AllCounts().of) {
      EXPECT_GT(counts.decode_batches, 10U);
      EXPECT_GT(counts.other_batches, 2U);
      EXPECT_EQ(counts.uploads, counts.batches());
      EXPECT_EQ(counts.other_copies, 0U);
    }
  }

  [[nodiscard]] static std::uint64_t Sum(std::uint64_t DeviceCounts::*count) {
    std::uint64_t sum = 0;
    for (const auto& [device, counts] : AllCounts().of) sum += counts.*count;
    return sum;
  }

  ManualClock clock_;
  worker::LoadedModel loaded_;
  std::unique_ptr<EngineHarness> harness_;
};

TEST_P(UploadsTest, PrefillsAndDecodesTakeOneCopy) {
  for (const bool plan_ahead : {false, true}) {
    worker::EngineOptions options;
    options.plan_ahead = plan_ahead;
    Make(std::move(options));
    const std::uint64_t replayed = CountsOfRecordings().replayed;
    Serve({Request(1, 1), Request(2, 2), Request(3, 3)});
    ExpectOneCopyPerBatch();
    EXPECT_EQ(Sum(&DeviceCounts::adjusted_draws), 0U);
    EXPECT_GT(CountsOfRecordings().replayed, replayed);
  }
}

TEST_P(UploadsTest, SoDoPenaltiesBiasesAndDrawsAtATemperature) {
  worker::EngineOptions options;
  options.plan_ahead = true;
  Make(std::move(options));
  wire::Generate penalized = Request(1, 1);
  penalized.sampling.frequency_penalty = 0.5F;
  penalized.sampling.repetition_penalty = 1.2F;
  wire::Generate biased = Request(2, 2);
  biased.sampling.logit_bias = {{.token = 3, .bias = 2}, {.token = 5, .bias = -2}};
  wire::Generate drawn = Request(3, 3);
  drawn.sampling.temperature = 1;
  drawn.sampling.top_p = 0.9F;
  Serve({penalized, biased, drawn});
  ExpectOneCopyPerBatch();
  EXPECT_EQ(Sum(&DeviceCounts::adjusted_draws), 24U);
  EXPECT_EQ(Sum(&DeviceCounts::resets), 1U);  // the counts go to the device once
}

// Without step bounds there is memory for as many counts as were in use at one time.
TEST_P(UploadsTest, WhatPenaltiesCountOutlivesTheGrowthOfItsMemory) {
  std::vector<wire::Generate> requests;
  for (std::uint64_t id = 1; id <= 5; ++id) {
    requests.push_back(Request(id, static_cast<TokenId>(id)));
    requests.back().sampling.repetition_penalty = 1.5F;
    requests.back().sampling.frequency_penalty = 0.5F;
    requests.back().max_output_tokens = 40;
  }
  Make({});
  Serve(requests);
  std::vector<std::vector<TokenId>> together;
  for (std::uint64_t id = 1; id <= 5; ++id) together.push_back(harness_->outcome(id).tokens);
  for (const wire::Generate& request : requests) {
    Make({});
    EXPECT_EQ(harness_->Serve(request).tokens, together[request.request_id.value() - 1]);
  }
}

TEST_P(UploadsTest, SoDoSeveralChoicesOfOneRequest) {
  worker::EngineOptions options;
  options.plan_ahead = true;
  Make(std::move(options));
  wire::Generate request = Request(1, 1);
  request.sample_count = 3;
  request.sampling.temperature = 1;
  request.sampling.presence_penalty = 0.5F;
  Serve({request, Request(2, 2)});
  ExpectOneCopyPerBatch();
  EXPECT_EQ(harness_->choice(1, 2).tokens.size(), 12U);
}

// Their logits are read back after the step, which is not an upload.
TEST_P(UploadsTest, SoDoHitsThatAreVerified) {
  worker::EngineOptions options;
  options.verify_hits_share = 1;
  Make(std::move(options));
  Serve({Request(1, 1), Request(2, 2)});
  Serve({Request(3, 1), Request(4, 2)});
  ExpectOneCopyPerBatch();
  EXPECT_GT(harness_->totals().verified_hits, 0U);
  EXPECT_EQ(harness_->totals().wrong_hits, 0U);
}

INSTANTIATE_TEST_SUITE_P(Ranks, UploadsTest, testing::Values(1U, 2U));

}  // namespace
}  // namespace roost::testing_support
