#include "router/route/log/worker_shares.h"

#include <algorithm>

namespace roost::router {

namespace {

double PrefillCost(const Candidate& candidate) {
  return candidate.pace *
         (candidate.work_seconds() + candidate.delay_seconds + candidate.stall_seconds + candidate.displaced_seconds);
}

std::uint32_t CountSince(Instant begin, const std::vector<Instant>& times) {
  return static_cast<std::uint32_t>(
      std::count_if(times.begin(), times.end(), [begin](Instant time) { return time >= begin; }));
}

}  // namespace

WorkerShares::WorkerShares(const DecisionLog& log) {
  log.VisitLatest([this](const DecisionRecord& record) { Count(record); });
}

void WorkerShares::Count(const DecisionRecord& record) {
  OfModel& model = models_[record.served_model];
  if (model.decisions.size() == kDecisions) return;
  model.decisions.push_back(record.decided_at);
  model.workers[record.worker_id].taken.push_back(record.decided_at);
  model.matched_tokens += record.decision.matched_tokens;
  const std::vector<Candidate>& candidates = record.decision.candidates;
  const auto chosen = std::find_if(candidates.begin(), candidates.end(),
                                   [&](const Candidate& candidate) { return candidate.slot == record.decision.slot; });
  if (chosen == candidates.end()) return;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& other = candidates[i];
    Tally& tally = model.workers[record.candidate_ids[i]];
    tally.matched_tokens += other.held_tokens();
    if (other.slot == chosen->slot) continue;
    ++tally.compared;
    tally.queue_seconds += other.wait_seconds() - chosen->wait_seconds();
    tally.prefill_seconds += PrefillCost(other) - PrefillCost(*chosen);
    tally.answer_seconds += other.pace * other.answer_seconds - chosen->pace * chosen->answer_seconds;
  }
}

std::string_view WorkerShares::Tally::Why(bool others_hold_some) const {
  if (others_hold_some && matched_tokens == 0) return "it holds nothing that is asked for";
  if (compared == 0) return "others hold more of the prompts, or have less to do";
  const double most = std::max({queue_seconds, prefill_seconds, answer_seconds});
  if (most <= 0) return "others cost as little, and take turns with it";
  if (most == prefill_seconds) return "it would have to compute more of the prompts than those that took them";
  if (most == queue_seconds) return "prompts would wait longer there";
  return "answers would take longer there";
}

WorkerShare WorkerShares::Of(std::string_view model, std::string_view worker_id, std::size_t worker_count,
                             Instant came_at) const {
  const auto found = models_.find(model);
  if (found == models_.end()) return {};
  const OfModel& of_model = found->second;
  const auto place = of_model.workers.find(worker_id);
  const Tally tally = place == of_model.workers.end() ? Tally{} : place->second;
  const std::uint32_t taken = CountSince(came_at, tally.taken);
  const std::uint32_t decisions = CountSince(came_at, of_model.decisions);
  const bool is_known = decisions >= kMinDecisions;
  const bool takes_few = std::size_t{2} * taken * worker_count < decisions;
  return {.taken = taken,
          .decisions = decisions,
          .why = is_known && takes_few ? tally.Why(of_model.matched_tokens > 0) : std::string_view()};
}

}  // namespace roost::router
