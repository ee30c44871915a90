#include "kernels/cuda/nccl_library.h"

#include <dlfcn.h>

namespace roost::kernels {
namespace {

constexpr const char* kFile = "libnccl.so.2";  // 2.14 and later have all functions used here

Error Unavailable() {
  return Error{ErrorCode::kUnavailable,
               fmt::format("several CUDA devices need NCCL: {}; if a Python package holds it, add its folder "
                           "(site-packages/nvidia/nccl/lib) to LD_LIBRARY_PATH",
                           ::dlerror()),  // NOLINT(concurrency-mt-unsafe): at start
               "tensor_parallel"};
}

template <typename Function>
Result<void> Find(void* object, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(object, name));
  if (function == nullptr) return Unavailable();
  return {};
}

}  // namespace

Result<NcclLibrary> OpenNccl() {
  void* object = ::dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  if (object == nullptr) return Unavailable();
  NcclLibrary nccl;
  ROOST_RETURN_IF_ERROR(Find(object, "ncclCommInitAll", nccl.comm_init_all));
  ROOST_RETURN_IF_ERROR(Find(object, "ncclCommDestroy", nccl.comm_destroy));
  ROOST_RETURN_IF_ERROR(Find(object, "ncclCommGetAsyncError", nccl.comm_get_async_error));
  ROOST_RETURN_IF_ERROR(Find(object, "ncclGetErrorString", nccl.get_error_string));
  ROOST_RETURN_IF_ERROR(Find(object, "ncclGetLastError", nccl.get_last_error));
  ROOST_RETURN_IF_ERROR(Find(object, "ncclAllReduce", nccl.all_reduce));
  ROOST_RETURN_IF_ERROR(Find(object, "ncclBroadcast", nccl.broadcast));
  ROOST_RETURN_IF_ERROR(Find(object, "ncclSend", nccl.send));
  ROOST_RETURN_IF_ERROR(Find(object, "ncclRecv", nccl.recv));
  ROOST_RETURN_IF_ERROR(Find(object, "ncclGroupStart", nccl.group_start));
  ROOST_RETURN_IF_ERROR(Find(object, "ncclGroupEnd", nccl.group_end));
  return nccl;
}

}  // namespace roost::kernels
