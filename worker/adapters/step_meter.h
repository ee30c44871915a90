// Learns an engine's steps from when its tokens arrive: an engine sends the tokens of all running requests at the end
// of a step, so a second arrival from one call means that the next step has ended.
//
//   arrivals      A B C      A B C        A B C D      A B …
//   steps        └─ s1 ─┘   └── s2 ──┘   └─── s3 ───┘           a step's time: from the first arrival of the
//                                              ▲                step before to its own first arrival
//                                  the first token of D: its prefill ends in s3, but may have run in s2 too
//
// D's may also be the first tokens of s3 to arrive. They begin it if D was sent after tokens of s2 had arrived, or if
// they come nearer to the end of the next decode than to theirs.
//
// While a prefill is under way, other calls' steps carry parts of it of unknown size. So these steps are not reported
// alone; the step with the first token is, with all the prompt's tokens, the mean of the decodes, and the time since
// the prefill could begin less what the other steps take without a prefill. That is learned from steps without any
// (RateEstimator); until it is known, such a step is not reported.
//
// One thread. O(calls) memory; a call costs O(log of them), the end of a prefill O(prompts that wait).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "common/base/clock.h"
#include "common/base/rate_estimator.h"
#include "worker/adapters/http_port.h"

namespace roost::worker::adapters {

class StepMeter {
 public:
  // The engine was given a prompt with this many tokens to compute.
  void OnSent(CallId call, Instant now);
  // Its first tokens. `prefill_tokens` is how many of the prompt were computed.
  void OnFirstTokens(CallId call, std::uint32_t prefill_tokens, std::uint32_t tokens, Instant now);
  void OnTokens(CallId call, std::uint32_t tokens, Instant now);
  void OnEnd(CallId call);
  // Closes the step that is open, if nothing runs that could show its end. Call it after the events of a round.
  void CloseIfIdle();

  // The steps that have ended, oldest first, each once. Steps that are not taken are forgotten, the oldest first.
  [[nodiscard]] std::optional<StepSample> TakeStep();
  [[nodiscard]] bool has_steps() const { return !steps_.empty(); }
  // The time that so many prompt tokens take alone; zero until the engine's speed is known.
  [[nodiscard]] double PromptSeconds(std::uint64_t token_count) const {
    return speed_.prefill_seconds(static_cast<std::uint32_t>(token_count));
  }

 private:
  static constexpr std::size_t kMaxKeptSteps = 16;

  struct Step {
    Instant arrived{};                           // its first tokens
    Instant last_arrived = arrived;              // its last ones
    std::map<CallId, std::uint32_t> calls = {};  // and their tokens
    std::uint32_t prefill_tokens = 0;
    std::uint32_t decode_tokens = 0;
    bool has_first_tokens = false;

    [[nodiscard]] std::uint32_t count() const;  // of the engine's steps
  };
  // Since prefills could begin that have not ended.
  struct Mixed {
    Instant began{};
    std::uint32_t steps = 0;
    std::uint64_t decode_tokens = 0;
  };

  // Are these first tokens of a later step than the open one?
  [[nodiscard]] bool AreOfALaterStep(CallId call, Instant now) const;
  Step& StepOf(CallId call, std::uint32_t tokens, Instant now);
  void Close();
  void CloseWithPrefill(const Step& step);
  // 0: not known yet.
  [[nodiscard]] double Expected(const StepSample& step);
  void Report(StepSample sample);

  std::map<CallId, Instant> waiting_;  // sent then, without a token
  std::set<CallId> running_;
  std::optional<Step> open_;
  Instant last_arrival_{};  // of the step before the open one, or when the engine got work
  std::optional<Mixed> mixed_;
  RateEstimator decodes_;  // of steps without prefill
  RateEstimator speed_;    // of all reported steps
  std::uint32_t first_prefills_ = 0;
  double best_seconds_per_token_ = std::numeric_limits<double>::infinity();  // of them
  std::deque<StepSample> steps_;
};

}  // namespace roost::worker::adapters
