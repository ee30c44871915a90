// In place of collective_cuda.cc where NCCL's header was not there when this was built. No communicator, no ops on it.
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
