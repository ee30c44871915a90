// The models under goldens/, and what Hugging Face transformers computed from the same files in float32.
#pragma once

#include <algorithm>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "tests/support/source_dir.h"
#include "worker/model/loading/safetensors.h"

namespace roost::worker {

inline constexpr double kGoldenTolerance = 1e-4;  // see RelativeError

inline std::filesystem::path GoldensDir() {
  return std::filesystem::path(testing_support::SourceDir()) / "tests/worker/model/goldens";
}
inline std::filesystem::path DemoModelDir() {
  return std::filesystem::path(testing_support::SourceDir()) / "deploy/demo-model";
}

// The folders that hold a model and its golden logits.
inline std::vector<std::string> GoldenNames() {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(GoldensDir(), error)) {
    if (exists(entry.path() / "golden.safetensors") && exists(entry.path() / "config.json")) {
      names.push_back(entry.path().filename().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

struct Golden {
  std::shared_ptr<const SafetensorsFile> file;

  explicit Golden(const std::filesystem::path& folder)
      : file(SafetensorsFile::Open(folder / "golden.safetensors").value()) {}

  template <typename T>
  [[nodiscard]] std::span<const T> Get(std::string_view name) const {
    const auto data = file->Data(file->tensors().find(name)->second);
    return {reinterpret_cast<const T*>(data.data()), data.size() / sizeof(T)};
  }
  [[nodiscard]] bool Has(std::string_view name) const { return file->tensors().count(name) > 0; }
  // The longest context in the golden files. Models with a sliding window are served up to that.
  [[nodiscard]] std::uint32_t context_tokens() const {
    const std::size_t greedy = Has("greedy_ids") ? Get<std::int32_t>("greedy_ids").size() : 0;
    return static_cast<std::uint32_t>(Get<std::int32_t>("input_ids").size() + greedy);
  }
  [[nodiscard]] std::vector<TokenId> Ids(std::string_view name) const {
    const auto ids = Get<std::int32_t>(name);
    return {ids.begin(), ids.end()};
  }
};

}  // namespace roost::worker
