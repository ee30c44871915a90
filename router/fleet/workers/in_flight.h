// Counts the work that this router has sent to a worker and that the worker's reports do not include yet. Without it,
// requests that arrive between two load reports would all see the same idle worker.
//
// A charge lives as long as its request is at the worker. Its tokens count until a report covers them: the report of a
// step includes everything that had arrived when that step began. After that only the request itself counts as in
// flight. Its prompt counts until its first token, in the order in which the worker should compute prompts, and so do
// the bytes that should come for it from the worker's disk.
//
// It also holds the prompts of other routers that the worker reports.
//
// Not thread-safe. The ledger lives as long as its last charge.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include "common/base/clock.h"
#include "common/wire/messages.h"
#include "router/route/prompt_queue.h"

namespace roost::router {

class InFlightLedger {
 public:
  // A request's guard: removes its charge when it is destroyed or reassigned.
  class Charge {
   public:
    Charge() = default;
    Charge(Charge&& other) noexcept;
    Charge& operator=(Charge&& other) noexcept;
    ~Charge();

    // Its prompt has been computed: it has begun. A second call does nothing.
    void OnFirstToken();
    // So many more bytes come from the worker's disk for it.
    void Restore(double bytes);

   private:
    friend class InFlightLedger;
    Charge(std::shared_ptr<InFlightLedger> ledger, std::uint64_t number);
    void Release();

    std::shared_ptr<InFlightLedger> ledger_;  // null: nothing is charged
    std::uint64_t number_ = 0;
    double restored_bytes_ = 0;
    bool has_begun_ = false;
  };

  // A prompt of which `prefill_tokens` are to be computed, behind `cached_tokens` that are not. `now` never goes back.
  // `request` is its name on the link.
  [[nodiscard]] static Charge Add(const std::shared_ptr<InFlightLedger>& ledger, std::uint32_t prefill_tokens,
                                  Instant now, std::uint32_t cached_tokens = 0, RequestId request = {});

  // A load report includes everything that was charged up to `instant`; its step computed `computed_tokens` of prompts.
  void CoverUntil(Instant instant, std::uint32_t computed_tokens, std::uint32_t ageing);

  // Sets the prompts that the worker still has to compute for other routers.
  void SetOthers(std::span<const wire::OtherPrompt> prompts, Instant now);
  // Sets how much is left of this router's prompts.
  void SetOwn(std::span<const wire::OwnPrompt> prompts);

  // Charges that no report covers yet.
  [[nodiscard]] std::uint64_t uncovered_tokens() const { return uncovered_tokens_; }
  [[nodiscard]] std::uint64_t uncovered_cached_tokens() const { return uncovered_cached_tokens_; }
  [[nodiscard]] std::uint32_t uncovered_requests() const { return static_cast<std::uint32_t>(uncovered_.size()); }
  // Prompts without a first token, of this router and of others.
  [[nodiscard]] const PromptQueue& prompts() const { return prompts_; }
  // The number of all charges.
  [[nodiscard]] std::uint32_t request_count() const { return request_count_; }
  [[nodiscard]] double restoring_bytes() const { return restoring_bytes_; }
  // The number of those that have begun.
  [[nodiscard]] std::uint32_t begun_count() const { return begun_count_; }

 private:
  struct Entry {
    std::uint32_t prefill_tokens;
    std::uint32_t cached_tokens;
    Instant charged_at;
  };
  using Entries = std::map<std::uint64_t, Entry>;  // by number, and so by time

  void Cover(Entries::iterator entry);

  Entries uncovered_;
  std::uint64_t uncovered_tokens_ = 0;  // their sums
  std::uint64_t uncovered_cached_tokens_ = 0;
  PromptQueue prompts_;
  std::uint64_t next_number_ = 0;
  std::uint32_t request_count_ = 0;
  std::uint32_t begun_count_ = 0;
  double restoring_bytes_ = 0;  // whole numbers, so that their sum returns to 0
};

}  // namespace roost::router
