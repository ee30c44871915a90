// Any bytes as choices of operations on the prefix cache: it agrees with a naive one after each of them.
#include <cstddef>
#include <cstdint>

#include "common/base/check.h"
#include "tests/model/cache_driver.h"
#include "tests/model/choices.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace roost;
  testing_support::ByteChoices choices({data, size});
  const auto honesty = choices.Below(2) == 0 ? testing_support::Honesty::kHonest : testing_support::Honesty::kLying;
  testing_support::CacheDriver driver(choices, honesty);
  while (!choices.is_used_up()) {
    const Result<void> step = driver.Step();
    ROOST_CHECK(step.ok(), "{}", step.error().ToString());
  }
  const Result<void> end = driver.Finish();
  ROOST_CHECK(end.ok(), "{}", end.error().ToString());
  return 0;
}
