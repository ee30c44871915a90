// A copy by several threads: copies weights out of the page cache as fast as several threads can read. The caller makes
// a small copy alone.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <thread>
#include <vector>

namespace roost::kernels {

// The ranges must not overlap. Pointers may be null when `bytes` is 0.
inline void CopyInParallel(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  constexpr std::size_t kLeastBytesPerThread = std::size_t{1} << 20U;
  if (bytes < 2 * kLeastBytesPerThread) {
    std::memcpy(to, from, bytes);
    return;
  }
  constexpr std::size_t kMaxThreads = 8;
  const std::size_t most = std::min<std::size_t>(kMaxThreads, std::max(1U, std::thread::hardware_concurrency()));
  const std::size_t threads = std::min<std::size_t>(bytes / kLeastBytesPerThread, most);
  const std::size_t share = (bytes + threads - 1) / threads;
  const auto copy = [=](std::size_t part) {
    const std::size_t first = std::min(bytes, part * share);
    std::memcpy(static_cast<std::byte*>(to) + first, static_cast<const std::byte*>(from) + first,
                std::min(share, bytes - first));
  };
  std::vector<std::thread> helpers;
  for (std::size_t part = 1; part < threads; ++part) helpers.emplace_back(copy, part);
  copy(0);
  for (std::thread& helper : helpers) helper.join();
}

}  // namespace roost::kernels
