// The batches whose draws are on their way back from the device: how many tokens each of them drew, in the order in
// which the batches began.
//
// Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "common/base/check.h"
#include "kernels/device_memory.h"
#include "kernels/ops.h"

namespace roost::worker {

class DrawReadbacks {
 public:
  // `backend` outlives it.
  explicit DrawReadbacks(const kernels::Backend& backend) : backend_(backend) {}

  // Sends for `count` tokens at `sampled`, on the device. At most kMaxReadbacks are on their way at a time.
  void Begin(const void* sampled, std::size_t count) {
    ROOST_CHECK(begun_count_ - ended_count_ < counts_.size(), "{} readbacks are on their way", counts_.size());
    backend_.ops().begin_readback(backend_.device(), sampled, count * sizeof(kernels::SampledToken));
    counts_[begun_count_++ % counts_.size()] = count;
  }

  // Waits for the oldest that has not come. Valid until the next call.
  [[nodiscard]] std::span<const kernels::SampledToken> Await() {
    ROOST_CHECK(ended_count_ < begun_count_, "no batch has begun");
    sampled_.resize(counts_[ended_count_++ % counts_.size()]);
    backend_.ops().end_readback(backend_.device(), sampled_.data());
    return sampled_;
  }

 private:
  const kernels::Backend& backend_;
  std::array<std::size_t, kernels::kMaxReadbacks> counts_{};  // in turn
  std::size_t begun_count_ = 0;
  std::size_t ended_count_ = 0;
  std::vector<kernels::SampledToken> sampled_;
};

}  // namespace roost::worker
