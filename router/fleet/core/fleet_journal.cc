#include "router/fleet/core/fleet_journal.h"

#include <fmt/format.h>

#include <algorithm>

namespace roost::router {
namespace {

std::string Plural(std::uint32_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

// "lost (silent): 3 requests continue elsewhere, 1 waits"
std::string LossText(LostReason reason, const Aftermath& requests) {
  std::string text = fmt::format("lost ({})", NameOf(reason));
  std::string_view separator = ": ";
  const auto add = [&](const std::string& part) { text += fmt::format("{}{}", std::exchange(separator, ", "), part); };
  if (requests.moved > 0) add(Plural(requests.moved, "request continues elsewhere", "requests continue elsewhere"));
  if (requests.waiting > 0) add(Plural(requests.waiting, "request waits", "requests wait"));
  if (requests.failed > 0) add(Plural(requests.failed, "request failed", "requests failed"));
  if (requests == Aftermath{}) add("it had no requests");
  return text;
}

std::string TextOf(const FleetJournal::Observed& worker) {
  if (worker.state != WorkerState::kAway) return std::string(NameOf(worker.state));
  return fmt::format("its engine can not be reached ({})", worker.absence);
}

template <typename Entry>
double SecondsSince(const Entry& entry, Instant now) {
  return ToSeconds(now - entry.at);
}

}  // namespace

void FleetJournal::Tell(const std::string& worker_id, const std::string& model, std::string what, Instant now) {
  events_.push_back({now, {0, model, worker_id, std::move(what)}});
  if (events_.size() > kMaxEvents) events_.pop_front();
}

FleetJournal::Model* FleetJournal::ModelOf(const std::string& name, Instant now) {
  const auto found = models_.find(name);
  if (found != models_.end()) return &found->second;
  if (models_.size() >= kMaxModels) return nullptr;
  return &models_.emplace(name, Model{.workers = {}, .since = now}).first->second;
}

void FleetJournal::OnJoined(const std::string& worker_id, const std::string& model, Instant now) {
  for (Lost& lost : lost_) {
    if (lost.worker.worker_id == worker_id) lost.worker.is_back = true;
  }
  if (Model* const known = ModelOf(model, now)) known->left_on_its_own = false;
  Tell(worker_id, model, "joined", now);
}

void FleetJournal::OnLeft(const std::string& worker_id, const std::string& model, Instant now) {
  states_.erase(worker_id);
  if (Model* const known = ModelOf(model, now)) known->left_on_its_own = true;
  Tell(worker_id, model, "left", now);
}

void FleetJournal::OnLost(const std::string& worker_id, const std::string& model, LostReason reason,
                          const Aftermath& requests, Instant now) {
  states_.erase(worker_id);
  if (Model* const known = ModelOf(model, now)) known->left_on_its_own = false;
  std::erase_if(lost_, [&](const Lost& lost) { return lost.worker.worker_id == worker_id; });
  const bool is_back = reason == LostReason::kRestarted;  // by the hello that told of it
  LostWorker lost{worker_id, model, NameOf(reason), 0, requests, is_back};
  lost_.push_back({now, std::move(lost)});
  if (lost_.size() > kMaxLost) lost_.pop_front();
  Tell(worker_id, model, LossText(reason, requests), now);
}

void FleetJournal::Count(const std::string& name, Model& model, const WorkerCounts& counts, Instant now) {
  const bool was_served = model.workers.ready() > 0;
  const bool is_served = counts.ready() > 0;
  model.workers = counts;
  if (was_served == is_served) return;
  model.since = now;
  Tell("", name, is_served ? "is served" : "no worker takes requests", now);
}

std::vector<std::string> FleetJournal::Observe(const std::vector<Observed>& workers, Instant now) {
  if (!began_) began_ = now;
  std::map<std::string, WorkerCounts> counts;
  for (const Observed& worker : workers) {
    counts[worker.model].Add(worker.state);
    const auto [known, is_new] = states_.try_emplace(worker.worker_id, worker.state);
    const WorkerState before = std::exchange(known->second, worker.state);
    const bool is_told = is_new ? worker.state != WorkerState::kStarting : before != worker.state;
    if (is_told) Tell(worker.worker_id, worker.model, TextOf(worker), now);
  }
  for (const auto& [name, of_model] : counts) static_cast<void>(ModelOf(name, now));
  std::vector<std::string> forgotten;
  for (auto& [name, model] : models_) {
    const auto found = counts.find(name);
    Count(name, model, found == counts.end() ? WorkerCounts() : found->second, now);
    const bool is_gone = model.workers.all() == 0 && model.left_on_its_own && now - model.since >= kMemory;
    if (is_gone) forgotten.push_back(name);
  }
  for (const std::string& name : forgotten) models_.erase(name);
  while (!lost_.empty() && now - lost_.front().at >= kMemory) lost_.pop_front();
  return forgotten;
}

std::map<std::string, WorkerCounts> FleetJournal::Counts() const {
  std::map<std::string, WorkerCounts> counts;
  for (const auto& [name, model] : models_) counts.emplace(name, model.workers);
  return counts;
}

FleetStanding FleetJournal::StandingAt(Instant now) const {
  FleetStanding standing;
  standing.up_seconds = began_ ? ToSeconds(now - *began_) : 0;
  for (const auto& [name, model] : models_) {
    standing.models.push_back({.model = name,
                               .workers = model.workers,
                               .seconds = ToSeconds(now - model.since),
                               .left_on_its_own = model.left_on_its_own});
  }
  for (auto lost = lost_.rbegin(); lost != lost_.rend(); ++lost) {
    standing.lost.push_back(lost->worker);
    standing.lost.back().seconds_ago = SecondsSince(*lost, now);
  }
  for (auto event = events_.rbegin(); event != events_.rend(); ++event) {
    standing.events.push_back(event->event);
    standing.events.back().seconds_ago = SecondsSince(*event, now);
  }
  return standing;
}

}  // namespace roost::router
