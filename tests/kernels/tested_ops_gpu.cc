#include "tests/kernels/tested_ops.h"
#include "worker/backend/choose_backend.h"

namespace roost::kernels {

Result<const OpTable*> TestedOps() {
  static const auto choice = worker::ChooseBackend({.kind = worker::BackendKind::kCuda});
  if (!choice.ok()) return choice.error();
  return choice->ops;
}

}  // namespace roost::kernels
