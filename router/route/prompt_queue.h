// The prompts that one worker still has to compute: this router's, and other routers' as the worker reports them. If
// short prompts go first, it tells which prompts a new one waits for and which it overtakes.
//
//   first ◀── fewest tokens left, plus `ageing` for each second that a prompt came later ──▶ last
//              │ the new prompt waits for what is left of these    │ these wait longer because of it
//
// That is the order of the worker's WaitingQueue.
//
// The worker reports how much is left of those at its queue's front. For others this is an estimate: the prompt tokens
// of a reported step are subtracted from the first prompts in that order, regardless of the router that sent them. If
// the worker reports more queued tokens than all these prompts have, the difference counts as going first. All prompts
// are assumed to have equal priority.
//
// Not thread-safe. Operations are O(prompts), which is bounded by the worker's queue bound.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"

namespace roost::router {

class PromptQueue {
 public:
  // `number` must be larger than all numbers before. `request` is its name in the worker's reports.
  void Add(std::uint64_t number, std::uint32_t uncached_tokens, Instant sent_at, RequestId request = {});
  // Replaces the prompts of other routers.
  struct Other {
    std::uint32_t uncached_tokens = 0;
    Instant sent_at{};
  };
  void SetOthers(std::span<const Other> others);
  // Sets how much is left of this router's prompts; of a request's choices the largest number counts. Those that are
  // not reported keep their estimate. O((prompts + reported) · log reported).
  struct Own {
    RequestId request;
    std::uint32_t uncached_tokens = 0;
  };
  void SetOwn(std::vector<Own> reported);
  // The prompt's first token came, or its request ended. Does nothing if the prompt is not there.
  void Remove(std::uint64_t number);
  // The worker computed this many prompt tokens in a step that included everything sent until `sent_until`.
  void OnComputed(std::uint32_t token_count, Instant sent_until, std::uint32_t ageing);

  struct Place {
    double all_tokens = 0;     // the tokens that are left of all prompts
    double before_tokens = 0;  // the tokens that are left of the prompts that go before the new one
    // The number of prompts that go after it. A prompt counts more if its first token takes longer anyway.
    double overtaken = 0;
  };
  // The place of a new prompt. `seconds_per_token` is the worker's pace.
  [[nodiscard]] Place PlaceOf(double uncached_tokens, Instant now, std::uint32_t ageing,
                              double seconds_per_token) const;

  // The number of this router's prompts.
  [[nodiscard]] std::size_t size() const { return prompts_.size() - other_count_; }

  // A request whose first token takes t counts 1 + min(kMaxImpatience, t / kPatienceSeconds) times.
  static constexpr double kPatienceSeconds = 0.5;
  static constexpr double kMaxImpatience = 19;

 private:
  struct Prompt {
    std::uint64_t number = 0;  // 0: another router's
    double tokens_left = 0;
    Instant sent_at{};
    double sent_seconds = 0;  // `sent_at` in seconds, for Rank
    RequestId request = {};

    // The lowest rank goes first.
    [[nodiscard]] double Rank(std::uint32_t ageing) const { return tokens_left + ageing * sent_seconds; }
  };

  // The first of this router's prompts, which are ordered by number.
  [[nodiscard]] std::vector<Prompt>::iterator FirstOwn() {
    return prompts_.begin() + static_cast<std::ptrdiff_t>(other_count_);
  }

  std::vector<Prompt> prompts_;  // other routers', then this router's
  std::size_t other_count_ = 0;
};

}  // namespace roost::router
