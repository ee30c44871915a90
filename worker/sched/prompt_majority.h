// Finds the tenant that yields: it has computed more than three quarters of the recent prompt tokens, and requests of
// others are here too. There is at most one. The scheduler gives it a small part of each step, so that a tenant without
// pause in its prompts does not lengthen every step of the others.
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
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/check.h"
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

}  // namespace roost::worker
