// Brings mapped files into memory before they are needed. Threads touch the files in the order in which they will be
// read, a bounded part ahead, so that the disk works while earlier parts are converted and copied.
//
//   pieces   [ taken ........ | being brought, at most `window_bytes` | not yet ............ ]
//                             ▲ Take moves this, whatever the reader took
//
// It only helps: a reader whose piece is not there yet waits for the disk as it would without read-ahead. Failures are
// silent here, because the reader meets them too and can name what it wanted. It takes no memory beside the page cache.
// Work on all bytes that is done once, such as hashing, is done by the same threads.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

namespace roost::worker {

// Reads the pages of mapped bytes, if they are not in memory, and maps them. Returns nothing, or errno: EFAULT where
// the file has no such bytes or can not be read, which otherwise would be a SIGBUS. Kernels before 5.14 can not tell:
// then it does nothing and returns nothing.
[[nodiscard]] int BringMapped(std::span<const std::byte> mapped);

// Of a range, at most piece_bytes.
struct ReadPiece {
  std::size_t index = 0;  // counted over all ranges, in order; empty ranges have none
  std::span<const std::byte> bytes;
};

struct ReadAheadOptions {
  std::size_t thread_count = 4;
  std::size_t piece_bytes = std::size_t{64} << 20U;      // long enough for the disk to see several streams, not jumps
  std::uint64_t window_bytes = std::uint64_t{2} << 30U;  // at least a piece
  std::function<void(const ReadPiece&)> bring = [](const ReadPiece& piece) {
    (void)BringMapped(piece.bytes);
  };  // called by all threads, once for each piece
};

// Thread-safe. The mapped bytes outlive it.
class ReadAhead {
 public:
  // `ranges` in the order of their need. The threads start at once.
  explicit ReadAhead(const std::vector<std::span<const std::byte>>& ranges, ReadAheadOptions options = {});
  // Ends the threads, each after the piece that it is at.
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // The reader has used this many more bytes.
  void Take(std::uint64_t bytes);

  // Reads everything that is left, in spite of the window, and returns when every piece is in memory. From one thread.
  void Finish();

 private:
  void Run();
  [[nodiscard]] std::optional<ReadPiece> NextPiece();

  const ReadAheadOptions options_;
  std::vector<ReadPiece> pieces_;

  std::mutex mutex_;
  std::condition_variable moved_;
  std::size_t next_ = 0;           // guarded by mutex_
  std::uint64_t begun_bytes_ = 0;  // guarded by mutex_: of the pieces before next_
  std::uint64_t taken_bytes_ = 0;  // guarded by mutex_
  bool is_finishing_ = false;      // guarded by mutex_
  bool ending_ = false;            // guarded by mutex_
  std::vector<std::thread> threads_;
};

}  // namespace roost::worker
