// Compares the promises of a view with the hits of an engine whose layers are in several groups: the engine's own rule,
// computed plainly from what each group holds.
#include "worker/adapters/events/resume_points.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/rng.h"
#include "tests/worker/adapters/event_tools.h"
#include "worker/link/snapshot_mirror.h"

namespace roost::worker::adapters {
namespace {

using testing_support::Followed;

constexpr std::uint32_t kGrain = 16;
constexpr BlockHash kRoot{91, 92};
constexpr std::uint32_t kPool = 60'000;  // in grains

struct GroupSpec {
  Attention attention = Attention::kFull;
  std::uint32_t block_tokens = 16;
  std::uint32_t window_tokens = 0;
};

// Groups in their order; the last one of full attention is the main one.
struct Layout {
  std::string name;
  std::vector<GroupSpec> groups;
  std::uint32_t hit_tokens = 0;  // hits are multiples of so many
};

std::vector<Layout> Layouts() {
  constexpr auto kFull = Attention::kFull;
  constexpr auto kWindow = Attention::kWindow;
  constexpr auto kRecurrent = Attention::kRecurrent;
  return {{"window", {{kWindow, 16, 64}, {kFull, 16}}, 16},
          {"large window blocks", {{kWindow, 128, 300}, {kFull, 64}}, 128},
          {"recurrent", {{kRecurrent, 448}, {kFull, 448}}, 448},
          {"recurrent 2096", {{kRecurrent, 2096}, {kFull, 2096}}, 2096},
          {"recurrent over finer blocks", {{kRecurrent, 448}, {kFull, 64}}, 448},
          {"both", {{kWindow, 128, 512}, {kRecurrent, 128}, {kFull, 128}}, 128},
          {"two windows", {{kWindow, 32, 96}, {kWindow, 32, 200}, {kFull, 32}}, 32},
          {"two of full attention", {{kFull, 64}, {kFull, 64}}, 64}};
}

enum class Duplicates { kNone, kEachTold, kToldOnce };

// An engine that computes prompts in chunks, several at a time, gives some up half way, and evicts blocks of any group.
class HybridEngine {
 public:
  HybridEngine(Layout layout, Duplicates duplicates, std::uint64_t seed)
      : layout_(std::move(layout)), duplicates_(duplicates), rng_(seed) {
    for (int i = 0; i < 4; ++i) fronts_.push_back(Random(200 + rng_.Below(5000)));
  }

  std::vector<TokenId> Prompt() {
    const std::vector<TokenId>& front = fronts_[rng_.Below(fronts_.size())];
    std::vector<TokenId> prompt(front.begin(),
                                front.begin() + static_cast<std::ptrdiff_t>(1 + rng_.Below(front.size())));
    const std::vector<TokenId> tail = Random(rng_.Below(600));
    prompt.insert(prompt.end(), tail.begin(), tail.end());
    if (rng_.Below(3) == 0) fronts_[rng_.Below(fronts_.size())] = prompt;
    return prompt;
  }

  // The rule: the last boundary, before the prompt's last token, at which every group can go on.
  [[nodiscard]] std::uint32_t Hit(const std::vector<TokenId>& prompt) const { return Hit(prompt, Names(prompt)); }
  [[nodiscard]] std::uint32_t Hit(const std::vector<TokenId>& prompt, const std::vector<std::string>& names) const {
    const auto most = static_cast<std::uint32_t>(prompt.size() - 1) / layout_.hit_tokens * layout_.hit_tokens;
    for (std::uint32_t end = most; end > 0; end -= layout_.hit_tokens) {
      bool all = true;
      for (std::size_t group = 0; group < layout_.groups.size() && all; ++group) all = CanGoOn(group, names, end);
      if (all) return end;
    }
    return 0;
  }

  // The events of one step: a chunk of each of some requests, then evictions.
  std::vector<CacheChange> Step() {
    std::vector<CacheChange> changes;
    if (rng_.Below(200) == 0) {
      held_.clear();
      running_.clear();
      changes.push_back(Cleared{0});
    }
    while (running_.size() < 3) {
      std::vector<TokenId> prompt = Prompt();
      std::vector<std::string> names = Names(prompt);
      const std::uint32_t hit = Hit(prompt, names);
      running_.push_back({std::move(prompt), std::move(names), hit});
    }
    for (auto request = running_.begin(); request != running_.end();) {
      Compute(*request, changes);
      const bool ends = request->computed == request->prompt.size() || rng_.Below(10) == 0;
      request = ends ? running_.erase(request) : request + 1;
    }
    for (std::uint64_t count = rng_.Below(2 + held_.size() / 60); count > 0 && !held_.empty(); --count) Evict(changes);
    return changes;
  }

 private:
  using Key = std::pair<std::size_t, std::string>;  // group, name
  struct Request {
    std::vector<TokenId> prompt;
    std::vector<std::string> names;  // at each grain
    std::uint32_t computed = 0;
  };

  std::vector<TokenId> Random(std::uint64_t count) {
    std::vector<TokenId> tokens(count);
    for (TokenId& token : tokens) token = static_cast<TokenId>(rng_.Below(1000));
    return tokens;
  }
  static std::vector<std::string> Names(const std::vector<TokenId>& tokens) {
    std::vector<std::string> names;
    for (const BlockHash hash : HashBlocks(kRoot, tokens, kGrain)) names.push_back("e" + hash.ToHex());
    return names;
  }
  [[nodiscard]] static std::string NameAt(const std::vector<std::string>& names, std::uint32_t end) {
    return names[end / kGrain - 1];
  }
  [[nodiscard]] bool Holds(std::size_t group, const std::vector<std::string>& names, std::uint32_t end) const {
    return held_.contains({group, NameAt(names, end)});
  }
  [[nodiscard]] bool CanGoOn(std::size_t index, const std::vector<std::string>& names, std::uint32_t end) const {
    const GroupSpec& group = layout_.groups[index];
    const std::uint32_t block = group.block_tokens;
    if (group.attention == Attention::kRecurrent) return Holds(index, names, end);
    std::uint32_t first = block;  // the end of the first block that is needed
    if (group.attention == Attention::kWindow) {
      const std::uint32_t count = (group.window_tokens - 1 + block - 1) / block;
      first = end > count * block ? end - count * block + block : block;
    }
    for (std::uint32_t at = first; at <= end; at += block) {
      if (!Holds(index, names, at)) return false;
    }
    return true;
  }

  void Compute(Request& request, std::vector<CacheChange>& changes) {
    const auto size = static_cast<std::uint32_t>(request.prompt.size());
    const std::uint32_t step = layout_.hit_tokens;
    const std::uint32_t from = request.computed;
    std::uint32_t to = std::min<std::uint32_t>(size, from + (1 + static_cast<std::uint32_t>(rng_.Below(3))) * 2 * step);
    if (to == size && to / step * step > from) to = to / step * step;  // its last state is at a whole block
    for (std::size_t group = 0; group < layout_.groups.size(); ++group) {
      StoreChunk(group, request, from, to, changes);
    }
    request.computed = to == from ? size : to;
  }

  void StoreChunk(std::size_t index, const Request& request, std::uint32_t from, std::uint32_t to,
                  std::vector<CacheChange>& changes) {
    const GroupSpec& group = layout_.groups[index];
    const std::uint32_t block = group.block_tokens;
    const std::uint32_t first = from / block * block;
    const std::uint32_t end = to / block * block;
    if (end <= first) return;
    const std::vector<std::string>& names = request.names;
    Stored stored;
    stored.place.group = static_cast<std::uint32_t>(index);
    stored.attention = group.attention;
    stored.window_tokens = group.window_tokens;
    stored.block_tokens = block;
    if (first > 0) stored.parent = NameAt(names, first);
    stored.token_ids.assign(request.prompt.begin() + first, request.prompt.begin() + end);
    for (std::uint32_t at = first + block; at <= end; at += block) {
      if (group.attention == Attention::kRecurrent && (at != to || rng_.Below(8) == 0)) continue;
      if (group.attention == Attention::kWindow && end - at > group.window_tokens) continue;
      const std::string name = NameAt(names, at);
      std::uint32_t& copies = held_[{index, name}];
      // It is computed again where another group can not go on, or by two requests at a time.
      const bool is_new = copies == 0;
      if (!is_new && duplicates_ == Duplicates::kNone && group.attention != Attention::kFull) continue;
      stored.hashes.push_back(name);
      if (is_new || duplicates_ != Duplicates::kNone) ++copies;
    }
    changes.push_back(std::move(stored));
  }

  void Evict(std::vector<CacheChange>& changes) {
    auto held = held_.begin();
    std::advance(held, static_cast<std::ptrdiff_t>(rng_.Below(held_.size())));
    const Key key = held->first;
    changes.push_back(
        Removed{{.rank = 0, .group = static_cast<std::uint32_t>(key.first), .on_device = true}, {key.second}});
    if (duplicates_ == Duplicates::kToldOnce || --held->second == 0) held_.erase(held);
  }

  const Layout layout_;
  const Duplicates duplicates_;
  Rng rng_;
  std::map<Key, std::uint32_t> held_;  // copies
  std::vector<Request> running_;
  std::vector<std::vector<TokenId>> fronts_;
};

// As a router does it.
std::uint32_t Promise(const testing_support::Receiver& view, const std::vector<TokenId>& prompt) {
  const std::vector<BlockHash> hashes = HashBlocks(kRoot, prompt, kGrain);
  std::size_t held = 0;
  while (held < hashes.size() && view.Has(hashes[held])) ++held;
  held = std::min<std::size_t>(held, (prompt.size() - 1) / kGrain);
  while (held > 0 && !view.resumable().contains(hashes[held - 1])) --held;
  return static_cast<std::uint32_t>(held) * kGrain;
}

struct Score {
  int prompts = 0;
  int hits = 0;
  int equal = 0;
  int over = 0;
};

Score Play(const Layout& layout, Duplicates duplicates, std::uint64_t seed) {
  HybridEngine engine(layout, duplicates, seed);
  Followed followed({.block_tokens = kGrain,
                     .default_root = kRoot,
                     .max_blocks = kPool,
                     .tells_each_copy = duplicates == Duplicates::kEachTold});
  Score score;
  for (int step = 0; step < 60; ++step) {
    followed.Apply(engine.Step());
    EXPECT_EQ(followed.last == BlockBook::Outcome::kOverflow, false);
    for (int i = 0; i < 3; ++i) {
      const std::vector<TokenId> prompt = engine.Prompt();
      const std::uint32_t hit = engine.Hit(prompt);
      const std::uint32_t promise = Promise(followed.receiver, prompt);
      const auto size = static_cast<std::uint32_t>(prompt.size());
      const HitGuess guess = followed.book.Guess(HashBlocks(kRoot, prompt, kGrain), size);
      EXPECT_TRUE(!followed.book.has_checkpoints() || guess.tokens == promise);
      EXPECT_LE(guess.dropped, guess.tokens);
      ++score.prompts;
      score.hits += hit > 0 ? 1 : 0;
      score.equal += promise == hit ? 1 : 0;
      score.over += promise > hit ? 1 : 0;
    }
  }
  EXPECT_TRUE(followed.book.can_follow());
  return score;
}

TEST(ResumePointsTest, APromiseIsTheEnginesHit) {
  Score sum;
  for (const Layout& layout : Layouts()) {
    int hits = 0;
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      SCOPED_TRACE(fmt::format("{}, seed {}", layout.name, seed));
      const Score score = Play(layout, Duplicates::kNone, seed);
      EXPECT_EQ(score.over, 0);
      sum.prompts += score.prompts;
      sum.equal += score.equal;
      hits += score.hits;
    }
    EXPECT_GE(hits, 5) << layout.name;  // large blocks are seldom filled
  }
  // Less is promised only of a window's run from the start that the engine may have found: see ResumePoints.
  EXPECT_GE(sum.equal, sum.prompts * 995 / 1000);
}

TEST(ResumePointsTest, CopiesAreNeverPromisedAfterTheyAreGone) {
  for (const Duplicates duplicates : {Duplicates::kEachTold, Duplicates::kToldOnce}) {
    Score sum;
    for (const Layout& layout : Layouts()) {
      for (std::uint64_t seed = 1; seed <= 2; ++seed) {
        SCOPED_TRACE(fmt::format("{}, seed {}", layout.name, seed));
        const Score score = Play(layout, duplicates, seed);
        EXPECT_EQ(score.over, 0);
        sum.prompts += score.prompts;
        sum.equal += score.equal;
      }
    }
    fmt::print("{}: {} of {} promises are the hit\n", duplicates == Duplicates::kToldOnce ? "told once" : "each told",
               sum.equal, sum.prompts);
    EXPECT_GT(sum.equal, sum.prompts * 9 / 10);
  }
}

// Events and hits of vLLM's own Scheduler for several layouts: a file of vllm_layout_events.py --json. With
// ROOST_LAYOUT_DROPS of one with speculative heads; with ROOST_LAYOUT_LOST the events of so many prompts are lost, and
// the engine tells of the blocks that it finds.
TEST(ResumePointsTest, RecordedEventsPromiseTheRecordedHits) {
  const char* const file = std::getenv("ROOST_LAYOUT_EVENTS");
  if (file == nullptr) GTEST_SKIP() << "no file in ROOST_LAYOUT_EVENTS";
  const bool drops = std::getenv("ROOST_LAYOUT_DROPS") != nullptr;
  const char* const lost_text = std::getenv("ROOST_LAYOUT_LOST");
  const int lost = lost_text == nullptr ? 0 : std::atoi(lost_text);
  int prompts = 0;
  std::ifstream in(file);
  std::map<std::string, Score> scores;
  std::unique_ptr<Followed> followed;
  std::string layout;
  for (std::string text; std::getline(in, text);) {
    const testing_support::Json line = testing_support::Json::parse(text);
    if (followed == nullptr || line["layout"] != layout) {
      layout = line["layout"];
      followed = std::make_unique<Followed>(BlockBook::Options{
          .block_tokens = kGrain, .default_root = kRoot, .max_blocks = 1'000'000, .tells_each_copy = true});
      followed->book.ExpectFoundRuns(lost > 0);
      prompts = 0;
    }
    if (prompts++ < lost) continue;
    Score& score = scores[layout];
    const auto hit = line["cached_tokens"].get<std::uint32_t>();
    const auto tokens = line["tokens"].get<std::vector<TokenId>>();
    if (followed->book.has_checkpoints() || followed->book.looks_plain()) {
      const auto size = static_cast<std::uint32_t>(tokens.size());
      const HitGuess guess = followed->book.Guess(HashBlocks(kRoot, tokens, kGrain), size);
      const std::uint32_t promise = drops ? guess.dropped : guess.tokens;
      ++score.prompts;
      score.hits += hit > 0 ? 1 : 0;
      score.equal += promise == hit ? 1 : 0;
      score.over += promise > hit ? 1 : 0;
    }
    const std::string message = testing_support::PackedMessage(line["events"]);
    const auto changes = DecodeVllmEvents(testing_support::BytesOf(message));
    ASSERT_TRUE(changes.ok()) << changes.error().ToString();
    followed->Apply(changes.value());
  }
  for (const auto& [name, score] : scores) {
    fmt::print("{}: {} of {} promises are the hit, {} hits, {} over\n", name, score.equal, score.prompts, score.hits,
               score.over);
    EXPECT_EQ(score.over, 0) << name;
    EXPECT_TRUE(lost > 0 || score.equal >= score.prompts * 995 / 1000) << name;
  }
}

}  // namespace
}  // namespace roost::worker::adapters
