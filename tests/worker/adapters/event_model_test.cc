// A random engine with a random network, its events followed through order and book: the view is what the engine has
// wherever it claims to be exact, part of that elsewhere, and keeps the contract of wire::CacheEvent all the time.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/clock.h"
#include "common/base/rng.h"
#include "tests/worker/adapters/event_tools.h"
#include "worker/adapters/events/cache_salt.h"
#include "worker/adapters/events/event_order.h"
#include "worker/link/snapshot_mirror.h"

namespace roost::worker::adapters {
namespace {

using testing_support::Followed;

constexpr std::uint32_t kModelTokens = 4;   // of our blocks
constexpr std::uint32_t kModelBlocks = 60;  // of the engine
constexpr BlockHash kModelDefault{61, 62};

// Prompts of a small alphabet, so that they share prefixes. A node is a salt and the tokens up to its end; two engines'
// blocks with different salts may be one block of ours. Its blocks have `block_tokens` tokens each.
class RandomEngine {
 public:
  struct Node {
    std::optional<std::string> parent;
    std::vector<BlockHash> hashes;  // of our blocks that end within this one
    std::uint32_t copies = 0;
  };

  RandomEngine(std::uint64_t seed, std::uint32_t block_tokens) : rng_(seed), block_tokens_(block_tokens) {}

  // The changes of one message. The first ones show that each copy which goes is told.
  std::vector<CacheChange> Step() {
    std::vector<CacheChange> changes;
    if (std::exchange(is_new_, false)) return ProveCopies();
    if (rng_.Below(150) == 0) {
      for (auto& [name, node] : nodes_) node.copies = 0;
      copies_ = 0;
      changes.push_back(Cleared{0});
    }
    for (std::uint64_t count = rng_.Below(4); count > 0; --count) {
      const bool is_full = copies_ + MostBlocks() > kModelBlocks;
      if (is_full || rng_.Below(2) == 0) {
        RemoveAny(changes);
      } else {
        StoreAny(changes);
      }
    }
    return changes;
  }

  // Our hashes of the blocks that a request can reach.
  [[nodiscard]] std::set<BlockHash> Reachable() const {
    std::set<BlockHash> hashes;
    for (const auto& [name, node] : nodes_) {
      if (IsReachable(node)) hashes.insert(node.hashes.begin(), node.hashes.end());
    }
    return hashes;
  }

 private:
  // The most blocks of a prompt.
  [[nodiscard]] std::uint32_t MostBlocks() const { return 5 * std::max(1U, kModelTokens / block_tokens_); }
  [[nodiscard]] bool IsReachable(const Node& node) const {
    return node.copies > 0 && (!node.parent || IsReachable(nodes_.at(*node.parent)));
  }

  std::vector<CacheChange> ProveCopies() const {
    Stored first;
    first.block_tokens = block_tokens_;
    first.hashes = {"one"};
    first.token_ids.assign(block_tokens_, 5000);
    Stored second = first;
    second.hashes = {"two"};
    second.parent = "one";
    const Removed removed{{}, {"two"}};
    return {first, second, second, removed, removed, Removed{{}, {"one"}}};
  }

  // A prompt whose blocks all have one of two contents; stored from a block on whose parent has a copy.
  void StoreAny(std::vector<CacheChange>& changes) {
    std::vector<TokenId> tokens;
    std::string contents;
    for (std::uint64_t blocks = 1 + rng_.Below(MostBlocks()); blocks > 0; --blocks) {
      const auto content = static_cast<TokenId>(rng_.Below(2));
      contents += static_cast<char>('a' + content);
      for (std::uint32_t i = 0; i < block_tokens_; ++i) tokens.push_back(content * 100 + i);
    }
    const SaltedRoots roots = AnyRoots(tokens);
    const std::string salt = SaltOf(roots.root, roots.own, kModelDefault);
    std::vector<std::string> names;
    for (std::size_t size = 1; size <= contents.size(); ++size) names.push_back(salt + contents.substr(0, size));
    std::size_t first = rng_.Below(names.size());
    // It finds the blocks that are there, all but the last one.
    const bool has_all = std::all_of(names.begin(), names.end(), [this](const std::string& name) {
      return nodes_.contains(name) && nodes_[name].copies > 0;
    });
    if (has_all) first = names.size() - 1;
    if (has_all && first == 0) return;
    while (first > 0 && (!nodes_.contains(names[first - 1]) || nodes_[names[first - 1]].copies == 0)) --first;
    StoreFrom(first, names, tokens, HashBlocks(roots.root, roots.own, tokens, kModelTokens), salt, changes);
  }

  // Roots of no tenant, of one without a shared prefix, or of one of two with one.
  SaltedRoots AnyRoots(const std::vector<TokenId>& tokens) {
    const std::uint64_t choice = rng_.Below(4);
    if (choice == 0) return {kModelDefault, std::nullopt};
    constexpr BlockHash kTenants{71, 72};
    const std::vector<BlockHash> shared = HashBlocks(kTenants, tokens, kModelTokens);
    const auto first_block = static_cast<std::uint32_t>(1 + rng_.Below(2));
    if (choice == 1 || first_block >= shared.size()) return {kTenants, std::nullopt};
    return {kTenants, OwnScope{first_block, OwnRoot({0, choice}, shared[first_block - 1])}};
  }

  void StoreFrom(std::size_t first, const std::vector<std::string>& names, const std::vector<TokenId>& tokens,
                 const std::vector<BlockHash>& hashes, const std::string& salt, std::vector<CacheChange>& changes) {
    Stored stored;
    stored.block_tokens = block_tokens_;
    if (first > 0) stored.parent = names[first - 1];
    if (first == 0 && !salt.empty()) {
      stored.salt = salt;
      stored.extra_keys = {ExtraKeys::kSalt};
    }
    for (std::size_t i = first; i < names.size(); ++i) {
      stored.hashes.push_back(names[i]);
      Node& node = nodes_[names[i]];
      node.hashes.clear();
      for (std::size_t ours = i * block_tokens_ / kModelTokens; ours < (i + 1) * block_tokens_ / kModelTokens; ++ours) {
        node.hashes.push_back(hashes[ours]);
      }
      if (i > 0) node.parent = names[i - 1];
      ++node.copies;
      ++copies_;
    }
    stored.token_ids.assign(tokens.begin() + static_cast<std::ptrdiff_t>(first * block_tokens_), tokens.end());
    changes.push_back(std::move(stored));
  }

  // Any block, whether or not others are behind it.
  void RemoveAny(std::vector<CacheChange>& changes) {
    std::vector<std::string> names;
    for (const auto& [name, node] : nodes_) {
      if (node.copies > 0) names.push_back(name);
    }
    if (names.empty()) return;
    const std::string& name = names[rng_.Below(names.size())];
    --nodes_[name].copies;
    --copies_;
    changes.push_back(Removed{{}, {name}});
  }

  Rng rng_;
  const std::uint32_t block_tokens_;
  bool is_new_ = true;
  std::map<std::string, Node> nodes_;
  std::uint32_t copies_ = 0;
};

// The engine, what it has sent, and a subscriber that misses some of it.
class RandomFeed {
 public:
  RandomFeed(std::uint64_t seed, std::uint32_t block_tokens, EventOrder::Replay replay)
      : rng_(seed),
        block_tokens_(block_tokens),
        engine_(std::in_place, seed + 1, block_tokens),
        order_({.replay = replay}, clock_.Now()) {}

  void Step() {
    if (sent_.size() > 20 && rng_.Below(200) == 0) NewLife();
    sent_.push_back(engine_->Step());
    const std::uint64_t number = sent_.size() - 1;
    const bool is_lost = rng_.Below(10) == 0;
    if (!is_lost) order_.TakeLive(number, Name(number), clock_.Now());
    RunSteps();
    if (asked_ && rng_.Below(3) == 0) Answer();
    if (rng_.Below(20) == 0) Pass();
    // After a live message without a replay under way nothing is missing.
    Check(!is_lost && !order_.is_replaying());
  }

  int exact_checks = 0;
  int partial_checks = 0;
  std::size_t most_seen = 0;

  [[nodiscard]] const EventOrder::Counts& counts() const { return order_.counts(); }

 private:
  [[nodiscard]] std::string Name(std::uint64_t number) const { return fmt::format("{} {}", life_, number); }

  void NewLife() {
    ++life_;
    engine_.emplace(rng_(), block_tokens_);
    sent_.clear();
  }

  // The replay's answers: from the buffer, perhaps with some lost, perhaps without the end.
  void Answer() {
    const std::uint64_t buffered = rng_.Below(4) == 0 ? 5 : 1000;
    const std::uint64_t oldest = sent_.size() > buffered ? sent_.size() - buffered : 0;
    const std::uint64_t first = std::max(*asked_, oldest);
    const bool is_lossy = rng_.Below(4) == 0;
    asked_.reset();
    for (std::uint64_t number = first; number < sent_.size() && !asked_; ++number) {
      if (is_lossy && rng_.Below(4) == 0) continue;
      order_.TakeReplayed(number, Name(number), clock_.Now());
      RunSteps();
    }
    if (asked_ || is_lossy) return;
    order_.TakeReplayEnd(clock_.Now());
    RunSteps();
  }

  void Pass() {
    clock_.Advance(std::chrono::seconds(6));
    order_.Tick(clock_.Now());
    RunSteps();
  }

  void RunSteps() {
    while (const auto step = order_.Next()) {
      if (const auto* apply = std::get_if<EventOrder::Apply>(&*step)) {
        Apply(apply->payload);
      } else if (const auto* ask = std::get_if<EventOrder::AskReplay>(&*step)) {
        asked_ = ask->first;
      } else if (std::holds_alternative<EventOrder::EndReplay>(*step)) {
        asked_.reset();
      } else {
        followed_.book.Clear();
        followed_.Take();
      }
    }
  }

  void Apply(const std::string& name) {
    const std::size_t space = name.find(' ');
    if (std::stoi(name) != life_) return;  // only a restart that could not be seen yet
    for (const CacheChange& change : sent_.at(std::stoul(name.substr(space)))) {
      followed_.Apply({change});
      if (followed_.last == BlockBook::Outcome::kEmptied) order_.OnCleared();
      EXPECT_NE(followed_.last, BlockBook::Outcome::kOverflow);
    }
  }

  void Check(bool is_up_to_date) {
    if (!is_up_to_date) return;
    const std::set<BlockHash> there = engine_->Reachable();
    const std::set<BlockHash> seen = followed_.receiver.hashes();
    if (order_.exact()) {
      EXPECT_EQ(seen, there);
      ++exact_checks;
    } else {
      EXPECT_TRUE(std::includes(there.begin(), there.end(), seen.begin(), seen.end()));
      ++partial_checks;
    }
    most_seen = std::max(most_seen, seen.size());
    SnapshotMirror mirror(kModelBlocks * std::max(1U, block_tokens_ / kModelTokens));
    mirror.Assign(followed_.book.Snapshot());
    EXPECT_EQ(mirror.digest(), followed_.book.digest());
    EXPECT_EQ(mirror.ready_count(), followed_.book.block_count());
  }

  Rng rng_;
  const std::uint32_t block_tokens_;
  ManualClock clock_;
  int life_ = 1;
  std::optional<RandomEngine> engine_;
  std::vector<std::vector<CacheChange>> sent_;  // in this life, by number
  EventOrder order_;
  std::optional<std::uint64_t> asked_;
  // Room for long chains of pieces with holes: an engine of its own makes none.
  Followed followed_{{.block_tokens = kModelTokens,
                      .default_root = kModelDefault,
                      .max_blocks = 4 * kModelBlocks * std::max(1U, block_tokens_ / kModelTokens)}};
};

// The engine's blocks are as ours, larger by a factor, or pieces of ours.
TEST(EventModelTest, TheViewIsWhatTheEngineHas) {
  for (std::uint64_t seed = 1; seed <= 20 && !testing::Test::HasFailure(); ++seed) {
    constexpr std::array<std::uint32_t, 5> kSizes{kModelTokens, 3 * kModelTokens, 1, 2, 28 * kModelTokens};
    const std::uint32_t block_tokens = kSizes[seed % kSizes.size()];
    SCOPED_TRACE(fmt::format("seed {}, blocks of {} tokens", seed, block_tokens));
    const auto replay = seed % 4 == 0 ? EventOrder::Replay::kNone : EventOrder::Replay::kCanAsk;
    RandomFeed feed(seed, block_tokens, replay);
    for (int step = 0; step < 600 && !testing::Test::HasFailure(); ++step) feed.Step();
    EXPECT_GT(feed.exact_checks, 20);
    EXPECT_GT(feed.partial_checks, 20);
    EXPECT_GT(feed.counts().gaps, 10U);
    EXPECT_GT(feed.most_seen, 3U);
  }
}

}  // namespace
}  // namespace roost::worker::adapters
