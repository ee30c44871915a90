// Replaces device_copy_cuda.cc in builds without a CUDA toolkit.
#include "common/base/check.h"
#include "tests/bench/device_copy.h"

namespace roost::bench {

double CudaCopySeconds(void* /*to*/, const void* /*from*/, std::size_t /*bytes*/) {
  ROOST_CHECK(false, "built without CUDA");
}

}  // namespace roost::bench
