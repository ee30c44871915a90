#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>

#include "common/base/check.h"
#include "tests/bench/device_copy.h"

namespace roost::bench {
namespace {

void Check(cudaError_t status) { ROOST_CHECK(status == cudaSuccess, "{}", cudaGetErrorString(status)); }

}  // namespace

double CudaCopySeconds(void* to, const void* from, std::size_t bytes) {
  constexpr std::size_t kCopies = 21;
  std::array<cudaEvent_t, kCopies + 1> events{};
  for (cudaEvent_t& event : events) Check(cudaEventCreate(&event));
  Check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, nullptr));  // warm-up, does not count
  Check(cudaEventRecord(events[0], nullptr));
  for (std::size_t i = 0; i < kCopies; ++i) {
    Check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, nullptr));
    Check(cudaEventRecord(events[i + 1], nullptr));
  }
  Check(cudaStreamSynchronize(nullptr));
  std::array<float, kCopies> milliseconds{};
  for (std::size_t i = 0; i < kCopies; ++i) {
    Check(cudaEventElapsedTime(&milliseconds[i], events[i], events[i + 1]));
  }
  for (const cudaEvent_t event : events) Check(cudaEventDestroy(event));
  std::nth_element(milliseconds.begin(), milliseconds.begin() + kCopies / 2, milliseconds.end());
  return static_cast<double>(milliseconds[kCopies / 2]) / 1e3;
}

}  // namespace roost::bench
