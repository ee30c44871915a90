// Brings mapped files into memory before they are needed. Threads read the files in the order in which they will be
// used, a limited part ahead, so that the disk works while earlier parts are converted and copied.
//
//   pieces   [ taken ........ | being brought, at most `window_bytes` | not yet ............ ]
//                             ▲ Take moves this, whatever part the reader took
//
// It only makes reading faster: a reader whose piece is not there yet waits for the disk as it would without
// read-ahead. Failures are silent here, because the reader meets them too and can name what it wanted. It takes no
// memory besides the page cache. The same threads also do work that is done once on all bytes, such as hashing.
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

// Reads the pages of mapped bytes that are not in memory, and maps them. Returns 0, or errno: EFAULT if the file has no
// such bytes or can not be read, which would otherwise raise SIGBUS. On kernels before 5.14 it does nothing and returns
// 0.
[[nodiscard]] int BringMapped(std::span<const std::byte> mapped);

// A part of a range, at most piece_bytes long.
struct ReadPiece {
  std::size_t index = 0;  // counted over all ranges, in order; empty ranges have none
  std::span<const std::byte> bytes;
};

struct ReadAheadOptions {
  std::size_t thread_count = 4;
  std::size_t piece_bytes = std::size_t{64} << 20U;      // so large that the disk sees streams, not random reads
  std::uint64_t window_bytes = std::uint64_t{2} << 30U;  // at least a piece
  std::function<void(const ReadPiece&)> bring = [](const ReadPiece& piece) {
    (void)BringMapped(piece.bytes);
  };  // called by all threads, once for each piece
};

// Thread-safe. The mapped bytes outlive it.
class ReadAhead {
 public:
  // `ranges` are in the order in which they are needed. The threads start at once.
  explicit ReadAhead(const std::vector<std::span<const std::byte>>& ranges, ReadAheadOptions options = {});
  // Ends each thread after its current piece.
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // The reader has used this many more bytes.
  void Take(std::uint64_t bytes);

  // Reads everything that is left, regardless of the window, and returns when every piece is in memory. Call it from
  // one thread.
  void Finish();

 private:
  void Run();
  [[nodiscard]] std::optional<ReadPiece> NextPiece();

  const ReadAheadOptions options_;
  std::vector<ReadPiece> pieces_;

  std::mutex mutex_;
  std::condition_variable moved_;
  std::size_t next_ = 0;           // guarded by mutex_
  std::uint64_t begun_bytes_ = 0;  // guarded by mutex_: bytes of the pieces before next_
  std::uint64_t taken_bytes_ = 0;  // guarded by mutex_
  bool is_finishing_ = false;      // guarded by mutex_
  bool ending_ = false;            // guarded by mutex_
  std::vector<std::thread> threads_;
};

}  // namespace roost::worker
