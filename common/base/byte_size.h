// Sizes of memory as operators write and read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace roost {

// "8GiB", "512MiB", "2GB", "1.5 TiB", "64KiB" or plain bytes, "8589934592" or "8e9". KiB, MiB, GiB and TiB are powers
// of 1024 (Kubernetes' Ki, Mi, Gi and Ti too), kB, MB, GB and TB powers of 1000; letter case does not matter. A letter
// alone could be either, so 8G is an error that names both. At most 1e18 bytes; a fraction of a byte is cut off.
// kInvalidArgument without a field.
[[nodiscard]] Result<std::uint64_t> ParseByteSize(std::string_view text);

// "8 GiB", "1.5 MiB", "999 bytes": the largest unit that it fills, rounded to three digits.
[[nodiscard]] std::string ByteSizeText(std::uint64_t bytes);

}  // namespace roost
