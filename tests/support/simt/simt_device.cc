#include "tests/support/simt/simt_device.h"

#include <utility>

#include "common/base/check.h"

namespace roost::simt {
namespace {

// Limits of every device.
constexpr unsigned kMaxGridX = 1U << 31U;  // less than this
constexpr unsigned kMaxGridYZ = 65535;

}  // namespace

struct Device::StoredCalls final : kernels::Recording {
  explicit StoredCalls(Calls stored) : calls(std::move(stored)) {}
  Calls calls;
};

void Device::BeginRecording() {
  CheckNotRecording("another recording");
  recorded_.emplace();
}

std::unique_ptr<kernels::Recording> Device::EndRecording() {
  ROOST_CHECK(recorded_.has_value(), "no recording has begun");
  auto recording = std::make_unique<StoredCalls>(*std::move(recorded_));
  recorded_.reset();
  return recording;
}

void Device::Replay(const kernels::Recording& recording) const {
  CheckNotRecording("a replay");
  for (const auto& call : static_cast<const StoredCalls&>(recording).calls) call();
}

void Device::RunOrRecord(std::function<void()> call) {
  if (recorded_) {
    recorded_->push_back(std::move(call));
  } else {
    call();
  }
}

void Device::CheckNotRecording(const char* what) const {
  ROOST_CHECK(!recorded_.has_value(), "{} while ops are recorded", what);
}

void Device::Run(const Dim3& grid, const Dim3& shape, std::size_t dynamic_shared_bytes,
                 const std::function<void()>& kernel) {
  ROOST_CHECK(grid.count() > 0 && grid.x < kMaxGridX && grid.y <= kMaxGridYZ && grid.z <= kMaxGridYZ,
              "a grid of {} x {} x {} blocks", grid.x, grid.y, grid.z);
  std::vector<Dim3> blocks;
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) blocks.push_back({x, y, z});
    }
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    std::swap(blocks[i], blocks[i + order_.Below(blocks.size() - i)]);
    block_.Run(grid, shape, blocks[i], dynamic_shared_bytes, kernel);
  }
}

}  // namespace roost::simt
