// Brings mapped files into memory before they are needed: threads touch them in the order in which somebody else will
// read, a bounded part ahead, so that the disk works while what was read before is converted and copied.
//
//   pieces   [ taken ........ | being brought, at most `window_bytes` | not yet ............ ]
//                             ▲ Take moves this, whatever the reader took
//
// It only hints: who reads a piece that is not there waits for the disk as if this were not there. Failures are silent
// here, as the reader meets them too and can say what it wanted. Takes no memory but the page cache's. What else is to
// be done once with all bytes, such as hashing them, the same threads do with each piece.
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

// Reads the pages of mapped bytes, if they are not there, and maps them. Nothing, or errno: EFAULT where the file has
// no such bytes or can not be read, which without this would have been a SIGBUS. Kernels before 5.14 can not tell: then
// it answers nothing and does nothing.
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

  // So many more bytes have been read by whom all this is for.
  void Take(std::uint64_t bytes);

  // Brings all that is left, whatever was taken, and returns when every piece has been brought. From one thread.
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
