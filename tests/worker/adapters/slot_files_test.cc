// Files of saved slots, and the set of them.
#include "worker/adapters/slots/slot_files.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/rng.h"
#include "worker/adapters/engine_protocol.h"
#include "worker/adapters/slots/slot_shelf.h"

namespace roost::worker::adapters {
namespace {

namespace fs = std::filesystem;
using std::chrono::minutes;
using std::chrono::seconds;

const BlockHash kSavedOrigin{5, 6};
const BlockHash kSavedRoot{1, 2};

std::vector<BlockHash> HashesOf(TokenId first, std::size_t blocks) {
  std::vector<TokenId> tokens(blocks * kGrainTokens);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = first + static_cast<TokenId>(i);
  return HashBlocks(kSavedRoot, tokens, kGrainTokens);
}

class SlotFilesTest : public ::testing::Test {
 protected:
  SlotFilesTest() : folder_(fs::path(::testing::TempDir()) / fmt::format("slot_files_{}", getpid())) {
    fs::remove_all(folder_);
    fs::create_directory(folder_);
  }
  ~SlotFilesTest() override { fs::remove_all(folder_); }

  static SavedSlot Saved(char digit, TokenId first = 100, std::size_t blocks = 4) {
    return {.name = std::string(32, digit),
            .origin = kSavedOrigin,
            .root = kSavedRoot,
            .tenant = {7, 8},
            .hashes = HashesOf(first, blocks),
            .tokens = static_cast<std::uint32_t>(blocks) * kGrainTokens + 3,
            .compute_seconds = 0.5};
  }
  // As the server writes it.
  void WriteFile(SavedSlot& saved, const std::string& content) {
    std::ofstream(PathOf(saved.name, ".slot"), std::ios::binary) << content;
    saved.bytes = content.size();
  }
  [[nodiscard]] fs::path PathOf(const std::string& name, const std::string& ending) const {
    return folder_ / (name + ending);
  }
  static SlotFiles::Done Done(SlotFiles& files) {
    EXPECT_TRUE(files.DoNext());
    std::vector<SlotFiles::Done> done = files.TakeDone();
    EXPECT_EQ(done.size(), 1U);
    return done.empty() ? SlotFiles::Done() : std::move(done.front());
  }
  SavedSlot Kept(char digit, const std::string& content = "content") {
    SlotFiles files(folder_);
    SavedSlot saved = Saved(digit);
    WriteFile(saved, content);
    files.Keep(saved);
    SlotFiles::Done done = Done(files);
    EXPECT_FALSE(done.error);
    return done.saved;
  }
  std::vector<SavedSlot> ReadAll() {
    Result<std::vector<SavedSlot>> there = SlotFiles(folder_).ReadAll();
    EXPECT_TRUE(there.ok());
    return there.ok() ? *there : std::vector<SavedSlot>();
  }
  [[nodiscard]] std::set<std::string> Names() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) names.insert(entry.path().filename().string());
    return names;
  }

  const fs::path folder_;
};

TEST_F(SlotFilesTest, WhatWasKeptIsThereAtTheNextStart) {
  const SavedSlot saved = Kept('a');
  EXPECT_NE(saved.sum, 0U);
  EXPECT_EQ(ReadAll(), std::vector<SavedSlot>{saved});
  EXPECT_EQ(fs::status(PathOf(saved.name, ".slot")).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(SlotFilesTest, WhatHasNoEntryIsClearedAwayAndOtherFilesAreNot) {
  const SavedSlot saved = Kept('a');
  SavedSlot torn = Saved('b');
  WriteFile(torn, "torn");
  std::ofstream(PathOf(std::string(32, 'c'), ".entry.new")) << "half";
  std::ofstream(folder_ / "other.slot") << "of another program";
  EXPECT_EQ(ReadAll().size(), 1U);
  EXPECT_EQ(Names(), (std::set<std::string>{saved.name + ".slot", saved.name + ".entry", "other.slot"}));
}

TEST_F(SlotFilesTest, AFileOfAnotherSizeIsNotThere) {
  const SavedSlot saved = Kept('a');
  fs::resize_file(PathOf(saved.name, ".slot"), 3);
  EXPECT_TRUE(ReadAll().empty());
  EXPECT_TRUE(Names().empty());
}

TEST_F(SlotFilesTest, ACheckFindsEveryChangedByte) {
  const SavedSlot saved = Kept('a', "0123456789");
  SlotFiles files(folder_);
  files.Check(saved);
  EXPECT_FALSE(Done(files).error);
  for (std::size_t i = 0; i < saved.bytes; ++i) {
    std::string content = "0123456789";
    content[i] ^= 1;
    std::ofstream(PathOf(saved.name, ".slot"), std::ios::binary) << content;
    files.Check(saved);
    EXPECT_TRUE(Done(files).error) << i;
  }
}

TEST_F(SlotFilesTest, AnUnexpectedSizeIsNotKept) {
  SlotFiles files(folder_);
  SavedSlot saved = Saved('a');
  files.Keep(saved);
  EXPECT_TRUE(Done(files).error) << "there is no file";
  WriteFile(saved, "content");
  saved.bytes = 100;
  files.Keep(saved);
  EXPECT_TRUE(Done(files).error);
  EXPECT_FALSE(fs::exists(PathOf(saved.name, ".entry")));
}

TEST_F(SlotFilesTest, OnItsThreadJobsEndInTheirOrder) {
  SlotFiles files(folder_);
  SavedSlot saved = Saved('a');
  WriteFile(saved, "content");
  std::mutex mutex;
  std::condition_variable changed;
  int done = 0;
  files.Start([&] {
    const std::lock_guard lock(mutex);
    ++done;
    changed.notify_all();
  });
  files.Keep(saved);
  files.Remove(saved.name);
  files.Check(saved);
  std::unique_lock lock(mutex);
  changed.wait(lock, [&done] { return done == 2; });
  const std::vector<SlotFiles::Done> results = files.TakeDone();
  ASSERT_EQ(results.size(), 2U);
  EXPECT_FALSE(results[0].error);
  EXPECT_TRUE(results[1].error);
}

TEST(SlotEntryTest, IsReadBackAndAnyDamageIsSeen) {
  const SavedSlot saved{.name = std::string(32, 'a'),
                        .origin = kSavedOrigin,
                        .root = kSavedRoot,
                        .hashes = HashesOf(7, 3),
                        .tokens = 50,
                        .compute_seconds = 1.5,
                        .bytes = 1234,
                        .sum = 99};
  const std::string bytes = EncodeEntry(saved);
  const Result<SavedSlot> read = DecodeEntry(bytes, saved.name);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, saved);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_FALSE(DecodeEntry(std::string_view(bytes).substr(0, i), saved.name).ok());
    std::string other = bytes;
    other[i] ^= 0x40;
    EXPECT_FALSE(DecodeEntry(other, saved.name).ok()) << i;
  }
  Rng rng(3);
  for (int i = 0; i < 2000; ++i) {
    std::string noise = bytes.substr(0, rng.Below(bytes.size()));
    for (char& c : noise) c = static_cast<char>(rng.Below(256));
    EXPECT_FALSE(DecodeEntry(noise, saved.name).ok());
  }
}

// ---- the shelf ----

class SlotShelfTest : public SlotFilesTest {
 protected:
  SlotShelf& shelf() {
    if (!shelf_) shelf_.emplace(options_, std::make_unique<SlotFiles>(folder_), kSavedOrigin, there_);
    return *shelf_;
  }
  SavedSlot Sized(char digit, std::uint64_t bytes, TokenId first, std::size_t blocks = 4) {
    SavedSlot saved = Saved(digit, first, blocks);
    saved.bytes = bytes;
    return saved;
  }
  // Applies the events as a router does, and compares with snapshot and digest.
  std::size_t Told() {
    for (const wire::CacheEvent& event : shelf().TakeEvents()) {
      for (const BlockHash hash : event.disk_stored.hashes) EXPECT_TRUE(told_.insert(hash).second);
      for (const BlockHash hash : event.disk_removed) EXPECT_EQ(told_.erase(hash), 1U);
    }
    std::set<BlockHash> snapshot;
    for (const wire::StoredRun& run : shelf().Snapshot()) snapshot.insert(run.hashes.begin(), run.hashes.end());
    EXPECT_EQ(snapshot, told_);
    const DiskView view = shelf().view(now_);
    EXPECT_EQ(view.blocks, told_.size());
    BlockHash digest;
    for (const BlockHash hash : told_) digest = digest ^ hash;
    EXPECT_EQ(view.digest, digest);
    return told_.size();
  }

  SlotShelf::Options options_{.bytes = 100, .save_after = seconds(5)};
  std::vector<SavedSlot> there_;
  const Instant now_ = Instant(minutes(60));

 private:
  std::optional<SlotShelf> shelf_;
  std::set<BlockHash> told_;
};

TEST_F(SlotShelfTest, FindsTheLongestPart) {
  shelf().Add(Sized('a', 10, 100, 4));
  shelf().Add(Sized('b', 10, 900, 4));
  const SlotShelf::Match match = shelf().Find(kSavedRoot, HashesOf(100, 3), 50);
  ASSERT_NE(match.saved, nullptr);
  EXPECT_EQ(match.saved->name[0], 'a');
  EXPECT_EQ(match.tokens, 48U);
  EXPECT_EQ(shelf().Find(kSavedRoot, HashesOf(100, 3), 48).tokens, 47U) << "the last token is computed";
  EXPECT_EQ(shelf().Find({9, 9}, HashesOf(100, 3), 50).saved, nullptr) << "another tenant's";
  EXPECT_EQ(shelf().Find(kSavedRoot, HashesOf(500, 3), 50).saved, nullptr);
}

TEST_F(SlotShelfTest, WindowsAndRecurrentLayersGoOnAtItsEndOnly) {
  options_.goes_on_at_points = true;
  shelf().Add(Sized('a', 10, 100, 4));
  EXPECT_EQ(shelf().Find(kSavedRoot, HashesOf(100, 3), 50).saved, nullptr);
  EXPECT_EQ(shelf().Find(kSavedRoot, HashesOf(100, 6), 96).tokens, 64U);
  EXPECT_EQ(shelf().Find(kSavedRoot, HashesOf(100, 4), 66).saved, nullptr) << "67 tokens are there";
  EXPECT_EQ(Told(), 0U);
}

TEST_F(SlotShelfTest, TheOneUsedLongestAgoGoes) {
  shelf().Add(Sized('a', 40, 100));
  shelf().Add(Sized('b', 40, 900));
  EXPECT_EQ(Told(), 8U);
  shelf().Use(std::string(32, 'a'));
  shelf().Add(Sized('c', 40, 2000));
  EXPECT_EQ(shelf().used_bytes(), 80U);
  EXPECT_NE(shelf().Named(std::string(32, 'a')), nullptr);
  EXPECT_EQ(shelf().Named(std::string(32, 'b')), nullptr);
  EXPECT_EQ(Told(), 8U);
  shelf().Add(Sized('d', 101, 3000));
  EXPECT_EQ(shelf().entry_count(), 2U) << "it does not fit, and nothing goes for it";
}

TEST_F(SlotShelfTest, ALongerOneTakesThePlaceOfItsBeginning) {
  shelf().Add(Sized('a', 10, 100, 4));
  shelf().Add(Sized('b', 12, 100, 6));
  EXPECT_EQ(shelf().entry_count(), 1U);
  EXPECT_EQ(Told(), 6U);
}

TEST_F(SlotShelfTest, OthersAreCountedButNeitherUsedNorTold) {
  there_ = {Sized('a', 60, 100), Sized('b', 30, 900)};
  there_.front().origin = {7, 7};
  EXPECT_EQ(shelf().used_bytes(), 90U);
  EXPECT_EQ(shelf().Find(kSavedRoot, HashesOf(100, 4), 70).saved, nullptr);
  EXPECT_EQ(shelf().view(now_).blocks, 4U);
  shelf().SetOrigin({7, 7});
  EXPECT_NE(shelf().Find(kSavedRoot, HashesOf(100, 4), 70).saved, nullptr);
  EXPECT_EQ(shelf().Find(kSavedRoot, HashesOf(900, 4), 70).saved, nullptr);
  shelf().Add(Sized('c', 30, 3000));
  EXPECT_EQ(shelf().entry_count(), 2U);
}

TEST_F(SlotShelfTest, SpeedsAreLearnedAndForgotten) {
  EXPECT_EQ(shelf().SaveSeconds(100, now_), 0);
  shelf().NoteSaved(100, 1000, seconds(1), now_);
  EXPECT_NEAR(shelf().SaveSeconds(200, now_), 2, 1e-9);
  const double unknown = shelf().RestoreSeconds(1000, now_);
  shelf().NoteRestored(1000, seconds(4), now_);
  EXPECT_NEAR(shelf().RestoreSeconds(500, now_), 2, 1e-9);
  EXPECT_EQ(shelf().RestoreSeconds(1000, now_ + minutes(11)), unknown);
}

TEST_F(SlotShelfTest, OneThatWasDisturbedCountsLittle) {
  shelf().NoteRestored(1000, seconds(1), now_);
  shelf().NoteRestored(1000, minutes(5), now_);
  EXPECT_LT(shelf().RestoreSeconds(1000, now_), 3);
}

TEST_F(SlotShelfTest, WhatIsSavedGetsSpaceFirstIfItFits) {
  shelf().Add(Sized('a', 60, 100));
  shelf().NoteSaved(100, 50, seconds(1), now_);
  EXPECT_FALSE(shelf().Announce(kSavedRoot, HashesOf(900, 4), 1000, 0.1));
  EXPECT_EQ(shelf().entry_count(), 1U);
  const auto saved = shelf().Announce(kSavedRoot, HashesOf(900, 4), 120, 0.1);
  ASSERT_TRUE(saved);
  EXPECT_EQ(shelf().entry_count(), 0U);
  EXPECT_EQ(saved->name.size(), 32U);
  const auto other = shelf().Announce({8, 8}, HashesOf(900, 4), 120, 0.1);
  EXPECT_NE(other->name, saved->name);
}

// Random lives: the set that routers are told of is that of the entries, and the bounds hold.
TEST_F(SlotShelfTest, IsWhatItTells) {
  options_.bytes = 500;
  Rng rng(11);
  for (int i = 0; i < 600; ++i) {
    const auto kind = rng.Below(10);
    std::string name(32, 'a');
    for (char& c : name) c = "0123456789abcdef"[rng.Below(2)];
    SavedSlot saved = Sized('a', 1 + rng.Below(120), static_cast<TokenId>(1000 * rng.Below(3)), 1 + rng.Below(12));
    saved.name = name;
    if (rng.Below(5) == 0) saved.origin = {7, 7};
    if (kind < 7) shelf().Add(saved);
    if (kind == 7) shelf().Remove(name);
    if (kind == 8) shelf().SetOrigin(rng.Below(2) == 0 ? kSavedOrigin : BlockHash{7, 7});
    EXPECT_LE(shelf().used_bytes(), 500U);
    (void)Told();
  }
  EXPECT_GT(shelf().entry_count(), 3U);
}

}  // namespace
}  // namespace roost::worker::adapters
