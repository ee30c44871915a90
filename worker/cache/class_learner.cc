#include "worker/cache/class_learner.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "common/base/rng.h"

namespace roost::worker {
namespace {

constexpr std::uint32_t kShadowEntries = 4096;  // at most; a smaller pool is shadowed as a whole
constexpr float kGuardFadingRequests = 200;
constexpr float kAllowedLag = 0.005F;  // share of the shadows' uses by which density may trail: their noise
constexpr std::uint64_t kShadowSalt = 0x2545f4914f6cdd1dULL;

// The parts of a class.
constexpr std::uint32_t kUsageLevels = 7;
constexpr std::uint32_t kDecodedLevel = 6;
constexpr std::uint32_t kUncachedLevels = 4;
constexpr std::uint32_t kAnswerLevels = 2;
constexpr std::uint32_t kLongAnswerTokens = 150;
static_assert(kUsageLevels * kUncachedLevels * kAnswerLevels <= ReuseModel::kClassCount);

// Used 0, 1, 2-3, 4-7, 8-15, or 16 and more times before.
std::uint32_t UsageLevel(const BlockUse& use, std::uint32_t visits) {
  if (use.origin == BlockOrigin::kDecode) return kDecodedLevel;
  return std::min<std::uint32_t>(static_cast<std::uint32_t>(std::bit_width(visits)), kDecodedLevel - 1);
}

// Below 2k, 8k, 32k tokens, and above.
std::uint32_t UncachedLevel(const RequestUse& request) {
  const std::uint32_t uncached =
      request.prompt_token_count - std::min(request.prompt_token_count, request.cached_token_count);
  const auto doublings = static_cast<std::uint32_t>(std::bit_width(uncached >> 11U));
  return std::min((doublings + 1) / 2, kUncachedLevels - 1);
}

std::uint32_t ClassOf(const BlockUse& use, std::uint32_t visits) {
  const std::uint32_t answer_level = use.request.output_token_count < kLongAnswerTokens ? 0 : 1;
  return (UsageLevel(use, visits) * kUncachedLevels + UncachedLevel(use.request)) * kAnswerLevels + answer_level;
}

std::uint32_t ShadowEntriesFor(std::uint32_t block_count) { return std::clamp(block_count, 1U, kShadowEntries); }

std::uint64_t ShadowBoundFor(std::uint32_t block_count) {
  const double share = static_cast<double>(ShadowEntriesFor(block_count)) / std::max(1U, block_count);
  if (share >= 1) return std::numeric_limits<std::uint64_t>::max();
  return static_cast<std::uint64_t>(share * 0x1.0p64);
}

}  // namespace

ClassLearner::ClassLearner(std::uint32_t block_count)
    : history_(block_count),
      shadow_bound_(ShadowBoundFor(block_count)),
      by_recency_(ShadowEntriesFor(block_count), Ranking::kLastUse),
      by_density_(ShadowEntriesFor(block_count), Ranking::kHitDensity) {}

ClassLearner::Release ClassLearner::OnRelease(const BlockUse& use) {
  if (!began_ || use.request.number != number_) BeginRequest(use.request.number);
  const std::uint32_t reuse_class = LearnFrom(use);
  Compare(use, reuse_class);
  const Release release{reuse_class, now_};
  ++now_.place;
  return release;
}

void ClassLearner::BeginRequest(std::uint64_t number) {
  if (began_) {
    model_.EndRequest();
    ChooseRanking();
  }
  began_ = true;
  number_ = number;
  now_ = {.request = now_.request + 1, .place = 0};
  visits_ = 0;
}

// Returns the block's class and updates its history.
std::uint32_t ClassLearner::LearnFrom(const BlockUse& use) {
  constexpr std::uint32_t kRequestMask = (1U << BlockHistory::kTimeBits) - 1;
  const auto time = static_cast<std::uint32_t>(now_.request) & kRequestMask;
  const bool sampled = BlockHistory::Samples(use.key);
  const std::optional<BlockHistory::Entry> before = sampled ? history_.Find(use.key) : std::nullopt;
  if (before) {
    visits_ = std::max<std::uint32_t>(visits_, before->visits);
    model_.CountReuse(before->reuse_class, (time - before->time) & kRequestMask);
  }
  const std::uint32_t reuse_class = ClassOf(use, std::max(visits_, use.hit_count));
  if (sampled) {
    const std::uint32_t visits = std::min(BlockHistory::kMostVisits, (before ? before->visits : 0U) + 1);
    history_.Store(use.key, {.time = time,
                             .reuse_class = static_cast<std::uint8_t>(reuse_class),
                             .visits = static_cast<std::uint8_t>(visits)});
    model_.CountRelease(reuse_class);
  }
  return reuse_class;
}

void ClassLearner::Compare(const BlockUse& use, std::uint32_t reuse_class) {
  if (Mix64(use.key ^ kShadowSalt) > shadow_bound_) return;
  ++uses_;
  const ShadowUse shadow_use{.key = use.key, .position = use.position, .reuse_class = reuse_class, .time = now_};
  by_density_.Use(shadow_use, model_);
  by_recency_.Use(shadow_use, model_);
}

void ClassLearner::ChooseRanking() {
  const float factor = std::exp(-1 / kGuardFadingRequests);
  lead_ = lead_ * factor + static_cast<float>(by_density_.EndRequest()) - static_cast<float>(by_recency_.EndRequest());
  faded_uses_ = faded_uses_ * factor + static_cast<float>(std::exchange(uses_, 0));
  ranking_ = lead_ >= -kAllowedLag * faded_uses_ ? Ranking::kHitDensity : Ranking::kLastUse;
}

}  // namespace roost::worker
