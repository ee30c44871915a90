#include "common/base/small_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace roost {
namespace {

TEST(SmallFileTest, TellsWhetherOthersMayWrite) {
  using std::filesystem::perms;
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "small_file_test";
  std::ofstream(path) << "text";
  const auto with = [&path](perms permissions) {
    std::filesystem::permissions(path, permissions);
    return OthersMayWrite(path);
  };
  EXPECT_FALSE(with(perms::owner_read | perms::owner_write));
  EXPECT_FALSE(with(perms::owner_all | perms::group_read | perms::others_read));
  EXPECT_TRUE(with(perms::owner_read | perms::owner_write | perms::group_write));
  EXPECT_TRUE(with(perms::owner_read | perms::owner_write | perms::others_write));
  EXPECT_EQ(ReadTrustedFile(path, 10).value(), "text");  // with a warning
  std::filesystem::remove(path);
  EXPECT_FALSE(OthersMayWrite(path));
}

}  // namespace
}  // namespace roost
