#include <cstring>

#include "tests/bench/bench.h"
#include "tests/bench/device_copy.h"

namespace roost::bench {

double HostCopySeconds(void* to, const void* from, std::size_t bytes) {
  return MedianSeconds(Effort::kQuick, [&] { std::memcpy(to, from, bytes); });
}

}  // namespace roost::bench
