// Reading a model's weights from a file as at load: several threads read into a small buffer. From the page cache and
// from disk; with conversion in between, which read-ahead hides. And the cost of hashing on the same threads: the ratio
// to reading ahead alone, with each pair measured one after the other.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "kernels/parallel_copy.h"
#include "tests/bench/bench.h"
#include "worker/model/loading/weights.h"

namespace roost::bench {
namespace {

constexpr std::uint64_t kWidth = 4096;
constexpr std::uint64_t kLayerBytes = 2 * kWidth * kWidth;  // bf16

std::string NameOf(std::uint64_t layer) { return fmt::format("model.layers.{}.self_attn.o_proj.weight", layer); }

// A directory with one file of `layers` layers, each with one product.
class ModelFile {
 public:
  explicit ModelFile(std::uint64_t layers) : layers_(layers) {
    std::string name = (std::filesystem::temp_directory_path() / "roost-weights-XXXXXX").string();
    ROOST_CHECK(mkdtemp(name.data()) != nullptr);
    directory_ = name;
    std::string header;
    for (std::uint64_t layer = 0; layer < layers; ++layer) {
      header += fmt::format(R"({}"{}": {{"dtype": "BF16", "shape": [{}, {}], "data_offsets": [{}, {}]}})",
                            layer == 0 ? "{" : ",", NameOf(layer), kWidth, kWidth, layer * kLayerBytes,
                            (layer + 1) * kLayerBytes);
    }
    header += "}";
    std::ofstream file(path(), std::ios::binary);
    for (std::size_t i = 0; i < 8; ++i) file.put(static_cast<char>(header.size() >> (8 * i)));
    file << header;
    const std::vector<char> data(kLayerBytes, 1);
    for (std::uint64_t layer = 0; layer < layers; ++layer) file.write(data.data(), kLayerBytes);
    ROOST_CHECK(file.flush().good());
  }
  ~ModelFile() { std::filesystem::remove_all(directory_); }
  ModelFile(const ModelFile&) = delete;
  ModelFile& operator=(const ModelFile&) = delete;

  // Drops the file from the page cache.
  void Forget() const {
    const int descriptor = ::open(path().c_str(), O_RDONLY | O_CLOEXEC);
    ROOST_CHECK(descriptor >= 0 && ::fdatasync(descriptor) == 0);
    ROOST_CHECK(::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED) == 0);
    ::close(descriptor);
  }

  // Bytes per second of copying all weights, with `work` after each layer, while they are hashed.
  template <typename Work>
  [[nodiscard]] double Read(const Work& work) const {
    const SteadyClock clock;
    const Instant start = clock.Now();
    worker::SafetensorsWeights weights(worker::SafetensorsDirectory::Open(directory_).value());
    std::vector<std::byte> staging(kLayerBytes);
    const std::vector<std::uint64_t> shape = {kWidth, kWidth};
    for (std::uint64_t layer = 0; layer < layers_; ++layer) {
      kernels::CopyInParallel(staging.data(), weights.Get(NameOf(layer), shape)->data, kLayerBytes);
      work(staging);
    }
    ROOST_CHECK(weights.FinishRecords().ok());
    return static_cast<double>(layers_ * kLayerBytes) / ToSeconds(clock.Now() - start);
  }

  // The same without hashes.
  template <typename Work>
  [[nodiscard]] double ReadAlone(const Work& work) const {
    const SteadyClock clock;
    const Instant start = clock.Now();
    const auto files = worker::SafetensorsDirectory::Open(directory_).value();
    std::vector<std::span<const std::byte>> ranges;
    for (std::uint64_t layer = 0; layer < layers_; ++layer) {
      const auto found = files.Find(NameOf(layer)).value();
      ranges.push_back(found.file->Data(*found.info));
    }
    worker::ReadAhead ahead(ranges);
    std::vector<std::byte> staging(kLayerBytes);
    for (const auto& range : ranges) {
      ROOST_CHECK(worker::BringMapped(range) == 0);
      ahead.Take(range.size());
      kernels::CopyInParallel(staging.data(), range.data(), kLayerBytes);
      work(staging);
    }
    return static_cast<double>(layers_ * kLayerBytes) / ToSeconds(clock.Now() - start);
  }

 private:
  [[nodiscard]] std::filesystem::path path() const { return directory_ / "model.safetensors"; }

  const std::uint64_t layers_;
  std::filesystem::path directory_;
};

// Takes as long as a conversion: some milliseconds per layer.
void Convert(std::vector<std::byte>& bytes) {
  std::uint8_t carry = 0;
  for (std::byte& byte : bytes)
    byte = static_cast<std::byte>(carry = static_cast<std::uint8_t>(carry + std::to_integer<std::uint8_t>(byte)));
}

enum class From { kPageCache, kDisk };

// The ratio of reading times with and without hashes.
template <typename Work>
double HashCost(Effort effort, const ModelFile& file, From from, const Work& work) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < (effort == Effort::kQuick ? 1U : 5U); ++i) {
    if (from == From::kDisk) file.Forget();
    const double alone = file.ReadAlone(work);
    if (from == From::kDisk) file.Forget();
    ratios.push_back(alone / file.Read(work));
  }
  std::nth_element(ratios.begin(), ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2), ratios.end());
  return ratios[ratios.size() / 2];
}

}  // namespace

void BenchWeights(Effort effort) {
  const ModelFile file(effort == Effort::kQuick ? 2 : 64);
  const auto nothing = [](std::vector<std::byte>&) {};
  (void)file.Read(nothing);
  Figure("weights_page_cache_gb_per_s", file.Read(nothing) / 1e9, "GB/s");
  file.Forget();
  Figure("weights_disk_gb_per_s", file.Read(nothing) / 1e9, "GB/s");
  Figure("weights_page_cache_converted_gb_per_s", file.Read(Convert) / 1e9, "GB/s");
  file.Forget();
  Figure("weights_disk_converted_gb_per_s", file.Read(Convert) / 1e9, "GB/s");
  Figure("weights_hash_cost_page_cache", HashCost(effort, file, From::kPageCache, nothing), "times");
  Figure("weights_hash_cost_page_cache_converted", HashCost(effort, file, From::kPageCache, Convert), "times");
  Figure("weights_hash_cost_disk", HashCost(effort, file, From::kDisk, nothing), "times");
  Figure("weights_hash_cost_disk_converted", HashCost(effort, file, From::kDisk, Convert), "times");
}

}  // namespace roost::bench
