#include "worker/disk/disk_store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>

#include "tests/worker/disk/disk_tools.h"

namespace roost::worker {
namespace {

std::string Message(const Result<DiskFolder>& result) { return result.ok() ? "" : result.error().ToString(); }

TEST(DiskFolderTest, IsMadeForThisUserAloneAndOneProcess) {
  const TestFolder parent;
  const std::string path = (parent.path() / "disk").string();
  const Result<DiskFolder> folder = DiskFolder::Take(path, 1);
  ASSERT_TRUE(folder.ok());
  EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms::owner_all);
  const Result<DiskFolder> second = DiskFolder::Take(path, 1);
  EXPECT_EQ(Message(second), "disk-cache: " + path + " is used by another process");
}

TEST(DiskFolderTest, NamesWhatIsWrong) {
  const TestFolder parent;
  const std::string file = (parent.path() / "file").string();
  std::ofstream(file) << "x";
  EXPECT_EQ(Message(DiskFolder::Take(file, 1)), "disk-cache: " + file + " is not a directory");
  EXPECT_NE(Message(DiskFolder::Take((parent.path() / "a" / "b").string(), 1)).find("can not be made"),
            std::string::npos);
  EXPECT_NE(Message(DiskFolder::Take(parent.path().string(), std::uint64_t{1} << 60U)).find("file system"),
            std::string::npos);
}

TEST(DiskStoreTest, BlocksAreThereAfterAStart) {
  StoreUser user;
  const TestChain chain(20);
  user.PutAll(chain);
  user.Open();
  EXPECT_EQ(user.size(), 20U);
  EXPECT_EQ(user.store->CountFront(chain.chain), 20U);
  for (std::uint32_t i = 0; i < 20; ++i) EXPECT_TRUE(user.IsRight(chain, i));
  const TestChain longer(24, 2);
  for (std::uint32_t i = 0; i < 4; ++i) EXPECT_TRUE(user.Put(longer, i));  // into the open segment
  EXPECT_EQ(user.Segments().size(), 3U);
}

TEST(DiskStoreTest, ABlockEntersOnlyBehindTheOneThatItContinues) {
  StoreUser user;
  const TestChain chain(3);
  EXPECT_FALSE(user.Put(chain, 1));
  EXPECT_TRUE(user.Put(chain, 0));
  EXPECT_FALSE(user.Put(chain, 2));
  EXPECT_FALSE(user.Put(chain, 0));
  EXPECT_EQ(user.store->CountFront(chain.chain), 1U);
}

TEST(DiskStoreTest, AnOwnScopeContinuesTheSharedPrefix) {
  StoreUser user;
  const TestChain chain(4, 1, OwnScope{2, {77, 78}});
  user.PutAll(chain);
  user.Open();
  EXPECT_EQ(user.size(), 4U);
  for (std::uint32_t i = 0; i < 4; ++i) EXPECT_TRUE(user.IsRight(chain, i));
}

TEST(DiskStoreTest, OtherTenantsFindNothing) {
  StoreUser user;
  TestChain chain(3);
  user.PutAll(chain);
  chain.chain.tenant = TenantHash("other");
  EXPECT_EQ(user.store->CountFront(chain.chain), 0U);
  FrameBuffer frame(kTestSizes);
  EXPECT_FALSE(user.store->Read(chain.chain, 0, frame).ok());
}

// Three segments and the one for copies.
TEST(DiskStoreTest, TheOldestSegmentGoesWithWhatContinuesIt) {
  StoreUser user;
  const TestChain old(12);
  user.PutAll(old);
  const TestChain young(13, 2);
  user.PutAll(young);
  EXPECT_EQ(user.store->CountFront(old.chain), 0U);
  EXPECT_EQ(user.store->CountFront(young.chain), 13U);
  EXPECT_EQ(user.size(), 13U);
  EXPECT_LE(user.Segments().size(), kLeastSegments);
  user.Open();
  EXPECT_EQ(user.size(), 13U);
}

TEST(DiskStoreTest, UsedBlocksOfTheOldestSegmentAreAppendedAgain) {
  StoreUser user;
  const TestChain used(4);
  user.PutAll(used);
  const TestChain unused(8, 2);
  user.PutAll(unused);
  for (const BlockHash hash : used.chain.hashes) EXPECT_TRUE(user.store->Use(hash));
  const TestChain young(16, 3);
  user.PutAll(young);
  EXPECT_EQ(user.store->CountFront(used.chain), 4U);
  EXPECT_EQ(user.store->CountFront(unused.chain), 0U);
  user.Open();
  for (std::uint32_t i = 0; i < 4; ++i) EXPECT_TRUE(user.IsRight(used, i));
  // Used by that once more, and then no longer: with the turn after it goes.
  for (std::uint64_t seed = 4; seed < 12; ++seed) user.PutAll(TestChain(8, seed));
  EXPECT_EQ(user.store->CountFront(used.chain), 0U);
}

TEST(DiskStoreTest, AFullDiskTakesNothingAndGoesOnWhenThereIsSpace) {
  StoreUser user;
  const TestChain chain(10);
  for (std::uint32_t i = 0; i < 8; ++i) EXPECT_TRUE(user.Put(chain, i));
  user.files->is_full = true;
  EXPECT_EQ(user.store->PrepareStep().error().code, ErrorCode::kOverloaded);
  EXPECT_EQ(user.store->CountFront(chain.chain), 8U);
  user.files->is_full = false;
  EXPECT_TRUE(user.Put(chain, 8));
}

TEST(DiskStoreTest, AFlippedBitIsFoundWhenTheBlockIsRead) {
  StoreUser user;
  const TestChain chain(2);
  user.PutAll(chain);
  std::array<std::byte, 1> byte{std::byte{0x5A}};
  ASSERT_TRUE(user.files->Write(user.Segments()[0], TestShape().FrameOffset(1) + 300, byte).ok());
  FrameBuffer frame(kTestSizes);
  EXPECT_EQ(user.store->Read(chain.chain, 1, frame).error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(user.IsRight(chain, 0));
}

TEST(DiskStoreTest, ABlockWithoutItsFrontIsDroppedAtTheStart) {
  StoreUser user;
  const TestChain chain(6);
  user.PutAll(chain);
  const std::filesystem::path segment = user.Segments()[0];
  // The open segment ends at a torn entry, so this one is marked as erased in place.
  ASSERT_TRUE(EraseSlot(*user.files, segment, TestShape(), 1, 2).ok());
  user.Open();
  EXPECT_EQ(user.size(), 2U);
  EXPECT_EQ(user.store->orphan_count(), 3U);
  user.Open();  // and they do not come back
  EXPECT_EQ(user.store->orphan_count(), 0U);
}

// ---- erasing ----

wire::Evict PromptOrder(const TestChain& chain, std::uint32_t block_count) {
  wire::PromptToEvict prompt{.root = kTestRoot, .tokens = chain.tokens, .block_hashes = chain.chain.hashes};
  prompt.tokens.resize(std::size_t{block_count} * kTestSizes.block_tokens);
  prompt.block_hashes.resize(block_count);
  return {.what = prompt, .answer_id = 1};
}

TEST(DiskStoreTest, APromptIsErasedWithWhatContinuesItAndNothingElseUses) {
  StoreUser user;
  TestChain chain(6);
  user.PutAll(chain);
  EXPECT_EQ(user.Evict(PromptOrder(chain, 4)), 6U);
  EXPECT_EQ(user.size(), 0U);
  user.Open();
  EXPECT_EQ(user.size(), 0U);
}

TEST(DiskStoreTest, APromptWithoutAFullBlockErasesAllThatBeginsLikeIt) {
  StoreUser user;
  const TestChain chain(3);
  const TestChain other(3, 2);
  user.PutAll(chain);
  user.PutAll(other);
  wire::PromptToEvict prompt{.root = kTestRoot, .tokens = {chain.tokens[0], chain.tokens[1]}};
  EXPECT_EQ(user.Evict({.what = prompt, .answer_id = 1}), 3U);
  EXPECT_EQ(user.store->CountFront(other.chain), 3U);
}

TEST(DiskStoreTest, ABlockIsErasedWithWhatContinuesItAndItsLonelyFront) {
  StoreUser user;
  const TestChain chain(5);
  user.PutAll(chain);
  EXPECT_EQ(user.Evict({.what = wire::BlockToEvict{{1, 2}}, .answer_id = 1}), 0U);
  EXPECT_EQ(user.Evict({.what = wire::BlockToEvict{chain.chain.hashes[2]}, .answer_id = 1}), 5U);
}

TEST(DiskStoreTest, ATenantIsErasedWhole) {
  StoreUser user;
  const TestChain chain(4, 1, OwnScope{2, {77, 78}});  // the first two are everybody's
  user.PutAll(chain);
  EXPECT_EQ(user.Evict({.what = wire::TenantToEvict{"acme"}, .answer_id = 1}), 2U);
  EXPECT_EQ(user.size(), 2U);
  EXPECT_EQ(user.Evict({.what = wire::TenantToEvict{"nobody"}, .answer_id = 1}), 0U);
}

TEST(DiskStoreTest, WhatIsErasedIsNoLongerInAnyFile) {
  StoreUser user;
  const TestChain chain(10);
  user.PutAll(chain);
  EXPECT_EQ(user.Evict(PromptOrder(chain, 1)), 10U);
  for (const std::filesystem::path& path : user.Segments()) {
    std::ifstream file(path, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)), {});
    for (const BlockHash hash : chain.chain.hashes) {
      const std::string name(reinterpret_cast<const char*>(&hash), sizeof(hash));
      EXPECT_EQ(bytes.find(name), std::string::npos);
    }
  }
}

// The copy of a used block and what it was copied from, in the middle of making room.
TEST(DiskStoreTest, ABlockThatWasCopiedIsErasedInBothPlaces) {
  StoreUser user;
  const TestChain used(8);
  user.PutAll(used);
  for (const BlockHash hash : used.chain.hashes) EXPECT_TRUE(user.store->Use(hash));
  const TestChain other(16, 2);
  user.PutAll(other);
  // The last segment is made for the copies, and some are made.
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(user.store->PrepareStep().ok());
  EXPECT_EQ(user.Segments().size(), kLeastSegments);
  EXPECT_EQ(user.Evict(PromptOrder(used, 1)), 8U);
  user.Open();
  EXPECT_EQ(user.store->CountFront(used.chain), 0U);
  EXPECT_EQ(user.store->CountFront(other.chain), 16U);
}

// The front of both stays, so the erased block would be found behind it.
TEST(DiskStoreTest, TheOnlyBlockThatWasCopiedIsErasedInBothPlaces) {
  StoreUser user;
  const TestChain used(8);
  user.PutAll(used);
  EXPECT_TRUE(user.store->Use(used.chain.hashes[0]));
  user.PutAll(TestChain(16, 2));
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(user.store->PrepareStep().ok());  // a segment, and one copy
  EXPECT_EQ(user.Evict(PromptOrder(used, 1)), 8U);
  user.Open();
  EXPECT_EQ(user.store->CountFront(used.chain), 0U);
}

TEST(DiskStoreTest, ASegmentThatCanNotBeErasedInGoesWhole) {
  StoreUser user;
  const TestChain chain(3);
  const TestChain other(3, 2);
  user.PutAll(chain);
  user.PutAll(other);
  user.files->fails_writes = true;
  EXPECT_EQ(user.Evict(PromptOrder(chain, 3)), 3U);
  EXPECT_EQ(user.size(), 0U);
  user.Open();
  EXPECT_EQ(user.size(), 0U);
}

// ---- folders of other layouts ----

TEST(DiskStoreTest, OtherFoldersStayUntilSpaceIsNeeded) {
  StoreUser user;
  const std::filesystem::path other = user.folder.path() / "blocks-00000000000000aa-00000000000000bb";
  const std::filesystem::path strange = user.folder.path() / "photos";
  std::filesystem::create_directory(other);
  std::filesystem::create_directory(strange);
  std::ofstream(strange / "000000000001.segment") << "mine";
  DiskFiles files;
  ASSERT_TRUE(files.Create(other / SegmentName(1), TestShape().file_bytes()).ok());
  user.Open();
  EXPECT_EQ(user.store->other_folders(), std::vector<std::string>{other.filename().string()});
  user.PutAll(TestChain(16));
  EXPECT_TRUE(std::filesystem::exists(other));
  user.PutAll(TestChain(16, 2));
  EXPECT_FALSE(std::filesystem::exists(other));
  EXPECT_TRUE(std::filesystem::exists(strange / "000000000001.segment"));
}

}  // namespace
}  // namespace roost::worker
