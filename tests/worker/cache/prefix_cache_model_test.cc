// A million random operations on the prefix cache and on a naive one. Every answer, event, count and invariant is
// compared after each operation, the snapshot after every sixteenth. Sanitizers run a tenth of them. A failure prints
// its seed.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <cstdio>

#include "tests/model/cache_driver.h"
#include "tests/model/choices.h"
#include "tests/support/sanitized.h"

namespace roost::worker {
namespace {

using testing_support::CacheDriver;
using testing_support::Honesty;
using testing_support::RandomChoices;

constexpr std::uint64_t kSeeds = testing_support::kSanitized ? 50 : 500;
constexpr std::uint64_t kOperationsPerSeed = 1000;  // for each of the two tests

// A failed check stops the process; this handler prints the seed even then.
volatile std::sig_atomic_t running_seed = 0;
void PrintSeed(int /*signal*/) { std::fprintf(stderr, "seed %d\n", static_cast<int>(running_seed)); }

Result<void> Run(std::uint64_t seed, Honesty honesty) {
  RandomChoices choices(seed);
  CacheDriver driver(choices, honesty);
  for (std::uint64_t operation = 0; operation < kOperationsPerSeed; ++operation) ROOST_RETURN_IF_ERROR(driver.Step());
  return driver.Finish();
}

void Fuzz(Honesty honesty) {
  (void)std::signal(SIGABRT, PrintSeed);
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    running_seed = static_cast<std::sig_atomic_t>(seed);
    const Result<void> result = Run(seed, honesty);
    ASSERT_TRUE(result.ok()) << "seed " << seed << ": " << result.error().ToString();
  }
}

TEST(PrefixCacheModelTest, AgreesWithTheNaiveCache) { Fuzz(Honesty::kHonest); }

TEST(PrefixCacheModelTest, AgreesWithTheNaiveCacheWhenHashesLie) { Fuzz(Honesty::kLying); }

}  // namespace
}  // namespace roost::worker
