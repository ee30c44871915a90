#include "router/fleet/workers/cache_view.h"

#include <algorithm>

#include "router/fleet/text_pieces.h"

namespace roost::router {

namespace {

// A worker sends its first snapshot unasked. If none comes within this time the router asks for it, and asks again
// after the same time.
constexpr Duration kSnapshotPatience = std::chrono::seconds(1);

bool IsRead(const wire::Hello& hello) { return !hello.tokenizer_digest.empty(); }

// Events name blocks of tokens, which no request's prompt has here without a tokenizer.
bool SendsUsefulEvents(const wire::Hello& hello) { return hello.sends_cache_events && IsRead(hello); }

ModeTracker::Events EventsOf(const wire::Hello& hello) {
  if (!hello.keeps_prefixes) return ModeTracker::Events::kNoBlocks;
  return SendsUsefulEvents(hello) ? ModeTracker::Events::kSent : ModeTracker::Events::kNone;
}

}  // namespace

CacheView::CacheView(PrefixIndex& index, WorkerSlot slot, const wire::Hello& hello, ModeOptions options, Instant now)
    : index_(index),
      slot_(slot),
      sends_events_(SendsUsefulEvents(hello)),
      checkpoints_(hello.checkpoints),
      is_read_(IsRead(hello)),
      block_tokens_(hello.block_tokens),
      sync_(index, slot, {.epoch = hello.epoch, .block_count = hello.block_count, .checkpoints = hello.checkpoints}),
      tracker_(EventsOf(hello), options, now),
      snapshot_due_(now + kSnapshotPatience) {
  if (tracker_.mode() == WorkerMode::kExact) return;
  sync_.Suspend();
  if (tracker_.mode() == WorkerMode::kPredicted) history_.emplace(index_, slot_);
}

ViewSync::Outcome CacheView::Apply(const wire::Step& step, Instant now) {
  const ViewSync::Outcome outcome = sync_.Apply(step);
  if (outcome == ViewSync::Outcome::kWantSnapshot) snapshot_due_ = now + kSnapshotPatience;
  if (outcome == ViewSync::Outcome::kApplied && history_.has_value()) {
    history_->Trim(PredictedCount(step.load.cached_block_count), now);
  }
  return outcome;
}

ViewSync::Outcome CacheView::Apply(const wire::Snapshot& chunk, Instant now) {
  const ViewSync::Outcome outcome = sync_.Apply(chunk);
  if (outcome != ViewSync::Outcome::kDuplicate) snapshot_due_ = now + kSnapshotPatience;
  if (sync_.in_sync()) tracker_.OnSnapshot(now);
  return outcome;
}

std::optional<ModeTracker::Change> CacheView::OnLoad(const wire::Load& load, Instant now) {
  if (!sends_events_) return std::nullopt;
  return Follow(tracker_.OnEvents(load.cache_unknown ? ModeTracker::Events::kNone : ModeTracker::Events::kSent, now),
                now);
}

void CacheView::OnComputed(std::span<const BlockHash> chain, Instant now) {
  if (history_.has_value()) history_->Use(chain, now);
}

void CacheView::ForgetPredictions() {
  if (!history_.has_value()) return;
  history_.reset();
  history_.emplace(index_, slot_);
}

void CacheView::ForgetUnusedSince(Instant at) {
  if (history_.has_value()) history_->ForgetUnusedSince(at);
}

std::optional<Instant> CacheView::UsedAt(BlockHash block) const {
  return history_.has_value() ? history_->UsedAt(block) : std::nullopt;
}

std::size_t CacheView::PredictedCount(std::uint32_t block_count) const {
  if (is_read_) return block_count;
  return std::min<std::size_t>(kMaxWorkerPieces, std::uint64_t{block_count} * block_tokens_ / kPieceTokens);
}

std::optional<ModeTracker::Change> CacheView::OnOutcome(const PromisedTokens& outcome, Instant now) {
  return Follow(tracker_.OnOutcome(outcome, now), now);
}

std::optional<ModeTracker::Change> CacheView::Tick(Instant now) { return Follow(tracker_.Tick(now), now); }

std::optional<ModeTracker::Change> CacheView::Follow(std::optional<ModeTracker::Change> change, Instant now) {
  if (!change.has_value()) return change;
  history_.reset();
  switch (change->to) {
    case WorkerMode::kExact:
      sync_.Await();
      snapshot_due_ = now;
      break;
    case WorkerMode::kPredicted:
      sync_.Suspend();
      history_.emplace(index_, slot_);
      break;
    case WorkerMode::kBlind: sync_.Suspend(); break;
  }
  return change;
}

bool CacheView::TakeSnapshotDue(Instant now) {
  if (!sync_.awaiting() || now < snapshot_due_) return false;
  snapshot_due_ = now + kSnapshotPatience;
  return true;
}

}  // namespace roost::router
