// The accesses of a block to its shared memory, and the races among them: two threads access the same word, at least
// one of them writes, and no barrier lies between. A race is found in every order in which the threads may run, and
// also where all values happen to be right.
//
//   __syncthreads   orders all accesses before it before all accesses behind it
//   __syncwarp      of a whole warp does so for its lanes. No other warp function orders anything, as on a device
//   atomics         do not race with each other
//
// Each word keeps when it was last written, and when it was read since then. Time is the number of barriers so far,
// which is the same for all running threads, and within a warp the number of its __syncwarp.
//
// Source: Flanagan, Freund: FastTrack: efficient and precise dynamic race detection, 2009; with barriers only, the
// vector clocks become two numbers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace roost::simt {

// A warp's read is ldmatrix's: every lane gets a part of what each lane names.
enum class Access : std::uint8_t { kRead, kWarpRead, kWrite, kAtomic };

class Races {
 public:
  // Memory is watched in words of so many bytes. Threads that write different parts of a word count as racing.
  static constexpr std::size_t kWordBytes = 4;

  // Accesses by one thread, or by several that are not ordered.
  struct Stamp {
    static constexpr std::uint16_t kSeveral = 0xFFFF;

    std::uint64_t barriers = 0;  // 0: never
    std::uint64_t warp_syncs = 0;
    std::uint16_t warp = 0;
    std::uint16_t lane = 0;
  };

  // A block begins: no memory is watched. Times must grow from block to block.
  void Clear();
  void Watch(std::span<const std::byte> memory);

  // Notes an access at `now`, which is one thread's. Returns what it races with, or null. Memory that is not watched is
  // ignored. The range check calls no function: the hooks of hooks.cc come through here.
  const Stamp* Note(const void* address, std::size_t bytes, Access access, const Stamp& now) {
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    for (std::size_t i = 0; i < region_count_; ++i) {
      const Region& region = regions_[i];
      if (at >= region.begin && at - region.begin < region.bytes) {
        return NoteWords(region, at - region.begin, bytes, access, now);
      }
    }
    return nullptr;
  }

 private:
  static constexpr std::size_t kMaxRegions = 8;

  struct Region {
    std::uintptr_t begin = 0;
    std::size_t bytes = 0;
    std::size_t first_word = 0;
  };
  struct Word {
    Stamp write;
    Stamp read;
    bool is_atomic = false;  // of `write`: all of them
  };

  const Stamp* NoteWords(const Region& region, std::size_t offset, std::size_t bytes, Access access, const Stamp& now);
  static const Stamp* NoteWord(Word& word, Access access, const Stamp& now);

  std::array<Region, kMaxRegions> regions_;
  std::size_t region_count_ = 0;
  std::size_t watched_words_ = 0;
  std::vector<Word> words_;  // never cleared: stamps of earlier blocks are old
};

}  // namespace roost::simt
