#include "router/route/transfers.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace roost::router {

bool CanFetch(const TransferPlace& to, const TransferPlace& from) {
  if (!to.fetches || !from.serves) return false;
  if (to.layout == 0 || to.layout != from.layout || to.numerics != from.numerics) return false;
  return !from.is_loopback || (from.host != 0 && from.host == to.host);
}

Transfers::Worker* Transfers::Find(WorkerSlot worker) {
  return worker.value() < workers_.size() && workers_[worker.value()] ? &*workers_[worker.value()] : nullptr;
}

const Transfers::Worker* Transfers::Find(WorkerSlot worker) const {
  return worker.value() < workers_.size() && workers_[worker.value()] ? &*workers_[worker.value()] : nullptr;
}

void Transfers::Count(const TransferPlace& place, int by) {
  if (place.layout == 0) return;
  serving_count_ += place.serves ? by : 0;
  fetching_count_ += place.fetches ? by : 0;
}

void Transfers::Join(WorkerSlot worker, const TransferPlace& place) {
  ROOST_CHECK(Find(worker) == nullptr, "slot {} is taken", worker.value());
  if (workers_.size() <= worker.value()) workers_.resize(worker.value() + std::size_t{1});
  double block_bytes = 0;
  for (const std::optional<Worker>& other : workers_) {
    if (other && place.layout != 0 && other->place.layout == place.layout) block_bytes = other->block_bytes;
  }
  workers_[worker.value()] = Worker{.place = place, .block_bytes = block_bytes};
  Count(place, 1);
}

void Transfers::Leave(WorkerSlot worker) {
  const Worker* const gone = Find(worker);
  if (gone == nullptr) return;
  for (auto hold = open_.begin(); hold != open_.end();) {
    const bool is_of_it = hold->second.ends.from == worker || hold->second.ends.to == worker;
    if (is_of_it) Cover(hold);
    hold = is_of_it ? open_.erase(hold) : std::next(hold);
  }
  Count(gone->place, -1);
  workers_[worker.value()].reset();
  rates_.Forget(worker);
}

void Transfers::Report(WorkerSlot worker, const wire::Load& load, Instant now) {
  Worker* const reporting = Find(worker);
  if (reporting == nullptr || !reporting->place.tells_bytes) return;
  reporting->reported_out = static_cast<double>(load.leaving_bytes);
  reporting->reported_in = static_cast<double>(load.arriving_bytes);
  if (reporting->sent_out <= 0 && reporting->sent_in <= 0) return;
  for (auto& [id, hold] : open_) {
    if (now - hold.sent_at < kReportDelay) continue;
    if (hold.ends.from == worker && !std::exchange(hold.is_out_reported, true)) reporting->sent_out -= hold.bytes;
    if (hold.ends.to == worker && !std::exchange(hold.is_in_reported, true)) reporting->sent_in -= hold.bytes;
  }
}

void Transfers::Send(std::uint64_t id, WorkerPair ends, std::uint32_t block_count, Instant now) {
  Worker* const from = Find(ends.from);
  Worker* const to = Find(ends.to);
  if (from == nullptr || to == nullptr) return;
  Open hold{.ends = ends, .bytes = from->block_bytes * block_count, .queued_bytes = Queued(ends), .sent_at = now};
  from->sent_out += hold.bytes;
  to->sent_in += hold.bytes;
  open_.emplace(id, hold);
  rates_.OnSent(ends);
}

// Counts in no queue any more.
void Transfers::Cover(OpenHolds::iterator hold) {
  Open& ended = hold->second;
  Worker* const from = Find(ended.ends.from);
  Worker* const to = Find(ended.ends.to);
  if (from != nullptr && !std::exchange(ended.is_out_reported, true)) from->sent_out -= ended.bytes;
  if (to != nullptr && !std::exchange(ended.is_in_reported, true)) to->sent_in -= ended.bytes;
}

void Transfers::Drop(std::uint64_t id) {
  const auto hold = open_.find(id);
  if (hold == open_.end()) return;
  Cover(hold);
  rates_.OnGone();
  open_.erase(hold);
}

void Transfers::End(std::uint64_t id, const std::optional<wire::HoldAnswer>& answer, Instant now) {
  const auto hold = open_.find(id);
  if (hold == open_.end()) return;
  const Open ended = hold->second;
  Drop(id);
  if (!answer) return rates_.OnEnd(ended.ends, std::nullopt, 0, now);
  if (answer->arrived_block_count > 0 && answer->bytes > 0) {
    const double block_bytes = static_cast<double>(answer->bytes) / answer->arrived_block_count;
    LearnBlockBytes(Find(ended.ends.from)->place.layout, block_bytes);
    Observe(ended, *answer, now);
  }
  rates_.OnEnd(ended.ends, answer->outcome, answer->arrived_block_count, now);
}

void Transfers::Observe(const Open& ended, const wire::HoldAnswer& answer, Instant now) {
  const double seconds = static_cast<double>(answer.microseconds) * 1e-6;
  const double first_seconds = static_cast<double>(answer.first_frame_microseconds) * 1e-6;
  rates_.Observe(ended.ends,
                 {.bytes = answer.bytes,
                  .block_count = answer.arrived_block_count,
                  .first_block_seconds = std::min(first_seconds, seconds),
                  .seconds = seconds,
                  .queued_bytes = ended.queued_bytes},
                 now);
}

void Transfers::LearnBlockBytes(std::uint64_t layout, double bytes) {
  for (std::optional<Worker>& worker : workers_) {
    if (worker && worker->place.layout == layout) worker->block_bytes = bytes;
  }
}

double Transfers::QueuedOut(WorkerSlot from) const {
  const Worker* const worker = Find(from);
  return worker == nullptr ? 0 : worker->queued_out();
}

double Transfers::QueuedIn(WorkerSlot to) const {
  const Worker* const worker = Find(to);
  return worker == nullptr ? 0 : worker->queued_in();
}

double Transfers::Queued(WorkerPair ends) const { return std::max(QueuedOut(ends.from), QueuedIn(ends.to)); }

std::optional<TransferOffer> Transfers::Offer(WorkerPair ends, std::uint32_t block_count, Instant now) const {
  const Worker* const from = Find(ends.from);
  const Worker* const to = Find(ends.to);
  if (from == nullptr || to == nullptr || from == to || !CanFetch(to->place, from->place)) return std::nullopt;
  const PairRates::Expected expected = rates_.Expect(ends, now);
  const double bytes = from->block_bytes * block_count;
  const double queued_bytes = std::max(from->queued_out(), to->queued_in());
  return TransferOffer{.price = {.seconds = expected.rate.Seconds(bytes + queued_bytes), .bytes = bytes},
                       .is_paused = expected.is_paused};
}

std::map<WorkerPair, std::uint32_t> Transfers::InFlight() const {
  std::map<WorkerPair, std::uint32_t> counts;
  for (const auto& [id, hold] : open_) ++counts[hold.ends];
  return counts;
}

}  // namespace roost::router
