// The tenant that computes most of the prompts, and the length of its steps while others may come.
//
// PromptMajority finds the tenant that yields: it has computed more than three quarters of the recent prompt tokens,
// and requests of others are here too. There is at most one. The scheduler gives it a small part of each step, so that
// a tenant without pause in its prompts does not lengthen every step of the others.
//
// It is a majority vote (Boyer, Moore, MJRTY: a fast majority vote algorithm, 1981) in which the tokens of others weigh
// three times as much, and whose count has a ceiling, so that older tokens are forgotten:
//
//   count   0 ───────── half of the ceiling ───────── ceiling
//           another     the candidate has the         others need a sixth of the ceiling
//           candidate   majority from here on         to end the majority
//
// Not thread-safe. O(1), without a table of tokens by tenant. The candidate's number has a user while it is candidate,
// so no other tenant gets it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/check.h"
#include "common/base/rate_estimator.h"
#include "worker/cache/tenant_blocks.h"

namespace roost::worker {

class PromptMajority {
 public:
  static constexpr std::uint64_t kWeightOfOthers = 3;

  // `tenants` outlives it. `ceiling`: the most tokens that count.
  PromptMajority(TenantBlocks& tenants, std::uint64_t ceiling) : tenants_(tenants), ceiling_(ceiling) {}
  ~PromptMajority() { Propose(std::nullopt); }
  PromptMajority(const PromptMajority&) = delete;
  PromptMajority& operator=(const PromptMajority&) = delete;
  PromptMajority(PromptMajority&&) = delete;
  PromptMajority& operator=(PromptMajority&&) = delete;

  // A sequence comes and goes.
  void OnCame(TenantId tenant) {
    if (tenant.value() >= present_.size()) present_.resize(std::size_t{tenant.value()} + 1);
    if (present_[tenant.value()]++ == 0) ++tenant_count_;
    ++present_count_;
  }
  void OnWent(TenantId tenant) {
    ROOST_CHECK(PresentOf(tenant) > 0, "a sequence of tenant {} went twice", tenant.value());
    if (--present_[tenant.value()] == 0) --tenant_count_;
    --present_count_;
  }

  // The tenants of the sequences that are here.
  [[nodiscard]] std::uint32_t tenant_count() const { return tenant_count_; }

  void OnComputed(TenantId tenant, std::uint64_t prompt_tokens) {
    if (candidate_ == tenant) {
      count_ = std::min(ceiling_, count_ + prompt_tokens);
      return;
    }
    const std::uint64_t against = kWeightOfOthers * prompt_tokens;
    if (count_ > against) {
      count_ -= against;
      return;
    }
    Propose(tenant);
    count_ = std::min(ceiling_, prompt_tokens);
  }

  // The tenant with the majority, whether or not others are here.
  [[nodiscard]] std::optional<TenantId> Majority() const { return count_ * 2 < ceiling_ ? std::nullopt : candidate_; }

  [[nodiscard]] std::optional<TenantId> Yielding() const {
    const std::optional<TenantId> majority = Majority();
    return majority && present_count_ > PresentOf(*majority) ? majority : std::nullopt;
  }

 private:
  [[nodiscard]] std::uint32_t PresentOf(TenantId tenant) const {
    return tenant.value() < present_.size() ? present_[tenant.value()] : 0;
  }

  void Propose(std::optional<TenantId> tenant) {
    if (tenant) tenants_.Join(*tenant);
    if (candidate_) tenants_.Leave(*candidate_);
    candidate_ = tenant;
  }

  TenantBlocks& tenants_;
  const std::uint64_t ceiling_;
  std::optional<TenantId> candidate_;
  std::uint64_t count_ = 0;
  std::vector<std::uint32_t> present_;  // sequences, by the tenant's number
  std::uint32_t present_count_ = 0;     // of all tenants
  std::uint32_t tenant_count_ = 0;      // with a sequence
};

// Finds how short the prefill steps of that tenant may be, so that others that come wait little for the step under way,
// at a bounded price.
//
// Most steps have the length L. Some have half of it and some twice, so that all kinds compute the same prompts at the
// same depths, and their times for a token are compared:
//
//   steps           L   L/2   L   2L   L   L/2   L   2L   …
//   L ← 2L          if a token takes more than kPrice longer in steps of L than in those of 2L
//   L ← L/2         if a token takes less than half of kPrice longer in steps of L/2 than in those of L
//
// No model of a step is assumed: where a step lasts at least as long as the weights take to be read, short steps cost
// nothing until they come near to that. If a step takes b seconds and each token a, a token takes b / (a · L) longer
// than in an endless step, and half of that is the difference to 2L: then L ends where that is 1 to 2 times kPrice.
//
// A plain value; not thread-safe. O(1).
class StepLength {
 public:
  static constexpr double kPrice = 1.0 / 20;
  // So many steps of each kind are compared. A quarter of them are enough for twice the price.
  static constexpr std::uint32_t kCompared = 32;
  // The first length and the shortest, as parts of a full step.
  static constexpr std::uint32_t kFirstPart = 8;
  static constexpr std::uint32_t kLeastPart = 16;

  // `most`: the tokens of a full step.
  explicit StepLength(std::uint32_t most) : most_(most), length_(std::max(1U, most / kFirstPart)) {
    ROOST_CHECK(most > 0);
  }

  // L, in tokens.
  [[nodiscard]] std::uint32_t length() const { return length_; }

  // The most tokens of the next step.
  [[nodiscard]] std::uint32_t Next() {
    constexpr std::array kTurns{kWhole, kHalf, kWhole, kDouble};
    return TokensOf(kTurns[turn_++ % kTurns.size()]);
  }

  // Only steps count that are as long as they might be, and without decodes.
  void Observe(const StepSample& step) {
    if (step.decode_tokens > 0) return;
    for (const Kind kind : {kHalf, kWhole, kDouble}) {
      if (step.prefill_tokens == TokensOf(kind)) seconds_[kind].Add(step.seconds);
    }
    if (length_ < most_ && IsDearer(kWhole, kDouble)) {
      Begin(std::min(most_, length_ * 2));
    } else if (length_ / 2 >= most_ / kLeastPart && IsCheap(kHalf, kWhole)) {
      Begin(std::max(1U, length_ / 2));
    }
  }

 private:
  enum Kind : std::uint8_t { kHalf, kWhole, kDouble };
  struct Sum {
    std::uint32_t count = 0;
    double seconds = 0;

    // A step that was interrupted counts for two at most, and older ones for less from twice kCompared on.
    void Add(double more) {
      seconds += count == 0 ? more : std::min(more, 2 * seconds / count);
      ++count;
      if (count < 2 * kCompared) return;
      count /= 2;
      seconds /= 2;
    }
  };

  [[nodiscard]] std::uint32_t TokensOf(Kind kind) const {
    switch (kind) {
      case kHalf: return std::max(1U, length_ / 2);
      case kWhole: return length_;
      case kDouble: return std::min(most_, length_ * 2);
    }
    return length_;
  }

  [[nodiscard]] std::uint32_t CountOf(Kind a, Kind b) const { return std::min(seconds_[a].count, seconds_[b].count); }

  // The part by which a token takes longer in steps of the shorter kind.
  [[nodiscard]] double PriceOf(Kind shorter, Kind longer) const {
    const auto of_a_token = [this](Kind kind) {
      return seconds_[kind].seconds / (static_cast<double>(seconds_[kind].count) * TokensOf(kind));
    };
    return of_a_token(shorter) / of_a_token(longer) - 1;
  }

  [[nodiscard]] bool IsDearer(Kind shorter, Kind longer) const {
    const std::uint32_t count = CountOf(shorter, longer);
    if (count < kCompared / 4) return false;
    return PriceOf(shorter, longer) > (count < kCompared ? 2 * kPrice : kPrice);
  }

  [[nodiscard]] bool IsCheap(Kind shorter, Kind longer) const {
    return CountOf(shorter, longer) >= kCompared && PriceOf(shorter, longer) < kPrice / 2;
  }

  void Begin(std::uint32_t length) {
    length_ = length;
    seconds_ = {};
  }

  const std::uint32_t most_;
  std::uint32_t length_;
  std::uint32_t turn_ = 0;
  std::array<Sum, 3> seconds_{};  // by kind
};

}  // namespace roost::worker
