// Runs a program's tests. It ends with 77, which ctest counts as skipped, if each of them was skipped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);  // and GoogleTest
  const int code = RUN_ALL_TESTS();
  const testing::UnitTest& tests = *testing::UnitTest::GetInstance();
  const bool all_skipped = tests.test_to_run_count() > 0 && tests.skipped_test_count() == tests.test_to_run_count();
  constexpr int kSkipped = 77;
  return code == 0 && all_skipped ? kSkipped : code;
}
