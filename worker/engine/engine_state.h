// The Engine's implementation: one loop over parts that do not know each other (scheduler, cache, Holds, Erasures,
// ConstraintQueue, BlockPublisher). engine.cc accepts and ends requests, engine_orders.cc carries out orders,
// engine_step.cc begins steps, engine_tokens.cc takes their tokens.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/wire/messages.h"
#include "worker/cache/block_pool.h"
#include "worker/cache/prefix_cache.h"
#include "worker/disk/disk_cache.h"
#include "worker/engine/cache_watch.h"
#include "worker/engine/constrained_output.h"
#include "worker/engine/constraint_queue.h"
#include "worker/engine/count_rows.h"
#include "worker/engine/engine.h"
#include "worker/engine/erasures.h"
#include "worker/engine/holds.h"
#include "worker/engine/request_table.h"
#include "worker/model/model.h"
#include "worker/sched/scheduler.h"
#include "worker/transfer/frame_source.h"
#include "worker/transfer/readable_blocks.h"

namespace roost::worker {

// Tells ReadableBlocks which of the cache's blocks other threads may read.
//
//   commit while step n is the last that has begun ─▶ published when step n has finished, if it is still ready
//   leaves the tree                                ─▶ retracted before the next step begins, which may write to it
//
// Not thread-safe: the engine's thread.
class BlockPublisher {
 public:
  // Both outlive it. Without `readable` it does nothing.
  BlockPublisher(PrefixCache& cache, ReadableBlocks* readable);

  // The model begins the next step. Waits for copies of blocks that the step may write to.
  void OnBegin();
  // The oldest step that has begun is finished.
  void OnFinish() { ++finished_count_; }
  // At the end of the engine's step: publishes what is written, and retracts what has left.
  void Publish();

  [[nodiscard]] std::uint64_t begun_count() const { return begun_count_; }
  [[nodiscard]] std::uint64_t finished_count() const { return finished_count_; }

 private:
  struct Stored {
    BlockRef block;
    std::uint64_t step = 0;  // that may still be writing it
  };

  void TakeChanges();
  void PublishDescribed();

  PrefixCache& cache_;
  ReadableBlocks* const readable_;
  std::uint64_t begun_count_ = 0;
  std::uint64_t finished_count_ = 0;
  CacheChanges changes_;                   // since the last look
  std::deque<Stored> stored_;              // by step
  std::vector<PublishedBlock> published_;  // described, and not yet published
};

// The blocks of requests that end, on their way to the disk's queue.
//
//   a request ends ─▶ [its blocks, until the step that may still write them has finished] ─▶ DiskCache::Offer
//
// Not thread-safe. What it is given outlives it.
class DiskOffers {
 public:
  // Without `disk` it does nothing.
  DiskOffers(const PrefixCache& cache, DiskCache* disk) : cache_(cache), disk_(disk) {}

  // The sequence ends, and still has its blocks. `begun_count`: steps that have begun. O(its blocks).
  void OnEnd(const Sequence& sequence, std::uint64_t begun_count);
  // So many steps have finished, and their blocks are published.
  void HandOver(std::uint64_t finished_count);

 private:
  struct Ended {
    std::vector<DiskOffer> blocks;
    std::uint64_t step = 0;
  };

  const PrefixCache& cache_;
  DiskCache* const disk_;
  std::deque<Ended> ended_;
};

// A step that the model has begun, until the engine has taken its tokens.
struct StepUnderWay {
  // A row of logits and its draws: one draw for each choice that continues from there.
  struct WantedRow {
    SequenceId sequence;
    std::uint32_t row = 0;  // of the logits
    std::uint32_t first_draw = 0;
    std::uint32_t draw_count = 0;
    std::uint32_t first_score = 0;  // the draws' log probabilities, if the request wants them
    bool is_last = false;           // this token reaches the request's output limit
    bool is_refused = false;        // there is no memory for the lists of the draws, which went without them
  };

  // Tokens of a prompt whose log probabilities are reported.
  struct ScoredPrompt {
    SequenceId sequence;
    std::uint32_t first_score = 0;
    std::uint32_t count = 0;
  };

  // The tokens that may be drawn for this sequence.
  struct MaskRow {
    SequenceId sequence;
    std::optional<std::uint32_t> awaited_draw;  // of the previous step: its token comes before this one
  };

  std::vector<WantedRow> wanted;
  std::vector<MaskRow> masks;
  std::vector<ScoredPrompt> scored_prompts;
  std::vector<kernels::LogprobsRow> scores;  // the same as in the draws
  std::vector<SequenceId> choices;           // the choice that each draw belongs to
  std::vector<CountRows::Place> counts;      // for each draw, if it has penalties
  std::uint32_t prefill_token_count = 0;
  std::uint32_t decode_token_count = 0;
  std::uint64_t tokens_before_prefill = 0;  // see Scheduler::NotePace
  Instant begin;
  std::vector<ArrivedWrite> writes;  // of blocks that came from elsewhere

  [[nodiscard]] bool computes() const { return prefill_token_count + decode_token_count > 0; }
};

// Counts a token that the choice got, with the time since its last one.
void NoteToken(Choice& choice, Instant now, StepCounts& counts);

// Empty for 0. A time beyond the clock's range counts as none, too; adding it would wrap around.
[[nodiscard]] inline std::optional<Instant> After(std::uint64_t ms, Instant now) {
  if (ms == 0 || ms > wire::kMaxKeepMs) return std::nullopt;
  return now + std::chrono::milliseconds(ms);
}

struct Engine::State {
  State(Model& model, const Clock& clock, EngineOptions options);

  // ---- requests in and out (engine.cc) ----
  Result<void> Validate(RequestKey key, const wire::Generate& request) const;
  Result<void> Submit(RequestKey key, wire::Generate generate, Instant received);
  Result<void> Admit(RequestKey key, wire::Generate generate, Instant received, std::unique_ptr<Automaton> automaton);
  SequenceSpec SpecOf(wire::Generate& generate, Instant received) const;
  EvictionGroup GroupOf(const std::string& tenant) const;
  void TakeConstrained();
  void EndLateConstrained();
  void EndConstrained(const std::vector<ConstrainedSubmit>& gone, wire::FinishReason reason,
                      const std::optional<Error>& error);
  void Cancel(RequestKey key);
  void CancelLink(LinkId link);
  RequestEvent End(SequenceId id, wire::FinishReason reason, std::optional<Error> error);
  void Forget(SequenceId id);
  void ForgetRequest(RequestKey key);

  // ---- orders (engine_orders.cc), one for each alternative ----
  template <typename Order>
  std::optional<OrderReply> CarryOut(LinkId link, Order& order, const std::optional<HoldReceipt>& receipt);

  // ---- constraints (engine_constraints.cc) ----
  void FillMasks(std::span<std::uint32_t> masks);
  std::span<const std::uint32_t> AllowedTokens(const StepUnderWay::MaskRow& row);
  Result<std::optional<wire::FinishReason>> GoOn(Choice& choice, const Sequence& sequence, wire::StepTokens& tokens,
                                                 Instant now, StepCounts& counts);

  // ---- one step (engine_step.cc) ----
  StepReport Step();
  void EndExpired(Instant now, StepReport& report);
  void AwaitTokens(const StepUnderWay& step);
  bool Begin(Instant now, StepCounts& counts);
  void BuildBatch(const std::vector<ScheduledSlice>& slices, Instant now, StepCounts& counts);
  void PoisonEmptied();
  void NoteFirstScheduled(const Sequence& sequence, Instant now, StepCounts& counts);
  void PlanDraws(const std::vector<ScheduledSlice>& slices, StepUnderWay& step);
  void PlanPromptScores(const ScheduledSlice& slice, std::uint32_t first_row, StepUnderWay& step);
  void PlanDrawsOf(const ScheduledSlice& slice, Choice& choice, std::uint32_t last_token, StepUnderWay& step);
  void BeginChoices(StepUnderWay& step);
  CountRows::Place PlanCounts(const Sequence& sequence, const Choice& choice, CountRows::Place place,
                              kernels::SampleRow& draw);
  void FillReport(StepReport& report);
  void TakeDiskNews(StepReport& report);
  void ListPrompts(std::vector<LinkPrompt>& prompts) const;

  // ---- its tokens (engine_tokens.cc) ----
  std::span<const kernels::SampledToken> SampledUnderWay();
  void Finish(StepUnderWay& step, StepReport& report);
  void TakeSamples(const StepUnderWay& step, std::span<const kernels::SampledToken> sampled, Instant now,
                   StepReport& report);
  void TellPromptLogprobs(const StepUnderWay& step, const Scores& scores, StepReport& report);
  std::span<const float> LogitsOf(std::uint32_t row);
  void Verify(std::span<const float> logits, StepCounts& counts);
  bool ComputeAgain(SequenceId id, StepCounts& counts);
  void TakeSample(SequenceId id, Choice& choice, const Result<TokenId>& sample, Instant now, StepReport& report);

  Model& model;
  const Clock& clock;
  const EngineOptions options;
  const std::uint32_t max_context_tokens;
  BlockPool pool;
  PrefixCache cache;
  Scheduler scheduler;
  HitVerifier verifier;
  CacheWatch watch;

  RequestTable requests;
  ConstraintQueue constraints;
  Erasures erasures;
  Holds holds;
  BlockPublisher publisher;
  DiskOffers disk_offers;
  std::vector<RequestEvent> pending_events;
  bool awaits_blocks_only = false;  // after a step: nothing to do until a block comes, or an order
  std::uint64_t submit_count = 0;
  std::uint64_t uncached_requests = 0;     // since the last report
  std::uint64_t shortened_retentions = 0;  // the same

  // The step that was begun and is not finished, and the step that is begun meanwhile.
  bool is_under_way = false;
  StepUnderWay under_way;
  StepUnderWay next;
  // The tokens of the step under way once they have arrived, and the time of their arrival.
  struct Sampled {
    std::span<const kernels::SampledToken> tokens;
    Instant time;
  };
  std::optional<Sampled> sampled_under_way;
  Instant last_end;               // of a step
  Instant next_memory_look;       // at the devices' memory
  std::uint64_t step_number = 0;  // steps whose tokens have been taken

  Batch batch;
  Draws draws;  // from its rows of logits, row after row
  CountRows count_rows;
};

}  // namespace roost::worker
