// NCCL on the device's stream, so that collective ops can be recorded like all others.
#include <algorithm>
#include <chrono>
#include <mutex>
#include <string>

#include "kernels/collective.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/nccl_library.h"

namespace roost::kernels {
namespace {

// One line of text. The communicator may be null.
std::string Describe(const NcclLibrary& nccl, ncclComm_t communicator, ncclResult_t status) {
  std::string text = fmt::format("{}: {}", nccl.get_error_string(status), nccl.get_last_error(communicator));
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

// The devices and communicators of a group, by rank. Any thread may query a device while it exists: a rank may be
// closed while the others still load.
struct NcclGroup {
  NcclGroup(const NcclLibrary& library, std::span<Device* const> ranks) : nccl(library), communicators(ranks.size()) {
    for (Device* device : ranks) devices.push_back(&CudaDevice::Of(*device));
  }

  const NcclLibrary nccl;
  std::mutex mutex;
  std::vector<const CudaDevice*> devices;  // null: the rank is gone. Guarded by mutex, except for the rank's own
  std::vector<ncclComm_t> communicators;   // constant once connected
};

// Restores the thread's current device at the end of the scope.
class ScopedCurrentDevice {
 public:
  ScopedCurrentDevice() { cudaGetDevice(&ordinal_); }
  ~ScopedCurrentDevice() { cudaSetDevice(ordinal_); }
  ScopedCurrentDevice(const ScopedCurrentDevice&) = delete;
  ScopedCurrentDevice& operator=(const ScopedCurrentDevice&) = delete;

 private:
  int ordinal_ = 0;
};

class CudaCommunicator final : public Communicator {
 public:
  CudaCommunicator(std::uint32_t rank, std::shared_ptr<RankBarrier> barrier, std::shared_ptr<NcclGroup> group,
                   CudaDevice& device)
      : Communicator(rank, static_cast<std::uint32_t>(group->communicators.size()), std::move(barrier)),
        group_(std::move(group)),
        device_(device) {
    device_.SetWatch([this] { CheckPeers(); });
  }
  ~CudaCommunicator() override {
    device_.SetWatch(nullptr);
    {
      const std::lock_guard lock(group_->mutex);
      group_->devices[rank()] = nullptr;
    }
    nccl().comm_destroy(get());  // a failure at the end has no effect, so it is ignored
  }

  [[nodiscard]] static CudaCommunicator& Of(Communicator& communicator) {
    return static_cast<CudaCommunicator&>(communicator);
  }

  [[nodiscard]] const NcclLibrary& nccl() const { return group_->nccl; }
  [[nodiscard]] ncclComm_t get() const { return group_->communicators[rank()]; }

  // Ends the process unless the status is success.
  void Check(ncclResult_t status, const char* call) const {
    if (status != ncclSuccess) [[unlikely]]
      Fail(rank(), status, call);
  }

  // NCCL and CUDA report asynchronous errors only when asked, and devices that wait for a failed rank wait for ever.
  // Asks at most once per period, because the ranks' threads need the same locks of the driver for launches.
  void CheckPeers() override {
    const auto now = std::chrono::steady_clock::now();
    if (now < next_check_) return;
    next_check_ = now + kWatchPeriod;
    const ScopedCurrentDevice restored;
    const std::lock_guard lock(group_->mutex);
    for (std::uint32_t rank = 0; rank < rank_count(); ++rank) {
      if (group_->devices[rank] != nullptr) CheckPeer(rank);
    }
  }

 private:
  void CheckPeer(std::uint32_t rank) const {
    const CudaDevice& peer = *group_->devices[rank];
    const auto check = [&](cudaError_t status, const char* call) {
      if (status != cudaSuccess && status != cudaErrorNotReady) device_.FailFor(peer, call, cudaGetErrorString(status));
    };
    // The stream first: when a device fails, NCCL fails too, with a less precise error.
    check(cudaSetDevice(static_cast<int>(peer.ordinal())), "cudaSetDevice");
    check(peer.Query(), "cudaStreamQuery");
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = nccl().comm_get_async_error(group_->communicators[rank], &state);
    if (asked != ncclSuccess) Fail(rank, asked, "ncclCommGetAsyncError");
    if (state != ncclSuccess && state != ncclInProgress) Fail(rank, state, "a collective op of NCCL");
  }

  [[noreturn]] void Fail(std::uint32_t rank, ncclResult_t status, const char* call) const {
    device_.FailFor(*group_->devices[rank], call, Describe(nccl(), group_->communicators[rank], status).c_str());
  }

  const std::shared_ptr<NcclGroup> group_;
  CudaDevice& device_;
  std::chrono::steady_clock::time_point next_check_;
};

}  // namespace

Result<Communicators> ConnectCuda(std::span<Device* const> devices) {
  ROOST_ASSIGN_OR_RETURN(const NcclLibrary nccl, OpenNccl());
  const auto group = std::make_shared<NcclGroup>(nccl, devices);
  std::vector<int> ordinals;
  for (const CudaDevice* device : group->devices) ordinals.push_back(static_cast<int>(device->ordinal()));
  const ScopedCurrentDevice restored;
  const ncclResult_t status =
      nccl.comm_init_all(group->communicators.data(), static_cast<int>(devices.size()), ordinals.data());
  if (status != ncclSuccess) {
    return Error{ErrorCode::kUnavailable, fmt::format("ncclCommInitAll: {}", Describe(nccl, nullptr, status)),
                 "tensor_parallel"};
  }
  const auto barrier = std::make_shared<RankBarrier>(static_cast<std::uint32_t>(devices.size()));
  Communicators communicators;
  for (std::uint32_t rank = 0; rank < devices.size(); ++rank) {
    communicators.push_back(std::make_unique<CudaCommunicator>(rank, barrier, group, CudaDevice::Of(*devices[rank])));
  }
  return communicators;
}

void AllReduceCuda(Device& device, const AllReduceArgs& args) {
  const CudaCommunicator& communicator = CudaCommunicator::Of(*args.communicator);
  const ncclDataType_t type = args.dtype == DType::kBF16 ? ncclBfloat16 : ncclFloat32;
  communicator.Check(communicator.nccl().all_reduce(args.values, args.values, args.count, type, ncclSum,
                                                    communicator.get(), CudaDevice::Of(device).stream()),
                     "ncclAllReduce");
}

void GatherColumnsCuda(Device& device, const GatherColumnsArgs& args) {
  const CudaCommunicator& communicator = CudaCommunicator::Of(*args.communicator);
  const NcclLibrary& nccl = communicator.nccl();
  const CudaDevice& cuda = CudaDevice::Of(device);
  const std::uint32_t ranks = communicator.rank_count();
  const auto begin_of = [&](std::uint32_t rank) { return std::size_t{ColumnsBegin(args.width, rank, ranks)}; };
  const auto columns_of = [&](std::uint32_t rank) { return begin_of(rank + 1) - begin_of(rank); };
  if (communicator.rank() != 0) {
    communicator.Check(nccl.send(args.part, args.rows * columns_of(communicator.rank()), ncclFloat32, 0,
                                 communicator.get(), cuda.stream()),
                       "ncclSend");
    return;
  }
  communicator.Check(nccl.group_start(), "ncclGroupStart");
  for (std::uint32_t rank = 1; rank < ranks; ++rank) {
    communicator.Check(nccl.recv(args.scratch + args.rows * begin_of(rank), args.rows * columns_of(rank), ncclFloat32,
                                 static_cast<int>(rank), communicator.get(), cuda.stream()),
                       "ncclRecv");
  }
  communicator.Check(nccl.group_end(), "ncclGroupEnd");
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const float* part = rank == 0 ? args.part : args.scratch + args.rows * begin_of(rank);
    const std::size_t row_bytes = columns_of(rank) * sizeof(float);
    cuda.Check(cudaMemcpy2DAsync(args.out + begin_of(rank), args.width * sizeof(float), part, row_bytes, row_bytes,
                                 args.rows, cudaMemcpyDeviceToDevice, cuda.stream()),
               "cudaMemcpy2DAsync");
  }
}

void BroadcastCuda(Device& device, const BroadcastArgs& args) {
  const CudaCommunicator& communicator = CudaCommunicator::Of(*args.communicator);
  communicator.Check(communicator.nccl().broadcast(args.values, args.values, args.bytes, ncclUint8, 0,
                                                   communicator.get(), CudaDevice::Of(device).stream()),
                     "ncclBroadcast");
}

}  // namespace roost::kernels
