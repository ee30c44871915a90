// The prompts that one worker has to compute: whom a new one waits for there, and whom it overtakes, where short
// prompts go first. Those that this router has sent and has no token of yet, and those of other routers, as the worker
// tells.
//
//   first ◀── fewest tokens left, `ageing` more for each second that it came later ──▶ last
//              │ what is left of these stands before the new one    │ these wait longer because of it
//
// That is the order of the worker's WaitingQueue.
//
// What is left of this router's prompts is an estimate: the prompt tokens of a step that the worker reports are taken
// from the first in that order, be they this router's or others'. What the worker reports as queued beyond all of them
// counts as standing before everybody. All prompts are taken to be of equal priority.
//
// Not thread-safe. Operations are O(prompts), which a worker's bound on what waits there bounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/clock.h"

namespace roost::router {

class PromptQueue {
 public:
  // `number` is new, and larger than all before.
  void Add(std::uint64_t number, std::uint32_t uncached_tokens, Instant sent_at);
  // All that other routers have queued there, in place of those before.
  struct Other {
    std::uint32_t uncached_tokens = 0;
    Instant sent_at{};
  };
  void SetOthers(std::span<const Other> others);
  // Its first token came, or nobody waits for it any more. Nothing if it is not there.
  void Remove(std::uint64_t number);
  // The worker computed so many prompt tokens in a step that held what was sent until then.
  void OnComputed(std::uint32_t token_count, Instant sent_until, std::uint32_t ageing);

  struct Place {
    double all_tokens = 0;     // left of all
    double before_tokens = 0;  // left of those that go first
    double overtaken = 0;      // prompts, that go after it
    // The same, each as often as its wait counts: the longer its first token takes anyway, the more.
    double impatient_overtaken = 0;
  };
  // The place of one more prompt. `seconds_per_token` is the worker's pace.
  [[nodiscard]] Place PlaceOf(double uncached_tokens, Instant now, std::uint32_t ageing,
                              double seconds_per_token) const;

  // This router's.
  [[nodiscard]] std::size_t size() const { return prompts_.size() - other_count_; }

  // The wait of a request whose first token takes t counts 1 + min(kMostImpatience, t / kPatienceSeconds) times.
  static constexpr double kPatienceSeconds = 0.5;
  static constexpr double kMostImpatience = 19;

 private:
  struct Prompt {
    std::uint64_t number = 0;  // 0: another router's
    double tokens_left = 0;
    Instant sent_at{};
    double sent_seconds = 0;  // the same, for Rank

    // The least goes first.
    [[nodiscard]] double Rank(std::uint32_t ageing) const { return tokens_left + ageing * sent_seconds; }
  };

  // Of this router, by number.
  [[nodiscard]] std::vector<Prompt>::iterator FirstOwn() {
    return prompts_.begin() + static_cast<std::ptrdiff_t>(other_count_);
  }

  std::vector<Prompt> prompts_;  // other routers', then this one's
  std::size_t other_count_ = 0;
};

}  // namespace roost::router
