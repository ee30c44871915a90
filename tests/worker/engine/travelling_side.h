// One worker's engine, with the ways of blocks to and from others.
#pragma once

#include <chrono>
#include <cstdint>

#include "common/base/clock.h"
#include "tests/support/engine_harness.h"
#include "tests/support/fake_model.h"
#include "tests/support/local_source.h"
#include "worker/engine/engine.h"

namespace roost::worker {

inline constexpr std::uint32_t kTravelBlockTokens = 8;

struct SideOptions {
  std::uint32_t block_count = 256;
  std::uint32_t max_batch_tokens = 512;
  std::uint32_t max_running_requests = 64;
  bool plan_ahead = false;
  bool check_invariants = false;
  double verify_hits_share = 0;
  Duration step_duration = std::chrono::milliseconds(10);
};

struct Side {
  Side(const SideOptions& options, ManualClock& clock)
      : model({.block_tokens = kTravelBlockTokens,
               .block_count = options.block_count,
               .clock = &clock,
               .step_duration = options.step_duration}),
        inbox([this] { ++wake_count; }),
        source(inbox, clock),
        readable(model.MakeBlockReader(), options.block_count, kTravelBlockTokens),
        harness(model, clock, OptionsOf(options)) {}

  EngineOptions OptionsOf(const SideOptions& options) {
    EngineOptions engine{.max_batch_tokens = options.max_batch_tokens,
                         .max_running_requests = options.max_running_requests};
    engine.check_invariants = options.check_invariants;
    engine.plan_ahead = options.plan_ahead;
    engine.verify_hits_share = options.verify_hits_share;
    engine.readable = &readable;
    engine.arriving = &inbox;
    engine.source = &source;
    return engine;
  }

  int wake_count = 0;
  testing_support::FakeModel model;
  FrameInbox inbox;
  testing_support::LocalSource source;
  ReadableBlocks readable;
  testing_support::EngineHarness harness;
};

}  // namespace roost::worker
