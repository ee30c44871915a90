// Does the same random operations on a prefix cache and on a naive one, and compares every answer, every event and,
// after each operation, everything that the cache reports about its state, with its invariants. The operations are
// those of requests (match, allocate, commit, fork, preempt, release, with or without leaving a partial block), of
// operators (pin, erase) and of time.
//
// A driver holds one run: the pool, the caches, and users that hold blocks. Equal choices give equal runs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "tests/model/cache_choices.h"
#include "tests/model/cache_comparison.h"
#include "tests/model/choices.h"
#include "tests/model/expect.h"
#include "tests/model/naive_cache.h"
#include "tests/model/naive_erasure.h"
#include "tests/support/cache_user.h"
#include "worker/cache/cache_eraser.h"
#include "worker/cache/prefix_cache.h"

namespace roost::testing_support {

class CacheDriver {
 public:
  static constexpr std::uint32_t kBlockTokens = CacheChoices::kBlockTokens;
  static constexpr std::uint32_t kMaxBlocks = 64;

  // `choices` outlives it.
  CacheDriver(Choices& choices, Honesty honesty)
      : choices_(choices, honesty),
        block_count_(1 + choices_.Below(kMaxBlocks)),
        options_(choices_.Options()),
        group_count_(static_cast<std::uint32_t>(options_.group_shares.size()) + 1),
        pool_(block_count_),
        cache_(pool_, options_, std::make_unique<worker::LruEviction>(block_count_, group_count_)),
        naive_(block_count_, options_),
        comparison_(cache_, naive_, pool_, group_count_) {
    for (const std::string_view name : {"a", "b"}) tenants_.push_back(cache_.tenants().Join(name));
  }

  // Does one operation. The error says what differs.
  Result<void> Step() {
    ROOST_RETURN_IF_ERROR(Operate());
    return Compare();
  }

  // All users release their blocks, and all blocks are taken, one after the other: this shows the whole order of
  // eviction.
  Result<void> Finish() {
    while (!users_.empty()) ROOST_RETURN_IF_ERROR(End(users_.size() - 1));
    ROOST_RETURN_IF_ERROR(Compare());
    ROOST_RETURN_IF_ERROR(
        Expect(pool_.referenced_count() == 0, "nobody holds a block, and {} are referenced", pool_.referenced_count()));
    ROOST_RETURN_IF_ERROR(Squeeze(block_count_));
    ROOST_RETURN_IF_ERROR(Compare());
    for (std::uint32_t held = naive_.held_count(); held > 0; --held) ROOST_RETURN_IF_ERROR(EvictHeld());
    ROOST_RETURN_IF_ERROR(Expect(naive_.held_count() == 0, "{} held blocks are never to be had", naive_.held_count()));
    return Compare();
  }

 private:
  // blocks[0 … ready_count) are ready; the others are the user's own, or shared with a fork only.
  struct User {
    explicit User(CacheUser prompt) : held(std::move(prompt)) {}

    CacheUser held;
    std::size_t ready_count = 0;
    std::optional<BlockId> tail;  // also held, to copy rows from
    bool collided = false;        // it can store nothing more
  };
  using Kind = worker::CommitResult::Kind;

  // ---- operations ----

  Result<void> Operate() {
    const std::uint32_t choice = choices_.Below(33);
    if (choice == 32) return choices_.OneIn(3) ? EraseTenant() : ErasePrompt();
    if (choice == 0) return AdvanceTime();
    if (choice == 1) return Pin();
    if (choice == 2) return Unpin();
    if (choice == 3) return Want();
    if (choice == 4) return Unwant();
    if (choice == 5 && choices_.OneIn(2)) return EndRetention();
    if (choice == 6 && choices_.OneIn(4)) return EvictHeld();
    if (choice == 5) return choices_.OneIn(4) ? Squeeze(1 + choices_.Below(block_count_)) : Squeeze(1);
    if (users_.empty() || (choice < 10 && users_.size() < 8)) return Begin();
    const std::size_t which = choices_.Below(users_.size());
    User& user = users_[which];
    if (choice < 12) return End(which);
    if (choice == 12) return Preempt(user);
    if (choice == 13) return MatchAll(user);
    if (choice == 14) return Fork(which);
    if (choice < 17) return CopyLast(user);
    if (choice < 19) return TakeTail(user);
    if (choice < 21) return MatchNext(user);
    if (choice < 24) return AllocateNext(user);
    return FillNext(user);
  }

  Result<void> Begin() {
    users_.emplace_back(choices_.Prompt(group_count_, tenants_));
    return MatchAll(users_.back());
  }

  Result<void> MatchAll(User& user) {
    if (!user.held.blocks.empty()) return {};
    const std::uint32_t limit = choices_.Below(12);
    const std::vector<BlockId> expected = naive_.Match(user.held.chain(), limit);
    std::vector<worker::BlockRef> matched;
    cache_.Match(user.held.chain(), limit, matched);
    const bool equal = std::equal(matched.begin(), matched.end(), expected.begin(), expected.end(),
                                  [](worker::BlockRef ref, BlockId block) { return ref.block == block; });
    ROOST_RETURN_IF_ERROR(Expect(equal, "{} blocks matched, should be {}", matched.size(), expected.size()));
    for (const worker::BlockRef ref : matched) ROOST_RETURN_IF_ERROR(Take(user, ref));
    return {};
  }

  // Takes a matched block, after the user's other blocks.
  Result<void> Take(User& user, worker::BlockRef ref) {
    ROOST_RETURN_IF_ERROR(CheckAvailable(ref));
    cache_.Acquire(ref);
    naive_.Acquire(ref.block);
    user.held.blocks.push_back(ref.block);
    ++user.ready_count;
    return {};
  }
  Result<void> CheckAvailable(worker::BlockRef ref) {
    const NaiveCache::Entry* entry = std::as_const(naive_).Get(ref.block);
    ROOST_RETURN_IF_ERROR(Expect(entry != nullptr, "block {} is not ready", ref.block.value()));
    const bool agree = cache_.IsAvailable(ref) == naive_.IsAvailable(*entry) &&
                       cache_.claims().IsHeld(ref.block.value()) == entry->held;
    return Expect(agree, "block {} is available or held, or is not", ref.block.value());
  }

  [[nodiscard]] static bool IsPending(const User& user) { return user.held.blocks.size() > user.ready_count; }
  [[nodiscard]] static std::optional<BlockId> ParentOf(const User& user, std::size_t index) {
    return index == 0 ? std::nullopt : std::optional(user.held.blocks[index - 1]);
  }

  Result<void> MatchNext(User& user) {
    const auto index = static_cast<std::uint32_t>(user.held.blocks.size());
    if (user.collided || IsPending(user) || index >= user.held.hashes.size()) return {};
    const std::optional<BlockId> expected = naive_.Find(user.held.chain(), index, ParentOf(user, index));
    const std::optional<worker::BlockRef> found = cache_.Find(user.held.chain(), index, user.held.blocks);
    ROOST_RETURN_IF_ERROR(Expect(found.has_value() == expected.has_value(), "block {} is found, or is not", index));
    if (!found) return {};
    ROOST_RETURN_IF_ERROR(Expect(found->block == *expected, "block {} is another one", index));
    ROOST_RETURN_IF_ERROR(LetTailGo(user));
    return Take(user, *found);
  }

  // Looks for the tail, and holds it instead of an earlier one.
  Result<void> TakeTail(User& user) {
    if (IsPending(user)) return {};
    const std::uint32_t limit = choices_.Below(kBlockTokens + 2);
    const worker::BlockChain chain = user.held.chain();
    const std::uint32_t expected = naive_.TailTokens(chain, user.held.blocks, limit);
    const std::optional<worker::TailMatch> tail = cache_.FindTail(chain, user.held.blocks, limit);
    const std::uint32_t token_count = tail ? tail->token_count : 0;
    ROOST_RETURN_IF_ERROR(Expect(token_count == expected, "a tail of {} tokens, should be {}", token_count, expected));
    if (!tail) return {};
    const NaiveCache::Entry* entry = std::as_const(naive_).Get(tail->block.block);
    ROOST_RETURN_IF_ERROR(Expect(entry != nullptr, "the tail is not ready"));
    const std::uint32_t shared = naive_.SharedTokens(*entry, chain, user.held.blocks, limit);
    ROOST_RETURN_IF_ERROR(Expect(shared == expected, "the tail shares {} tokens, not {}", shared, expected));
    ROOST_RETURN_IF_ERROR(LetTailGo(user));
    ROOST_RETURN_IF_ERROR(CheckAvailable(tail->block));
    cache_.Acquire(tail->block);
    naive_.Acquire(tail->block.block);
    user.tail = tail->block.block;
    return {};
  }
  Result<void> LetTailGo(User& user) {
    if (user.tail) Release(*user.tail, {}, {});
    user.tail.reset();
    return {};
  }

  // Empty if no block can be allocated.
  Result<std::optional<BlockId>> Allocate(worker::EvictionGroup group) {
    const bool possible = naive_.Allocate(group.value());
    const std::optional<BlockId> block = cache_.Allocate(group);
    ROOST_RETURN_IF_ERROR(Expect(block.has_value() == possible, "there is room, or there is not"));
    if (block) naive_.Own(*block);
    return block;
  }

  // Allocates one more block, up to a partial one at the end.
  Result<void> AllocateNext(User& user) {
    if (user.held.blocks.size() * kBlockTokens >= user.held.tokens.size()) return {};
    ROOST_ASSIGN_OR_RETURN(const std::optional<BlockId> block, Allocate(user.held.group));
    if (block) user.held.blocks.push_back(*block);
    return {};
  }

  Result<void> FillNext(User& user) {
    if (user.ready_count >= user.held.hashes.size() || user.collided) return {};
    if (!IsPending(user)) ROOST_RETURN_IF_ERROR(AllocateNext(user));
    if (!IsPending(user)) return {};
    const auto index = static_cast<std::uint32_t>(user.ready_count);
    BlockId& block = user.held.blocks[index];
    if (naive_.ReferencesOf(block) > 1) return {};  // a fork shares it
    ROOST_RETURN_IF_ERROR(LetTailGo(user));
    const worker::CommitResult expected =
        naive_.Commit(user.held.chain(), index, ParentOf(user, index), block, user.held.group.value());
    const worker::CommitResult result = cache_.Commit(user.held.chain(), index, user.held.blocks, user.held.group);
    ROOST_RETURN_IF_ERROR(Expect(result.kind == expected.kind && result.block == expected.block,
                                 "block {} is committed in another way", index));
    block = result.block;
    user.collided = result.kind == Kind::kCollided;
    if (!user.collided) ++user.ready_count;
    return {};
  }

  // Adds a user of all the same blocks, ready or not, whose text continues differently after the ready ones.
  Result<void> Fork(std::size_t which) {
    if (users_.size() >= 8) return {};
    const User& user = users_[which];
    const std::vector<TokenId>& tokens = user.held.tokens;
    const auto shared = static_cast<std::ptrdiff_t>(user.ready_count * kBlockTokens);
    std::vector<TokenId> own(tokens.begin(), tokens.begin() + shared);
    choices_.AppendTokens(own,
                          static_cast<std::uint32_t>(user.held.blocks.size() - user.ready_count) + choices_.Below(4));
    User fork(CacheUser(user.held.root, std::move(own), kBlockTokens));
    fork.ready_count = user.ready_count;
    fork.collided = user.collided;
    std::copy_n(user.held.hashes.begin(), user.ready_count, fork.held.hashes.begin());
    choices_.Lie(fork.held, user.ready_count);
    fork.held.group = user.held.group;
    fork.held.tenant = user.held.tenant;
    fork.held.blocks = user.held.blocks;
    for (const BlockId block : fork.held.blocks) {
      cache_.Share(block);
      naive_.Acquire(block);
    }
    users_.push_back(std::move(fork));
    return {};
  }

  // Copy on write: replaces the last block, which a fork holds too, by a block of its own.
  Result<void> CopyLast(User& user) {
    if (!IsPending(user) || naive_.ReferencesOf(user.held.blocks.back()) == 1) return {};
    ROOST_ASSIGN_OR_RETURN(const std::optional<BlockId> block, Allocate(user.held.group));
    if (!block) return {};
    Release(user.held.blocks.back(), {}, {});
    user.held.blocks.back() = *block;
    return {};
  }

  void Release(BlockId block, const worker::RequestUse& use, const worker::RequestRetention& retention) {
    naive_.Release(block, use, retention);
    cache_.Release(block, use, retention);
  }
  // Stores its own block right after the ready ones, partly filled, if no other user holds it.
  void StorePartial(User& user) {
    const std::size_t begin = user.ready_count * kBlockTokens;
    if (user.collided || user.held.blocks.size() != user.ready_count + 1) return;
    if (naive_.ReferencesOf(user.held.blocks.back()) > 1) return;
    const auto token_count = choices_.Below(std::min<std::size_t>(user.held.tokens.size() - begin + 1, kBlockTokens));
    if (token_count == 0) return;
    const std::span<const BlockId> blocks(user.held.blocks);
    naive_.StorePartial(user.held.chain(), blocks.first(user.ready_count), blocks.back(), token_count,
                        user.held.group.value());
    cache_.StorePartial(user.held.chain(), blocks, token_count, user.held.group);
  }
  // The user may match again later.
  Result<void> Preempt(User& user) {
    ROOST_RETURN_IF_ERROR(LetTailGo(user));
    StorePartial(user);
    const worker::RequestUse use{.number = ++released_, .prompt_token_count = choices_.Below(40)};
    const worker::RequestRetention retention{.prompt = choices_.Retention(now_), .decode = choices_.Retention(now_)};
    std::vector<BlockId>& blocks = user.held.blocks;
    if (user.ready_count > 0) retained_.push_back({pool_.RefTo(blocks[user.ready_count - 1]), retention});
    if (retained_.size() > 4) retained_.erase(retained_.begin());
    for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) Release(*block, use, retention);
    blocks.clear();
    user.ready_count = 0;
    user.collided = false;
    return {};
  }
  Result<void> End(std::size_t which) {
    ROOST_RETURN_IF_ERROR(Preempt(users_[which]));
    users_.erase(users_.begin() + static_cast<std::ptrdiff_t>(which));
    return {};
  }

  // Pressure: takes this many blocks, and gives them back.
  Result<void> Squeeze(std::uint32_t count) {
    std::vector<BlockId> taken;
    const worker::EvictionGroup group(choices_.Below(group_count_));
    const std::uint32_t expected = std::min(count, naive_.available_count());
    for (; count > 0; --count) {
      ROOST_ASSIGN_OR_RETURN(const std::optional<BlockId> block, Allocate(group));
      if (!block) break;
      taken.push_back(*block);
    }
    for (const BlockId block : taken) Release(block, {}, {});
    return Expect(taken.size() == expected, "{} blocks to be had, {} were promised", taken.size(), expected);
  }

  // Evicts a held block for a request that needs it.
  Result<void> EvictHeld() {
    const std::uint32_t group = choices_.Below(group_count_);
    const bool expected = naive_.EvictHeld(group);
    return Expect(cache_.EvictHeld(worker::EvictionGroup(group)) == expected, "there is a held block, or there is not");
  }

  // ---- what is erased ----

  Result<void> ErasePrompt() {
    CacheUser prompt = users_.empty() || choices_.OneIn(3) ? choices_.Prompt(group_count_, tenants_)
                                                           : users_[choices_.Below(users_.size())].held;
    if (choices_.OneIn(2)) prompt.tokens.resize(choices_.Below(prompt.tokens.size() + 1));
    prompt.hashes.resize(prompt.tokens.size() / kBlockTokens);
    if (prompt.tokens.empty()) return {};
    const worker::BlockChain chain = prompt.chain();
    const auto erase = [&](worker::EraseStep& step) { return worker::CacheEraser(cache_).ErasePrompt(chain, step); };
    ROOST_RETURN_IF_ERROR(EraseAll(NaiveErasure(naive_).Of(chain), erase));
    naive_.ForgetMissing(chain.hashes);
    return {};
  }
  Result<void> EraseTenant() {
    const worker::TenantId id = tenants_[choices_.Below(tenants_.size())];
    return EraseAll(NaiveErasure(naive_).Of(id),
                    [&](worker::EraseStep& step) { return worker::CacheEraser(cache_).EraseTenant(id, step); });
  }
  // Block by block, so that the naive cache follows in the same order.
  template <typename Erase>
  Result<void> EraseAll(std::vector<BlockId> going, const Erase& erase) {
    for (auto progress = worker::EraseProgress::kUnfinished; progress == worker::EraseProgress::kUnfinished;) {
      worker::EraseStep step{.budget = 1};
      progress = erase(step);
      ROOST_RETURN_IF_ERROR(FollowErased(step, going));
      const bool goes_on = progress == worker::EraseProgress::kUnfinished;
      if (goes_on) ROOST_RETURN_IF_ERROR(step.budget == 0 ? Compare() : Expect(false, "an erasure stops early"));
    }
    return Expect(going.empty(), "{} blocks are left of an erasure", going.size());
  }
  Result<void> FollowErased(const worker::EraseStep& step, std::vector<BlockId>& going) {
    const auto is_gone = [this](BlockId block) { return !cache_.IsReady(block); };
    const auto gone = std::find_if(going.begin(), going.end(), is_gone);
    const std::uint32_t count = step.freed + step.busy;
    ROOST_RETURN_IF_ERROR(Expect(count == (gone == going.end() ? 0U : 1U), "{} blocks are erased", count));
    if (gone == going.end()) return {};
    const bool is_right = !naive_.HasChild(*gone) && (naive_.ReferencesOf(*gone) > 0) == (step.busy == 1);
    ROOST_RETURN_IF_ERROR(Expect(is_right, "a block is erased before its child, or busy and not counted so"));
    naive_.Erase(*gone);
    going.erase(gone);
    for (User& user : users_) {
      while (user.ready_count > 0 && !cache_.IsReady(user.held.blocks[user.ready_count - 1])) {
        --user.ready_count;
        user.collided = true;
      }
    }
    return {};
  }

  // ---- pins, retention and time ----

  Result<void> AdvanceTime() {
    now_ += choices_.ShortOrLong();
    naive_.AdvanceTo(now_);
    cache_.AdvanceTo(now_);
    return {};
  }

  // Ends a retention that a user who left had asked for, or a similar one.
  Result<void> EndRetention() {
    if (retained_.empty()) return {};
    auto [last, retention] = retained_[choices_.Below(retained_.size())];
    if (choices_.OneIn(4)) std::swap(retention.prompt, retention.decode);
    if (pool_.generation(last.block) == last.generation) naive_.EndRetention(last.block, retention);
    cache_.EndRetention(last, retention);
    return {};
  }

  // Chooses a prefix: of a user's blocks, or of any prompt.
  [[nodiscard]] std::vector<BlockHash> ChoosePrefix() {
    std::vector<BlockHash> hashes = users_.empty() || choices_.OneIn(3)
                                        ? choices_.Prompt(group_count_, tenants_).hashes
                                        : users_[choices_.Below(users_.size())].held.hashes;
    hashes.resize(choices_.Below(hashes.size() + 1));
    return hashes;
  }
  // Sometimes only the blocks after some block.
  [[nodiscard]] std::span<const BlockHash> ChooseRest(std::span<const BlockHash> hashes) {
    return hashes.subspan(choices_.OneIn(2) ? choices_.Below(hashes.size() + 1) : 0);
  }
  Result<void> Pin() {
    const std::vector<BlockHash> prefix = ChoosePrefix();
    const std::span<const BlockHash> hashes = ChooseRest(prefix);
    const std::optional<Instant> end = choices_.OneIn(2) ? std::nullopt : std::optional(now_ + choices_.ShortOrLong());
    naive_.Pin(hashes, end);
    cache_.claims().Pin(hashes, end);
    return {};
  }
  Result<void> Unpin() {
    const std::vector<BlockHash> prefix = ChoosePrefix();
    const std::span<const BlockHash> hashes = ChooseRest(prefix);
    naive_.Unpin(hashes);
    cache_.claims().Unpin(hashes);
    return {};
  }

  Result<void> Want() {
    if (naive_.entries().empty() || wants_.size() >= 16) return {};
    const BlockId block = naive_.entries()[choices_.Below(naive_.entries().size())].block;
    wants_.push_back(pool_.RefTo(block));
    naive_.Want(block);
    cache_.Want(wants_.back());
    return {};
  }
  Result<void> Unwant() {
    if (wants_.empty()) return {};
    const std::size_t which = choices_.Below(wants_.size());
    const worker::BlockRef ref = wants_[which];
    if (pool_.generation(ref.block) == ref.generation) naive_.Unwant(ref.block);
    cache_.Unwant(ref);
    wants_.erase(wants_.begin() + static_cast<std::ptrdiff_t>(which));
    return {};
  }

  // ---- comparisons ----

  Result<void> Compare() {
    ROOST_RETURN_IF_ERROR(comparison_.OfEvents());
    naive_.events.clear();
    ROOST_RETURN_IF_ERROR(comparison_.OfCounts());
    ROOST_RETURN_IF_ERROR(comparison_.OfGhosts());
    for (const User& user : users_) ROOST_RETURN_IF_ERROR(comparison_.OfGhosts(user.held.hashes));
    ROOST_RETURN_IF_ERROR(cache_.CheckInvariants(References()));
    if (++compared_ % 16 == 0) return comparison_.OfSnapshot();
    return {};
  }

  // Counts references from the block tables.
  [[nodiscard]] std::vector<std::uint32_t> References() const {
    std::vector<std::uint32_t> references(block_count_);
    for (const User& user : users_) {
      for (const BlockId block : user.held.blocks) ++references[block.value()];
      if (user.tail) ++references[user.tail->value()];
    }
    return references;
  }

  CacheChoices choices_;
  const std::uint32_t block_count_;
  const worker::CacheOptions options_;
  const std::uint32_t group_count_;
  worker::BlockPool pool_;
  worker::PrefixCache cache_;
  NaiveCache naive_;
  CacheComparison comparison_;
  std::vector<worker::TenantId> tenants_{worker::TenantId()};
  std::vector<User> users_;
  std::vector<worker::BlockRef> wants_;
  std::vector<std::pair<worker::BlockRef, worker::RequestRetention>> retained_;  // of the last users that left
  Instant now_;
  std::uint64_t released_ = 0;  // requests
  std::uint64_t compared_ = 0;
};

}  // namespace roost::testing_support
