#include "common/base/reload.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <utility>

namespace roost {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::hours kNever{1};
constexpr std::chrono::seconds kReloadPatience{20};

class ReloaderTest : public ::testing::Test {
 protected:
  ReloaderTest() { fs::create_directories(folder_); }
  ~ReloaderTest() override { fs::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }
  // Reads nothing: counts.
  Reloader::Entry Counted(std::vector<std::string> paths) {
    return {.what = "a test", .paths = std::move(paths), .reload = [this]() -> Result<void> {
              ++count_;
              if (fails_) return InvalidArgument("test", "bad file");
              return {};
            }};
  }

  const fs::path folder_ = fs::path(testing::TempDir()) /
                           (std::string("reload_") + testing::UnitTest::GetInstance()->current_test_info()->name());
  int count_ = 0;
  bool fails_ = false;
};

TEST_F(ReloaderTest, LoadsAtOnceAndThenAtChangesOnly) {
  Reloader reloader(kNever);
  const std::string path = Write("a", "1");
  ASSERT_TRUE(reloader.Add(Counted({path})).ok());
  EXPECT_EQ(count_, 1);
  reloader.Look(Reloader::Which::kChanged);
  EXPECT_EQ(count_, 1);
  Write("a", "22");
  reloader.Look(Reloader::Which::kChanged);
  EXPECT_EQ(count_, 2);
  reloader.Look(Reloader::Which::kAll);
  EXPECT_EQ(count_, 3);
}

TEST_F(ReloaderTest, NoticesEachOfSeveralFilesAndOneThatGoesAndComes) {
  Reloader reloader(kNever);
  const std::string first = Write("a", "1");
  const std::string second = Write("b", "1");
  ASSERT_TRUE(reloader.Add(Counted({first, second})).ok());
  Write("b", "22");
  reloader.Look(Reloader::Which::kChanged);
  EXPECT_EQ(count_, 2);
  fs::remove(first);
  reloader.Look(Reloader::Which::kChanged);
  EXPECT_EQ(count_, 3);
  reloader.Look(Reloader::Which::kChanged);
  EXPECT_EQ(count_, 3);
  Write("a", "1");
  reloader.Look(Reloader::Which::kChanged);
  EXPECT_EQ(count_, 4);
}

// As Kubernetes replaces a secret: the path stays a link to a link, which is switched to another folder.
TEST_F(ReloaderTest, NoticesASwitchedLink) {
  for (const char* revision : {"1", "2"}) {
    fs::create_directories(folder_ / revision);
    Write(std::string(revision) + "/key", "same size");
    // Same time too.
    fs::last_write_time(folder_ / revision / "key", fs::file_time_type{});
  }
  fs::create_symlink("1", folder_ / "data");
  fs::create_symlink("data/key", folder_ / "key");
  Reloader reloader(kNever);
  ASSERT_TRUE(reloader.Add(Counted({folder_ / "key"})).ok());
  fs::create_symlink("2", folder_ / "data_new");
  fs::rename(folder_ / "data_new", folder_ / "data");
  reloader.Look(Reloader::Which::kChanged);
  EXPECT_EQ(count_, 2);
}

TEST_F(ReloaderTest, TriesABadFileAgainWhenItChangesOrIsAskedTo) {
  Reloader reloader(kNever);
  const std::string path = Write("a", "1");
  ASSERT_TRUE(reloader.Add(Counted({path})).ok());
  fails_ = true;
  Write("a", "22");
  reloader.Look(Reloader::Which::kChanged);
  reloader.Look(Reloader::Which::kChanged);
  EXPECT_EQ(count_, 2);
  reloader.Look(Reloader::Which::kAll);
  EXPECT_EQ(count_, 3);
  Write("a", "333");
  reloader.Look(Reloader::Which::kChanged);
  EXPECT_EQ(count_, 4);
}

TEST_F(ReloaderTest, AFirstLoadThatFailsIsReturnedAndNotWatched) {
  Reloader reloader(kNever);
  fails_ = true;
  const Result<void> added = reloader.Add(Counted({Write("a", "1")}));
  ASSERT_FALSE(added.ok());
  EXPECT_EQ(added.error().field, "test");
  reloader.Look(Reloader::Which::kAll);
  EXPECT_EQ(count_, 1);
}

TEST_F(ReloaderTest, ItsThreadReloadsOnRequestAndLooksByItself) {
  std::promise<void> requested;
  {
    int loads = 0;
    Reloader reloader(kNever);
    ASSERT_TRUE(reloader
                    .Add({.what = "a test",
                          .paths = {},
                          .reload = [&]() -> Result<void> {
                            if (++loads == 2) requested.set_value();
                            return {};
                          }})
                    .ok());
    reloader.RequestAll();
    EXPECT_EQ(requested.get_future().wait_for(kReloadPatience), std::future_status::ready);
  }
  std::promise<void> noticed;
  int loads = 0;
  const std::string path = Write("a", "1");
  Reloader reloader(std::chrono::milliseconds(1));
  ASSERT_TRUE(reloader
                  .Add({.what = "a test",
                        .paths = {path},
                        .reload = [&]() -> Result<void> {
                          if (++loads == 2) noticed.set_value();
                          return {};
                        }})
                  .ok());
  fs::remove(path);
  EXPECT_EQ(noticed.get_future().wait_for(kReloadPatience), std::future_status::ready);
}

}  // namespace
}  // namespace roost
