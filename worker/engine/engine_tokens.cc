// The end of a step: its tokens are taken, and each goes on or ends its choice. engine_step.cc draws the time line.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "worker/engine/engine_state.h"
#include "worker/sample/sampler.h"

namespace roost::worker {

namespace {

wire::TokenLogprobs LogprobsAt(std::span<const kernels::LogprobsRow> rows, const Scores& scores, std::uint32_t index) {
  const kernels::LogprobsRow& row = rows[index];
  return LogprobsOf(scores.tokens[index], scores.top.subspan(row.first_top, row.top_count));
}

// Routers send an overloaded worker's requests elsewhere again and again; this one would fill the others too.
Result<TokenId> NoMemoryForLists() {
  return InvalidArgument("", "the device has no memory for the penalties and biases of so many different tokens");
}

// All tokens are forbidden: by the request's constraint, its stop tokens before min_output_tokens, or its biases. This
// is the request's fault, not the worker's.
Result<TokenId> DrawnToken(const Choice& choice, const kernels::SampledToken& sampled) {
  const Request& request = *choice.request;
  const bool forbids = !request.constraint_field.empty() || !request.early_biases.empty() || !request.biases.empty();
  if (sampled.status != kernels::SampleStatus::kAllMinusInfinity || !forbids) return TokenOf(sampled);
  const bool is_constrained = !request.constraint_field.empty();
  return InvalidArgument(is_constrained ? request.constraint_field : "min_tokens",
                         "leaves no token: all others are forbidden by the request's stop tokens or biases");
}

// No number, or infinite: the worker's fault, or that of the blocks that it found.
bool IsBroken(const kernels::SampledToken& sampled) {
  return sampled.status == kernels::SampleStatus::kNotANumber || sampled.status == kernels::SampleStatus::kInfinite;
}

void NoteEnd(const Choice& choice, StepCounts& counts) {
  if (choice.first_token) counts.decode_seconds.push_back(ToSeconds(*choice.last_token - *choice.first_token));
}

}  // namespace

// Waits for the tokens of the step under way; further calls return the same tokens.
std::span<const kernels::SampledToken> Engine::State::SampledUnderWay() {
  if (!sampled_under_way) {
    const std::span<const kernels::SampledToken> tokens = model.AwaitSampled();
    sampled_under_way = {tokens, clock.Now()};
  }
  return sampled_under_way->tokens;
}

// A step that began while another one was being computed is timed from the end of that one.
void Engine::State::Finish(StepUnderWay& step, StepReport& report) {
  is_under_way = false;
  const std::span<const kernels::SampledToken> tokens = SampledUnderWay();
  const Instant end = std::exchange(sampled_under_way, std::nullopt)->time;
  model.AwaitFinished();
  ++step_number;
  publisher.OnFinish();
  const Duration step_time = end - std::max(step.begin, last_end);
  last_end = end;
  if (step.computes()) {
    scheduler.NotePace({step.prefill_token_count, step.decode_token_count, ToSeconds(step_time)},
                       step.tokens_before_prefill);
    report.load.step_seconds = ToSeconds(step_time);
    report.load.step_prefill_tokens = step.prefill_token_count;
    report.load.step_decode_tokens = step.decode_token_count;
  }
  TakeSamples(step, tokens, end, report);
  step.writes.clear();
}

std::span<const float> Engine::State::LogitsOf(std::uint32_t row) {
  const std::size_t vocab_size = model.shape().vocab_size;
  return model.Logits().subspan(row * vocab_size, vocab_size);
}

// Skips choices that have ended meanwhile. The end of one choice may end the other choices of its request.
void Engine::State::TakeSamples(const StepUnderWay& step, std::span<const kernels::SampledToken> sampled, Instant now,
                                StepReport& report) {
  ROOST_CHECK(sampled.size() == step.choices.size(), "{} tokens for {} draws", sampled.size(), step.choices.size());
  const Scores scores = model.AwaitedScores();
  ROOST_CHECK(scores.tokens.size() == step.scores.size(), "{} scores of {}", scores.tokens.size(), step.scores.size());
  TellPromptLogprobs(step, scores, report);
  report.tokens.reserve(report.tokens.size() + sampled.size());
  report.counts.inter_token_seconds.reserve(sampled.size());
  for (const StepUnderWay::WantedRow& row : step.wanted) {
    if (verifier.Owns(row.sequence)) {
      Verify(LogitsOf(row.row), report.counts);
      continue;
    }
    const Choice* first = requests.FindChoice(row.sequence);
    const bool is_broken = row.draw_count > 0 && IsBroken(sampled[row.first_draw]);
    if (first != nullptr && !first->request->prompt_counted && !is_broken) {
      verifier.OnPromptComputed(scheduler.Get(row.sequence), [this, &row] { return LogitsOf(row.row); });
    }
    for (std::uint32_t draw = row.first_draw; draw < row.first_draw + row.draw_count; ++draw) {
      Choice* choice = requests.FindChoice(step.choices[draw]);
      if (choice == nullptr) break;  // a choice with broken logits has ended all choices
      if (is_broken && ComputeAgain(step.choices[draw], report.counts)) continue;
      const bool wants_logprobs = choice->request->output_logprobs.has_value();
      const Result<TokenId> token = row.is_refused ? NoMemoryForLists() : DrawnToken(*choice, sampled[draw]);
      TakeSample(step.choices[draw], *choice, token, now, report);
      wire::TokenEvent& event = report.tokens.back().event;
      if (!wants_logprobs || event.tokens.empty()) continue;
      event.logprobs.push_back(LogprobsAt(step.scores, scores, row.first_score + draw - row.first_draw));
    }
  }
  scheduler.CommitResolved();
}

void Engine::State::TellPromptLogprobs(const StepUnderWay& step, const Scores& scores, StepReport& report) {
  for (const StepUnderWay::ScoredPrompt& prompt : step.scored_prompts) {
    const Choice* const choice = requests.FindChoice(prompt.sequence);
    if (choice == nullptr) continue;
    RequestEvent& event = report.tokens.emplace_back();
    choice->Address(event);
    for (std::uint32_t i = prompt.first_score; i < prompt.first_score + prompt.count; ++i) {
      event.event.prompt_logprobs.push_back(LogprobsAt(step.scores, scores, i));
    }
  }
}

void Engine::State::Verify(std::span<const float> logits, StepCounts& counts) {
  const HitVerifier::Judgement judgement = verifier.Judge(logits);
  if (judgement.is_right) {
    ++counts.verified_hits;
  } else {
    ++counts.wrong_hits;
    spdlog::error("a prompt has different logits with its cached blocks and without them");
    counts.distrusted_blocks += holds.Distrust(judgement.sources, erasures);
    erasures.DiscardPrefix(judgement.sequence);
  }
  scheduler.Remove(judgement.sequence);
}

// The logits are broken: if the choice has found blocks in the cache, these leave, because any of them may be wrong:
// one that was computed here, if memory is broken, or one that came from elsewhere. It is computed again without them,
// once. It goes on as a sequence that has its tokens as its prompt; steps that have begun for the old one count for
// nothing. False: it has to end.
bool Engine::State::ComputeAgain(SequenceId id, StepCounts& counts) {
  Choice& choice = *requests.FindChoice(id);
  const Request& request = *choice.request;
  const Sequence& sequence = scheduler.Get(id);
  if (sequence.cached_token_count == 0) return false;
  spdlog::error("logits are not numbers behind {} cached tokens, which are discarded", sequence.cached_token_count);
  counts.distrusted_blocks += holds.Distrust(SourcesOf(cache, sequence.blocks), erasures);
  erasures.DiscardPrefix(id);
  const bool has_told_scores = request.prompt_logprobs.has_value();
  if (std::exchange(choice.again, Choice::Again::kBegun) != Choice::Again::kNo || has_told_scores) return false;
  const auto known = std::span(sequence.tokens).first(sequence.known_count());
  const Result<SequenceId> again = scheduler.Submit({.root = sequence.root,
                                                     .own = sequence.own,
                                                     .prompt = {known.begin(), known.end()},
                                                     .priority = wire::kMaxPriority,
                                                     .cache_mode = sequence.cache_mode,
                                                     .group = sequence.group,
                                                     .tenant = cache.tenants().name(sequence.tenant),
                                                     .prompt_retention = sequence.prompt_retention,
                                                     .decode_retention = sequence.decode_retention,
                                                     .lifetimes = sequence.lifetimes,
                                                     .session = sequence.session,
                                                     .max_output_tokens = request.output_limit - choice.output_count});
  if (!again.ok()) return false;
  choice.counts = {};  // its row has counted the draw that comes again
  requests.Replace(id, *again);
  scheduler.Remove(id);
  return true;
}

// Applies a sampled token to its choice: one more token, or the end, or both.
void Engine::State::TakeSample(SequenceId id, Choice& choice, const Result<TokenId>& sample, Instant now,
                               StepReport& report) {
  Request& request = *choice.request;
  const Sequence& sequence = scheduler.Get(id);
  if (!std::exchange(request.prompt_counted, true)) {
    report.counts.prompt_tokens += sequence.prompt_token_count;
    report.counts.cached_prompt_tokens += sequence.cached_token_count;
    const Scheduler::PrefillTimes times = scheduler.PrefillTimesOf(sequence);
    report.counts.saved_prefill_seconds += times.saved_seconds;
    report.counts.computed_prefill_seconds += times.computed_seconds;
  }
  RequestEvent& event = report.tokens.emplace_back();
  if (!sample.ok()) {
    for (const SequenceId each : request.sequences) erasures.Discard(each);
    event = End(id, wire::FinishReason::kError, sample.error());
    return;
  }
  if (choice.again == Choice::Again::kBegun) {
    choice.again = Choice::Again::kSound;
    ++report.counts.wrong_hits;
  }
  const TokenId token = *sample;
  if (request.StopsAt(token)) {
    NoteEnd(choice, report.counts);
    event = End(id, wire::FinishReason::kStop, std::nullopt);
    event.event.stop_token = token;
    return;
  }
  NoteToken(choice, now, report.counts);
  wire::StepTokens tokens{token};
  Result<std::optional<wire::FinishReason>> ending = GoOn(choice, sequence, tokens, now, report.counts);
  if (!ending.ok()) {
    event = End(id, wire::FinishReason::kError, std::move(ending).error());
    return;
  }
  if (ending->has_value()) {
    NoteEnd(choice, report.counts);
    event = End(id, **ending, std::nullopt);
    event.event.tokens = std::move(tokens);
    return;
  }
  if (sequence.awaited_draw) {
    scheduler.Resolve(id, token);
  } else {
    scheduler.Append(id, std::span(tokens.begin(), tokens.size()));
  }
  choice.Address(event);
  event.event.tokens = std::move(tokens);
  Announce(request, sequence, event.event);
}

// The time to the first token counts once per request; the first tokens of all its choices come at the same time.
void NoteToken(Choice& choice, Instant now, StepCounts& counts) {
  if (choice.last_token) {
    counts.inter_token_seconds.push_back(ToSeconds(now - *choice.last_token));
  } else if (choice.index == 0) {
    counts.ttft_seconds.push_back(ToSeconds(now - choice.request->submitted));
    counts.prefill_seconds.push_back(ToSeconds(now - choice.request->first_scheduled.value_or(now)));
  }
  if (!choice.first_token) choice.first_token = now;
  choice.last_token = now;
  ++choice.output_count;
  ++counts.output_tokens;
}

}  // namespace roost::worker
