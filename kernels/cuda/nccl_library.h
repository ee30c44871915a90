// NCCL's functions, from a library that is opened only when several devices compute one model: a worker on one device
// does not need it. Only for the files of the CUDA backend.
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

// The library stays open until the process ends. kUnavailable when the library or one of the functions is missing, with
// the loader's reason.
[[nodiscard]] Result<NcclLibrary> OpenNccl();

}  // namespace roost::kernels
