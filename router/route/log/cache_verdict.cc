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

// The cache's reason why a request found less than it could have.
MissCause CacheSide(const PromptOutcome& outcome, Before before) {
  if (outcome.miss == wire::PromptMiss::kDisabled) return MissCause::kNone;
  if (outcome.miss == wire::PromptMiss::kInFlight) return MissCause::kInFlight;
  if (outcome.elsewhere_tokens > outcome.cached_tokens || outcome.miss == wire::PromptMiss::kNotArrived) {
    return MissCause::kElsewhere;
  }
  switch (outcome.miss) {
    case wire::PromptMiss::kEvicted: return MissCause::kEvicted;
    case wire::PromptMiss::kCold: return MissCause::kNeverHere;
    // Not told, or not yet. What an earlier request has computed, and no worker has, was evicted.
    default: return before == Before::kFound ? MissCause::kEvicted : MissCause::kNone;
  }
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

std::string CauseText(MissCause cause) {
  switch (cause) {
    case MissCause::kEvicted: return "it was evicted";
    case MissCause::kNeverHere: return "the worker has never had it, or has begun again since";
    case MissCause::kInFlight: return "another request was still computing it";
    case MissCause::kElsewhere: return "another worker holds it";
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
  if (comparison.change == PromptChange::kScope) return {MissCause::kOtherScope, comparison.missed_tokens};
  if (comparison.change != PromptChange::kNone) return {MissCause::kChanged, comparison.missed_tokens};
  const bool has_before = comparison.before == Before::kFound;
  const std::uint32_t most = MostCached(outcome);
  const std::uint32_t expected = has_before ? std::min(comparison.token, most) : most;
  if (outcome.cached_tokens >= expected) return {};
  const MissCause cause = CacheSide(outcome, comparison.before);
  return {cause, cause == MissCause::kNone ? 0 : expected - outcome.cached_tokens};
}

std::string SentenceOf(const PromptComparison& comparison, const CacheVerdict& verdict) {
  if (verdict.cause == MissCause::kNone) {
    return comparison.before == Before::kFound ? "all that it shares with the request before was found" : "";
  }
  const std::string change = ChangeText(comparison);
  const std::string before =
      comparison.before == Before::kFound ? "the request before is the same up to here, but " : "";
  return fmt::format("{}; {} tokens computed{}", change.empty() ? before + CauseText(verdict.cause) : change,
                     Grouped(verdict.tokens), comparison.before == Before::kFound ? " again" : "");
}

}  // namespace roost::router
