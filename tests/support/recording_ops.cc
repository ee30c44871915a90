#include "tests/support/recording_ops.h"

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/base/check.h"

namespace roost::testing_support {
namespace {

using kernels::Device;
using kernels::OpTable;

using Calls = std::vector<std::function<void(Device&)>>;

class WrittenCalls final : public kernels::Recording {
 public:
  explicit WrittenCalls(Calls calls) : calls_(std::move(calls)) {}
  [[nodiscard]] const Calls& calls() const { return calls_; }

 private:
  Calls calls_;
};

// The recording of this thread, if one is being made.
std::optional<Calls>& Open() {
  thread_local std::optional<Calls> calls;
  return calls;
}

std::atomic<std::uint64_t>& Recorded() {
  static std::atomic<std::uint64_t> count{0};
  return count;
}
std::atomic<std::uint64_t>& Replayed() {
  static std::atomic<std::uint64_t> count{0};
  return count;
}

// The CPU's op behind `member`; recorded while a recording is being made.
template <auto kMember, typename Args>
void Op(Device& device, const Args& args) {
  const auto op = kernels::CpuOps().*kMember;
  if (!Open()) {
    op(device, args);
    return;
  }
  Open()->push_back([op, args](Device& target) { op(target, args); });
}

template <auto kMember, typename Args>
void OpNotRecorded(Device& device, const Args& args) {
  ROOST_CHECK(!Open(), "an op with host memory is recorded");
  (kernels::CpuOps().*kMember)(device, args);
}

}  // namespace

RecordingCounts CountsOfRecordings() { return {.recorded = Recorded().load(), .replayed = Replayed().load()}; }

const OpTable& RecordingOps() {
  static const OpTable kOps = [] {
    OpTable ops = kernels::CpuOps();
    ops.name = "recording";
    ops.begin_recording = [](Device& /*device*/) {
      ROOST_CHECK(!Open());
      Open().emplace();
    };
    ops.end_recording = [](Device& /*device*/) -> std::unique_ptr<kernels::Recording> {
      auto recording = std::make_unique<WrittenCalls>(std::move(Open()).value());
      Open().reset();
      ++Recorded();
      return recording;
    };
    ops.replay = [](Device& device, const kernels::Recording& recording) {
      for (const auto& call : static_cast<const WrittenCalls&>(recording).calls()) call(device);
      ++Replayed();
    };
    ops.allocate = [](Device& device, std::size_t bytes) {
      ROOST_CHECK(!Open(), "memory is asked for in a recording");
      return kernels::CpuOps().allocate(device, bytes);
    };
    ops.copy_to_device = [](Device& device, void* to, const void* from, std::size_t bytes) {
      ROOST_CHECK(!Open(), "a copy is recorded");
      kernels::CpuOps().copy_to_device(device, to, from, bytes);
    };
    ops.upload = [](Device& device, void* to, std::span<const kernels::HostPiece> pieces) {
      ROOST_CHECK(!Open(), "a copy is recorded");
      kernels::CpuOps().upload(device, to, pieces);
    };
    ops.copy_to_host = [](Device& device, void* to, const void* from, std::size_t bytes) {
      ROOST_CHECK(!Open(), "a copy is recorded");
      kernels::CpuOps().copy_to_host(device, to, from, bytes);
    };
    ops.begin_readback = [](Device& device, const void* from, std::size_t bytes) {
      ROOST_CHECK(!Open(), "a copy is recorded");
      kernels::CpuOps().begin_readback(device, from, bytes);
    };
    ops.copy_block_rows = OpNotRecorded<&OpTable::copy_block_rows, kernels::CopyBlockRowsArgs>;
    ops.gather_embedding = Op<&OpTable::gather_embedding, kernels::GatherEmbeddingArgs>;
    ops.rms_norm = Op<&OpTable::rms_norm, kernels::RmsNormArgs>;
    ops.matmul = Op<&OpTable::matmul, kernels::MatmulArgs>;
    ops.rope_angles = Op<&OpTable::rope_angles, kernels::RopeAnglesArgs>;
    ops.rope_to_cache = Op<&OpTable::rope_to_cache, kernels::RopeToCacheArgs>;
    ops.attention = Op<&OpTable::attention, kernels::AttentionArgs>;
    ops.silu_mul = Op<&OpTable::silu_mul, kernels::SiluMulArgs>;
    ops.all_reduce = Op<&OpTable::all_reduce, kernels::AllReduceArgs>;
    ops.gather_columns = Op<&OpTable::gather_columns, kernels::GatherColumnsArgs>;
    return ops;
  }();
  return kOps;
}

}  // namespace roost::testing_support
