// What of a model bounds ops: sizes that a device's kernels may not all compute.
#pragma once

#include <cstdint>

#include "kernels/kv_layout.h"

namespace roost::kernels {

// Of the whole model where several ranks compute it.
struct ModelDims {
  KvLayout kv;  // but for its base and block count
  std::uint32_t vocab_size = 0;
  std::uint32_t hidden_size = 0;
};

}  // namespace roost::kernels
