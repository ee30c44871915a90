#include "worker/adapters/events/block_book.h"

#include <xxhash.h>

#include <algorithm>
#include <memory>
#include <unordered_set>
#include <utility>
#include <variant>

#include "common/base/check.h"
#include "common/wire/codec.h"

namespace roost::worker::adapters {
namespace {

constexpr std::size_t kMaxHashes = wire::WireLimits::kMaxHashesPerRun;

// Cuts an event with too many hashes into several.
void AppendSplit(wire::CacheEvent event, std::vector<wire::CacheEvent>& events) {
  std::vector<BlockHash> stored = std::move(event.stored.hashes);
  std::vector<BlockHash> removed = std::move(event.removed);
  const bool is_stored = event.kind == wire::CacheEvent::Kind::kStored;
  const std::vector<BlockHash>& all = is_stored ? stored : removed;
  const std::uint32_t first_position = event.stored.first_position;
  for (std::size_t begin = 0; begin < all.size(); begin += kMaxHashes) {
    const std::size_t end = std::min(begin + kMaxHashes, all.size());
    wire::CacheEvent& part = events.emplace_back();
    part.kind = event.kind;
    if (is_stored) part.stored.first_position = first_position + static_cast<std::uint32_t>(begin);
    std::vector<BlockHash>& hashes = is_stored ? part.stored.hashes : part.removed;
    hashes.assign(all.begin() + static_cast<std::ptrdiff_t>(begin), all.begin() + static_cast<std::ptrdiff_t>(end));
  }
}

// The hash of the block of ours before this one; zero for a first one.
BlockHash ParentHash(const TreeBlock& block) {
  return block.identity.block_count == 1 ? BlockHash() : block.parent->identity.hash;
}

template <typename Block>
void PushChildren(const TreeBlock& block, std::vector<Block*>& stack) {
  for (Block* child = block.first_child; child != nullptr; child = child->next) stack.push_back(child);
}

template <typename Block>
Block* TakeLast(std::vector<Block*>& stack) {
  Block* last = stack.back();
  stack.pop_back();
  return last;
}

}  // namespace

std::size_t BlockTree::NameHasher::operator()(const std::string& name) const noexcept {
  return XXH3_64bits_withSeed(name.data(), name.size(), BlockHashHasher::ProcessSeed());
}

TreeBlock* BlockTree::Find(std::string_view name) {
  const auto found = blocks_.find(std::string(name));
  return found == blocks_.end() ? nullptr : &found->second;
}

TreeBlock* BlockTree::Add(std::string_view name, TreeBlock* parent, BlockIdentity identity,
                          std::optional<LeftOut> left_out) {
  const auto [entry, is_new] = blocks_.try_emplace(std::string(name));
  ROOST_CHECK(is_new, "a block is added twice");
  TreeBlock& block = entry->second;
  block.name = &entry->first;
  block.identity = std::move(identity);
  block.left_out = left_out;
  block.parent = parent;
  if (parent != nullptr) {
    block.next = std::exchange(parent->first_child, &block);
    if (block.next != nullptr) block.next->previous = &block;
  }
  return &block;
}

void BlockTree::AddCopy(TreeBlock& block) {
  ++copy_count_;
  if (++block.copies == 1 && (block.parent == nullptr || block.parent->visible)) Show(block);
}

void BlockTree::RemoveCopy(TreeBlock& block) {
  ROOST_CHECK(block.copies > 0);
  --copy_count_;
  if (--block.copies > 0) return;
  if (block.visible) Hide(block);
  Drop(&block);
}

void BlockTree::Clear() {
  for (auto& [name, block] : blocks_) {
    if (block.visible && block.parent == nullptr) Hide(block);
  }
  ROOST_CHECK(shown_.empty() && digest_ == BlockHash(), "{} blocks are still visible", shown_.size());
  blocks_.clear();
  copy_count_ = 0;
}

void BlockTree::Drop(TreeBlock* block) {
  while (block != nullptr && block->copies == 0 && block->first_child == nullptr) {
    TreeBlock* parent = block->parent;
    if (block->previous != nullptr) {
      block->previous->next = block->next;
    } else if (parent != nullptr) {
      parent->first_child = block->next;
    }
    if (block->next != nullptr) block->next->previous = block->previous;
    blocks_.erase(blocks_.find(*block->name));
    block = parent;
  }
}

// Those above it are visible.
void BlockTree::Show(TreeBlock& top) {
  std::vector<TreeBlock*> stack{&top};
  while (!stack.empty()) {
    TreeBlock& block = *TakeLast(stack);
    if (block.copies > 0 && !block.left_out && Reveal(block)) PushChildren(block, stack);
  }
}

void BlockTree::Hide(TreeBlock& top) {
  std::vector<TreeBlock*> hidden;  // parents before children
  std::vector<TreeBlock*> stack{&top};
  while (!stack.empty()) {
    TreeBlock& block = *TakeLast(stack);
    if (!block.visible) continue;
    hidden.push_back(&block);
    PushChildren(block, stack);
  }
  for (auto block = hidden.rbegin(); block != hidden.rend(); ++block) Conceal(**block);
}

// False: another block claims its hash.
bool BlockTree::Reveal(TreeBlock& block) {
  const BlockIdentity& identity = block.identity;
  if (!identity.is_whole()) return block.visible = true;
  const BlockHash parent = ParentHash(block);
  const std::uint32_t position = identity.position();
  const auto [entry, is_new] = shown_.try_emplace(identity.hash, Shown{parent, position, 0});
  Shown& shown = entry->second;
  if (shown.parent != parent || shown.position != position) return false;
  ++shown.count;
  block.visible = true;
  if (!is_new) return true;
  digest_ = digest_ ^ identity.hash;
  log_.AddStored(identity.hash, position, position == 0 ? std::nullopt : std::optional<BlockHash>(parent));
  return true;
}

void BlockTree::Conceal(TreeBlock& block) {
  block.visible = false;
  if (!block.identity.is_whole()) return;
  const auto shown = shown_.find(block.identity.hash);
  if (--shown->second.count > 0) return;
  shown_.erase(shown);
  digest_ = digest_ ^ block.identity.hash;
  log_.AddRemoved(block.identity.hash);
}

void BlockTree::TakeEvents(std::vector<wire::CacheEvent>& events) {
  std::vector<wire::CacheEvent> taken;
  log_.TakeTo(taken);
  for (wire::CacheEvent& event : taken) {
    if (event.stored.hashes.size() <= kMaxHashes && event.removed.size() <= kMaxHashes) {
      events.push_back(std::move(event));
    } else {
      AppendSplit(std::move(event), events);
    }
  }
}

std::vector<wire::StoredRun> BlockTree::Snapshot() const {
  std::vector<wire::StoredRun> runs;
  std::unordered_set<BlockHash, BlockHashHasher> told;
  std::vector<const TreeBlock*> stack;
  for (const auto& [name, root] : blocks_) {
    if (!root.visible || root.parent != nullptr) continue;
    std::optional<BlockHash> last;  // the end of the last run
    stack.push_back(&root);
    while (!stack.empty()) {
      const TreeBlock& block = *TakeLast(stack);
      if (!block.visible) continue;
      PushChildren(block, stack);
      const BlockIdentity& identity = block.identity;
      if (!identity.is_whole() || !told.insert(identity.hash).second) continue;
      const bool goes_on = last && identity.position() > 0 && *last == ParentHash(block);
      if (!goes_on || runs.back().hashes.size() == kMaxHashes) runs.push_back({identity.position(), {}});
      runs.back().hashes.push_back(identity.hash);
      last = identity.hash;
    }
  }
  return runs;
}

namespace {

// Blocks without a copy stay while others behind them have one. An engine evicts the end of a prefix first, so they are
// few.
constexpr std::size_t kTreeBlocksPerBlock = 2;

// The name in the tree of a part of an engine's block; the last part has the block's own. An engine's names are all of
// one length, and these are longer.
std::string PartName(std::string_view name, std::uint32_t part) {
  std::string own(name);
  for (unsigned shift = 0; shift < 32; shift += 8) own.push_back(static_cast<char>(part >> shift & 0xFFU));
  return own;
}

bool IsThat(const TreeBlock& block, const TreeBlock* parent, const BlockIdentity& identity) {
  return !block.left_out && block.parent == parent && block.identity.hash == identity.hash &&
         block.identity.rest == identity.rest;
}

ExtraKeys KeysOf(const Stored& stored, std::size_t index) {
  return index < stored.extra_keys.size() ? stored.extra_keys[index] : ExtraKeys::kNone;
}

std::optional<LeftOut> ReasonOfTokens(const Stored& stored) {
  if (stored.token_form == TokenForm::kLookahead) return LeftOut::kLookahead;
  const bool fits = stored.token_ids.size() == stored.hashes.size() * stored.block_tokens;
  return stored.token_form == TokenForm::kPlain && fits ? std::nullopt : std::optional(LeftOut::kTokens);
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
  if (tree_.copy_count() <= max_copies() && tree_.size() <= kTreeBlocksPerBlock * max_copies()) {
    return Outcome::kFollowed;
  }
  Clear();
  return Outcome::kOverflow;
}

void BlockBook::Clear() {
  tree_.Clear();
  rank_ = options_.rank;
  group_.reset();
  engine_block_tokens_ = 0;
}

std::uint32_t BlockBook::parts() const { return std::max(1U, engine_block_tokens_ / options_.block_tokens); }

std::size_t BlockBook::max_copies() const {
  const std::uint32_t pieces =
      engine_block_tokens_ == 0 ? 1 : std::max(1U, options_.block_tokens / engine_block_tokens_);
  return std::size_t{options_.max_blocks} * pieces;
}

void BlockBook::Store(const Stored& stored) {
  if (const std::optional<LeftOut> reason = Elsewhere(stored)) return Count(*reason, stored.hashes.size());
  TreeBlock* parent = nullptr;
  if (stored.parent) {
    parent = tree_.Find(*stored.parent);
    if (parent == nullptr) return Count(LeftOut::kUnknownParent, stored.hashes.size());
  }
  // One message may hold more hashes than the engine has blocks.
  const std::size_t most = std::min(stored.hashes.size(), max_copies() / parts() + 1);
  for (std::size_t index = 0; index < most; ++index) parent = StoreBlock(stored, index, parent);
}

void BlockBook::Remove(const Removed& removed) {
  if (!IsFollowed(removed.place)) return;
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
  if (!fits || (engine_block_tokens_ > 0 && engine_block_tokens_ != tokens)) return LeftOut::kBlockTokens;
  if (group_ && *group_ != stored.place.group) return LeftOut::kGroup;
  // Only an event whose tokens are there says how large the blocks are.
  const std::optional<LeftOut> without_tokens = ReasonOfTokens(stored);
  if (engine_block_tokens_ == 0 && without_tokens) return without_tokens;
  rank_ = stored.place.rank;
  group_ = stored.place.group;
  engine_block_tokens_ = tokens;
  return std::nullopt;
}

bool BlockBook::IsFollowed(const CachePlace& place) const {
  return place.on_device && rank_ == place.rank && group_ == place.group;
}

TreeBlock* BlockBook::StoreBlock(const Stored& stored, std::size_t index, TreeBlock* parent) {
  std::optional<LeftOut> reason = ReasonOf(stored, index, parent);
  const bool is_left_out = reason.has_value();
  const std::size_t part_tokens = engine_block_tokens_ / parts();
  BlockIdentity identity = is_left_out ? BlockIdentity() : BeginOf(stored, parent);
  for (std::uint32_t part = 0; part < parts(); ++part) {
    if (!is_left_out) {
      const std::size_t begin = index * engine_block_tokens_ + part * part_tokens;
      identity = After(identity, std::span(stored.token_ids).subspan(begin, part_tokens));
    }
    const std::string name = part + 1 == parts() ? stored.hashes[index] : PartName(stored.hashes[index], part);
    TreeBlock* block = tree_.Find(name);
    if (block == nullptr) {
      block = tree_.Add(name, parent, identity, reason);
    } else if (!is_left_out && !IsThat(*block, parent, identity)) {
      reason = LeftOut::kConflict;  // the copy counts all the same: its removal will come
    }
    tree_.AddCopy(*block);
    parent = block;
  }
  if (reason) Count(*reason);
  return parent;
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
