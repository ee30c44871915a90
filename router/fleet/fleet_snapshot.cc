#include "router/fleet/fleet_snapshot.h"

#include <algorithm>

namespace roost::router {

std::shared_ptr<const ServedModel> ModelDirectory::Choose(std::string_view name) const {
  const auto found = offers.find(name);
  if (found == offers.end()) return nullptr;
  const Offer* chosen = nullptr;
  double least = 0;
  for (const Offer& offer : found->second) {
    if (chosen != nullptr && offer.capacity == 0) continue;  // its workers only finish the requests that they have
    const double share_used = static_cast<double>(*offer.chosen_count + 1) / std::max(1U, offer.capacity);
    if (chosen != nullptr && chosen->capacity > 0 && share_used >= least) continue;
    chosen = &offer;
    least = share_used;
  }
  if (chosen == nullptr) return nullptr;
  ++*chosen->chosen_count;
  return chosen->served;
}

std::shared_ptr<const ServedModel> ModelDirectory::Main(std::string_view name) const {
  const auto found = offers.find(name);
  if (found == offers.end()) return nullptr;
  const auto main = std::max_element(found->second.begin(), found->second.end(),
                                     [](const Offer& a, const Offer& b) { return a.capacity < b.capacity; });
  return main == found->second.end() ? nullptr : main->served;
}

std::vector<std::shared_ptr<const ServedModel>> ModelDirectory::AllOf(std::string_view name) const {
  std::vector<std::shared_ptr<const ServedModel>> all;
  const auto found = offers.find(name);
  if (found == offers.end()) return all;
  for (const Offer& offer : found->second) all.push_back(offer.served);
  return all;
}

bool ModelDirectory::IsExpected(std::string_view name, Instant now) const {
  if (!has_begun || joined.contains(name)) return true;
  const auto left = gone.find(name);
  return left != gone.end() && now - left->second < kMemoryOfModels;
}

std::optional<std::string> ModelDirectory::KnownModel(std::string_view name) const {
  const auto found = known.find(name);
  return found == known.end() ? std::nullopt : std::optional(found->second);
}

bool FleetSnapshot::IsArriving(std::string_view name) const {
  return (is_settling || starting.contains(name)) && !models->offers.contains(name);
}

Result<void> FleetSnapshot::CheckRoom(const ServedModel& model) const {
  if (refusal) return *refusal;
  const auto full = full_queues.find({model.revision, std::string(model.adapter())});
  if (full == full_queues.end()) return {};
  if (metrics != nullptr) metrics->OnQueueRefused(model.model_name(), QueueRefusal::kFull);
  return full->second;
}

}  // namespace roost::router
