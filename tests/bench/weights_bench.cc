// Reading a model's weights from a file, as they are read to be put on a device: into a small buffer, by several
// threads. From the page cache, and from the disk; with conversion between them, which reading ahead hides.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "kernels/parallel_copy.h"
#include "tests/bench/bench.h"
#include "worker/model/weights.h"

namespace roost::bench {
namespace {

constexpr std::uint64_t kWidth = 4096;
constexpr std::uint64_t kLayerBytes = 2 * kWidth * kWidth;  // bf16

std::string NameOf(std::uint64_t layer) { return fmt::format("model.layers.{}.self_attn.o_proj.weight", layer); }

// A directory with one file of so many layers, of one product each.
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

  // Out of the page cache.
  void Forget() const {
    const int descriptor = ::open(path().c_str(), O_RDONLY | O_CLOEXEC);
    ROOST_CHECK(descriptor >= 0 && ::fdatasync(descriptor) == 0);
    ROOST_CHECK(::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED) == 0);
    ::close(descriptor);
  }

  // Bytes per second of copying all of it, with `work` after each layer.
  template <typename Work>
  [[nodiscard]] double Read(const Work& work) const {
    const SteadyClock clock;
    const Instant start = clock.Now();
    const worker::SafetensorsWeights weights(worker::SafetensorsDirectory::Open(directory_).value());
    std::vector<std::byte> staging(kLayerBytes);
    const std::vector<std::uint64_t> shape = {kWidth, kWidth};
    for (std::uint64_t layer = 0; layer < layers_; ++layer) {
      kernels::CopyInParallel(staging.data(), weights.Get(NameOf(layer), shape)->data, kLayerBytes);
      work(staging);
    }
    return static_cast<double>(layers_ * kLayerBytes) / ToSeconds(clock.Now() - start);
  }

 private:
  [[nodiscard]] std::filesystem::path path() const { return directory_ / "model.safetensors"; }

  const std::uint64_t layers_;
  std::filesystem::path directory_;
};

// As a conversion would take: some milliseconds for each layer.
void Convert(std::vector<std::byte>& bytes) {
  std::uint8_t carry = 0;
  for (std::byte& byte : bytes)
    byte = static_cast<std::byte>(carry = static_cast<std::uint8_t>(carry + std::to_integer<std::uint8_t>(byte)));
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
}

}  // namespace roost::bench
