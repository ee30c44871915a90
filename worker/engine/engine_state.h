// The Engine's implementation. engine.cc accepts and ends requests, engine_step.cc begins steps, engine_tokens.cc
// takes their tokens.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
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
#include "worker/engine/cache_watch.h"
#include "worker/engine/constrained_output.h"
#include "worker/engine/count_rows.h"
#include "worker/engine/engine.h"
#include "worker/engine/request_table.h"
#include "worker/grammar/constrainer.h"
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

// A request that waits for its automaton.
struct ConstrainedSubmit {
  RequestKey key;
  wire::Generate generate;
  Instant received;

  [[nodiscard]] bool IsLate(Instant now) const {
    return generate.deadline_ms > 0 && generate.deadline_ms <= wire::kMaxKeepMs &&
           received + std::chrono::milliseconds(generate.deadline_ms) <= now;
  }
};

// Empty for 0. A time beyond the clock's range counts as none, too; adding it would wrap around.
[[nodiscard]] inline std::optional<Instant> After(std::uint64_t ms, Instant now) {
  if (ms == 0 || ms > wire::kMaxKeepMs) return std::nullopt;
  return now + std::chrono::milliseconds(ms);
}

// The workers that blocks came from. The names of the first kMaxNamed are kept; all others are one source.
class BlockSources {
 public:
  static constexpr std::size_t kMaxNamed = 1024;

  [[nodiscard]] SourceId IdOf(const std::string& name) {
    const auto known = ids_.find(name);
    if (known != ids_.end()) return known->second;
    if (ids_.size() == kMaxNamed) return SourceId(kMaxNamed + 1);
    return ids_.emplace(name, SourceId(static_cast<std::uint16_t>(ids_.size() + 1))).first->second;
  }
  // O(names).
  [[nodiscard]] std::string NameOf(SourceId id) const {
    const auto is_it = [id](const auto& known) { return known.second == id; };
    const auto known = std::find_if(ids_.begin(), ids_.end(), is_it);
    return known == ids_.end() ? "one of many workers" : known->first;
  }

 private:
  std::map<std::string, SourceId> ids_;
};

// The order that an arrival belongs to.
struct OpenHold {
  LinkId link;
  std::uint64_t answer_id = 0;
};

// An order to erase something, until it is complete.
struct OpenEviction {
  LinkId link;
  wire::Evict order;
  EraseStep erased = {};              // so far
  std::vector<BlockHash> chain = {};  // up to the block, when the order names one
};

struct Engine::State {
  State(Model& model, const Clock& clock, EngineOptions options);

  // ---- requests in and out (engine.cc) ----
  Result<void> Validate(RequestKey key, const wire::Generate& request) const;
  Result<void> Submit(RequestKey key, wire::Generate generate, Instant received);
  void SetOutputWishes(const wire::Generate& generate, Request& request) const;
  Result<void> Admit(RequestKey key, wire::Generate generate, Instant received, std::unique_ptr<Automaton> automaton);
  SequenceSpec SpecOf(wire::Generate& generate, Instant received) const;
  bool Shorten(RetentionHint& hint) const;
  EvictionGroup GroupOf(const std::string& tenant) const;
  void Cancel(RequestKey key);
  void CancelLink(LinkId link);
  // ---- orders (engine_orders.cc) ----
  std::optional<OrderReply> CarryOut(LinkId link, EngineOrder order);
  template <typename Order>  // one for each alternative
  std::optional<OrderReply> CarryOutOne(LinkId link, Order& order);
  [[nodiscard]] wire::PinAnswer PinsOf(std::uint64_t answer_id, std::span<const BlockHash> hashes) const;
  void KeepOut(const wire::PromptToEvict& prompt);
  void KeepOut(const wire::TenantToEvict& tenant);
  void KeepOut(const wire::BlockToEvict& block);
  void ContinueEvictions(StepReport& report);
  std::optional<OrderReply> BeginHold(LinkId link, const wire::Hold& hold, HoldReceipt receipt);
  void TakeNews();
  void EndUnwantedHolds(Instant now);
  void CountArrival(const wire::HoldAnswer& answer, StepCounts& counts) const;
  void AnswerHolds(StepReport& report);
  [[nodiscard]] EraseProgress Erase(const OpenEviction& eviction, EraseStep& step);

  void Announce(Request& request, const Sequence& sequence, wire::TokenEvent& event);
  static void Address(RequestEvent& event, const Choice& choice);
  RequestEvent End(SequenceId id, wire::FinishReason reason, std::optional<Error> error);
  void Forget(SequenceId id);
  void ForgetRequest(RequestKey key);

  // ---- constraints (engine_constraints.cc) ----
  [[nodiscard]] static Result<TokenId> DrawnToken(const Choice& choice, const kernels::SampledToken& sampled);
  Result<void> Constrain(RequestKey key, wire::Generate generate, Instant received);
  void TakeConstrained();
  [[nodiscard]] bool IsConstraining(RequestKey key) const;
  template <typename Which>
  std::vector<RequestKey> DropConstraining(const Which& which);
  void CancelConstraining(RequestKey key);
  void ForgetConstraining(LinkId link);
  void EndExpiredConstraining(Instant now);
  [[nodiscard]] bool HasConstrained() const;
  static void PlanMask(const Sequence& sequence, kernels::SampleRow& draw, StepUnderWay& step);
  void FillMasks(std::span<std::uint32_t> masks);
  std::span<const std::uint32_t> AllowedTokens(const StepUnderWay::MaskRow& row);
  [[nodiscard]] static bool Stops(const Request& request, TokenId token);
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
  SequenceId BeginChoice(SequenceId origin, std::uint32_t index, CountRows::Place counts);
  CountRows::Place PlanCounts(const Sequence& sequence, const Choice& choice, CountRows::Place place,
                              kernels::SampleRow& draw);
  void FillReport(StepReport& report);
  void ListPrompts(std::vector<LinkPrompt>& prompts) const;

  // ---- its tokens (engine_tokens.cc) ----
  std::span<const kernels::SampledToken> SampledUnderWay();
  void Finish(const StepUnderWay& step, StepReport& report);
  void TakeSamples(const StepUnderWay& step, std::span<const kernels::SampledToken> sampled, Instant now,
                   StepReport& report);
  void TellPromptLogprobs(const StepUnderWay& step, const Scores& scores, StepReport& report);
  std::span<const float> LogitsOf(std::uint32_t row);
  void Verify(std::span<const float> logits, StepCounts& counts);
  void Distrust(std::span<const SourceId> wrong, StepCounts& counts);
  void TakeSample(SequenceId id, Choice& choice, const Result<TokenId>& sample, Instant now, StepReport& report);
  void NoteToken(Choice& choice, Instant now, StepCounts& counts);
  static void NoteEnd(const Choice& choice, StepCounts& counts);

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
  std::map<std::uint64_t, ConstrainedSubmit> constraining;  // by job
  std::uint64_t last_constraining_id = 0;
  std::vector<RequestEvent> pending_events;
  std::deque<OpenEviction> evictions;
  BlockPublisher publisher;
  std::map<HoldId, OpenHold> holds;
  BlockSources sources;
  HoldId last_hold;                   // that was carried out
  std::vector<FrameNews> early_news;  // of Holds that have not been carried out yet
  bool awaits_blocks_only = false;    // after a step: nothing to do until a block comes, or an order
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
