// Readbacks (see the op table) for a device that uses host memory and finishes its ops before they return: the bytes
// are copied at once, and kept until they are asked for.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <vector>

#include "common/base/check.h"
#include "kernels/device.h"

namespace roost::kernels {

class HostReadbacks {
 public:
  void Begin(const void* from, std::size_t bytes) {
    ROOST_CHECK(begun_ - ended_ < kMaxReadbacks && bytes <= kMaxReadbackBytes, "{} readbacks, {} bytes",
                begun_ - ended_, bytes);
    std::vector<std::byte>& readback = readbacks_[begun_++ % kMaxReadbacks];
    readback.resize(bytes);
    if (bytes > 0) std::memcpy(readback.data(), from, bytes);
  }

  void End(void* to) {
    ROOST_CHECK(ended_ < begun_, "no readback has begun");
    const std::vector<std::byte>& readback = readbacks_[ended_++ % kMaxReadbacks];
    if (!readback.empty()) std::memcpy(to, readback.data(), readback.size());
  }

 private:
  std::array<std::vector<std::byte>, kMaxReadbacks> readbacks_;  // used in turn
  std::size_t begun_ = 0;
  std::size_t ended_ = 0;
};

}  // namespace roost::kernels
