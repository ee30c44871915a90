// Sources of a transformer's weights: files, or a seed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "kernels/dtype.h"
#include "worker/model/loading/read_ahead.h"
#include "worker/model/loading/safetensors.h"

namespace roost::worker {

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
