// Any bytes as choices of operations on the prefix index: it agrees with a naive one after each of them.
#include <cstddef>
#include <cstdint>

#include "common/base/check.h"
#include "tests/model/choices.h"
#include "tests/model/index_driver.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  roost::testing_support::ByteChoices choices({data, size});
  roost::testing_support::IndexDriver driver(choices, {.chains = 12, .max_length = 48});
  while (!choices.is_used_up()) {
    const roost::Result<void> step = driver.Step();
    ROOST_CHECK(step.ok(), "{}", step.error().ToString());
  }
  const roost::Result<void> end = driver.Finish();
  ROOST_CHECK(end.ok(), "{}", end.error().ToString());
  return 0;
}
