// One step of the engine. With plan_ahead the host plans and begins the next step while the model computes the current
// one, and then takes the current step's tokens:
//
//   host     plan 1  begin 1  plan 2  begin 2  tokens of 1  plan 3  begin 3  tokens of 2
//   device                    [─────── 1 ───────][─────── 2 ───────][─────── 3 ──────…
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/base/check.h"
#include "worker/engine/engine_state.h"
#include "worker/sample/sampler.h"
#include "worker/sample/token_counts.h"

namespace roost::worker {
namespace {

// All choices of a request draw at the same position of the automaton, so they share a mask row.
void PlanMask(const Sequence& sequence, kernels::SampleRow& draw, StepUnderWay& step) {
  draw.has_mask = true;
  if (step.masks.empty() || step.masks.back().sequence != sequence.id) {
    step.masks.push_back({.sequence = sequence.id, .awaited_draw = sequence.awaited_draw});
  }
  draw.mask_row = static_cast<std::uint32_t>(step.masks.size() - 1);
}

}  // namespace

StepReport Engine::State::Step() {
  StepReport report;
  EndLateConstrained();
  TakeConstrained();
  const Instant begin = clock.Now();  // not earlier than the receive time of any request just taken
  report.tokens = std::exchange(pending_events, {});
  scheduler.AdvanceTo(begin);
  EndExpired(begin, report);
  erasures.Continue(kErasedPerStep);
  holds.HandOver();
  scheduler.arrivals().EndUnwanted(begin, [this](BlockHash block, std::uint32_t position) {
    return scheduler.sequences().Wants(block, position) || constraints.Wants(block, position);
  });

  if (is_under_way) AwaitTokens(under_way);
  const bool has_next = Begin(begin, report.counts);
  if (is_under_way) Finish(under_way, report);
  std::swap(under_way, next);
  is_under_way = has_next;
  if (is_under_way && !options.plan_ahead) Finish(under_way, report);

  publisher.Publish();
  if (options.disk != nullptr) disk_offers.HandOver(publisher.finished_count());
  // The end of an arrival may be what a sequence waited for.
  awaits_blocks_only =
      !is_under_way && !scheduler.arrivals().has_ended() && scheduler.AwaitsArrivalsUntil().has_value();
  if (scheduler.arrivals().has_ended()) holds.Answer(clock.Now(), report);
  erasures.PassOn(report.answers);
  FillReport(report);
  if (options.check_invariants) {
    const Result<void> sound = scheduler.CheckInvariants();
    ROOST_CHECK(sound.ok(), "{}", sound.error().ToString());
  }
  return report;
}

void Engine::State::EndExpired(Instant now, StepReport& report) {
  while (const Request* request = requests.FirstPastDeadline(now)) {
    const char* const where = request->first_scheduled ? "before the last token" : "in the worker's queue";
    const Error error{ErrorCode::kDeadlineExceeded, fmt::format("the deadline passed {}", where), ""};
    report.tokens.push_back(End(request->sequences.front(), wire::FinishReason::kError, error));
  }
  for (const SequenceId id : scheduler.Expired(now)) {
    if (requests.FindChoice(id) == nullptr) continue;  // a sequence of the hit verifier
    const Error error{ErrorCode::kOverloaded, "waited too long in the worker's queue", ""};
    report.tokens.push_back(End(id, wire::FinishReason::kError, error));
  }
}

// Lets the choices of `step` continue with the tokens that it will draw, whatever they are. If such a token ends the
// output, one token too many is computed, and dropped.
void Engine::State::AwaitTokens(const StepUnderWay& step) {
  for (const StepUnderWay::WantedRow& row : step.wanted) {
    if (row.is_last) continue;
    for (std::uint32_t draw = row.first_draw; draw < row.first_draw + row.draw_count; ++draw) {
      const SequenceId choice = step.choices[draw];
      if (requests.FindChoice(choice) != nullptr) scheduler.AppendAwaited(choice, draw);
    }
  }
}

// Begins the next step, if there is something to compute or to write. Its blocks count as ready from here on, because
// whatever reads them is computed later.
bool Engine::State::Begin(Instant now, StepCounts& counts) {
  next.writes.clear();
  scheduler.arrivals().Advance(now, next.writes);
  const std::vector<ScheduledSlice>& slices = scheduler.Schedule();
  if (slices.empty() && next.writes.empty()) return false;
  next.begin = now;
  next.prefill_token_count = 0;
  next.decode_token_count = 0;
  next.tokens_before_prefill = 0;
  for (const ScheduledSlice& slice : slices) {
    (slice.is_decode ? next.decode_token_count : next.prefill_token_count) += slice.token_count;
    if (!slice.is_decode) next.tokens_before_prefill += TokensBefore(slice.first_position, slice.token_count);
  }
  BuildBatch(slices, now, counts);
  PlanDraws(slices, next);
  draws.mask_count = static_cast<std::uint32_t>(next.masks.size());
  publisher.OnBegin();
  model.Compute(batch, draws);
  scheduler.Commit();
  BeginChoices(next);
  return true;
}

void Engine::State::BuildBatch(const std::vector<ScheduledSlice>& slices, Instant now, StepCounts& counts) {
  batch.Clear();
  for (const ArrivedWrite& write : next.writes) batch.writes.push_back({.to = write.to, .bytes = write.frame.data()});
  for (const ScheduledCopy& copy : scheduler.copies()) {
    batch.copies.push_back({.from = copy.from, .to = copy.to, .row_count = copy.row_count});
  }
  PoisonEmptied();
  for (const ScheduledSlice& slice : slices) {
    if (!slice.is_decode) NoteFirstScheduled(*slice.sequence, now, counts);
    const auto begin = slice.sequence->tokens.begin() + slice.first_position;
    batch.tokens.insert(batch.tokens.end(), begin, begin + slice.token_count);
    if (slice.wants_logits && slice.sequence->awaited_draw) {
      const auto last = static_cast<std::uint32_t>(batch.tokens.size() - 1);
      batch.sampled_places.push_back({.index = last, .draw = *slice.sequence->awaited_draw});
    }
    batch.slices.push_back({.blocks = slice.sequence->blocks,
                            .first_position = slice.first_position,
                            .token_count = slice.token_count,
                            .logits_count = slice.scored_token_count + (slice.wants_logits ? 1 : 0)});
  }
}

// Poisons the blocks that were freed or reused. A block that this step still copies from is left out, although it has
// been evicted.
void Engine::State::PoisonEmptied() {
  for (const BlockId block : pool.TakeEmptied()) {
    const bool is_source = std::any_of(batch.copies.begin(), batch.copies.end(),
                                       [block](const BlockCopy& copy) { return copy.from == block; });
    if (!is_source) batch.poisoned.push_back(block);
  }
}

void Engine::State::NoteFirstScheduled(const Sequence& sequence, Instant now, StepCounts& counts) {
  const Choice* choice = requests.FindChoice(sequence.id);
  if (choice == nullptr || choice->request->first_scheduled) return;
  Request& request = *choice->request;
  request.first_scheduled = now;
  counts.queue_wait_seconds.push_back(ToSeconds(now - request.submitted));
  watch.OnStarted(request, sequence);
}

namespace {

void ForgetCounts(kernels::SampleRow& draw) {
  draw.penalties = {};
  draw.has_counts = draw.resets_counts = draw.has_newest = false;
  draw.counts_row = draw.counted_count = 0;
}

}  // namespace

// One draw for each choice of a request. When the prompt has just been computed, all choices draw from the same row.
void Engine::State::PlanDraws(const std::vector<ScheduledSlice>& slices, StepUnderWay& step) {
  step.wanted.clear();
  step.scored_prompts.clear();
  step.choices.clear();
  step.counts.clear();
  step.masks.clear();
  draws.Clear();
  count_rows.BeginStep();
  draws.feed_next_batch = options.plan_ahead;
  std::uint32_t token_count = 0;  // in the slices up to and with this one
  std::uint32_t row_count = 0;    // rows of logits that they want
  for (const ScheduledSlice& slice : slices) {
    token_count += slice.token_count;
    if (slice.scored_token_count > 0) PlanPromptScores(slice, row_count, step);
    row_count += slice.scored_token_count;
    if (!slice.wants_logits) continue;
    const SequenceId id = slice.sequence->id;
    step.wanted.push_back(
        {.sequence = id, .row = row_count++, .first_draw = static_cast<std::uint32_t>(draws.rows.size())});
    Choice* choice = requests.FindChoice(id);
    if (choice != nullptr) PlanDrawsOf(slice, *choice, token_count - 1, step);
  }
  step.scores = draws.scored;
}

// The logits of each token score the next token.
void Engine::State::PlanPromptScores(const ScheduledSlice& slice, std::uint32_t first_row, StepUnderWay& step) {
  const Sequence& sequence = *slice.sequence;
  const Request& request = *requests.FindChoice(sequence.id)->request;
  step.scored_prompts.push_back({.sequence = sequence.id,
                                 .first_score = static_cast<std::uint32_t>(draws.scored.size()),
                                 .count = slice.scored_token_count});
  for (std::uint32_t i = 0; i < slice.scored_token_count; ++i) {
    draws.Score({.row = first_row + i,
                 .token = sequence.tokens[slice.first_scored + i + 1],
                 .top_count = request.prompt_logprobs.value_or(0)});
  }
}

// The output before this draw is the choice's output plus the token that is still awaited, if there is one.
void Engine::State::PlanDrawsOf(const ScheduledSlice& slice, Choice& choice, std::uint32_t last_token,
                                StepUnderWay& step) {
  const Request& request = *choice.request;
  const Sequence& sequence = *slice.sequence;
  const std::uint32_t output_count = choice.output_count + (sequence.awaited_draw ? 1 : 0);
  StepUnderWay::WantedRow& row = step.wanted.back();
  row.draw_count = sequence.fork_count + 1;
  row.is_last = output_count + 1 == request.output_limit;
  row.first_score = static_cast<std::uint32_t>(draws.scored.size());
  const std::uint64_t output_index = request.first_output_index + output_count;
  const bool is_early = output_index < request.min_output_tokens;
  const auto first_counted = static_cast<std::uint32_t>(draws.counted.size());
  std::span<const kernels::LogitBias> biases = is_early ? request.early_biases : request.biases;
  for (std::uint32_t fork = 0; fork < row.draw_count; ++fork) {
    kernels::SampleRow draw = DrawOf(request.sampling, output_index);
    draw.seed += choice.index + fork;
    draw.row = row.row;
    draw.newest = last_token;
    draw.first_counted = first_counted;
    CountRows::Place counts = PlanCounts(sequence, choice, fork == 0 ? choice.counts : CountRows::Place(), draw);
    const bool has_lists = draw.resets_counts || !biases.empty();
    if (has_lists && !model.MakeRoomFor({draws.biases.size() + biases.size(), draws.counted.size()})) {
      row.is_refused = true;
      draws.counted.resize(first_counted);
      biases = {};
      counts = {};
      ForgetCounts(draw);
    }
    if (fork == 0) choice.counts = counts;
    step.counts.push_back(counts);
    if (choice.constrained != nullptr) PlanMask(sequence, draw, step);
    if (request.output_logprobs) {
      draws.Score({.row = row.row,
                   .is_drawn = true,
                   .draw = static_cast<std::uint32_t>(draws.rows.size()),
                   .top_count = *request.output_logprobs});
    }
    draws.Add(draw, biases);
    step.choices.push_back(sequence.id);
  }
}

// If the counts row has every token of the output but the newest, the device counts that one itself, whether the host
// knows it yet or not. Otherwise all known tokens are sent; the draws of several choices, which begin with the same
// tokens, share the list.
CountRows::Place Engine::State::PlanCounts(const Sequence& sequence, const Choice& choice, CountRows::Place place,
                                           kernels::SampleRow& draw) {
  draw.penalties = PenaltiesOf(choice.request->sampling);
  draw.has_counts = Penalizes(draw.penalties);
  if (!draw.has_counts) return {};
  const std::uint64_t before_count = draw.output_index;
  draw.resets_counts = !count_rows.Touch(place) || place.counted_count + 1 != before_count;
  if (draw.resets_counts) {
    const auto known = std::span(sequence.tokens).first(sequence.known_count());
    const std::uint64_t known_output = before_count - (sequence.awaited_draw ? 1 : 0);
    if (draws.counted.size() == draw.first_counted) AppendCounts(draw.penalties, known, known_output, draws.counted);
    draw.counted_count = static_cast<std::uint32_t>(draws.counted.size()) - draw.first_counted;
    place = count_rows.Take();
  }
  draw.has_newest = !draw.resets_counts || sequence.awaited_draw.has_value();
  draw.counts_row = place.row;
  place.counted_count = before_count;
  return place;
}

// This step computes the prompts of some requests. Their other choices begin here and continue from the same row as the
// first one.
void Engine::State::BeginChoices(StepUnderWay& step) {
  for (const StepUnderWay::WantedRow& row : step.wanted) {
    for (std::uint32_t index = 1; index < row.draw_count; ++index) {
      const std::uint32_t draw = row.first_draw + index;
      const Choice& first = *requests.FindChoice(row.sequence);
      const SequenceId fork = scheduler.Fork(row.sequence);
      Choice& choice = requests.AddChoice(*first.request, fork, index);
      choice.counts = step.counts[draw];
      if (first.constrained != nullptr) choice.constrained = first.constrained->Fork();
      step.choices[draw] = fork;
    }
  }
}

void Engine::State::FillReport(StepReport& report) {
  constexpr Duration kMemoryInterval = std::chrono::seconds(1);
  const Instant now = clock.Now();
  report.step_number = step_number;
  cache.TakeEvents(report.events);
  watch.Fill(now, report);
  if (now >= next_memory_look) {
    next_memory_look = now + kMemoryInterval;
    report.device_memory = model.DeviceMemory();
  }
  report.counts.uncached_requests = std::exchange(uncached_requests, 0);
  report.counts.shortened_retentions = std::exchange(shortened_retentions, 0);
  report.free_blocks = pool.free_count();
  report.referenced_blocks = pool.referenced_count();
  report.idle_blocks = pool.idle_count();
  const wire::Load step = std::exchange(report.load, scheduler.Load());
  report.load.step_prefill_tokens = step.step_prefill_tokens;
  report.load.step_decode_tokens = step.step_decode_tokens;
  report.load.step_seconds = step.step_seconds;
  if (options.disk != nullptr) TakeDiskNews(report);
  report.submit_count = submit_count;
  ListPrompts(report.prompts);
}

void Engine::State::TakeDiskNews(StepReport& report) {
  DiskNews news = options.disk->TakeNews();
  std::move(news.events.begin(), news.events.end(), std::back_inserter(report.events));
  report.load.disk_block_count = news.block_count;
  report.load.disk_digest = news.digest;
  report.load.disk_bytes_per_second = news.bytes_per_second;
  report.load.block_bytes = options.disk->frame_bytes();
  erasures.TakeErased(news.erased, report.answers);
}

void Engine::State::ListPrompts(std::vector<LinkPrompt>& prompts) const {
  const auto list = [&](const Sequence& sequence, std::uint32_t uncached_tokens) {
    const Choice* const choice = requests.FindChoice(sequence.id);
    if (choice == nullptr) return;  // a sequence of the hit verifier
    if (prompts.empty()) prompts.reserve(kMaxReportedPrompts);
    prompts.push_back({choice->request->key, choice->request->submitted, uncached_tokens});
  };
  scheduler.VisitQueued(kMaxReportedPrompts, list);
}

}  // namespace roost::worker
