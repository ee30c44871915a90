#include "worker/worker_name.h"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <optional>

namespace roost::worker {
namespace {

class WorkerNameTest : public ::testing::Test {
 protected:
  WorkerNameTest() { std::filesystem::create_directories(folder_); }
  ~WorkerNameTest() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] WorkerName Take() const { return WorkerName::Take("host", std::array{folder_}); }

  const std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) / ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(WorkerNameTest, WorkersOfOneHostGetTheFirstFreeNumbers) {
  const WorkerName first = Take();
  std::optional<WorkerName> second(Take());
  const WorkerName third = Take();
  EXPECT_EQ(first.value(), "host-0");
  EXPECT_EQ(second->value(), "host-1");
  EXPECT_EQ(third.value(), "host-2");
  second.reset();
  EXPECT_EQ(Take().value(), "host-1");
}

TEST_F(WorkerNameTest, ARestartedWorkerHasItsNameAgain) {
  { const WorkerName before = Take(); }
  EXPECT_EQ(Take().value(), "host-0");
}

TEST_F(WorkerNameTest, AFolderThatIsNotThereIsPassedOver) {
  const WorkerName name = WorkerName::Take("host", std::array{folder_ / "absent", folder_});
  EXPECT_EQ(name.value(), "host-0");
  EXPECT_EQ(WorkerName::Take("host", std::array{folder_ / "absent"}).value(), "host");
}

TEST_F(WorkerNameTest, ALinkInPlaceOfALockFileIsNotFollowed) {
  std::filesystem::create_symlink(folder_ / "elsewhere", folder_ / "roost-worker-host-0.lock");
  EXPECT_NE(Take().value(), "host-0");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "elsewhere"));
}

}  // namespace
}  // namespace roost::worker
