#include "router/fleet/workers/in_flight.h"

#include <utility>
#include <vector>

#include "common/base/check.h"

namespace roost::router {

InFlightLedger::Charge::Charge(std::shared_ptr<InFlightLedger> ledger, std::uint64_t number)
    : ledger_(std::move(ledger)), number_(number) {}

InFlightLedger::Charge::Charge(Charge&& other) noexcept
    : ledger_(std::exchange(other.ledger_, nullptr)),
      number_(other.number_),
      restored_bytes_(other.restored_bytes_),
      has_begun_(other.has_begun_) {}

InFlightLedger::Charge& InFlightLedger::Charge::operator=(Charge&& other) noexcept {
  if (this == &other) return *this;
  Release();
  ledger_ = std::exchange(other.ledger_, nullptr);
  number_ = other.number_;
  restored_bytes_ = other.restored_bytes_;
  has_begun_ = other.has_begun_;
  return *this;
}

InFlightLedger::Charge::~Charge() { Release(); }

void InFlightLedger::Charge::OnFirstToken() {
  if (ledger_ == nullptr || std::exchange(has_begun_, true)) return;
  ledger_->prompts_.Remove(number_);
  ledger_->restoring_bytes_ -= std::exchange(restored_bytes_, 0);
  ++ledger_->begun_count_;
}

void InFlightLedger::Charge::Restore(double bytes) {
  if (ledger_ == nullptr || has_begun_) return;
  restored_bytes_ += bytes;
  ledger_->restoring_bytes_ += bytes;
}

void InFlightLedger::Charge::Release() {
  if (ledger_ == nullptr) return;
  ledger_->prompts_.Remove(number_);
  ledger_->restoring_bytes_ -= restored_bytes_;
  const auto found = ledger_->uncovered_.find(number_);
  if (found != ledger_->uncovered_.end()) ledger_->Cover(found);
  ROOST_CHECK(ledger_->request_count_ > 0);
  --ledger_->request_count_;
  if (has_begun_) --ledger_->begun_count_;
  ledger_.reset();
}

InFlightLedger::Charge InFlightLedger::Add(const std::shared_ptr<InFlightLedger>& ledger, std::uint32_t prefill_tokens,
                                           Instant now, std::uint32_t cached_tokens, RequestId request) {
  const std::uint64_t number = ledger->next_number_++;
  ledger->uncovered_.emplace(number, Entry{prefill_tokens, cached_tokens, now});
  ledger->uncovered_tokens_ += prefill_tokens;
  ledger->uncovered_cached_tokens_ += cached_tokens;
  ledger->prompts_.Add(number, prefill_tokens, now, request);
  ++ledger->request_count_;
  return Charge(ledger, number);
}

void InFlightLedger::CoverUntil(Instant instant, std::uint32_t computed_tokens, std::uint32_t ageing) {
  prompts_.OnComputed(computed_tokens, instant, ageing);
  while (!uncovered_.empty() && uncovered_.begin()->second.charged_at <= instant) Cover(uncovered_.begin());
}

void InFlightLedger::Cover(Entries::iterator entry) {
  uncovered_tokens_ -= entry->second.prefill_tokens;
  uncovered_cached_tokens_ -= entry->second.cached_tokens;
  uncovered_.erase(entry);
}

void InFlightLedger::SetOthers(std::span<const wire::OtherPrompt> prompts, Instant now) {
  std::vector<PromptQueue::Other> others;
  others.reserve(prompts.size());
  for (const wire::OtherPrompt& prompt : prompts) {
    others.push_back({prompt.uncached_tokens, now - std::chrono::milliseconds(prompt.waited_ms)});
  }
  prompts_.SetOthers(others);
}

void InFlightLedger::SetOwn(std::span<const wire::OwnPrompt> prompts) {
  std::vector<PromptQueue::Own> own;
  own.reserve(prompts.size());
  for (const wire::OwnPrompt& prompt : prompts) own.push_back({prompt.request_id, prompt.uncached_tokens});
  prompts_.SetOwn(std::move(own));
}

}  // namespace roost::router
