// The agreement of results of equal inputs: between batches of one device, and between devices.
#pragma once

#include <string>

namespace roost::kernels {

struct Arithmetic {
  // The most by which the logits of a text may differ when it is computed in other batches, as a part of the largest
  // logit.
  float batch_tolerance = 1e-2F;
  // Names all that decides how results are rounded, where computing twice does not give the same bits: devices of equal
  // names compute values that are equal up to rounding. Empty where it does: computed bits then tell devices apart.
  std::string name = {};
};

}  // namespace roost::kernels
