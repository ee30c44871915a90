// NCCL's functions, from the library that is opened when several devices compute one model: a worker on one device does
// without it. For the files of the CUDA backend alone.
#pragma once

#include <nccl.h>

#include "common/base/result.h"

namespace roost::kernels {

struct NcclLibrary {
  decltype(&ncclCommInitAll) comm_init_all = nullptr;
  decltype(&ncclCommDestroy) comm_destroy = nullptr;
  decltype(&ncclCommGetAsyncError) comm_get_async_error = nullptr;
  decltype(&ncclGetErrorString) get_error_string = nullptr;
  decltype(&ncclGetLastError) get_last_error = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
  decltype(&ncclBroadcast) broadcast = nullptr;
  decltype(&ncclSend) send = nullptr;
  decltype(&ncclRecv) recv = nullptr;
  decltype(&ncclGroupStart) group_start = nullptr;
  decltype(&ncclGroupEnd) group_end = nullptr;
};

// Stays open until the process ends. kUnavailable where the library or one of the functions is not there, with the
// loader's reason.
[[nodiscard]] Result<NcclLibrary> OpenNccl();

}  // namespace roost::kernels
