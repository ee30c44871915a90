#include "worker/adapters/events/block_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tests/worker/adapters/event_tools.h"
#include "worker/adapters/events/cache_salt.h"
#include "worker/link/snapshot_mirror.h"

namespace roost::worker::adapters {
namespace {

using testing::IsEmpty;
using testing::UnorderedElementsAre;

constexpr std::uint32_t kBookTokens = 4;
constexpr std::uint32_t kBookBlocks = 20;
constexpr BlockHash kBookDefault{11, 12};
constexpr BlockHash kBookRoot{21, 22};

// Tokens first, first + 1, …
std::vector<TokenId> Tokens(std::uint32_t first, std::size_t blocks) {
  std::vector<TokenId> tokens(blocks * kBookTokens);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

// The engine's hashes of many blocks.
std::vector<std::string> Names(std::size_t count) {
  std::vector<std::string> names(count);
  for (std::size_t i = 0; i < count; ++i) names[i] = std::to_string(i);
  return names;
}

class BlockBookTest : public testing::Test {
 protected:
  // The engine stores these blocks, whose tokens count from `first` on.
  static Stored Run(std::vector<std::string> hashes, std::optional<std::string> parent, std::uint32_t first) {
    Stored stored;
    stored.token_ids = Tokens(first, hashes.size());
    stored.hashes = std::move(hashes);
    stored.parent = std::move(parent);
    stored.block_tokens = kBookTokens;
    return stored;
  }
  static Stored Salted(Stored stored, std::string salt) {
    stored.salt = std::move(salt);
    stored.extra_keys = {ExtraKeys::kSalt};
    return stored;
  }
  void Store(Stored stored) { followed_.Apply({std::move(stored)}); }
  void Remove(std::vector<std::string> hashes) { followed_.Apply({Removed{{}, std::move(hashes)}}); }

  // a ─ b ─ c, and d behind a
  void StoreTree() {
    Store(Run({"a", "b", "c"}, std::nullopt, 100));
    Store(Run({"d"}, "a", 200));
  }
  // The engine tells of each copy of a block that goes.
  void ProveCopies() {
    Store(Run({"d"}, "a", 200));
    Remove({"d"});
    Remove({"d"});
    Store(Run({"d"}, "a", 200));
  }
  // Our hashes of the tree's blocks.
  static BlockHash OfTree(char name) {
    const std::vector<BlockHash> abc = HashBlocks(kBookDefault, Tokens(100, 3), kBookTokens);
    return name == 'd' ? ChainHash(abc[0], Tokens(200, 1)) : abc[static_cast<std::size_t>(name - 'a')];
  }

  void ExpectLeftOut(Stored stored, LeftOut reason) {
    const std::uint64_t before = followed_.left_out(reason);
    const std::size_t blocks = stored.hashes.size();
    Store(std::move(stored));
    EXPECT_EQ(followed_.left_out(reason), before + blocks) << kLeftOutNames[IndexOf(reason)];
  }

  testing_support::Followed followed_{
      {.block_tokens = kBookTokens, .default_root = kBookDefault, .max_blocks = kBookBlocks}};
  const testing_support::Receiver& view_ = followed_.receiver;
};

TEST_F(BlockBookTest, TellsBlocksInOurHashes) {
  StoreTree();
  EXPECT_THAT(view_.hashes(), UnorderedElementsAre(OfTree('a'), OfTree('b'), OfTree('c'), OfTree('d')));
  EXPECT_EQ(view_.positions().at(OfTree('c')), 2U);
  EXPECT_EQ(view_.positions().at(OfTree('d')), 1U);
}

TEST_F(BlockBookTest, ABlockGoesWithItsLastCopyWhereEachOneIsTold) {
  StoreTree();
  ProveCopies();
  Store(Run({"c"}, "b", 100 + 2 * kBookTokens));
  Remove({"c"});
  EXPECT_TRUE(view_.Has(OfTree('c')));
  Remove({"c"});
  EXPECT_FALSE(view_.Has(OfTree('c')));
  Remove({"c", "unknown"});
  EXPECT_EQ(view_.positions().size(), 3U);
}

TEST_F(BlockBookTest, OneRemovalMayBeOfAllCopies) {
  StoreTree();
  for (int round = 0; round < 3 * static_cast<int>(kBookBlocks); ++round) {
    Store(Run({"c"}, "b", 100 + 2 * kBookTokens));
    Store(Run({"c"}, "b", 100 + 2 * kBookTokens));
    EXPECT_TRUE(view_.Has(OfTree('c')));
    Remove({"c"});
    EXPECT_FALSE(view_.Has(OfTree('c')));
  }
  EXPECT_EQ(followed_.last, BlockBook::Outcome::kFollowed) << "copies add up";
}

TEST_F(BlockBookTest, ARunFromTheStartThatIsHeldAddsNoCopy) {
  StoreTree();
  ProveCopies();
  Store(Run({"a", "b"}, std::nullopt, 100));
  Remove({"b"});
  EXPECT_FALSE(view_.Has(OfTree('b'))) << "it was only found";
  Store(Run({"a", "b"}, std::nullopt, 100));
  Remove({"a"});
  EXPECT_TRUE(view_.Has(OfTree('a'))) << "b was computed, so a was too";
}

TEST_F(BlockBookTest, WhatTheEngineTellsAgainAddsNoCopyWhileItIsAskedTo) {
  followed_.book.ExpectFoundRuns(true);
  StoreTree();
  ProveCopies();
  // It found the first two, and one that was not known.
  Store(Run({"a", "b", "c"}, std::nullopt, 100));
  Remove({"c"});
  EXPECT_FALSE(view_.Has(OfTree('c')));
  Store(Run({"a", "b", "c"}, std::nullopt, 100));
  EXPECT_TRUE(view_.Has(OfTree('c')));
  Remove({"c"});
  Remove({"b"});
  EXPECT_THAT(view_.hashes(), UnorderedElementsAre(OfTree('a'), OfTree('d')));
}

TEST_F(BlockBookTest, GuessesWhatAPromptFinds) {
  StoreTree();
  const std::vector<BlockHash> hashes = HashBlocks(kBookDefault, Tokens(100, 4), kBookTokens);
  const auto guess = [&](std::uint32_t prompt_tokens) {
    return followed_.book.Guess(std::span(hashes).first(prompt_tokens / kBookTokens), prompt_tokens);
  };
  EXPECT_EQ(guess(0), HitGuess());
  EXPECT_EQ(guess(4), HitGuess()) << "the last token is computed";
  EXPECT_EQ(guess(5), (HitGuess{4, 0}));
  EXPECT_EQ(guess(12), (HitGuess{8, 4}));
  EXPECT_EQ(guess(16), (HitGuess{12, 8}));
}

TEST_F(BlockBookTest, BlocksBehindARemovedOneHideUntilItReturns) {
  StoreTree();
  Remove({"b"});
  EXPECT_THAT(view_.hashes(), UnorderedElementsAre(OfTree('a'), OfTree('d')));
  Remove({"a"});
  EXPECT_THAT(view_.hashes(), IsEmpty());
  Store(Run({"a"}, std::nullopt, 100));
  EXPECT_THAT(view_.hashes(), UnorderedElementsAre(OfTree('a'), OfTree('d')));
  Store(Run({"b"}, "a", 100 + kBookTokens));
  EXPECT_EQ(view_.positions().size(), 4U);
  EXPECT_EQ(followed_.left_out(LeftOut::kConflict), 0U);
}

TEST_F(BlockBookTest, AHiddenBlockMayGoUnseen) {
  StoreTree();
  Remove({"b"});
  Remove({"c"});
  Store(Run({"b"}, "a", 100 + kBookTokens));
  EXPECT_THAT(view_.hashes(), UnorderedElementsAre(OfTree('a'), OfTree('b'), OfTree('d')));
}

TEST_F(BlockBookTest, ABlockBehindOneWithoutACopyIsHidden) {
  StoreTree();
  Remove({"b"});
  Store(Run({"e"}, "b", 300));
  EXPECT_EQ(view_.positions().size(), 2U);
  Store(Run({"b"}, "a", 100 + kBookTokens));
  EXPECT_TRUE(view_.Has(ChainHash(OfTree('b'), Tokens(300, 1))));
}

TEST_F(BlockBookTest, OurSaltGivesTheRoot) {
  Store(Salted(Run({"a", "b"}, std::nullopt, 100), SaltOf(kBookRoot, std::nullopt, kBookDefault)));
  Store(Run({"c"}, "b", 100 + 2 * kBookTokens));
  const std::vector<BlockHash> expected = HashBlocks(kBookRoot, Tokens(100, 3), kBookTokens);
  EXPECT_THAT(view_.hashes(), testing::UnorderedElementsAreArray(expected));
}

TEST_F(BlockBookTest, AnOwnScopeBeginsWhereTheSaltSays) {
  const OwnScope own{2, {31, 32}};
  Store(Salted(Run({"a", "b", "c"}, std::nullopt, 100), SaltOf(kBookRoot, own, kBookDefault)));
  Store(Run({"d"}, "c", 100 + 3 * kBookTokens));
  const std::vector<BlockHash> expected = HashBlocks(kBookRoot, own, Tokens(100, 4), kBookTokens);
  EXPECT_THAT(view_.hashes(), testing::UnorderedElementsAreArray(expected));
  EXPECT_EQ(view_.positions().at(expected[3]), 3U);
}

TEST_F(BlockBookTest, AnOwnScopeMayBeginInALaterEvent) {
  const OwnScope own{1, {31, 32}};
  Store(Salted(Run({"a"}, std::nullopt, 100), SaltOf(kBookRoot, own, kBookDefault)));
  Store(Run({"b", "c"}, "a", 100 + kBookTokens));
  EXPECT_THAT(view_.hashes(),
              testing::UnorderedElementsAreArray(HashBlocks(kBookRoot, own, Tokens(100, 3), kBookTokens)));
}

TEST_F(BlockBookTest, ABlockOfOursStaysWhileOneOfTheEnginesIsIt) {
  // Two tenants share a prefix of ours; the engine has it once for each.
  const OwnScope own1{1, {31, 1}};
  const OwnScope own2{1, {31, 2}};
  Store(Salted(Run({"a1", "b1"}, std::nullopt, 100), SaltOf(kBookRoot, own1, kBookDefault)));
  Store(Salted(Run({"a2", "b2"}, std::nullopt, 100), SaltOf(kBookRoot, own2, kBookDefault)));
  EXPECT_EQ(view_.positions().size(), 3U);
  Remove({"a1"});
  EXPECT_EQ(view_.positions().size(), 2U) << "b1 can not be reached";
  EXPECT_TRUE(view_.Has(HashBlocks(kBookRoot, own2, Tokens(100, 2), kBookTokens)[1]));
  Remove({"b2", "a2"});
  EXPECT_THAT(view_.hashes(), IsEmpty());
}

TEST_F(BlockBookTest, OneHashOfOursHasOneParent) {
  // Salts that only a client of the engine could choose: the own block is the same behind two prefixes.
  const OwnScope own{1, {31, 32}};
  const std::string salt = SaltOf(kBookRoot, own, kBookDefault);
  Stored first = Salted(Run({"a1", "b1"}, std::nullopt, 100), salt);
  Stored second = Salted(Run({"a2", "b2"}, std::nullopt, 500), salt);
  std::copy(first.token_ids.begin() + kBookTokens, first.token_ids.end(), second.token_ids.begin() + kBookTokens);
  Store(first);
  Store(second);
  EXPECT_EQ(view_.positions().size(), 3U);
  Remove({"a1"});
  EXPECT_EQ(view_.positions().size(), 1U);
  Remove({"b2", "a2", "b1"});
  EXPECT_THAT(view_.hashes(), IsEmpty());
}

TEST_F(BlockBookTest, LeavesOutWhatLiesElsewhere) {
  StoreTree();
  Stored stored = Run({"x", "y"}, std::nullopt, 300);
  stored.place.on_device = false;
  ExpectLeftOut(stored, LeftOut::kMedium);
  stored.place = {.rank = 1, .group = 0, .on_device = true};
  ExpectLeftOut(stored, LeftOut::kRank);
  stored.place = {.rank = 0, .group = 1, .on_device = true};
  stored.attention = Attention::kOther;
  ExpectLeftOut(stored, LeftOut::kAttention);
  EXPECT_EQ(view_.positions().size(), 4U);
  followed_.Apply({Removed{{0, 0, false}, {"a"}}, Removed{{1, 0, true}, {"b"}}, Removed{{0, 1, true}, {"c"}}});
  EXPECT_EQ(view_.positions().size(), 4U);
}

TEST_F(BlockBookTest, FollowsTheFirstGroupWithFullAttention) {
  Stored window = Run({"w"}, std::nullopt, 100);
  window.attention = Attention::kWindow;
  window.window_tokens = 2 * kBookTokens;
  window.place = {.rank = 3, .group = 1, .on_device = true};
  Store(window);
  EXPECT_FALSE(followed_.book.can_follow()) << "windows alone";
  Stored full = Run({"a"}, std::nullopt, 100);
  full.place = {.rank = 3, .group = 2, .on_device = true};
  Store(full);
  EXPECT_TRUE(view_.Has(OfTree('a')));
  followed_.Apply({Removed{full.place, {"a"}}});
  EXPECT_THAT(view_.hashes(), IsEmpty());
}

TEST(BlockBookRankTest, ANamedRankIsFollowedThoughAnotherStoresFirst) {
  testing_support::Followed followed(
      {.block_tokens = kBookTokens, .default_root = kBookDefault, .max_blocks = kBookBlocks, .rank = 1});
  const auto stored = [](std::uint32_t rank) {
    Stored run;
    run.place.rank = rank;
    run.hashes = {"a"};
    run.token_ids = Tokens(100, 1);
    run.block_tokens = kBookTokens;
    return run;
  };
  followed.Apply({stored(0)});
  EXPECT_THAT(followed.receiver.hashes(), IsEmpty());
  EXPECT_EQ(followed.left_out(LeftOut::kRank), 1U);
  followed.Apply({stored(1), Cleared{0}});
  EXPECT_EQ(followed.receiver.hashes().size(), 1U);
  followed.Apply({Cleared{1}, stored(0)});
  EXPECT_THAT(followed.receiver.hashes(), IsEmpty());
}

TEST_F(BlockBookTest, LeavesOutWhatAnAnnouncedBlockIsNot) {
  Stored stored = Run({"x"}, std::nullopt, 300);
  stored.block_tokens = 6;
  ExpectLeftOut(stored, LeftOut::kBlockTokens);
  stored.block_tokens = 4'000'000'000;  // more than the engine has room for
  ExpectLeftOut(stored, LeftOut::kBlockTokens);
  stored.block_tokens = kBookTokens;
  stored.token_ids = Tokens(300, 2);
  ExpectLeftOut(stored, LeftOut::kTokens);
  EXPECT_THAT(view_.hashes(), IsEmpty());
}

// An engine may tell of a part of a block before the whole one.
TEST_F(BlockBookTest, TheSizeOfBlocksIsTheLargestThatHadItsTokens) {
  Store(Run({"part"}, std::nullopt, 100));
  EXPECT_EQ(view_.hashes().size(), 1U);
  Stored bare = Run({"x"}, std::nullopt, 300);
  bare.block_tokens = 3 * kBookTokens;
  ExpectLeftOut(bare, LeftOut::kTokens);
  Stored stored = Run({"a"}, std::nullopt, 100);
  stored.block_tokens = 2 * kBookTokens;
  stored.token_ids = Tokens(100, 2);
  Store(stored);
  EXPECT_EQ(view_.hashes().size(), 2U);
  ExpectLeftOut(Run({"y", "z"}, std::nullopt, 300), LeftOut::kBlockTokens);
}

TEST_F(BlockBookTest, APartOfABlockIsFollowedWhereItsParentIs) {
  Stored whole = Run({"a"}, std::nullopt, 100);
  whole.block_tokens = 3 * kBookTokens;
  whole.token_ids = Tokens(100, 3);
  Store(whole);
  const std::vector<BlockHash> chain = HashBlocks(kBookDefault, Tokens(100, 6), kBookTokens);
  Stored part = Run({"p"}, "a", 100 + 3 * kBookTokens);
  part.block_tokens = 2 * kBookTokens;
  part.token_ids = Tokens(100 + 3 * kBookTokens, 2);
  Store(part);
  EXPECT_THAT(view_.hashes(), UnorderedElementsAre(chain[0], chain[1], chain[2], chain[3], chain[4]));
  ExpectLeftOut(Run({"q"}, "a boundary within a block", 300), LeftOut::kUnknownParent);
  // It becomes a whole one, in any order.
  Stored full = Run({"b"}, "a", 100 + 3 * kBookTokens);
  full.block_tokens = 3 * kBookTokens;
  full.token_ids = Tokens(100 + 3 * kBookTokens, 3);
  Store(full);
  EXPECT_EQ(view_.hashes().size(), 6U);
  Remove({"p"});
  EXPECT_EQ(view_.hashes().size(), 6U);
  Store(part);
  Remove({"b"});
  EXPECT_THAT(view_.hashes(), UnorderedElementsAre(chain[0], chain[1], chain[2], chain[3], chain[4]));
  Remove({"p"});
  EXPECT_EQ(view_.hashes().size(), 3U);
}

TEST_F(BlockBookTest, ALargerBlockIsAChainOfOurs) {
  Stored stored = Run({"a", "b"}, std::nullopt, 100);
  stored.block_tokens = 2 * kBookTokens;
  stored.token_ids = Tokens(100, 4);
  Store(stored);
  const std::vector<BlockHash> chain = HashBlocks(kBookDefault, Tokens(100, 4), kBookTokens);
  EXPECT_THAT(view_.hashes(), UnorderedElementsAre(chain[0], chain[1], chain[2], chain[3]));
  Remove({"b"});
  EXPECT_THAT(view_.hashes(), UnorderedElementsAre(chain[0], chain[1]));
  Remove({"a"});
  EXPECT_THAT(view_.hashes(), IsEmpty());
}

// Two prompts that part within a block of ours.
TEST_F(BlockBookTest, PiecesFillABlockOfOurs) {
  const auto piece = [](std::string name, std::optional<std::string> parent, TokenId token) {
    Stored stored = Run({std::move(name)}, std::move(parent), 0);
    stored.block_tokens = 1;
    stored.token_ids = {token};
    return stored;
  };
  for (const auto& [name, parent, token] :
       {std::tuple{"a", "", 1}, {"b", "a", 2}, {"c", "b", 3}, {"d", "c", 4}, {"e", "d", 5}, {"D", "c", 6}}) {
    EXPECT_EQ(view_.hashes().size(), *name == 'e' || *name == 'D' ? 1U : 0U);
    Store(piece(name, *parent == 0 ? std::nullopt : std::optional<std::string>(parent), static_cast<TokenId>(token)));
  }
  const std::vector<TokenId> first{1, 2, 3, 4};
  const std::vector<TokenId> second{1, 2, 3, 6};
  EXPECT_THAT(view_.hashes(), UnorderedElementsAre(ChainHash(kBookDefault, first), ChainHash(kBookDefault, second)));
  Remove({"D"});
  EXPECT_THAT(view_.hashes(), UnorderedElementsAre(ChainHash(kBookDefault, first)));
  Remove({"b"});
  EXPECT_THAT(view_.hashes(), IsEmpty());
}

TEST_F(BlockBookTest, LeavesOutWhatIsBehindABlockThatItLeavesOut) {
  ExpectLeftOut(Salted(Run({"s"}, std::nullopt, 300), "grain"), LeftOut::kForeignSalt);
  ExpectLeftOut(Run({"t"}, "s", 300), LeftOut::kForeignSalt);
  Stored adapter = Run({"l"}, std::nullopt, 300);
  adapter.adapter = "";  // without a name
  ExpectLeftOut(adapter, LeftOut::kAdapter);
  ExpectLeftOut(Run({"m"}, "l", 300), LeftOut::kAdapter);
  Remove({"t", "s", "m", "l"});
  ExpectLeftOut(Run({"t"}, "s", 300), LeftOut::kUnknownParent);
}

TEST_F(BlockBookTest, BlocksOfAnAdapterHaveItsRoot) {
  const BlockHash poet{7, 7};
  BlockBook::Options options{.block_tokens = kBookTokens, .default_root = kBookDefault, .max_blocks = kBookBlocks};
  testing_support::Followed without(options);
  options.adapter_root = [&](const std::string& name) { return name == "poet" ? poet : BlockHash{8, 8}; };
  testing_support::Followed followed(options);
  Stored first = Run({"a", "b"}, std::nullopt, 100);
  first.adapter = "poet";
  Stored third = Run({"c"}, "b", 300);
  third.adapter = "poet";
  Stored base = Run({"d"}, std::nullopt, 100);
  Stored salted = Salted(Run({"e"}, std::nullopt, 100), SaltOf({9, 9}, std::nullopt, kBookDefault));
  salted.adapter = "poet";
  for (const Stored& stored : {first, third, base, salted}) {
    followed.Apply({stored});
    without.Apply({stored});
  }
  const std::vector<BlockHash> chain = HashBlocks(poet, Tokens(100, 2), kBookTokens);
  EXPECT_THAT(followed.receiver.hashes(),
              UnorderedElementsAre(chain[0], chain[1], ChainHash(chain[1], Tokens(300, 1)),
                                   ChainHash(kBookDefault, Tokens(100, 1)), ChainHash({9, 9}, Tokens(100, 1))));
  EXPECT_EQ(without.left_out(LeftOut::kAdapter), 4U) << "it can not name their root";
}

TEST_F(BlockBookTest, LeavesOutKeysThatAreNoSaltOfAFirstBlock) {
  Stored image = Run({"a", "b", "c"}, std::nullopt, 100);
  image.extra_keys = {ExtraKeys::kNone, ExtraKeys::kOther, ExtraKeys::kNone};
  Store(image);
  EXPECT_THAT(view_.hashes(), UnorderedElementsAre(OfTree('a')));
  EXPECT_EQ(followed_.left_out(LeftOut::kExtraKeys), 2U);
  Stored late = Run({"d"}, "a", 200);
  late.salt = SaltOf(kBookRoot, std::nullopt, kBookDefault);
  late.extra_keys = {ExtraKeys::kSalt};
  ExpectLeftOut(late, LeftOut::kExtraKeys);
}

TEST_F(BlockBookTest, LeavesOutAHashThatMeantAnotherBlock) {
  StoreTree();
  ProveCopies();
  ExpectLeftOut(Run({"d"}, "a", 999), LeftOut::kConflict);
  ExpectLeftOut(Run({"d"}, "b", 200), LeftOut::kConflict);
  ExpectLeftOut(Run({"a"}, "a", 100), LeftOut::kConflict);
  EXPECT_EQ(view_.positions().size(), 4U);
  Remove({"d", "d"});
  EXPECT_TRUE(view_.Has(OfTree('d'))) << "each store is a copy";
  Remove({"d"});
  EXPECT_FALSE(view_.Has(OfTree('d')));
}

TEST_F(BlockBookTest, CountsEventsThatItDoesNotKnow) {
  followed_.Apply({UnknownEvent()});
  EXPECT_EQ(followed_.left_out(LeftOut::kUnknownEvent), 1U);
}

TEST_F(BlockBookTest, TheEngineClearsItsCache) {
  StoreTree();
  Remove({"b"});
  followed_.Apply({Cleared{1}});
  EXPECT_EQ(followed_.last, BlockBook::Outcome::kFollowed) << "another rank";
  EXPECT_EQ(view_.positions().size(), 2U);
  followed_.Apply({Cleared{0}});
  EXPECT_EQ(followed_.last, BlockBook::Outcome::kEmptied);
  EXPECT_THAT(view_.hashes(), IsEmpty());
  Store(Run({"b"}, "a", 100 + kBookTokens));
  EXPECT_THAT(view_.hashes(), IsEmpty());
}

TEST_F(BlockBookTest, MoreCopiesThanBlocksAreALie) {
  StoreTree();
  ProveCopies();
  for (std::uint32_t i = 4; i < kBookBlocks; ++i) Store(Run({"d"}, "a", 200));
  EXPECT_EQ(followed_.last, BlockBook::Outcome::kFollowed);
  Store(Run({"d"}, "a", 200));
  EXPECT_EQ(followed_.last, BlockBook::Outcome::kOverflow);
  EXPECT_THAT(view_.hashes(), IsEmpty());
  StoreTree();
  EXPECT_EQ(view_.positions().size(), 4U);
}

TEST_F(BlockBookTest, OneMessageMayNotFillTheMemory) {
  Store(Run(Names(100'000), std::nullopt, 100));
  EXPECT_EQ(followed_.last, BlockBook::Outcome::kOverflow);
  EXPECT_THAT(view_.hashes(), IsEmpty());
}

TEST_F(BlockBookTest, BlocksWithoutCopiesAreBoundedToo) {
  // Each leaf keeps the chain above it, whose copies are gone.
  std::string last;
  for (std::uint32_t i = 0; i < 3 * kBookBlocks; ++i) {
    const std::string name = std::to_string(i);
    Store(Run({name}, i == 0 ? std::nullopt : std::optional(last), 10 * i));
    if (followed_.last == BlockBook::Outcome::kOverflow) return;
    if (i > 0) Remove({last});
    last = name;
  }
  FAIL() << "60 blocks of 20";
}

TEST_F(BlockBookTest, ASnapshotHasWhatTheEventsTold) {
  StoreTree();
  Store(Salted(Run({"p", "q"}, std::nullopt, 100), SaltOf(kBookRoot, std::nullopt, kBookDefault)));
  Store(Salted(Run({"r", "s"}, std::nullopt, 100), SaltOf(kBookRoot, OwnScope{1, {3, 4}}, kBookDefault)));
  Remove({"b"});
  testing_support::Receiver receiver;
  receiver.SetParent(OfTree('d'), OfTree('a'));
  receiver.Apply(followed_.book.Snapshot());
  EXPECT_EQ(receiver.positions(), view_.positions());
  SnapshotMirror mirror(kBookBlocks);
  mirror.Assign(followed_.book.Snapshot());
  EXPECT_EQ(mirror.digest(), followed_.book.digest());
}

TEST_F(BlockBookTest, ALongRunIsTaken) {
  testing_support::Followed followed(
      {.block_tokens = kBookTokens, .default_root = kBookDefault, .max_blocks = 100'000});
  const std::vector<std::string> hashes = Names(70'000);
  followed.Apply({Run(hashes, std::nullopt, 0)});
  const auto expected = HashBlocks(kBookDefault, Tokens(0, hashes.size()), kBookTokens);
  EXPECT_EQ(followed.receiver.positions().at(expected.back()), 69'999U) << "in several events";
  for (const wire::StoredRun& run : followed.book.Snapshot()) EXPECT_LE(run.hashes.size(), 65'536U);
  followed.book.Clear();
  followed.Take();
  EXPECT_THAT(followed.receiver.hashes(), IsEmpty());
}

}  // namespace
}  // namespace roost::worker::adapters
