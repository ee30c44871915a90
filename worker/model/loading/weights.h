// Sources of a transformer's weights: files, or a seed.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "kernels/dtype.h"
#include "worker/model/loading/safetensors.h"

namespace roost::worker {

// Brings mapped files into memory before they are needed. Threads read the files in the order in which they will be
// used, a limited part ahead, so that the disk works while earlier parts are converted and copied.
//
//   pieces   [ taken ........ | being brought, at most `window_bytes` | not yet ............ ]
//                             ▲ Take moves this, whatever part the reader took
//
// It only makes reading faster: a reader whose piece is not there yet waits for the disk as it would without
// read-ahead. Failures are silent here, because the reader meets them too and can name what it wanted. It takes no
// memory besides the page cache. The same threads also do work that is done once on all bytes, such as hashing.

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

// 128-bit hashes of tensors' bytes, which distinguish a model from a fine-tune of the same shape. The read-ahead
// threads compute them while the tensors are read, in any order of pieces:
//
//   tensor      [ piece 0 | piece 1 | … | rest ]     pieces as ReadAhead cuts them
//   its hash    XXH3_128(XXH3_128(piece 0) ‖ XXH3_128(piece 1) ‖ …)
//
// A hash depends only on the tensor's bytes and on the size of pieces: not on the file, the tensor's place in it, or
// threads. It detects accidental differences, not forgery: write access to a model's files decides its answers anyway.

using TensorHash = std::array<std::uint8_t, 16>;

class TensorHashes {
 public:
  // The sizes of tensors, in the order of ReadAhead's ranges.
  TensorHashes(std::span<const std::size_t> tensor_bytes, std::size_t piece_bytes);

  // May be called from any thread; once for each piece. See ReadPiece for the index.
  void AddPiece(std::size_t index, std::span<const std::byte> bytes);

  // Call it after all threads are done. Empty unless all pieces of the tensor were added.
  [[nodiscard]] std::optional<TensorHash> HashOf(std::size_t tensor) const;

 private:
  std::vector<std::size_t> first_piece_;           // of each tensor, and one past the last
  std::vector<std::optional<TensorHash>> pieces_;  // each written by the thread that hashes it
};

struct Weight {
  const void* data = nullptr;  // aligned to its element, row-major
  kernels::DType dtype = kernels::DType::kF32;
  std::uint64_t elements = 0;
  std::shared_ptr<const void> owner;  // keeps data alive
};

// Rows or columns begin … end - 1 of a weight.
struct WeightRange {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;

  [[nodiscard]] std::uint32_t size() const { return end - begin; }
  friend bool operator==(const WeightRange&, const WeightRange&) = default;
};

// Some rows of a weight (along its first dimension), and some columns of these. In a weight with one dimension each
// element is a row with one column.
struct WeightPart {
  WeightRange rows;
  WeightRange columns;
};

// The dtype that kernels read, or an Error that names the tensor and its file.
[[nodiscard]] Result<kernels::DType> ComputableDType(const SafetensorsDirectory::Found& found, std::string_view name);

[[nodiscard]] std::uint64_t ElementsOf(std::span<const std::uint64_t> shape);

class WeightSource {
 public:
  virtual ~WeightSource() = default;
  // The weight with this name and exactly this shape, or an Error that names it and its file.
  [[nodiscard]] virtual Result<Weight> Get(std::string_view name, std::span<const std::uint64_t> shape) const = 0;
  // The same for a part: the part that RowsOf and ColumnsOf would take.
  [[nodiscard]] virtual Result<Weight> GetPart(std::string_view name, std::span<const std::uint64_t> shape,
                                               const WeightPart& part) const;
  // The bytes of all weights; empty if unknown.
  [[nodiscard]] virtual std::optional<std::uint64_t> total_bytes() const { return std::nullopt; }
};

// A tensor of a model's files, whether or not the model uses it.
struct TensorRecord {
  std::string name;
  std::string file;
  std::string dtype;  // as in the file
  std::string shape;  // "[2, 3]"
  TensorHash hash;
  bool was_read = false;  // by Get
};

// Reads ahead from the start, in the order in which a transformer is loaded, and hashes every tensor on the way. A
// weight that Get returns is in memory.
class SafetensorsWeights final : public WeightSource {
 public:
  // Each of `reader_count` readers will get every weight, all at about the same time.
  explicit SafetensorsWeights(SafetensorsDirectory directory, std::uint32_t reader_count = 1);
  [[nodiscard]] Result<Weight> Get(std::string_view name, std::span<const std::uint64_t> shape) const override;
  [[nodiscard]] std::optional<std::uint64_t> total_bytes() const override { return total_bytes_; }

  // Records of every tensor in the files, by name and then by file. Waits for those that have not been read and hashed
  // yet. Call once, when no other thread uses this object.
  [[nodiscard]] Result<std::vector<TensorRecord>> FinishRecords();

 private:
  struct Placed {
    const std::string* name;
    const SafetensorsFile* file;
    const TensorInfo* info;
  };

  [[nodiscard]] static std::vector<Placed> InOrderOfLoading(const SafetensorsDirectory& directory);
  void NoteRead(const TensorInfo& info) const;

  SafetensorsDirectory directory_;
  std::uint32_t reader_count_;
  std::uint64_t total_bytes_ = 0;
  std::vector<Placed> tensors_;
  mutable std::mutex mutex_;
  mutable std::set<const TensorInfo*> read_;  // guarded by mutex_
  std::unique_ptr<TensorHashes> hashes_;      // of tensors_
  std::unique_ptr<ReadAhead> read_ahead_;     // of tensors_, and ends before all of these
};

// Random bf16 weights, of a size that keeps activations near 1; norms are near 1, biases small. A weight depends only
// on the seed, its name and its shape. For a part only that part is made.
class RandomWeights final : public WeightSource {
 public:
  explicit RandomWeights(std::uint64_t seed) : seed_(seed) {}
  [[nodiscard]] Result<Weight> Get(std::string_view name, std::span<const std::uint64_t> shape) const override;
  [[nodiscard]] Result<Weight> GetPart(std::string_view name, std::span<const std::uint64_t> shape,
                                       const WeightPart& part) const override;

 private:
  std::uint64_t seed_;
};

}  // namespace roost::worker
