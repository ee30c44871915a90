// Any bytes as the header of a safetensors file: an Error or tensors that lie inside the data, never a crash.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/check.h"
#include "worker/model/loading/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::uint64_t kDataBytes = 4096;
  const std::string_view header(reinterpret_cast<const char*>(data), size);
  const auto tensors = roost::worker::ParseSafetensorsHeader(header, kDataBytes, "input");
  if (!tensors.ok()) {
    ROOST_CHECK(tensors.error().field == "input" && !tensors.error().message.empty());
    return 0;
  }
  std::uint64_t total = 0;
  for (const auto& [name, info] : *tensors) {
    ROOST_CHECK(info.begin <= info.end && info.end <= kDataBytes, "tensor {}", name);
    total += info.end - info.begin;
  }
  ROOST_CHECK(total == kDataBytes, "tensors have {} bytes", total);
  return 0;
}
