// The decoding requests of one worker as a fluid: all draw tokens at the same rate, which depends on how many there are
// and how long their contexts are (see ServiceModel). There is no event per token: a request ends when the tokens drawn
// since the start of the run reach its mark.
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

  // Removes and returns the requests that have drawn all their tokens. Requests that end together are in the order of
  // their ids.
  [[nodiscard]] std::vector<std::uint64_t> TakeEnded(Instant now);
  // When the next request will have drawn all its tokens, if nothing changes.
  [[nodiscard]] std::optional<Instant> NextEnd() const;

  [[nodiscard]] std::uint32_t request_count() const { return static_cast<std::uint32_t>(marks_.size()); }
  // The time in which each request draws one token.
  [[nodiscard]] double StepSeconds() const;

 private:
  void AdvanceTo(Instant now);
  void Erase(std::uint64_t id, double tokens_left);

  const ServiceModel& model_;
  const double speed_;
  const double worker_count_;
  Instant now_{};
  double drawn_ = 0;  // tokens per request since the start of the run
  double context_tokens_ = 0;
  std::set<std::pair<double, std::uint64_t>> marks_;  // (value of drawn_ at the request's end, its id)
  struct Place {
    double mark = 0;
    double context_at_mark = 0;
  };
  std::unordered_map<std::uint64_t, Place> places_;
};

}  // namespace roost::simulate
