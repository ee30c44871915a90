#include "worker/cache/eviction/class_learner.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "common/base/check.h"
#include "common/base/prefetch.h"
#include "common/base/rng.h"

namespace roost::worker {

// ---- what was seen before ----

namespace {

constexpr std::uint32_t kSlotsPerBlock = 2;
constexpr std::uint32_t kLowByte = 0xFF;
constexpr std::uint32_t kTimeMask = (1U << BlockHistory::kTimeBits) - 1;

// Three parts of the mixed key have separate uses: the highest bits choose the bucket, the next bits are the name, the
// lowest bits choose the sample.
std::uint64_t Mixed(std::uint64_t key) { return Mix64(key + 0x9e3779b97f4a7c15ULL); }
std::uint32_t NameIn(std::uint64_t mixed) { return static_cast<std::uint32_t>(mixed >> 4U) & ~kLowByte; }

}  // namespace

BlockHistory::BlockHistory(std::uint32_t block_count)
    : bucket_count_((std::size_t{block_count} * kSlotsPerBlock + kBucketSlots - 1) / kBucketSlots + 1),
      slots_(bucket_count_ * kBucketSlots) {}

bool BlockHistory::Samples(std::uint64_t key) { return Mixed(key) % kSampleRate == 0; }

std::size_t BlockHistory::BucketOf(std::uint64_t mixed) const {
  return static_cast<std::size_t>((static_cast<unsigned __int128>(mixed) * bucket_count_) >> 64U) * kBucketSlots;
}

void BlockHistory::Prefetch(std::uint64_t key) const { roost::Prefetch(&slots_[BucketOf(Mixed(key))]); }

std::optional<BlockHistory::Entry> BlockHistory::Find(std::uint64_t key) const {
  const std::uint64_t mixed = Mixed(key);
  const std::size_t bucket = BucketOf(mixed);
  for (std::size_t i = bucket; i < bucket + kBucketSlots; ++i) {
    const Slot& slot = slots_[i];
    const std::uint32_t visits = slot.time_and_visits & kLowByte;
    if (visits == 0 || (slot.name_and_class & ~kLowByte) != NameIn(mixed)) continue;
    return Entry{.time = slot.time_and_visits >> 8U,
                 .reuse_class = static_cast<std::uint8_t>(slot.name_and_class & kLowByte),
                 .visits = static_cast<std::uint8_t>(visits)};
  }
  return std::nullopt;
}

// The slot that has the key already, else an empty one, else the oldest.
std::size_t BlockHistory::SlotToReplace(std::size_t bucket, std::uint32_t name, std::uint32_t time) const {
  std::size_t oldest = bucket;
  std::uint32_t oldest_age = 0;
  for (std::size_t i = bucket; i < bucket + kBucketSlots; ++i) {
    const Slot& slot = slots_[i];
    const bool empty = (slot.time_and_visits & kLowByte) == 0;
    if (!empty && (slot.name_and_class & ~kLowByte) == name) return i;
    const std::uint32_t age = empty ? kTimeMask + 1 : (time - (slot.time_and_visits >> 8U)) & kTimeMask;
    if (age < oldest_age) continue;
    oldest = i;
    oldest_age = age;
  }
  return oldest;
}

void BlockHistory::Store(std::uint64_t key, const Entry& entry) {
  const std::uint64_t mixed = Mixed(key);
  const std::uint32_t name = NameIn(mixed);
  slots_[SlotToReplace(BucketOf(mixed), name, entry.time)] = {.name_and_class = name | entry.reuse_class,
                                                              .time_and_visits = entry.time << 8U | entry.visits};
}

// ---- the guard's shadows ----

namespace {

// Keys are halves of block hashes, and the index spreads entries by this half.
BlockHash HashOf(std::uint64_t key) { return {0, key}; }

}  // namespace

ShadowCache::ShadowCache(std::uint32_t entry_count, Ranking ranking)
    : ranking_(ranking), index_(entry_count), lists_(entry_count, 1), entries_(entry_count) {
  ROOST_CHECK(entry_count > 0);
}

void ShadowCache::SetRecomputeCost(RecomputeCost cost) {
  cost_ = cost;
  lists_.SetRecomputeCost(cost);
}

void ShadowCache::Use(const ShadowUse& use, const ReuseModel& model) {
  const std::optional<BlockId> held =
      index_.Find(HashOf(use.key), [&](BlockId entry) { return entries_[entry.value()].key == use.key; });
  saved_ = held ? saved_ + cost_.At(use.position) : 0;
  const BlockId entry = held ? *held : TakeEntry(model, use.time.request);
  if (held) {
    lists_.Erase(entry);
  } else {
    index_.Insert(HashOf(use.key), entry);
    entries_[entry.value()] = {.key = use.key, .position = use.position, .parent = std::nullopt, .child_count = 0};
  }
  LinkLatestTo(entry);
  const TreePlace place = entries_[entry.value()].child_count == 0 ? TreePlace::kLeaf : TreePlace::kInner;
  lists_.PushBack(0, use.reuse_class, entry, use.position, use.time, place);
  latest_ = entry;
}

float ShadowCache::EndRequest() {
  latest_.reset();
  return std::exchange(saved_, 0.0F);
}

// A parent must have a lower position than its child, whatever the caller says, so there is always a leaf.
void ShadowCache::LinkLatestTo(BlockId parent) {
  if (!latest_) return;
  Entry& child = entries_[latest_->value()];
  if (child.parent || entries_[parent.value()].position >= child.position) return;
  child.parent = parent;
  ++entries_[parent.value()].child_count;
}

BlockId ShadowCache::TakeEntry(const ReuseModel& model, std::uint64_t request) {
  if (index_.size() < entries_.size()) return BlockId(index_.size());
  const std::optional<BlockId> entry = lists_.FirstToGo(0, ranking_, model, request);
  ROOST_CHECK(entry.has_value());
  Evict(*entry);
  return *entry;
}

void ShadowCache::Evict(BlockId entry) {
  if (latest_ == entry) latest_.reset();
  lists_.Erase(entry);
  index_.Erase(HashOf(entries_[entry.value()].key), entry);
  const std::optional<BlockId> parent = entries_[entry.value()].parent;
  if (parent && --entries_[parent->value()].child_count == 0) lists_.BecomeLeaf(*parent);
}

// ---- classes ----

namespace {

constexpr std::uint32_t kShadowEntries = 4096;  // at most; a smaller pool is shadowed as a whole
constexpr float kGuardFadingRequests = 200;
constexpr float kAllowedLag = 0.005F;  // share of what the shadows used by which density may trail: their noise
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

void ClassLearner::SetRecomputeCost(RecomputeCost cost) {
  cost_ = cost;
  by_recency_.SetRecomputeCost(cost);
  by_density_.SetRecomputeCost(cost);
}

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
    const std::uint32_t visits = std::min(BlockHistory::kMaxVisits, (before ? before->visits : 0U) + 1);
    history_.Store(use.key, {.time = time,
                             .reuse_class = static_cast<std::uint8_t>(reuse_class),
                             .visits = static_cast<std::uint8_t>(visits)});
    model_.CountRelease(reuse_class);
  }
  return reuse_class;
}

void ClassLearner::Compare(const BlockUse& use, std::uint32_t reuse_class) {
  if (Mix64(use.key ^ kShadowSalt) > shadow_bound_) return;
  used_ += cost_.At(use.position);
  const ShadowUse shadow_use{.key = use.key, .position = use.position, .reuse_class = reuse_class, .time = now_};
  by_density_.Use(shadow_use, model_);
  by_recency_.Use(shadow_use, model_);
}

void ClassLearner::ChooseRanking() {
  const float factor = std::exp(-1 / kGuardFadingRequests);
  lead_ = lead_ * factor + by_density_.EndRequest() - by_recency_.EndRequest();
  faded_used_ = faded_used_ * factor + std::exchange(used_, 0.0F);
  ranking_ = lead_ >= -kAllowedLag * faded_used_ ? Ranking::kHitDensity : Ranking::kLastUse;
}

}  // namespace roost::worker
