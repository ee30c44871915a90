// The decoding requests of one worker as a fluid: each draws tokens at the same rate, which depends on how many there
// are and how long their contexts have grown (see ServiceModel). Nothing happens per token: a request ends when what
// each has drawn since the start of the run reaches its own mark.
//
// Not thread-safe. O(log requests) each; time never goes back. The model outlives it.
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

  // Request `id` begins to draw `token_count` tokens behind a context of so many.
  struct Request {
    std::uint64_t id = 0;
    double token_count = 0;
    double context_token_count = 0;
  };
  void Start(const Request& request, Instant now);
  // The request stops early; returns the tokens that it had still to draw.
  double Stop(std::uint64_t id, Instant now);

  // Removes and returns the requests that have drawn all their tokens. Requests that end together come in the order of
  // their ids.
  [[nodiscard]] std::vector<std::uint64_t> TakeEnded(Instant now);
  // When the next request will have drawn all its tokens, as things stand.
  [[nodiscard]] std::optional<Instant> NextEnd() const;

  [[nodiscard]] std::uint32_t request_count() const { return static_cast<std::uint32_t>(marks_.size()); }
  // Of one token for each.
  [[nodiscard]] double StepSeconds() const;

 private:
  void AdvanceTo(Instant now);
  void Erase(std::uint64_t id, double tokens_left);

  const ServiceModel& model_;
  const double speed_;
  const double worker_count_;
  Instant now_{};
  double drawn_ = 0;  // tokens that each would have drawn since the start of the run
  double context_tokens_ = 0;
  std::set<std::pair<double, std::uint64_t>> marks_;  // by what is drawn at their end, with their ids
  struct Place {
    double mark = 0;
    double context_at_mark = 0;
  };
  std::unordered_map<std::uint64_t, Place> places_;
};

}  // namespace roost::simulate
