// The tensors that a model's files must have, by config.json alone: checked before the first byte of weights is read.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "worker/model/loading/hf_config.h"
#include "worker/model/loading/safetensors.h"

namespace roost::worker {

// Calls `each` for every tensor that LoadTransformerWeights reads, in its order; stops at the first error.
[[nodiscard]] Result<void> ForEachTensor(
    const HfConfig& config,
    const std::function<Result<void>(const std::string& name, std::span<const std::uint64_t> shape)>& each);

// The elements of all these tensors.
[[nodiscard]] std::uint64_t ElementCount(const HfConfig& config);

// An Error that names the tensor, its file and both shapes.
[[nodiscard]] Result<void> CheckShape(const SafetensorsDirectory::Found& found, std::string_view name,
                                      std::span<const std::uint64_t> shape);

// Looks at the headers of the files: an Error if a tensor is missing, or has another shape or a dtype that no kernel
// reads. Takes milliseconds, whatever the size of the files.
[[nodiscard]] Result<void> CheckTensors(const HfConfig& config, const SafetensorsDirectory& files);

}  // namespace roost::worker
