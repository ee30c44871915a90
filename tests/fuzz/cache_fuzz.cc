// Any bytes as choices of operations on the prefix cache: it agrees with a naive one after each of them.
#include <cstddef>
#include <cstdint>

#include "common/base/check.h"
#include "tests/model/cache_driver.h"
#include "tests/model/choices.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using roost::testing_support::Honesty;
  roost::testing_support::ByteChoices choices({data, size});
  const auto honesty = choices.Below(2) == 0 ? Honesty::kHonest : Honesty::kLying;
  roost::testing_support::CacheDriver driver(choices, honesty);
  while (!choices.is_used_up()) {
    const roost::Result<void> step = driver.Step();
    ROOST_CHECK(step.ok(), "{}", step.error().ToString());
  }
  const roost::Result<void> end = driver.Finish();
  ROOST_CHECK(end.ok(), "{}", end.error().ToString());
  return 0;
}
