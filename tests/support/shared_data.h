// The location of real data for tests: tokenizers, chat templates, traces, a corpus. It is not part of the repository.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/support/source_dir.h"

namespace roost::testing_support {

// The folder named by ROOST_SHARED, by default `../shared` beside the checkout. It may be absent.
inline std::filesystem::path SharedDir() {
  const char* named = std::getenv("ROOST_SHARED");
  return named != nullptr ? std::filesystem::path(named)
                          : std::filesystem::path(testing_support::SourceDir()) / "../shared";
}

}  // namespace roost::testing_support

// Skips the test, visibly, when `path` (std::filesystem::path) is absent.
#define ROOST_SKIP_WITHOUT(path)      \
  if (!std::filesystem::exists(path)) \
  GTEST_SKIP() << "needs " << (path) << "; set ROOST_SHARED to the folder of real data"
