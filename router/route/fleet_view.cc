#include "router/route/fleet_view.h"

#include <algorithm>
#include <utility>

namespace roost::router {

std::optional<std::size_t> FleetView::PlaceOf(WorkerSlot slot) const {
  return slot.value() < place_by_slot_.size() ? place_by_slot_[slot.value()] : std::nullopt;
}

const WorkerView* FleetView::Find(WorkerSlot slot) const {
  const std::optional<std::size_t> place = PlaceOf(slot);
  return place.has_value() ? &workers_[*place] : nullptr;
}

void FleetView::Set(const WorkerView& worker) {
  std::optional<std::size_t> place = PlaceOf(worker.slot);
  std::set<Place>::node_type entry;
  if (place.has_value()) {
    const WorkerView& before = workers_[*place];
    entry = order_.extract({loads_[*place], before.last_sent, before.slot});
    TakeFromSums(before);
    workers_[*place] = worker;
  } else {
    place = workers_.size();
    workers_.push_back(worker);
    loads_.push_back(0);
    if (place_by_slot_.size() <= worker.slot.value()) place_by_slot_.resize(worker.slot.value() + std::size_t{1});
    place_by_slot_[worker.slot.value()] = place;
  }
  AddToSums(worker);
  loads_[*place] = LoadTokens(worker, speed());
  const Place ordered{loads_[*place], worker.last_sent, worker.slot};
  if (entry.empty()) {
    order_.insert(ordered);
  } else {
    entry.value() = ordered;
    order_.insert(std::move(entry));
  }
}

void FleetView::Remove(WorkerSlot slot) {
  const std::optional<std::size_t> place = PlaceOf(slot);
  if (!place.has_value()) return;
  const WorkerView& gone = workers_[*place];
  order_.erase({loads_[*place], gone.last_sent, gone.slot});
  TakeFromSums(gone);
  // The last worker takes the removed one's place.
  place_by_slot_[workers_.back().slot.value()] = place;
  place_by_slot_[slot.value()].reset();
  workers_[*place] = workers_.back();
  loads_[*place] = loads_.back();
  workers_.pop_back();
  loads_.pop_back();
  if (workers_.empty()) sums_ = {};
}

const WorkerView* FleetView::NextAfter(std::optional<WorkerSlot> slot) const {
  const std::size_t slot_count = place_by_slot_.size();
  const bool has_next = slot.has_value() && slot->value() + std::size_t{1} < slot_count;
  const std::size_t first = has_next ? slot->value() + std::size_t{1} : 0;
  for (std::size_t i = 0; i < slot_count; ++i) {
    const std::optional<std::size_t> place = place_by_slot_[(first + i) % slot_count];
    if (place.has_value()) return &workers_[*place];
  }
  return nullptr;
}

FleetSpeed FleetView::speed() const {
  if (workers_.empty()) return {};
  return {.prefill_tokens_per_second = sums_.prefill_tokens_per_second.Mean(),
          .decode_step_seconds = sums_.decode_step_seconds.Mean(),
          .decode_slowness = sums_.decode_slowness.Mean(),
          .busy_share = std::max(0.0, sums_.busy_share / static_cast<double>(workers_.size()))};
}

void FleetView::AddToSums(const WorkerView& worker) {
  prefill_count_ += worker.role == wire::WorkerRole::kPrefill ? 1 : 0;
  disk_count_ += worker.disk_bytes_per_second > 0 ? 1 : 0;
  sums_.busy_share += worker.busy_share;
  sums_.prefill_tokens_per_second.Add(worker.prefill_tokens_per_second);
  sums_.decode_step_seconds.Add(worker.decode_step_seconds);
  sums_.decode_slowness.Add(worker.decode_slowness);
}

void FleetView::TakeFromSums(const WorkerView& worker) {
  prefill_count_ -= worker.role == wire::WorkerRole::kPrefill ? 1 : 0;
  disk_count_ -= worker.disk_bytes_per_second > 0 ? 1 : 0;
  sums_.busy_share -= worker.busy_share;
  sums_.prefill_tokens_per_second.Take(worker.prefill_tokens_per_second);
  sums_.decode_step_seconds.Take(worker.decode_step_seconds);
  sums_.decode_slowness.Take(worker.decode_slowness);
}

}  // namespace roost::router
