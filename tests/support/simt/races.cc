#include "tests/support/simt/races.h"

#include "common/base/check.h"

namespace roost::simt {
namespace {

using Stamp = Races::Stamp;

// Is all of `before` ordered before `now` by a barrier?
bool IsOrdered(const Stamp& before, const Stamp& now) {
  return before.barriers < now.barriers || (before.warp == now.warp && before.warp_syncs < now.warp_syncs);
}

bool Conflict(const Stamp& before, const Stamp& now) {
  return !IsOrdered(before, now) && (before.warp != now.warp || before.lane != now.lane);
}

// Adds `now` to the stamp. Stamps ordered before it are forgotten: a thread that does not see those ordered does not
// see `now` ordered either.
void Add(const Stamp& now, Stamp& stamp) {
  if (stamp.warp == Stamp::kSeveral ? stamp.barriers < now.barriers : IsOrdered(stamp, now)) {
    stamp = now;
  } else if (stamp.warp != now.warp) {
    stamp.warp = stamp.lane = Stamp::kSeveral;
  } else if (stamp.lane != now.lane) {
    stamp.lane = Stamp::kSeveral;
  }
}

}  // namespace

void Races::Clear() {
  region_count_ = 0;
  watched_words_ = 0;
}

void Races::Watch(std::span<const std::byte> memory) {
  if (memory.empty()) return;
  ROOST_CHECK(region_count_ < kMaxRegions, "more than {} watched objects", kMaxRegions);
  regions_[region_count_++] = {
      .begin = reinterpret_cast<std::uintptr_t>(memory.data()), .bytes = memory.size(), .first_word = watched_words_};
  watched_words_ += (memory.size() + kWordBytes - 1) / kWordBytes;
  if (words_.size() < watched_words_) words_.resize(watched_words_);
}

const Stamp* Races::NoteWords(const Region& region, std::size_t offset, std::size_t bytes, Access access,
                              const Stamp& now) {
  ROOST_CHECK(offset + bytes <= region.bytes, "{} bytes at byte {} of {} in watched memory", bytes, offset,
              region.bytes);
  const std::size_t end = region.first_word + (offset + bytes + kWordBytes - 1) / kWordBytes;
  const Stamp* race = nullptr;
  for (std::size_t i = region.first_word + offset / kWordBytes; i < end && race == nullptr; ++i) {
    race = NoteWord(words_[i], access, now);
  }
  return race;
}

const Stamp* Races::NoteWord(Word& word, Access access, const Stamp& now) {
  const bool both_atomic = access == Access::kAtomic && word.is_atomic;
  if (!both_atomic && Conflict(word.write, now)) return &word.write;
  if (access == Access::kRead || access == Access::kWarpRead) {
    Add(now, word.read);
    return nullptr;
  }
  if (Conflict(word.read, now)) return &word.read;
  if (access == Access::kWrite) {
    word.write = now;
    word.is_atomic = false;
  } else {
    // A thread's atomic behind its own plain write does not make that write atomic.
    word.is_atomic = word.is_atomic || IsOrdered(word.write, now);
    Add(now, word.write);
  }
  return nullptr;
}

}  // namespace roost::simt
