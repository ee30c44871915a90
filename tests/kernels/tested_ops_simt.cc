#include "tests/kernels/tested_ops.h"
#include "tests/support/simt/simt_ops.h"

namespace roost::kernels {

Result<const OpTable*> TestedOps() { return &simt::SimtOps(); }

}  // namespace roost::kernels
