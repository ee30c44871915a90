// The decoding requests of one worker as a fluid: all draw tokens at the same rate, which depends on how many there
// are, how long their contexts are, and what prompts add to the steps (see ServiceModel). There is no event per token:
// a request ends when the tokens drawn since the start of the run reach its mark.
//
// Between two calls a step takes D + E at first and grows with the contexts: n requests that draw k tokens each take
//
//   (D + E) · k + n · d · k² / 2        D: a step without prompts; E: what prompts add; d: seconds per context token
//
// so a whole number of tokens takes what as many steps would.
//
// Not thread-safe. Each call takes O(log requests); time must not go back. The model outlives it.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "deploy/roostctl/simulate/service_model.h"

namespace roost::simulate {

class FluidDecode {
 public:
  // Simulates `worker_count` workers of this speed, over which the requests are spread evenly.
  FluidDecode(const ServiceModel& model, double speed, std::uint32_t worker_count = 1)
      : model_(model), speed_(speed), worker_count_(worker_count) {}

  // Request `id` starts to draw `token_count` tokens after a context of `context_token_count`.
  struct Request {
    std::uint64_t id = 0;
    double token_count = 0;
    double context_token_count = 0;
  };
  void Start(const Request& request, Instant now);
  // Stops the request early; returns how many tokens it still had to draw.
  double Stop(std::uint64_t id, Instant now);

  // From now on steps of `worker_share` of the workers compute prompts too, which adds these seconds (of a worker of
  // speed 1) to each of them. Does nothing where decodes are separate.
  struct Prompts {
    double worker_share = 0;
    double seconds_per_step = 0;
  };
  void SetPrompts(const Prompts& prompts, Instant now);

  // The tokens that the request still has to draw.
  [[nodiscard]] double TokensLeft(std::uint64_t id, Instant now) const;

  // Removes and returns the requests that have drawn all their tokens. Requests that end together are in the order of
  // their ids.
  [[nodiscard]] std::vector<std::uint64_t> TakeEnded(Instant now);
  // The time when the next request will have drawn all its tokens, if nothing changes.
  [[nodiscard]] std::optional<Instant> NextEnd() const;
  // The time when the running step ends; `now` if none runs. Steps are counted from the last change of SetPrompts.
  [[nodiscard]] Instant StepEnd(Instant now);

  [[nodiscard]] std::uint32_t request_count() const { return static_cast<std::uint32_t>(marks_.size()); }
  // Tokens that the requests have drawn so far.
  [[nodiscard]] double drawn_token_count() const { return context_tokens_ - given_tokens_; }
  // The time in which each request draws its next token.
  [[nodiscard]] double StepSeconds() const { return SecondsFor(1); }
  [[nodiscard]] double StepSecondsWithoutPrompts() const;

 private:
  void AdvanceTo(Instant now);
  void Erase(std::uint64_t id, double tokens_left);
  [[nodiscard]] double FirstStepSeconds() const;
  [[nodiscard]] double GrowthSeconds() const;
  [[nodiscard]] double SecondsFor(double tokens) const;
  [[nodiscard]] double TokensIn(double seconds) const;

  const ServiceModel& model_;
  const double speed_;
  const double worker_count_;
  Prompts prompts_;
  Instant now_{};
  double drawn_ = 0;        // tokens per request since the start of the run
  double steps_begin_ = 0;  // the value of drawn_ from which steps are counted
  double context_tokens_ = 0;
  double given_tokens_ = 0;                           // the part of context_tokens_ that the requests started with
  std::set<std::pair<double, std::uint64_t>> marks_;  // (value of drawn_ at the request's end, its id)
  struct Place {
    double mark = 0;
    double context_at_mark = 0;
    double given = 0;
  };
  std::unordered_map<std::uint64_t, Place> places_;
};

}  // namespace roost::simulate
