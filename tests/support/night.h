// True in tests/nightly.sh. Where each case takes seconds, CI tries those that tell most, and the night all.
#pragma once

#include <cstdlib>

namespace roost::testing_support {

inline bool IsNight() { return std::getenv("ROOST_NIGHT") != nullptr; }

}  // namespace roost::testing_support
