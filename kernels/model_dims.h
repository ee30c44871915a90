// The sizes of a model that a device's kernels may limit.
#pragma once

#include <cstdint>

#include "kernels/kv_layout.h"

namespace roost::kernels {

// The dimensions of the whole model, also when several ranks compute it.
struct ModelDims {
  KvLayout kv;  // without base and block count
  std::uint32_t vocab_size = 0;
  std::uint32_t hidden_size = 0;
};

}  // namespace roost::kernels
