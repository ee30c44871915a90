#include "router/route/log/cache_verdict.h"

#include <fmt/format.h>

#include <algorithm>

namespace roost::router {
namespace {

using Before = PromptComparison::Before;

// At least one token of a prompt is computed, however much is cached.
std::uint32_t MostCached(const PromptOutcome& outcome) {
  const std::uint32_t full = outcome.prompt_tokens / outcome.block_tokens * outcome.block_tokens;
  return std::min(full, outcome.prompt_tokens - std::min(outcome.prompt_tokens, 1U));
}

// The cache's reason why a request found less than it could have. What an earlier request has computed, and its worker
// lacks, was evicted, however long ago the worker has forgotten that.
MissCause CacheSide(const PromptOutcome& outcome, Before before) {
  if (outcome.miss == wire::PromptMiss::kDisabled) return MissCause::kNone;
  if (outcome.miss == wire::PromptMiss::kInFlight) return MissCause::kInFlight;
  if (outcome.elsewhere_tokens > outcome.cached_tokens || outcome.miss == wire::PromptMiss::kNotArrived ||
      outcome.before == BlockLoss::Worker::kClosed) {
    return MissCause::kElsewhere;
  }
  switch (outcome.miss) {
    case wire::PromptMiss::kEvicted: return MissCause::kEvicted;
    case wire::PromptMiss::kCold:
      return outcome.before == BlockLoss::Worker::kThere ? MissCause::kEvicted : MissCause::kNeverHere;
    default: break;  // not told, or not yet
  }
  if (before != Before::kFound) return MissCause::kNone;
  const bool may_have_it = outcome.before == BlockLoss::Worker::kUnknown || outcome.before == BlockLoss::Worker::kThere;
  return may_have_it ? MissCause::kEvicted : MissCause::kNeverHere;
}

// 18200 as 18,200.
std::string Grouped(std::uint32_t number) {
  std::string text = fmt::to_string(number);
  for (std::size_t end = text.size(); end > 3; end -= 3) text.insert(end - 3, 1, ',');
  return text;
}

std::string ChangeText(const PromptComparison& comparison) {
  const auto differs = [&comparison](std::string_view what) {
    return fmt::format("{} from the request before at token {}", what, Grouped(comparison.token));
  };
  switch (comparison.change) {
    case PromptChange::kModel: return "the request before was for another model";
    case PromptChange::kScope: return "the request before had another salt";
    case PromptChange::kTools: return differs("the tools differ");
    case PromptChange::kSystem: return differs("the system prompt differs");
    case PromptChange::kMessage: return differs(fmt::format("message {} differs", comparison.message + 1));
    case PromptChange::kParameters: return differs("what the template makes of other fields differs");
    case PromptChange::kNone: break;
  }
  return "";
}

std::string EvictionText(const BlockLoss& loss, double seconds_ago) {
  const std::string of = loss.worker_id.empty() ? "" : fmt::format(" of {}", loss.worker_id);
  const std::string when = seconds_ago > 0 ? fmt::format(" within the last {:.1f} s", seconds_ago) : "";
  if (loss.worker == BlockLoss::Worker::kUnknown) return "it was evicted" + when;
  switch (loss.level) {
    case BlockLoss::Level::kMemory: return fmt::format("it was evicted from the memory{}{}", of, when);
    case BlockLoss::Level::kDisk: return fmt::format("it was evicted from memory and disk{}{}", of, when);
    case BlockLoss::Level::kEngine: return fmt::format("the engine{} keeps no promise: it was evicted{}", of, when);
    case BlockLoss::Level::kOperator: return fmt::format("an operator's order has erased it{}", when);
  }
  return "";
}

std::string AbsenceText(const BlockLoss& loss) {
  switch (loss.worker) {
    case BlockLoss::Worker::kRestarted: return fmt::format("{}, which had it, has begun again since", loss.worker_id);
    case BlockLoss::Worker::kLeft: return fmt::format("{}, which had it, has left", loss.worker_id);
    case BlockLoss::Worker::kLost: return fmt::format("{}, which had it, was lost", loss.worker_id);
    case BlockLoss::Worker::kUnknown:
    case BlockLoss::Worker::kThere:
    case BlockLoss::Worker::kClosed: break;
  }
  return "the worker has never had it, or has begun again since";
}

std::string CauseText(MissCause cause, const BlockLoss& loss, double seconds_ago, std::string_view holder) {
  switch (cause) {
    case MissCause::kEvicted: return EvictionText(loss, seconds_ago);
    case MissCause::kNeverHere: return AbsenceText(loss);
    case MissCause::kInFlight: return "another request was still computing it";
    case MissCause::kElsewhere:
      if (loss.worker == BlockLoss::Worker::kClosed) {
        return fmt::format("{}, which holds it, takes no requests now", loss.worker_id);
      }
      return fmt::format("{} holds it", holder.empty() ? "another worker" : holder);
    case MissCause::kNone:
    case MissCause::kChanged:
    case MissCause::kOtherScope: break;
  }
  return "";
}

}  // namespace

std::string_view NameOf(MissCause cause) {
  switch (cause) {
    case MissCause::kNone: return "none";
    case MissCause::kChanged: return "changed";
    case MissCause::kEvicted: return "evicted";
    case MissCause::kNeverHere: return "never_here";
    case MissCause::kInFlight: return "in_flight";
    case MissCause::kElsewhere: return "elsewhere";
    case MissCause::kOtherScope: return "other_scope";
  }
  return "none";
}

CacheVerdict VerdictOf(const PromptComparison& comparison, const PromptOutcome& outcome) {
  const bool has_before = comparison.before == Before::kFound;
  const std::uint32_t most = MostCached(outcome);
  if (comparison.change != PromptChange::kNone) {
    // A third request may have been the same as this one.
    const std::uint32_t computed = outcome.prompt_tokens - std::min(outcome.prompt_tokens, outcome.cached_tokens);
    const std::uint32_t tokens = outcome.cached_tokens >= most ? 0 : std::min(comparison.missed_tokens, computed);
    const bool is_other_scope = comparison.change == PromptChange::kScope;
    if (tokens == 0) return {};
    return {is_other_scope ? MissCause::kOtherScope : MissCause::kChanged, tokens};
  }
  const std::uint32_t expected = has_before ? std::min(comparison.token, most) : most;
  if (outcome.cached_tokens >= expected) return {};
  const MissCause cause = CacheSide(outcome, comparison.before);
  return {cause, cause == MissCause::kNone ? 0 : expected - outcome.cached_tokens};
}

std::string SentenceOf(const PromptComparison& comparison, const CacheVerdict& verdict, const BlockLoss& loss,
                       std::string_view holder) {
  if (verdict.cause == MissCause::kNone) {
    return comparison.before == Before::kFound ? "all that it shares with the request before was found" : "";
  }
  const std::string change = ChangeText(comparison);
  const std::string before =
      comparison.before == Before::kFound ? "the request before is the same up to here, but " : "";
  const std::string text =
      change.empty() ? before + CauseText(verdict.cause, loss, comparison.seconds_ago, holder) : change;
  return fmt::format("{}; {} tokens computed{}", text, Grouped(verdict.tokens),
                     comparison.before == Before::kFound ? " again" : "");
}

}  // namespace roost::router
