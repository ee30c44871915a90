#include "worker/foreign/block_book.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <variant>

#include "common/base/check.h"

namespace roost::worker::foreign {
namespace {

// Blocks without a copy stay while others behind them have one. An engine evicts the end of a prefix first, so they are
// few.
constexpr std::size_t kTreeBlocksPerBlock = 2;

ExtraKeys KeysOf(const Stored& stored, std::size_t index) {
  return index < stored.extra_keys.size() ? stored.extra_keys[index] : ExtraKeys::kNone;
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

BlockBook::BlockBook(const Options& options) : options_(options) {
  ROOST_CHECK(IsValidBlockTokens(options.block_tokens) && options.max_blocks > 0, "{} blocks of {} tokens",
              options.max_blocks, options.block_tokens);
}

BlockBook::Outcome BlockBook::Apply(const CacheChange& change) {
  if (const auto* stored = std::get_if<Stored>(&change)) {
    Store(*stored);
  } else if (const auto* removed = std::get_if<Removed>(&change)) {
    Remove(*removed);
  } else if (const auto* cleared = std::get_if<Cleared>(&change)) {
    if (rank_ && rank_ != cleared->rank) return Outcome::kFollowed;
    tree_.Clear();
    return Outcome::kEmptied;
  } else {
    Count(LeftOut::kUnknownEvent);
  }
  const std::size_t most = kTreeBlocksPerBlock * options_.max_blocks;
  if (tree_.copy_count() <= options_.max_blocks && tree_.size() <= most) return Outcome::kFollowed;
  Clear();
  return Outcome::kOverflow;
}

void BlockBook::Clear() {
  tree_.Clear();
  rank_.reset();
  group_.reset();
}

void BlockBook::Store(const Stored& stored) {
  if (const std::optional<LeftOut> reason = Elsewhere(stored)) return Count(*reason, stored.hashes.size());
  TreeBlock* parent = nullptr;
  if (stored.parent) {
    parent = tree_.Find(*stored.parent);
    if (parent == nullptr) return Count(LeftOut::kUnknownParent, stored.hashes.size());
  }
  // One message may hold more hashes than the engine has blocks.
  const std::size_t most = std::min<std::size_t>(stored.hashes.size(), std::size_t{options_.max_blocks} + 1);
  for (std::size_t index = 0; index < most; ++index) parent = StoreBlock(stored, index, parent);
}

void BlockBook::Remove(const Removed& removed) {
  if (!IsFollowed(removed.place)) return;
  for (const std::string& name : removed.hashes) {
    TreeBlock* block = tree_.Find(name);
    if (block != nullptr && block->copies > 0) tree_.RemoveCopy(*block);
  }
}

std::optional<LeftOut> BlockBook::Elsewhere(const Stored& stored) {
  if (!stored.place.on_device) return LeftOut::kMedium;
  if (rank_ && *rank_ != stored.place.rank) return LeftOut::kRank;
  if (stored.attention != Attention::kFull) return LeftOut::kAttention;
  if (stored.block_tokens != options_.block_tokens) return LeftOut::kBlockTokens;
  if (group_ && *group_ != stored.place.group) return LeftOut::kGroup;
  rank_ = stored.place.rank;
  group_ = stored.place.group;
  return std::nullopt;
}

bool BlockBook::IsFollowed(const CachePlace& place) const {
  return place.on_device && rank_ == place.rank && group_ == place.group;
}

TreeBlock* BlockBook::StoreBlock(const Stored& stored, std::size_t index, TreeBlock* parent) {
  std::optional<LeftOut> reason = ReasonOf(stored, index, parent);
  BlockIdentity identity = reason ? BlockIdentity() : IdentityOf(stored, index, parent);
  TreeBlock* block = tree_.Find(stored.hashes[index]);
  if (block == nullptr) {
    block = tree_.Add(stored.hashes[index], parent, std::move(identity), reason);
  } else if (!reason && (block->left_out || block->parent != parent || block->identity.hash != identity.hash)) {
    reason = LeftOut::kConflict;  // the copy counts all the same: its removal will come
  }
  if (reason) Count(*reason);
  tree_.AddCopy(*block);
  return block;
}

std::optional<LeftOut> BlockBook::ReasonOf(const Stored& stored, std::size_t index, const TreeBlock* parent) const {
  if (parent != nullptr && parent->left_out) return parent->left_out;
  const bool can_name = options_.adapter_root != nullptr && stored.adapter != "";
  if (stored.adapter && !can_name) return LeftOut::kAdapter;
  if (stored.token_form == TokenForm::kLookahead) return LeftOut::kLookahead;
  const bool fits = stored.token_ids.size() == stored.hashes.size() * options_.block_tokens;
  if (stored.token_form != TokenForm::kPlain || !fits) return LeftOut::kTokens;
  return ReasonOfKeys(stored, index, parent == nullptr);
}

SaltedRoots BlockBook::RootsOf(const Stored& stored) const {
  if (KeysOf(stored, 0) == ExtraKeys::kSalt) return *ParseSalt(stored.salt);
  return {stored.adapter ? options_.adapter_root(*stored.adapter) : options_.default_root, std::nullopt};
}

BlockIdentity BlockBook::IdentityOf(const Stored& stored, std::size_t index, const TreeBlock* parent) const {
  const std::span<const TokenId> tokens =
      std::span(stored.token_ids).subspan(index * options_.block_tokens, options_.block_tokens);
  if (parent == nullptr) {
    const SaltedRoots roots = RootsOf(stored);
    auto own = roots.own ? std::make_shared<const OwnScope>(*roots.own) : nullptr;
    return {.hash = ChainHash(roots.root, tokens), .position = 0, .own = std::move(own)};
  }
  const BlockIdentity& before = parent->identity;
  const std::uint32_t position = before.position + 1;
  const bool is_own = before.own != nullptr && before.own->first_block == position;
  const BlockHash link = is_own ? before.own->root : before.hash;
  return {.hash = ChainHash(link, tokens), .position = position, .own = is_own ? nullptr : before.own};
}

}  // namespace roost::worker::foreign
