// Replaces collective_cuda.cc in builds without NCCL's header: no communicator can be made, so its ops never run.
#include "common/base/check.h"
#include "kernels/collective.h"

namespace roost::kernels {

Result<Communicators> ConnectCuda(std::span<Device* const> /*devices*/) {
  return Error{ErrorCode::kUnavailable, "several CUDA devices need NCCL, which this build was made without",
               "tensor_parallel"};
}

void AllReduceCuda(Device& /*device*/, const AllReduceArgs& /*args*/) { ROOST_CHECK(false, "there is no NCCL"); }

void GatherColumnsCuda(Device& /*device*/, const GatherColumnsArgs& /*args*/) {
  ROOST_CHECK(false, "there is no NCCL");
}

void BroadcastCuda(Device& /*device*/, const BroadcastArgs& /*args*/) { ROOST_CHECK(false, "there is no NCCL"); }

}  // namespace roost::kernels
