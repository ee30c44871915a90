// A model's frames on the heap, without devices behind them.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <span>
#include <vector>

#include "worker/model/block_reader.h"

namespace roost::testing_support {

class HeapStaging final : public worker::FrameStaging {
 public:
  HeapStaging(std::size_t count, std::size_t frame_bytes) : frames_(count, std::vector<std::byte>(frame_bytes)) {}

  [[nodiscard]] std::vector<std::byte*> Take(std::size_t count) override {
    std::vector<std::byte*> taken;
    for (std::size_t i = 0; i < count; ++i) taken.push_back(frames_.at(i).data());
    return taken;
  }
  void Stage(std::span<const std::byte> /*data*/) override {}
  void Clear(std::byte* frame) override {
    std::fill_n(frame, frames_.front().size(), std::byte{0});
    ++cleared_count;
  }

  // With a byte that is not zero.
  [[nodiscard]] std::size_t written_count() const {
    return static_cast<std::size_t>(std::count_if(frames_.begin(), frames_.end(), [](const auto& frame) {
      return std::any_of(frame.begin(), frame.end(), [](std::byte byte) { return byte != std::byte{0}; });
    }));
  }

  std::atomic<int> cleared_count = 0;

 private:
  std::vector<std::vector<std::byte>> frames_;
};

}  // namespace roost::testing_support
