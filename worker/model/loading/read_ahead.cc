#include "worker/model/loading/read_ahead.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace roost::worker {

int BringMapped(std::span<const std::byte> mapped) {
  if (mapped.empty()) return 0;
#ifndef MADV_POPULATE_READ
  constexpr int MADV_POPULATE_READ = 22;  // since Linux 5.14; older headers lack it
#endif
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(mapped.data());
  const std::size_t before = begin % page;
  auto* const first = const_cast<std::byte*>(mapped.data()) - before;  // NOLINT: madvise's signature
  if (::madvise(first, before + mapped.size(), MADV_POPULATE_READ) == 0) return 0;
  return errno == EINVAL ? 0 : errno;
}

ReadAhead::ReadAhead(const std::vector<std::span<const std::byte>>& ranges, ReadAheadOptions options)
    : options_(std::move(options)) {
  for (std::span<const std::byte> range : ranges) {
    while (!range.empty()) {
      pieces_.push_back({pieces_.size(), range.first(std::min(range.size(), options_.piece_bytes))});
      range = range.subspan(pieces_.back().bytes.size());
    }
  }
  for (std::size_t i = 0; i < options_.thread_count; ++i) threads_.emplace_back([this] { Run(); });
}

ReadAhead::~ReadAhead() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  moved_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ReadAhead::Take(std::uint64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    taken_bytes_ += bytes;
  }
  moved_.notify_all();
}

void ReadAhead::Finish() {
  {
    const std::lock_guard lock(mutex_);
    is_finishing_ = true;
  }
  moved_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void ReadAhead::Run() {
  for (auto piece = NextPiece(); piece; piece = NextPiece()) options_.bring(*piece);
}

// The next piece; nothing when there is none left or the threads end.
std::optional<ReadPiece> ReadAhead::NextPiece() {
  std::unique_lock lock(mutex_);
  const auto is_due = [this] {
    return is_finishing_ || begun_bytes_ + pieces_[next_].bytes.size() <= taken_bytes_ + options_.window_bytes;
  };
  moved_.wait(lock, [&] { return ending_ || next_ == pieces_.size() || is_due(); });
  if (ending_ || next_ == pieces_.size()) return std::nullopt;
  begun_bytes_ += pieces_[next_].bytes.size();
  return pieces_[next_++];
}

}  // namespace roost::worker
