// Shared by the tests of ops: a device that closes itself, random tensors, comparison, and every instruction set that
// this machine can run.
#pragma once

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "common/base/rng.h"
#include "kernels/ops.h"

namespace roost::kernels {

class OpenDevice {
 public:
  OpenDevice(const OpTable& ops, std::uint32_t threads)
      : ops_(ops), device_(ops.open({.thread_count = threads}).value()) {}
  ~OpenDevice() { ops_.close(device_); }
  OpenDevice(const OpenDevice&) = delete;
  OpenDevice& operator=(const OpenDevice&) = delete;

  operator Device&() { return *device_; }  // NOLINT(google-explicit-constructor)

 private:
  const OpTable& ops_;
  Device* device_;
};

inline std::vector<float> RandomFloats(Rng& rng, std::size_t count, float scale = 1) {
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(rng.Uniform() * 2 - 1) * scale;
  return values;
}

// A tensor of f32 or bf16 in the form that ops take.
struct Tensor {
  DType dtype;
  std::vector<std::byte> bytes;

  Tensor(DType type, std::size_t count) : dtype(type), bytes(count * SizeOf(type)) {}
  Tensor(DType type, const std::vector<float>& values) : Tensor(type, values.size()) {
    for (std::size_t i = 0; i < values.size(); ++i) StoreElement(bytes.data(), dtype, i, values[i]);
  }
  void* data() { return bytes.data(); }
  [[nodiscard]] std::size_t size() const { return bytes.size() / SizeOf(dtype); }
  [[nodiscard]] float at(std::size_t i) const { return LoadElement(bytes.data(), dtype, i); }
  [[nodiscard]] std::vector<float> Values() const {
    std::vector<float> values(size());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = at(i);
    return values;
  }
};

// a - b| ≤ tolerance · (1 + |b|), plus the rounding of bf16 for that dtype.
inline void ExpectNear(const Tensor& a, const Tensor& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  const double rounding = a.dtype == DType::kBF16 ? 1.0 / 128 : 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_NEAR(a.at(i), b.at(i), tolerance * (1 + std::abs(b.at(i))) + rounding * std::abs(b.at(i)))
        << "element " << i;
  }
}

// Runs `body` once for each instruction set that the machine has and the vector ops were compiled for.
template <typename Body>
void ForEachInstructionSet(const Body& body) {
  const std::int64_t supported = hwy::SupportedTargets();
  for (const std::int64_t target : std::array<std::int64_t, 4>{HWY_AVX3, HWY_AVX2, HWY_SSE4, HWY_EMU128}) {
    if ((supported & target) == 0) continue;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    SCOPED_TRACE(hwy::TargetName(target));
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

inline constexpr std::uint32_t kTestThreads = 2;

}  // namespace roost::kernels
