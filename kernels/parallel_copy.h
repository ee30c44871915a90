// Work by several threads that start for it, for weights: a copy out of the page cache, as fast as several threads can
// read. The caller makes a small copy alone.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <thread>
#include <vector>

namespace roost::kernels {

// Calls body(0) … body(parts - 1), each on a thread of its own but the first, which the caller runs.
template <typename Body>
void RunInParts(std::size_t parts, const Body& body) {
  std::vector<std::thread> helpers;
  for (std::size_t part = 1; part < parts; ++part) helpers.emplace_back(body, part);
  body(0);
  for (std::thread& helper : helpers) helper.join();
}

// The number of parts, at most `most`, if each has at least `least` of `amount`; at least 1.
inline std::size_t PartsFor(std::size_t amount, std::size_t least, std::size_t most) {
  most = std::min<std::size_t>(most, std::max(1U, std::thread::hardware_concurrency()));
  return std::clamp<std::size_t>(amount / least, 1, most);
}

// The ranges must not overlap. Pointers may be null when `bytes` is 0.
inline void CopyInParallel(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  constexpr std::size_t kMinBytesPerThread = std::size_t{1} << 20U;
  constexpr std::size_t kMaxThreads = 8;
  const std::size_t threads = PartsFor(bytes, kMinBytesPerThread, kMaxThreads);
  const std::size_t share = (bytes + threads - 1) / threads;
  RunInParts(threads, [=](std::size_t part) {
    const std::size_t first = std::min(bytes, part * share);
    std::memcpy(static_cast<std::byte*>(to) + first, static_cast<const std::byte*>(from) + first,
                std::min(share, bytes - first));
  });
}

}  // namespace roost::kernels
