// Reader of the safetensors format: named tensors in a file that is mapped, not read.
//
//   8 bytes    length of the header, u64 little-endian
//   header     JSON: {"name": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [begin, end]}, …, "__metadata__": {…}}
//   data       offsets count from its first byte; tensors lie one after another without holes
//
// All of this is checked before a byte of data is used: sizes without overflow, no overlap, no hole, nothing outside of
// the file. Errors name the file, and the tensor if one is wrong. The file must not change while it is open.
// Source: https://github.com/huggingface/safetensors, format section.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"

namespace roost::worker {

enum class TensorDType : std::uint8_t { kF32, kF16, kBF16, kI32, kI64, kOther };

struct TensorInfo {
  TensorDType dtype = TensorDType::kOther;
  std::string dtype_name;  // as in the file
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0;  // in the data
  std::uint64_t end = 0;

  [[nodiscard]] std::string ShapeText() const;  // "[2, 3]"
};

using TensorTable = std::map<std::string, TensorInfo, std::less<>>;

inline constexpr std::uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;
inline constexpr std::size_t kMaxTensorDims = 8;

// The tensors of a header. `data_bytes` follow it in the file; errors name the file as `file`.
[[nodiscard]] Result<TensorTable> ParseSafetensorsHeader(std::string_view header, std::uint64_t data_bytes,
                                                         const std::string& file);

// Immutable after Open; shared by threads. Pointers into the data live as long as the file.
class SafetensorsFile {
 public:
  [[nodiscard]] static Result<std::shared_ptr<const SafetensorsFile>> Open(const std::filesystem::path& path);
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const TensorTable& tensors() const { return tensors_; }
  [[nodiscard]] std::string_view header() const;
  [[nodiscard]] std::span<const std::byte> Data(const TensorInfo& tensor) const;

 private:
  explicit SafetensorsFile(std::string path) : path_(std::move(path)) {}
  [[nodiscard]] Result<void> Map();
  [[nodiscard]] Result<void> ReadHeader();

  const std::string path_;
  std::span<const std::byte> bytes_;  // the mapped file
  std::uint64_t header_bytes_ = 0;
  TensorTable tensors_;
};

// The weights of a model directory: model.safetensors, or the shards that model.safetensors.index.json names.
class SafetensorsDirectory {
 public:
  struct Found {
    const SafetensorsFile* file;
    const TensorInfo* info;
  };

  [[nodiscard]] static Result<SafetensorsDirectory> Open(const std::filesystem::path& directory);

  // The tensor, or an Error that names it and the place where it should be.
  [[nodiscard]] Result<Found> Find(std::string_view name) const;
  // In the order of their names.
  [[nodiscard]] const std::vector<std::shared_ptr<const SafetensorsFile>>& files() const { return files_; }

 private:
  [[nodiscard]] Result<void> OpenShards(const std::filesystem::path& directory, const std::filesystem::path& index);

  std::string source_;  // the file or the index
  std::vector<std::shared_ptr<const SafetensorsFile>> files_;
  std::map<std::string, const SafetensorsFile*, std::less<>> file_of_;
};

}  // namespace roost::worker
