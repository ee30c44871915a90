#include "router/fleet/worker_mode.h"

namespace roost::router {

std::string_view NameOf(WorkerMode mode) {
  switch (mode) {
    case WorkerMode::kExact: return "exact";
    case WorkerMode::kPredicted: return "predicted";
    case WorkerMode::kBlind: return "blind";
  }
  return "unknown";
}

std::string_view NameOf(ModeReason reason) {
  switch (reason) {
    case ModeReason::kMissingTokens: return "missing_tokens";
    case ModeReason::kQuiet: return "quiet";
    case ModeReason::kCacheUnknown: return "cache_unknown";
    case ModeReason::kCacheKnown: return "cache_known";
  }
  return "unknown";
}

namespace {

WorkerMode FirstMode(ModeTracker::Events events) {
  switch (events) {
    case ModeTracker::Events::kSent: return WorkerMode::kExact;
    case ModeTracker::Events::kNone: return WorkerMode::kPredicted;
    case ModeTracker::Events::kNoBlocks: return WorkerMode::kBlind;
  }
  return WorkerMode::kBlind;
}

}  // namespace

ModeTracker::ModeTracker(Events events, ModeOptions options, Instant now)
    : events_(events),
      options_(options),
      mode_(FirstMode(events)),
      has_snapshot_(events != Events::kSent),
      since_(now) {}

std::optional<ModeTracker::Change> ModeTracker::OnEvents(Events events, Instant now) {
  if (events_ == Events::kNoBlocks || events == events_) return std::nullopt;
  events_ = events;
  if (events == Events::kSent) return Begin(WorkerMode::kExact, ModeReason::kCacheKnown, now);
  if (mode_ != WorkerMode::kExact) return std::nullopt;
  return Begin(WorkerMode::kPredicted, ModeReason::kCacheUnknown, now);
}

std::optional<ModeTracker::Change> ModeTracker::OnOutcome(const PromisedTokens& outcome, Instant now) {
  if (mode_ == WorkerMode::kBlind || !has_snapshot_) return std::nullopt;
  if (outcome.promised <= outcome.arriving || outcome.promised_at < since_) return std::nullopt;
  const Verdict verdict = Judge(outcome);
  if (verdict == Verdict::kOpen) return std::nullopt;
  BeginWindow(since_);
  if (verdict == Verdict::kGood) {
    on_trial_ = false;
    return std::nullopt;
  }
  if (mode_ == WorkerMode::kPredicted) return Begin(WorkerMode::kBlind, ModeReason::kMissingTokens, now);
  if (on_trial_) return Begin(WorkerMode::kPredicted, ModeReason::kMissingTokens, now);
  return Begin(WorkerMode::kExact, ModeReason::kMissingTokens, now);
}

ModeTracker::Verdict ModeTracker::Judge(const PromisedTokens& outcome) {
  const std::uint32_t promised = outcome.promised - outcome.arriving;
  promised_tokens_ += promised;
  missing_tokens_ += promised > outcome.found ? promised - outcome.found : 0;
  if (++request_count_ < options_.window_requests) return Verdict::kOpen;
  const double allowed = options_.missing_share * static_cast<double>(promised_tokens_);
  return static_cast<double>(missing_tokens_) > allowed ? Verdict::kBad : Verdict::kGood;
}

void ModeTracker::OnSnapshot(Instant now) {
  if (mode_ != WorkerMode::kExact || has_snapshot_) return;
  has_snapshot_ = true;
  BeginWindow(now);
}

std::optional<ModeTracker::Change> ModeTracker::Tick(Instant now) {
  if (events_ == Events::kNoBlocks) return std::nullopt;
  if (mode_ == WorkerMode::kExact || now - since_ < options_.quiet_time) return std::nullopt;
  if (mode_ == WorkerMode::kBlind) return Begin(WorkerMode::kPredicted, ModeReason::kQuiet, now);
  if (events_ == Events::kSent) return Begin(WorkerMode::kExact, ModeReason::kQuiet, now);
  return std::nullopt;
}

ModeTracker::Change ModeTracker::Begin(WorkerMode mode, ModeReason reason, Instant now) {
  mode_ = mode;
  on_trial_ = mode == WorkerMode::kExact;
  has_snapshot_ = mode != WorkerMode::kExact;
  BeginWindow(now);
  return {mode, reason};
}

void ModeTracker::BeginWindow(Instant now) {
  since_ = now;
  request_count_ = 0;
  promised_tokens_ = 0;
  missing_tokens_ = 0;
}

}  // namespace roost::router
