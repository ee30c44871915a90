// The blocks that are told as resumable, beside a naive search that asks the choice of a slot for each of them.
#include "worker/adapters/slots/open_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/rng.h"
#include "common/wire/messages.h"
#include "worker/adapters/engine_protocol.h"
#include "worker/adapters/slots/slot_choice.h"
#include "worker/adapters/slots/slot_table.h"

namespace roost::worker::adapters {
namespace {

// Sequences that have any number of blocks in common.
class Sequences {
 public:
  Sequences(std::uint64_t seed, bool has_points) : rng_(seed), has_points_(has_points) {}

  HeldSequence Any() {
    HeldSequence held{.root = BlockHash{1, rng_.Below(8) == 0 ? 1U : 0U}};
    if (rng_.Below(10) == 0) return held;  // of an empty slot
    if (!before_.empty()) {
      const HeldSequence& other = before_[rng_.Below(before_.size())];
      held.root = other.root;
      held.hashes.assign(other.hashes.begin(), other.hashes.begin() + Index(other.hashes.size()));
      for (const std::uint32_t point : other.points) {
        if (point < held.hashes.size() * kGrainTokens && rng_.Below(4) > 0) held.points.push_back(point);
      }
    }
    for (std::size_t more = rng_.Below(60); more > 0; --more) held.hashes.push_back({next_++, 9});
    held.tokens = static_cast<std::uint32_t>(held.hashes.size() * kGrainTokens + rng_.Below(kGrainTokens));
    held.has_more = rng_.Below(6) == 0;
    for (std::size_t i = rng_.Below(6); has_points_ && i > 0; --i) {
      held.points.push_back(static_cast<std::uint32_t>(1 + rng_.Below(held.tokens + 1)));
    }
    std::sort(held.points.begin(), held.points.end());
    before_.push_back(held);
    return held;
  }
  Rng& rng() { return rng_; }

 private:
  std::ptrdiff_t Index(std::size_t count) { return static_cast<std::ptrdiff_t>(rng_.Below(count + 1)); }

  Rng rng_;
  const bool has_points_;
  std::uint64_t next_ = 1;
  std::vector<HeldSequence> before_;
};

std::vector<BlockRun> NaivelyOpen(const SlotChoice& choice, const HeldSequence& held) {
  const bool any_idle =
      std::any_of(choice.offers().begin(), choice.offers().end(), [](const auto& offer) { return offer.is_idle; });
  const bool asks_idle = choice.rules().goes_on_at_points && any_idle;
  std::vector<std::size_t> asked = EndsOf(held);
  if (!choice.rules().goes_on_at_points) {
    asked.resize(held.hashes.size());
    for (std::size_t i = 0; i < asked.size(); ++i) asked[i] = i + 1;
  }
  std::vector<BlockRun> runs;
  for (const std::size_t blocks : asked) {
    const auto tokens = static_cast<std::uint32_t>(blocks) * kGrainTokens;
    const auto best = choice.Of(
        {.root = held.root, .hashes = std::span(held.hashes).first(blocks), .tokens = tokens + 2 * kGrainTokens},
        asks_idle ? SlotChoice::Among::kIdle : SlotChoice::Among::kAll);
    if (best && best->expected >= tokens) AddRun(runs, {blocks, blocks});
  }
  return runs;
}

struct Counts {
  std::size_t open = 0;
  std::size_t closed = 0;
};

// One state of slots and memory.
Counts Compare(std::uint64_t seed, bool goes_on_at_points) {
  Sequences sequences(seed, goes_on_at_points);
  Rng& rng = sequences.rng();
  std::deque<HeldSequence> slots;
  std::deque<HeldSequence> memory;
  for (std::size_t i = 1 + rng.Below(5); i > 0; --i) slots.push_back(sequences.Any());
  for (std::size_t i = rng.Below(12); i > 0; --i) {
    const bool is_copy = rng.Below(3) == 0;  // the server copies idle slots
    memory.push_back(is_copy ? slots[rng.Below(slots.size())] : sequences.Any());
  }
  std::vector<SlotChoice::Offer> offers;
  for (const HeldSequence& held : slots) {
    SlotChoice::Offer& offer = offers.emplace_back();
    offer = {.held = &held, .chance = static_cast<double>(rng.Below(100)) / 100, .is_idle = rng.Below(4) > 0};
    if (rng.Below(5) == 0) offer.most_loss = static_cast<double>(rng.Below(300));
  }
  const SlotChoice::Rules rules{.goes_on_at_points = goes_on_at_points,
                                .window = rng.Below(2) == 0 ? 0U : static_cast<std::uint32_t>(rng.Below(400))};
  const SlotChoice choice(rules, {.sequences = memory, .has_shown = rng.Below(3) > 0}, std::move(offers));
  const std::vector<std::vector<BlockRun>> found = FindOpen(choice);
  EXPECT_EQ(found.size(), slots.size() + memory.size());
  Counts counts;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const HeldSequence& held = i < slots.size() ? slots[i] : memory[i - slots.size()];
    EXPECT_EQ(found[i], NaivelyOpen(choice, held)) << "seed " << seed << ", sequence " << i;
    std::size_t open = 0;
    for (const BlockRun& run : found[i]) open += run.last + 1 - run.first;
    counts.open += open;
    counts.closed += (goes_on_at_points ? EndsOf(held).size() : held.hashes.size()) - open;
  }
  return counts;
}

Counts CompareAll(bool goes_on_at_points) {
  Counts all;
  for (std::uint64_t seed = 0; seed < 3000 && !::testing::Test::HasFailure(); ++seed) {
    const Counts one = Compare(seed, goes_on_at_points);
    all = {all.open + one.open, all.closed + one.closed};
  }
  return all;
}

TEST(OpenBlocksTest, CheckpointsAreThoseOfANaiveSearch) {
  const Counts all = CompareAll(true);
  EXPECT_GT(all.open, 30'000U);
  EXPECT_GT(all.closed, 10'000U);
}

TEST(OpenBlocksTest, BlocksAreThoseOfANaiveSearch) {
  const Counts all = CompareAll(false);
  EXPECT_GT(all.open, 200'000U);
  EXPECT_GT(all.closed, 100'000U);
}

// ---- told ----

// Sessions of requests, other clients' tasks and orders to evict: the same for both tables, of which one tells at once.
void TellOftenAndOnce(std::uint64_t seed, bool goes_on_at_points) {
  const SlotTable::Options options{.slot_count = 3, .context_tokens = 4096, .goes_on_at_points = goes_on_at_points};
  SlotTable often(options);
  SlotTable once(options);
  Rng rng(seed);
  Instant now = ManualClock().Now();
  std::vector<std::vector<TokenId>> sessions(5, std::vector<TokenId>(50, 1));
  TokenId next = 100;
  std::size_t open = 0;
  for (std::uint64_t id = 1; id <= 40; ++id) {
    std::vector<TokenId>& session = sessions[rng.Below(sessions.size())];
    if (rng.Below(4) == 0) session.resize(session.size() - rng.Below(session.size() / 2));
    for (std::size_t more = 1 + rng.Below(100); more > 0; --more) session.push_back(next++);
    wire::Generate generate;
    generate.root = {1, 2};
    generate.prompt = session;
    const auto found = static_cast<std::uint32_t>(rng.Below(2) * rng.Below(session.size()));
    const bool is_foreign = rng.Below(4) == 0;
    const auto kept = static_cast<std::uint32_t>(rng.Below(200));
    const std::vector<TokenId> output(1 + rng.Below(30), next++);
    const Instant later = now + std::chrono::seconds(1 + rng.Below(20));
    for (SlotTable* const table : {&often, &once}) {
      const auto tell = [&] {
        if (table == &often) (void)table->TakeEvents();
      };
      table->Enqueue(CallId(id), generate);
      ASSERT_TRUE(table->Next(now));
      tell();
      table->OnFound(CallId(id), found);
      table->OnComputed(CallId(id));
      tell();
      table->OnEnd(CallId(id), output, SlotTable::EndKind::kComplete, now);
      tell();
      if (!is_foreign) continue;
      const auto task = static_cast<std::uint32_t>(id);
      table->OnSlots(std::vector<SlotState>{{.is_busy = true, .task = task, .kept_tokens = kept}}, later);
      tell();
      table->OnSlots(std::vector<SlotState>{{.task = task}}, later + std::chrono::seconds(1));
    }
    now = later + std::chrono::seconds(2);
    open += often.Resumable().size();
  }
  (void)often.TakeEvents();
  (void)once.TakeEvents();
  const auto sorted = [](std::vector<BlockHash> blocks) {
    std::sort(blocks.begin(), blocks.end());
    return blocks;
  };
  EXPECT_EQ(sorted(often.Resumable()), sorted(once.Resumable())) << "seed " << seed;
  EXPECT_EQ(often.resumable_digest(), once.resumable_digest());
  EXPECT_GT(open, 0U);
}

TEST(OpenBlocksTest, WhatIsToldStepByStepIsWhatIsOpen) {
  for (std::uint64_t seed = 0; seed < 200 && !::testing::Test::HasFailure(); ++seed) {
    TellOftenAndOnce(seed, true);
  }
}

}  // namespace
}  // namespace roost::worker::adapters
