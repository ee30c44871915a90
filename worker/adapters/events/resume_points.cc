#include "worker/adapters/events/resume_points.h"

#include <algorithm>
#include <limits>
#include <span>
#include <unordered_map>
#include <utility>

namespace roost::worker::adapters {
namespace {

constexpr std::uint8_t kMostCopies = std::numeric_limits<std::uint8_t>::max();
constexpr std::uint32_t kAllBefore = std::numeric_limits<std::uint32_t>::max();

// The block so many levels above; null above the first.
const TreeBlock* Above(const TreeBlock* block, std::uint64_t levels) {
  for (; levels > 0 && block != nullptr; --levels) block = block->parent;
  return block;
}

}  // namespace

std::uint32_t ResumePoints::Group::needed_blocks() const {
  if (attention == Attention::kFull) return kAllBefore;
  if (attention == Attention::kRecurrent || window_tokens < 2) return 1;
  return (window_tokens - 2) / block_tokens + 1;
}

// ---- what the groups hold ----

ResumePoints::Group* ResumePoints::Learn(const Stored& stored) {
  const auto known = std::find_if(groups_.begin(), groups_.end(),
                                  [&](const Group& group) { return group.number == stored.place.group; });
  if (known != groups_.end()) {
    // The first may have been a part of a block.
    if (stored.block_tokens > known->block_tokens) has_new_group_ = true;
    known->block_tokens = std::max(known->block_tokens, stored.block_tokens);
    return &*known;
  }
  if (stored.attention == Attention::kOther || stored.block_tokens == 0 || groups_.size() == kMaxGroups) {
    has_unknown_group_ = true;
    return nullptr;
  }
  has_new_group_ = true;
  groups_.push_back({.number = stored.place.group,
                     .attention = stored.attention,
                     .block_tokens = stored.block_tokens,
                     .window_tokens = stored.window_tokens});
  return &groups_.back();
}

std::uint32_t ResumePoints::BitOf(const Group& group) const {
  return 1U << static_cast<std::size_t>(&group - groups_.data());
}

void ResumePoints::Store(const Stored& stored) {
  const Group* group = Learn(stored);
  if (group == nullptr) return;
  const std::uint32_t bit = BitOf(*group);
  const auto index = static_cast<std::size_t>(group - groups_.data());
  std::span<const std::string> names = stored.hashes;
  const bool names_all = std::uint64_t{names.size()} * stored.block_tokens >= stored.token_ids.size();
  const bool begins_prompt = !stored.parent && names_all && !names.empty();
  const bool is_perhaps_found = begins_prompt && (expects_found_runs_ || IsResumable(names.back()));
  if (is_perhaps_found) names = names.last(std::min<std::size_t>(names.size(), group->needed_blocks()));
  for (const std::string& name : names) {
    Holders holders;
    if (const auto held = held_.find(name); held != held_.end()) holders = held->second;
    const std::uint32_t before = holders.groups;
    // A run that was perhaps found adds no copy.
    const bool is_new = (before & bit) == 0 || !is_perhaps_found;
    if (is_new && holders.copies[index] < kMostCopies) ++holders.copies[index];
    holders.groups |= bit;
    SetHolders(name, before, holders);
  }
}

void ResumePoints::Remove(const Removed& removed) {
  const auto group = std::find_if(groups_.begin(), groups_.end(),
                                  [&](const Group& known) { return known.number == removed.place.group; });
  if (group == groups_.end()) return;
  const std::uint32_t bit = BitOf(*group);
  const auto index = static_cast<std::size_t>(group - groups_.begin());
  for (const std::string& name : removed.hashes) {
    const auto held = held_.find(name);
    if (held == held_.end() || held->second.copies[index] == 0) continue;
    Holders holders = held->second;
    const std::uint32_t before = holders.groups;
    const bool is_second = (before & bit) == 0;
    if (is_second && !tree_.counts_copies()) tree_.TrustCopies();
    const bool is_left = --holders.copies[index] > 0 && tree_.counts_copies();
    holders.groups = is_left ? before | bit : before & ~bit;
    SetHolders(name, before, holders);
  }
}

void ResumePoints::SetHolders(const std::string& name, std::uint32_t before, const Holders& after) {
  if (std::all_of(after.copies.begin(), after.copies.end(), [](std::uint8_t count) { return count == 0; })) {
    held_.erase(name);
  } else {
    held_[name] = after;
  }
  if (after.groups == before) return;
  if (TreeBlock* block = tree_.Find(name)) {
    block->groups = after.groups;
    block->watched = true;
  }
  changed_.push_back({name, before ^ after.groups});
}

void ResumePoints::OnAdded(TreeBlock& block) {
  const auto held = held_.find(*block.name);
  if (held == held_.end() || held->second.groups == 0) return;
  block.groups = held->second.groups;
  block.watched = true;
}

void ResumePoints::Empty() {
  held_.clear();
  changed_.clear();
  open_.clear();
  digest_ = BlockHash();
  (void)tree_.TakeTurned();
  points_.clear();  // the tree's removals tell of it
}

void ResumePoints::Forget() {
  Empty();
  groups_.clear();
  has_unknown_group_ = false;
}

// ---- where every group can go on ----

bool ResumePoints::can_follow(MainBlocks main) const {
  if (has_unknown_group_) return false;
  if (groups_.empty()) return true;
  return main.tokens > 0 && std::all_of(groups_.begin(), groups_.end(), [main](const Group& group) {
           return group.attention == Attention::kRecurrent || group.block_tokens % main.tokens == 0;
         });
}

std::uint64_t ResumePoints::LevelsOf(const Group& group, MainBlocks main) {
  return std::uint64_t{group.block_tokens / main.tokens} * main.parts;
}

void ResumePoints::Settle(MainBlocks main) {
  if (tree_.counts_copies() && !std::exchange(trusts_counts_, true)) TrustCounts();
  const std::vector<Change> changed = std::exchange(changed_, {});
  Names names;
  for (BlockTree::Turned& turned : tree_.TakeTurned()) {
    if (turned.is_removed) points_[turned.hash].is_told = false;
    Touch(turned.hash);
    names.push_back(std::move(turned.name));
  }
  if (std::exchange(has_new_group_, false) || !can_follow(main)) {
    for (const auto& [name, hash] : open_) names.push_back(name);
  }
  for (const Change& change : changed) names.push_back(change.name);
  if (can_follow(main)) {
    for (const Group& group : groups_) AddDependents(changed, group, main, names);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  for (const std::string& name : names) Judge(name, main);
}

// A group holds what one copy of several went of.
void ResumePoints::TrustCounts() {
  std::vector<std::pair<std::string, Holders>> doubted;
  for (const auto& [name, holders] : held_) {
    Holders all = holders;
    for (std::size_t index = 0; index < kMaxGroups; ++index) all.groups |= all.copies[index] > 0 ? 1U << index : 0;
    if (all.groups != holders.groups) doubted.emplace_back(name, all);
  }
  for (const auto& [name, holders] : doubted) SetHolders(name, held_[name].groups, holders);
}

// Behind a block that the group does not hold, none needs the ones before it. Runs are stored front to back, so from
// the last change on each block is visited once.
void ResumePoints::AddDependents(const std::vector<Change>& changed, const Group& group, MainBlocks main,
                                 Names& names) const {
  const std::uint64_t needed = group.needed_blocks();
  if (needed == 1) return;
  const std::uint32_t bit = BitOf(group);
  const std::uint64_t levels = LevelsOf(group, main);
  struct Visit {
    const TreeBlock* block;
    std::uint64_t depth;  // below the change, in levels
  };
  std::unordered_map<const TreeBlock*, std::uint64_t> least_depth;
  std::vector<Visit> stack;
  for (auto change = changed.rbegin(); change != changed.rend(); ++change) {
    const TreeBlock* const top = (change->groups & bit) == 0 ? nullptr : tree_.Find(change->name);
    if (top != nullptr) stack.push_back({top, 0});
    while (!stack.empty()) {
      const auto [block, depth] = stack.back();
      stack.pop_back();
      const bool is_end = depth > 0 && depth % levels == 0;
      if (!block->visible || (is_end && (block->groups & bit) == 0)) continue;
      const auto [seen, is_new] = least_depth.try_emplace(block, depth);
      if (!is_new && seen->second <= depth) continue;
      seen->second = depth;
      if (is_new && is_end) names.push_back(*block->name);
      if (depth / levels + 1 >= needed) continue;
      for (const TreeBlock* child = block->first_child; child != nullptr; child = child->next) {
        stack.push_back({child, depth + 1});
      }
    }
  }
}

bool ResumePoints::CanGoOn(const TreeBlock& block, MainBlocks main) const {
  if (!block.visible || !block.identity.is_whole() || groups_.empty() || !can_follow(main)) return false;
  return std::all_of(groups_.begin(), groups_.end(),
                     [&](const Group& group) { return HoldsEnough(block, group, main); });
}

bool ResumePoints::HoldsEnough(const TreeBlock& block, const Group& group, MainBlocks main) const {
  const std::uint32_t bit = BitOf(group);
  const std::uint32_t needed = group.needed_blocks();
  const TreeBlock* at = &block;
  for (std::uint32_t count = 0; count < needed; ++count) {
    if ((at->groups & bit) == 0) return false;
    at = count + 1 < needed ? Above(at, LevelsOf(group, main)) : at;
    if (at == nullptr) return true;  // it holds all from the first one on
  }
  return true;
}

void ResumePoints::Judge(const std::string& name, MainBlocks main) {
  const TreeBlock* block = tree_.Find(name);
  if (block != nullptr && CanGoOn(*block, main)) {
    Open(name, block->identity.hash);
  } else {
    Close(name);
  }
}

void ResumePoints::Open(const std::string& name, BlockHash hash) {
  if (const auto open = open_.find(name); open != open_.end()) {
    if (open->second == hash) return;
    Close(name);  // the engine gave the name to another block
  }
  open_.emplace(name, hash);
  Touch(hash);
  if (++points_[hash].names == 1) digest_ = digest_ ^ hash;
}

void ResumePoints::Close(const std::string& name) {
  const auto open = open_.find(name);
  if (open == open_.end()) return;
  const BlockHash hash = open->second;
  open_.erase(open);
  Touch(hash);
  if (--points_[hash].names == 0) digest_ = digest_ ^ hash;
}

// ---- what is told ----

ResumePoints::Changes ResumePoints::TakeChanges() {
  Changes changes;
  for (const BlockHash hash : std::exchange(touched_, {})) {
    const auto point = points_.find(hash);
    if (point == points_.end()) continue;
    const bool is_resumable = point->second.names > 0;
    if (is_resumable != point->second.is_told) {
      (is_resumable ? changes.resumable : changes.unresumable).push_back(hash);
    }
    point->second.is_told = is_resumable;
    if (!is_resumable) points_.erase(point);
  }
  return changes;
}

std::vector<BlockHash> ResumePoints::All() const {
  std::vector<BlockHash> all;
  for (const auto& [hash, point] : points_) {
    if (point.names > 0) all.push_back(hash);
  }
  return all;
}

std::uint32_t ResumePoints::LastBefore(std::span<const BlockHash> hashes, std::uint32_t most) const {
  const auto can_go_on = [this](BlockHash hash) {
    const auto point = points_.find(hash);
    return point != points_.end() && point->second.names > 0;
  };
  auto count = static_cast<std::uint32_t>(std::min<std::size_t>(most, hashes.size()));
  while (count > 0 && !can_go_on(hashes[count - 1])) --count;
  return count;
}

}  // namespace roost::worker::adapters
