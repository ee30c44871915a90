#include "router/fleet/requests/decider.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "router/route/candidates.h"

namespace roost::router {

std::optional<Placement> Decider::Decide(const PlacementQuery& query, Instant now) {
  const GenerateSpec& spec = query.spec;
  const FleetView* const fleet = worker_registry_.FleetOf(*spec.model);
  if (fleet == nullptr) return std::nullopt;
  RouteQuery route{.prompt_token_count = query.prompt_token_count,
                   .sample_count = query.sample_count,
                   .answer = {.own = lengths_.Expect(spec.model->model_name(), spec.generate.session_hash,
                                                     spec.generate.max_output_tokens),
                              .of_others = lengths_.MeanOf(spec.model->model_name())},
                   .stage = StageIn(*fleet),
                   .needs = wire::NeedsOf(spec.generate),
                   .adapter = spec.model->adapter(),
                   .matches = query.matches,
                   .block_hashes = spec.generate.block_hashes,
                   .session_hash = spec.generate.session_hash,
                   .cache_key_hash = spec.cache_key_hash,
                   .min_copies = wishes_.min_copies,
                   .slo = wishes_.slo,
                   .transfers = query.may_pull ? TransfersOrNone() : nullptr,
                   .waiting_bound = query.waiting_bound,
                   .now = now};
  // A request that does not use the cache gains nothing from cached blocks.
  if (spec.generate.cache_mode == wire::CacheMode::kOff) {
    route.matches = {};
    route.block_hashes = {};
  }
  std::optional<Decision> decision = policy_.Choose(route, *fleet);
  if (!decision.has_value()) return std::nullopt;
  const DecisionAudit audit = auditor_.Audit(route, *fleet, *decision);
  if (fleet->has_roles()) ConsiderApart(route, *fleet, query.together, *decision);
  metrics_.OnDecision(policy_.name(), decision->reason);
  metrics_.OnDecisionAudit(spec.model->model_name(), *decision, audit);
  Worker& worker = worker_registry_.At(decision->slot);
  const WorkerMatch* const elsewhere = MatchElsewhere(route, worker);
  if (elsewhere != nullptr) decision->elsewhere_tokens = elsewhere->block_count * worker.hello.block_tokens;
  decision->loss = losses_.Find({spec, worker, route.matches, now}, worker_registry_);
  decision->worth = WorthOf(*fleet, *decision, audit);
  const std::uint64_t number = Log(query, *decision, audit, elsewhere, now);
  return Placement{worker, *std::move(decision), number, now};
}

// The deepest come first.
const WorkerMatch* Decider::MatchElsewhere(const RouteQuery& query, const Worker& chosen) const {
  const auto other = std::find_if(query.matches.begin(), query.matches.end(), [&](const WorkerMatch& match) {
    return match.worker != chosen.slot && worker_registry_.FindAt(match.worker) != nullptr;
  });
  return other == query.matches.end() ? nullptr : &*other;
}

void Decider::ConsiderApart(const RouteQuery& query, const FleetView& fleet, const std::optional<Together>& together,
                            Decision& decision) {
  const std::variant<Apart, Together> choice = together.has_value() ? *together : ChooseApart(query, fleet, decision);
  if (const Together* const why = std::get_if<Together>(&choice)) {
    decision.together = NameOf(*why);
    return;
  }
  const Apart& apart = std::get<Apart>(choice);
  Decision prefill = DecisionFor(apart.prefill, DecisionReason::kApart, query, fleet);
  prefill.candidates = std::move(decision.candidates);
  prefill.candidates.insert(prefill.candidates.begin(), apart.prefill);
  prefill.copy = decision.copy;
  prefill.predicted_itl_seconds = decision.predicted_itl_seconds;
  prefill.predicted_whole_seconds += decision.predicted_whole_seconds - decision.predicted_ttft_seconds;
  prefill.apart = apart;
  decision = std::move(prefill);
}

std::optional<Decision> Decider::Ask(const ServedModel& model, std::uint32_t prompt_token_count,
                                     std::span<const BlockHash> block_hashes, std::span<const WorkerMatch> matches) {
  const FleetView* const fleet = worker_registry_.FleetOf(model);
  if (fleet == nullptr) return std::nullopt;
  const double length = lengths_.MeanOf(model.model_name());
  return policy_.Choose({.prompt_token_count = prompt_token_count,
                         .answer = {.own = length, .of_others = length},
                         .stage = StageIn(*fleet),
                         .adapter = model.adapter(),
                         .matches = matches,
                         .block_hashes = block_hashes,
                         .slo = wishes_.slo,
                         .transfers = TransfersOrNone(),
                         .is_question = true},
                        *fleet);
}

double Decider::ExpectFirstToken(const Worker& worker, const ServedModel& model, std::uint32_t prompt_tokens,
                                 Instant now) const {
  const FleetView* const fleet = worker_registry_.FleetOf(model);
  const FleetSpeed speed = fleet == nullptr ? FleetSpeed{} : fleet->speed();
  const WorkerView view = ViewOf(worker);
  if (view.prefill_tokens_per_second <= 0 && !speed.is_known()) return 0;
  const double length = lengths_.MeanOf(model.model_name());
  return PredictCost({.prompt_token_count = prompt_tokens, .answer = {.own = length, .of_others = length}}, view, speed,
                     now)
      .ttft_seconds();
}

Worker* Decider::BestFor(const ServedModel& model, std::span<const BlockHash> block_hashes,
                         std::span<const WorkerMatch> matches) {
  // One token more than the blocks hold: the last token of a prompt is always computed.
  const auto prompt_tokens = static_cast<std::uint32_t>(block_hashes.size() * model.block_tokens + 1);
  std::vector<WorkerMatch> depths(matches.begin(), matches.end());
  (void)worker_registry_.CutToResumable(block_hashes, prompt_tokens, depths);
  const std::optional<Decision> decision = Ask(model, prompt_tokens, block_hashes, depths);
  return decision.has_value() ? &worker_registry_.At(decision->slot) : nullptr;
}

Decider::Prediction Decider::PredictionOf(const Placement& placement) {
  return {.number = placement.number,
          .decided_at = placement.decided_at,
          .ttft_seconds = placement.decision.predicted_ttft_seconds,
          .itl_seconds = placement.decision.predicted_itl_seconds,
          .in_seconds = placement.decision.in_seconds,
          .cached_tokens = placement.decision.matched_tokens,
          .arriving_tokens = placement.decision.arriving_tokens,
          .elsewhere_tokens = placement.decision.elsewhere_tokens};
}

void Decider::OnOutcome(const Prediction& prediction, const Found& found, Instant first_token_at) {
  log_.SetOutcome(prediction.number, {.cached_tokens = found.cached_tokens,
                                      .ttft_seconds = ToSeconds(first_token_at - prediction.decided_at),
                                      .miss = found.miss});
}

void Decider::OnPulled(const ServedModel& model, std::uint64_t number, const Pull& pull, double predicted_seconds) {
  log_.SetPulled(
      number,
      {.outcome = NameOf(pull.outcome), .block_count = pull.block_count, .bytes = pull.bytes, .seconds = pull.seconds});
  if (pull.outcome != wire::HoldOutcome::kComplete || pull.block_count == 0) return;
  metrics_.OnPullSeconds(model.model_name(), {.predicted_seconds = predicted_seconds, .actual_seconds = pull.seconds});
}

void Decider::OnAnswer(const GenerateSpec& spec, std::uint32_t answer_tokens, const Prediction& prediction,
                       const std::optional<AttemptOutput>& output) {
  lengths_.Observe(spec.model->model_name(), spec.generate.session_hash, answer_tokens);
  if (!output.has_value() || output->tokens == 0) return;
  const double seconds = ToSeconds(output->ended_at - output->first_token_at);
  const double itl = output->tokens > 1 ? seconds / (output->tokens - 1) : 0;
  log_.SetAnswer(prediction.number, {.tokens = output->tokens,
                                     .itl_seconds = itl,
                                     .whole_seconds = ToSeconds(output->ended_at - prediction.decided_at)});
  if (output->tokens < 2 || !prediction.in_seconds || prediction.itl_seconds <= 0) return;
  metrics_.OnItl(spec.model->model_name(), {.predicted_seconds = prediction.itl_seconds, .actual_seconds = itl});
}

void Decider::OnFirstToken(const ServedModel& model, const Prediction& prediction, Instant at) {
  if (!prediction.in_seconds) return;
  metrics_.OnTtft(model.model_name(), {.predicted_seconds = prediction.ttft_seconds,
                                       .actual_seconds = ToSeconds(at - prediction.decided_at)});
}

std::uint64_t Decider::Log(const PlacementQuery& query, const Decision& decision, const DecisionAudit& audit,
                           const WorkerMatch* elsewhere, Instant now) {
  DecisionRecord record{.answer_id = query.spec.answer_id,
                        .request_id = query.spec.request_id,
                        .model = query.spec.model->name,
                        .served_model = query.spec.model->model_name(),
                        .prompt_token_count = query.prompt_token_count,
                        .block_tokens = query.spec.model->block_tokens,
                        .retry_count = query.retry_count,
                        .decided_at = now,
                        .policy = std::string(policy_.name()),
                        .decision = decision,
                        .worker_id = worker_registry_.At(decision.slot).hello.worker_id,
                        .candidate_ids = {},
                        .source_ids = {},
                        .audit = audit,
                        .comparison = query.spec.comparison};
  record.candidate_ids.reserve(decision.candidates.size());
  record.source_ids.reserve(decision.candidates.size());
  for (const Candidate& candidate : decision.candidates) {
    record.candidate_ids.push_back(worker_registry_.At(candidate.slot).hello.worker_id);
    const Worker* const source =
        candidate.way() == Way::kPull ? worker_registry_.InSlot(candidate.pull->source) : nullptr;
    record.source_ids.push_back(source == nullptr ? std::string() : source->hello.worker_id);
  }
  if (elsewhere != nullptr) record.elsewhere_id = worker_registry_.At(elsewhere->worker).hello.worker_id;
  if (decision.apart.has_value()) record.decode_id = worker_registry_.At(decision.apart->decode).hello.worker_id;
  for (const HeldBlocks& held : query.held) {
    for (std::size_t i = 0; i < decision.candidates.size(); ++i) {
      if (decision.candidates[i].slot != held.worker) continue;
      record.held_tokens.resize(decision.candidates.size());
      record.held_tokens[i] = held.block_count * record.block_tokens;
    }
  }
  return log_.Add(std::move(record));
}

}  // namespace roost::router
