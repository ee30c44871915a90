#include "worker/model/loading/weights.h"

#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "kernels/parallel_copy.h"
#include "worker/model/loading/hf_config.h"
#include "worker/model/loading/shard.h"
#include "worker/model/loading/weight_shapes.h"

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

namespace {

// In the canonical form, which is the same on any machine.
TensorHash HashBytes(const void* bytes, std::size_t size) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes, size));
  TensorHash hash;
  static_assert(sizeof(canonical.digest) == sizeof(hash));
  std::copy(std::begin(canonical.digest), std::end(canonical.digest), hash.begin());
  return hash;
}

}  // namespace

TensorHashes::TensorHashes(std::span<const std::size_t> tensor_bytes, std::size_t piece_bytes) {
  ROOST_CHECK(piece_bytes > 0);
  std::size_t piece_count = 0;
  for (const std::size_t bytes : tensor_bytes) {
    first_piece_.push_back(piece_count);
    piece_count += (bytes + piece_bytes - 1) / piece_bytes;
  }
  first_piece_.push_back(piece_count);
  pieces_.resize(piece_count);
}

void TensorHashes::AddPiece(std::size_t index, std::span<const std::byte> bytes) {
  ROOST_CHECK(index < pieces_.size());
  pieces_[index] = HashBytes(bytes.data(), bytes.size());
}

std::optional<TensorHash> TensorHashes::HashOf(std::size_t tensor) const {
  ROOST_CHECK(tensor + 1 < first_piece_.size());
  std::vector<TensorHash> pieces;
  for (std::size_t i = first_piece_[tensor]; i < first_piece_[tensor + 1]; ++i) {
    if (!pieces_[i]) return std::nullopt;
    pieces.push_back(*pieces_[i]);
  }
  return HashBytes(pieces.data(), pieces.size() * sizeof(TensorHash));
}

namespace {

using kernels::DType;

std::uint64_t HashOf(std::string_view name) {
  std::uint64_t hash = 0;
  for (const char c : name) hash = Mix64(hash ^ static_cast<unsigned char>(c)) + 1;
  return hash;
}

// A sequence of bf16 numbers, uniform in `centre` ± `reach`. Any part can be made without the others.
struct UniformNumbers {
  std::uint64_t seed = 0;
  float centre = 0;
  float reach = 0;

  // The numbers from `first` on; each number of SplitMix64 gives four.
  void Fill(std::uint64_t first, std::span<std::uint16_t> values) const {
    constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15ULL;
    const float unit = reach / 32768;
    const std::uint64_t end = first + values.size();
    for (std::uint64_t word = first / 4; word * 4 < end; ++word) {
      const std::uint64_t bits = Mix64(seed + kGolden * (word + 1));
      for (std::uint64_t i = std::max(first, word * 4); i < std::min(end, word * 4 + 4); ++i) {
        const auto part = static_cast<std::int16_t>(bits >> (16 * (i % 4)));
        values[i - first] = kernels::FloatToBF16(centre + static_cast<float>(part) * unit);
      }
    }
  }
};

// A tensor's place in the order of loading: the embedding, the layers by number, the rest.
std::pair<int, std::uint64_t> PlaceOf(std::string_view name) {
  constexpr std::string_view kLayers = ".layers.";
  if (name.find("embed") != name.npos) return {0, 0};
  const std::size_t at = name.find(kLayers);
  if (at == name.npos) return {2, 0};
  std::uint64_t layer = 0;
  const std::string_view number = name.substr(at + kLayers.size());
  std::from_chars(number.data(), number.data() + number.size(), layer);
  return {1, layer};
}

}  // namespace

Result<DType> ComputableDType(const SafetensorsDirectory::Found& found, std::string_view name) {
  switch (found.info->dtype) {
    case TensorDType::kF32: return DType::kF32;
    case TensorDType::kF16: return DType::kF16;
    case TensorDType::kBF16: return DType::kBF16;
    default: break;
  }
  return DataLoss(found.file->path(), "tensor '{}': dtype {} is not supported, only F32, F16 and BF16 are{}", name,
                  found.info->dtype_name, kOtherEngines);
}

std::uint64_t ElementsOf(std::span<const std::uint64_t> shape) {
  std::uint64_t elements = 1;
  for (const std::uint64_t dim : shape) elements *= dim;
  return elements;
}

Result<Weight> WeightSource::GetPart(std::string_view name, std::span<const std::uint64_t> shape,
                                     const WeightPart& part) const {
  ROOST_ASSIGN_OR_RETURN(const Weight whole, Get(name, shape));
  const auto columns = static_cast<std::uint32_t>(ElementsOf(shape.subspan(1)));
  return ColumnsOf(RowsOf(whole, columns, part.rows), columns, part.columns);
}

SafetensorsWeights::SafetensorsWeights(SafetensorsDirectory directory, std::uint32_t reader_count)
    : directory_(std::move(directory)), reader_count_(reader_count), tensors_(InOrderOfLoading(directory_)) {
  std::vector<std::span<const std::byte>> ranges;
  std::vector<std::size_t> sizes;
  for (const Placed& tensor : tensors_) {
    ranges.push_back(tensor.file->Data(*tensor.info));
    sizes.push_back(ranges.back().size());
    total_bytes_ += ranges.back().size();
  }
  ReadAheadOptions options;
  hashes_ = std::make_unique<TensorHashes>(sizes, options.piece_bytes);
  // A piece that can not be read leaves its tensor without a hash.
  options.bring = [hashes = hashes_.get()](const ReadPiece& piece) {
    if (BringMapped(piece.bytes) == 0) hashes->AddPiece(piece.index, piece.bytes);
  };
  read_ahead_ = std::make_unique<ReadAhead>(ranges, std::move(options));
}

std::vector<SafetensorsWeights::Placed> SafetensorsWeights::InOrderOfLoading(const SafetensorsDirectory& directory) {
  std::vector<Placed> tensors;
  for (const auto& file : directory.files()) {
    for (const auto& [name, info] : file->tensors()) tensors.push_back({&name, file.get(), &info});
  }
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const Placed& a, const Placed& b) { return PlaceOf(*a.name) < PlaceOf(*b.name); });
  return tensors;
}

void SafetensorsWeights::NoteRead(const TensorInfo& info) const {
  const std::lock_guard lock(mutex_);
  read_.insert(&info);
}

Result<std::vector<TensorRecord>> SafetensorsWeights::FinishRecords() {
  read_ahead_->Finish();
  const std::lock_guard lock(mutex_);
  std::vector<TensorRecord> records;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const auto& [name, file, info] = tensors_[i];
    const std::optional<TensorHash> hash = hashes_->HashOf(i);
    if (!hash) return DataLoss(file->path(), "tensor '{}' can not be read", *name);
    records.push_back({.name = *name,
                       .file = file->path(),
                       .dtype = info->dtype_name,
                       .shape = info->ShapeText(),
                       .hash = *hash,
                       .was_read = read_.count(info) > 0});
  }
  std::sort(records.begin(), records.end(), [](const TensorRecord& a, const TensorRecord& b) {
    return std::tie(a.name, a.file) < std::tie(b.name, b.file);
  });
  return records;
}

Result<Weight> SafetensorsWeights::Get(std::string_view name, std::span<const std::uint64_t> shape) const {
  ROOST_ASSIGN_OR_RETURN(const auto found, directory_.Find(name));
  ROOST_ASSIGN_OR_RETURN(const DType dtype, ComputableDType(found, name));
  ROOST_RETURN_IF_ERROR(CheckShape(found, name, shape));
  const auto bytes = found.file->Data(*found.info);
  if (const int reason = BringMapped(bytes); reason != 0) {
    return DataLoss(
        found.file->path(), "tensor '{}' can not be read: {}", name,
        reason == EFAULT ? "the file has become shorter, or its disk fails" : std::generic_category().message(reason));
  }
  NoteRead(*found.info);
  read_ahead_->Take(bytes.size() / reader_count_);
  Weight weight{bytes.data(), dtype, bytes.size() / SizeOf(dtype), nullptr};
  // The format does not align data, although most writers do.
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % SizeOf(dtype) != 0) {
    auto copy = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
    weight.data = copy->data();
    weight.owner = std::move(copy);
  }
  return weight;
}

Result<Weight> RandomWeights::Get(std::string_view name, std::span<const std::uint64_t> shape) const {
  return GetPart(name, shape,
                 {.rows = {0, static_cast<std::uint32_t>(shape.front())},
                  .columns = {0, static_cast<std::uint32_t>(ElementsOf(shape.subspan(1)))}});
}

Result<Weight> RandomWeights::GetPart(std::string_view name, std::span<const std::uint64_t> shape,
                                      const WeightPart& part) const {
  const std::uint64_t row_size = ElementsOf(shape.subspan(1));
  ROOST_CHECK(part.rows.end <= shape.front() && part.columns.end <= row_size);
  const bool norm = name.ends_with("norm.weight");
  const bool bias = name.ends_with(".bias");
  // A uniform distribution of this reach has variance 1 / inputs, so that a product keeps the size of its input.
  const float reach = norm || bias ? 0.1F : std::sqrt(3.0F / static_cast<float>(shape.back()));
  const UniformNumbers numbers{.seed = Mix64(seed_) ^ HashOf(name), .centre = norm ? 1.0F : 0.0F, .reach = reach};
  const std::size_t width = part.columns.size();
  auto values = std::make_shared<std::vector<std::uint16_t>>(part.rows.size() * width);
  const std::uint64_t rows = part.rows.size();
  constexpr std::size_t kMinPerThread = std::size_t{1} << 18U;
  constexpr std::size_t kMaxThreads = 16;
  const std::uint64_t threads = kernels::PartsFor(rows * width, kMinPerThread, kMaxThreads);
  kernels::RunInParts(threads, [&](std::uint64_t thread) {
    for (std::uint64_t row = rows * thread / threads; row < rows * (thread + 1) / threads; ++row) {
      numbers.Fill((part.rows.begin + row) * row_size + part.columns.begin,
                   std::span(*values).subspan(row * width, width));
    }
  });
  return Weight{values->data(), DType::kBF16, values->size(), values};
}

}  // namespace roost::worker
