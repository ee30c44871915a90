// The fastest way found to read as many bytes of memory with as many threads: the ceiling of a step that reads weights.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <sys/mman.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "kernels/cpu/large_memory.h"
#include "kernels/cpu/work_pool.h"

namespace roost::bench {

enum class Pages : std::uint8_t { kSmall, kLarge };

struct ReadingWay {
  std::size_t streams = 1;      // of each thread, read a cache line of each in turn
  std::size_t ahead_bytes = 0;  // prefetched; 0: only the processor prefetches
  Pages pages = Pages::kLarge;

  [[nodiscard]] std::string Name() const {
    return fmt::format("{} streams per thread, {} bytes ahead, {} pages", streams, ahead_bytes,
                       pages == Pages::kLarge ? "large" : "small");
  }
};

class BestReader {
 public:
  // Tries every way, and keeps the one with the fastest single run.
  BestReader(std::size_t bytes, std::uint32_t threads) : pool_(threads), lines_(bytes / kLineBytes) {
    double best = std::numeric_limits<double>::infinity();
    for (const Pages pages : {Pages::kSmall, Pages::kLarge}) {
      Allocate(pages);
      for (const std::size_t streams : {1U, 2U, 4U, 8U, 16U}) {
        for (const std::size_t ahead_bytes : {0U, 512U, 1024U, 2048U, 4096U}) {
          const ReadingWay way{.streams = streams, .ahead_bytes = ahead_bytes, .pages = pages};
          const double seconds = FastestOf(way);
          if (seconds >= best) continue;
          best = seconds;
          way_ = way;
        }
      }
    }
    if (way_.pages == Pages::kSmall) Allocate(Pages::kSmall);
  }

  [[nodiscard]] const ReadingWay& way() const { return way_; }
  void Run() { Read(way_); }

 private:
  static constexpr std::size_t kLineBytes = 64;
  static constexpr std::size_t kLineWords = kLineBytes / sizeof(std::uint64_t);
  using Line [[gnu::vector_size(64), gnu::may_alias]] = std::uint64_t;  // the widest loads that there are

  void Allocate(Pages pages) {
    memory_.reset();
    const std::size_t bytes = lines_ * kLineBytes;
    memory_.reset(static_cast<std::uint64_t*>(kernels::AllocateLarge(bytes)));
    ROOST_CHECK(memory_ != nullptr, "no memory for {} bytes to read", bytes);
    if (pages == Pages::kSmall) (void)::madvise(memory_.get(), bytes, MADV_NOHUGEPAGE);
    std::memset(memory_.get(), 1, bytes);
  }

  double FastestOf(const ReadingWay& way) {
    const SteadyClock clock;
    double best = std::numeric_limits<double>::infinity();
    for (int run = 0; run < 3; ++run) {
      const Instant start = clock.Now();
      Read(way);
      best = std::min(best, ToSeconds(clock.Now() - start));
    }
    return best;
  }

  void Read(const ReadingWay& way) {
    switch (way.streams) {
      case 1: ReadStreams<1>(way); return;
      case 2: ReadStreams<2>(way); return;
      case 4: ReadStreams<4>(way); return;
      case 8: ReadStreams<8>(way); return;
      default: ReadStreams<16>(way);
    }
  }

  // A thread's part is cut into as many streams of neighbouring lines.
  template <std::size_t kStreams>
  void ReadStreams(const ReadingWay& way) {
    const std::size_t lines = lines_ / pool_.thread_count() / kStreams;
    const std::size_t ahead = way.ahead_bytes / sizeof(std::uint64_t);
    pool_.Run(pool_.thread_count(), [&](std::size_t part, std::uint32_t) {
      const std::uint64_t* const begin = memory_.get() + part * kStreams * lines * kLineWords;
      Line sums{};
      for (std::size_t line = 0; line < lines; ++line) {
#pragma GCC unroll 16
        for (std::size_t stream = 0; stream < kStreams; ++stream) {
          const std::uint64_t* const words = begin + (stream * lines + line) * kLineWords;
          if (ahead > 0) __builtin_prefetch(words + ahead);
          sums += *reinterpret_cast<const Line*>(words);
        }
      }
      for (std::size_t i = 0; i < kLineWords; ++i) sum_.fetch_add(sums[i], std::memory_order_relaxed);
    });
  }

  kernels::WorkPool pool_;
  const std::size_t lines_;
  kernels::LargeArray<std::uint64_t> memory_;
  ReadingWay way_;
  std::atomic<std::uint64_t> sum_ = 0;  // so that the compiler keeps the loops
};

}  // namespace roost::bench
