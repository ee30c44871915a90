#include "worker/adapters/events/block_book.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <variant>

#include "common/base/check.h"
#include "common/wire/codec.h"

namespace roost::worker::adapters {
namespace {

constexpr std::size_t kMostHashes = wire::WireLimits::kMaxHashesPerRun;

// Blocks without a copy stay while others behind them have one. An engine evicts the end of a prefix first, so they are
// few.
constexpr std::size_t kTreeBlocksPerBlock = 2;
// Groups share their memory, or have a part of it each.
constexpr std::size_t kGroupsPerBlock = 4;

// The name in the tree of a part of an engine's block; the last part has the block's own. An engine's names are all of
// one length, and these are longer.
std::string PartName(std::string_view name, std::uint32_t part) {
  std::string own(name);
  for (unsigned shift = 0; shift < 32; shift += 8) own.push_back(static_cast<char>(part >> shift & 0xFFU));
  return own;
}

void AppendHashes(const std::vector<BlockHash>& hashes, wire::CacheEvent::Kind kind,
                  std::vector<wire::CacheEvent>& events) {
  for (std::size_t begin = 0; begin < hashes.size(); begin += kMostHashes) {
    wire::CacheEvent& event = events.emplace_back();
    event.kind = kind;
    const auto first = hashes.begin() + static_cast<std::ptrdiff_t>(begin);
    const std::size_t count = std::min(hashes.size() - begin, kMostHashes);
    (kind == wire::CacheEvent::Kind::kResumable ? event.resumable : event.unresumable)
        .assign(first, first + static_cast<std::ptrdiff_t>(count));
  }
}

bool IsThat(const TreeBlock& block, const TreeBlock* parent, const BlockIdentity& identity) {
  return !block.left_out && block.parent == parent && block.identity.hash == identity.hash &&
         block.identity.rest == identity.rest;
}

ExtraKeys KeysOf(const Stored& stored, std::size_t index) {
  return index < stored.extra_keys.size() ? stored.extra_keys[index] : ExtraKeys::kNone;
}

std::optional<LeftOut> ReasonOfTokens(const Stored& stored) {
  const bool fits = stored.token_ids.size() == stored.hashes.size() * stored.block_tokens;
  return stored.token_form != TokenForm::kOther && fits ? std::nullopt : std::optional(LeftOut::kTokens);
}

std::optional<LeftOut> ReasonOfKeys(const Stored& stored, std::size_t index, bool is_first) {
  switch (KeysOf(stored, index)) {
    case ExtraKeys::kNone: return std::nullopt;
    case ExtraKeys::kOther: return LeftOut::kExtraKeys;
    case ExtraKeys::kSalt: break;
  }
  if (!is_first) return LeftOut::kExtraKeys;
  return ParseSalt(stored.salt) ? std::nullopt : std::optional(LeftOut::kForeignSalt);
}

}  // namespace

BlockBook::BlockBook(const Options& options) : options_(options), rank_(options.rank) {
  ROOST_CHECK(IsValidBlockTokens(options.block_tokens) && options.max_blocks > 0, "{} blocks of {} tokens",
              options.max_blocks, options.block_tokens);
  if (options.tells_each_copy) tree_.TrustCopies();
}

BlockBook::Outcome BlockBook::Apply(const CacheChange& change) {
  if (const auto* stored = std::get_if<Stored>(&change)) {
    Store(*stored);
  } else if (const auto* removed = std::get_if<Removed>(&change)) {
    Remove(*removed);
  } else if (const auto* cleared = std::get_if<Cleared>(&change)) {
    if (rank_ && rank_ != cleared->rank) return Outcome::kFollowed;
    tree_.Clear();
    points_.Empty();
    return Outcome::kEmptied;
  } else {
    Count(LeftOut::kUnknownEvent);
  }
  const std::uint64_t copies = tree_.counts_copies() ? tree_.copy_count() : tree_.held_count();
  const bool fits = copies <= max_copies() && tree_.size() <= kTreeBlocksPerBlock * max_copies() &&
                    points_.size() <= options_.max_blocks * kGroupsPerBlock;
  if (fits) return Outcome::kFollowed;
  Clear();
  return Outcome::kOverflow;
}

void BlockBook::Clear() {
  tree_.Clear();
  points_.Forget();
  rank_ = options_.rank;
  group_.reset();
  engine_block_tokens_ = 0;
}

std::uint32_t BlockBook::PartsOf(std::uint32_t tokens) const { return std::max(1U, tokens / options_.block_tokens); }

std::size_t BlockBook::max_copies() const {
  const std::uint32_t pieces =
      engine_block_tokens_ == 0 ? 1 : std::max(1U, options_.block_tokens / engine_block_tokens_);
  return std::size_t{options_.max_blocks} * pieces;
}

HitGuess BlockBook::Guess(std::span<const BlockHash> hashes, std::uint32_t prompt_tokens) const {
  if (prompt_tokens == 0) return {};
  const std::uint32_t grain = options_.block_tokens;
  // A block is visible only behind its parent.
  const auto end =
      std::partition_point(hashes.begin(), hashes.end(), [this](BlockHash hash) { return tree_.Shows(hash); });
  const auto held = static_cast<std::uint32_t>(end - hashes.begin());
  const std::uint32_t usable = (prompt_tokens - 1) / grain;  // the last token of a prompt is always computed
  if (points_.has_groups()) {
    return {points_.LastBefore(hashes, std::min(held, usable)) * grain,
            points_.LastBefore(hashes, std::min(held - std::min(held, parts()), usable)) * grain};
  }
  const std::uint32_t whole = std::min(held, usable) / parts() * parts();
  return {whole * grain, (whole - std::min(whole, parts())) * grain};
}

void BlockBook::TakeEvents(std::vector<wire::CacheEvent>& events) {
  tree_.TakeEvents(events);
  const ResumePoints::Changes changes = points_.TakeChanges();
  AppendHashes(changes.unresumable, wire::CacheEvent::Kind::kUnresumable, events);
  AppendHashes(changes.resumable, wire::CacheEvent::Kind::kResumable, events);
}

void BlockBook::Store(const Stored& stored) {
  if (StoreBeside(stored)) return;
  if (const std::optional<LeftOut> reason = Elsewhere(stored)) return Count(*reason, stored.hashes.size());
  TreeBlock* parent = nullptr;
  if (stored.parent) {
    parent = tree_.Find(*stored.parent);
    if (parent == nullptr) return Count(LeftOut::kUnknownParent, stored.hashes.size());
  }
  if (IsPerhapsFound(stored)) return;
  if (!points_.has_groups()) plain_tokens_ += stored.token_ids.size();
  // One message may hold more hashes than the engine has blocks.
  const std::size_t most = std::min(stored.hashes.size(), max_copies() / parts() + 1);
  for (std::size_t index = 0; index < most; ++index) parent = StoreBlock(stored, index, parent);
}

bool BlockBook::IsPerhapsFound(const Stored& stored) {
  if (stored.parent || stored.hashes.empty()) return false;
  if (points_.has_groups()) return points_.IsResumable(stored.hashes.back());
  return std::all_of(stored.hashes.begin(), stored.hashes.end(),
                     [this](const std::string& name) { return tree_.Holds(name); });
}

bool BlockBook::StoreBeside(const Stored& stored) {
  if (!stored.place.on_device || (rank_ && *rank_ != stored.place.rank)) return false;
  const bool is_main = group_ ? *group_ == stored.place.group : stored.attention == Attention::kFull;
  if (is_main) return false;
  rank_ = stored.place.rank;
  points_.Store(stored);
  return stored.attention != Attention::kOther;
}

void BlockBook::Remove(const Removed& removed) {
  if (!removed.place.on_device || rank_ != removed.place.rank) return;
  if (group_ != removed.place.group) return points_.Remove(removed);
  for (const std::string& name : removed.hashes) {
    for (std::uint32_t part = parts(); part-- > 0;) {
      TreeBlock* block = tree_.Find(part + 1 == parts() ? name : PartName(name, part));
      if (block != nullptr && block->copies > 0) tree_.RemoveCopy(*block);
    }
  }
}

std::optional<LeftOut> BlockBook::Elsewhere(const Stored& stored) {
  if (!stored.place.on_device) return LeftOut::kMedium;
  if (rank_ && *rank_ != stored.place.rank) return LeftOut::kRank;
  if (stored.attention != Attention::kFull) return LeftOut::kAttention;
  const std::uint32_t tokens = stored.block_tokens;
  const bool fits = tokens > 0 && (tokens % options_.block_tokens == 0 || options_.block_tokens % tokens == 0) &&
                    tokens / options_.block_tokens <= options_.max_blocks;
  if (!fits || (engine_block_tokens_ > tokens && !IsPart(stored))) return LeftOut::kBlockTokens;
  // Only an event whose tokens are there says how large the blocks are.
  const std::optional<LeftOut> without_tokens = ReasonOfTokens(stored);
  if (engine_block_tokens_ == 0 && without_tokens) return without_tokens;
  // The first events were of parts of blocks.
  if (without_tokens && engine_block_tokens_ != tokens) return without_tokens;
  if (IsPart(stored)) return std::nullopt;
  if (engine_block_tokens_ > 0 && engine_block_tokens_ != tokens) tree_.Clear();
  rank_ = stored.place.rank;
  group_ = stored.place.group;
  engine_block_tokens_ = tokens;
  return std::nullopt;
}

bool BlockBook::IsPart(const Stored& stored) const {
  return stored.block_tokens < engine_block_tokens_ && stored.block_tokens % options_.block_tokens == 0 &&
         stored.hashes.size() == 1;
}

TreeBlock* BlockBook::StoreBlock(const Stored& stored, std::size_t index, TreeBlock* parent) {
  std::optional<LeftOut> reason = ReasonOf(stored, index, parent);
  const bool is_left_out = reason.has_value();
  const std::uint32_t parts = PartsOf(stored.block_tokens);
  const std::size_t part_tokens = stored.block_tokens / parts;
  BlockIdentity identity = is_left_out ? BlockIdentity() : BeginOf(stored, parent);
  for (std::uint32_t part = 0; part < parts; ++part) {
    if (!is_left_out) {
      const std::size_t begin = index * stored.block_tokens + part * part_tokens;
      identity = After(identity, std::span(stored.token_ids).subspan(begin, part_tokens));
    }
    const std::string name = part + 1 == parts ? stored.hashes[index] : PartName(stored.hashes[index], part);
    TreeBlock* block = tree_.Find(name);
    if (block == nullptr) {
      block = tree_.Add(name, parent, identity, reason);
      if (part + 1 == parts) points_.OnAdded(*block);
    } else if (!is_left_out && !IsThat(*block, parent, identity)) {
      reason = LeftOut::kConflict;  // the copy counts all the same: its removal will come
    }
    if (AddsCopy(*block)) tree_.AddCopy(*block);
    parent = block;
  }
  if (reason) Count(*reason);
  return parent;
}

// A block that a request found may be stored again when it is filled.
bool BlockBook::AddsCopy(const TreeBlock& block) const {
  return block.copies == 0 || block.doubted || !expects_found_runs_;
}

std::optional<LeftOut> BlockBook::ReasonOf(const Stored& stored, std::size_t index, const TreeBlock* parent) const {
  if (parent != nullptr && parent->left_out) return parent->left_out;
  const bool can_name = options_.adapter_root != nullptr && stored.adapter != "";
  if (stored.adapter && !can_name) return LeftOut::kAdapter;
  if (const std::optional<LeftOut> reason = ReasonOfTokens(stored)) return reason;
  return ReasonOfKeys(stored, index, parent == nullptr);
}

SaltedRoots BlockBook::RootsOf(const Stored& stored) const {
  if (KeysOf(stored, 0) == ExtraKeys::kSalt) return *ParseSalt(stored.salt);
  return {stored.adapter ? options_.adapter_root(*stored.adapter) : options_.default_root, std::nullopt};
}

BlockIdentity BlockBook::BeginOf(const Stored& stored, const TreeBlock* parent) const {
  if (parent != nullptr) return parent->identity;
  const SaltedRoots roots = RootsOf(stored);
  auto own = roots.own ? std::make_shared<const OwnScope>(*roots.own) : nullptr;
  return {.hash = roots.root, .block_count = 0, .rest = {}, .own = std::move(own)};
}

BlockIdentity BlockBook::After(const BlockIdentity& before, std::span<const TokenId> tokens) const {
  std::vector<TokenId> rest = before.rest;
  rest.insert(rest.end(), tokens.begin(), tokens.end());
  if (rest.size() < options_.block_tokens) {
    return {.hash = before.hash, .block_count = before.block_count, .rest = std::move(rest), .own = before.own};
  }
  const std::uint32_t position = before.block_count;
  const bool is_own = position > 0 && before.own != nullptr && before.own->first_block == position;
  const BlockHash link = is_own ? before.own->root : before.hash;
  return {.hash = ChainHash(link, rest), .block_count = position + 1, .rest = {}, .own = is_own ? nullptr : before.own};
}

}  // namespace roost::worker::adapters
