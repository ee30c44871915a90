// Number formats of tensors, and their scalar conversions, the same for every backend.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace roost::kernels {

enum class DType : std::uint8_t { kF32, kBF16, kF16 };

[[nodiscard]] constexpr std::size_t SizeOf(DType dtype) { return dtype == DType::kF32 ? 4 : 2; }

[[nodiscard]] constexpr const char* NameOf(DType dtype) {
  switch (dtype) {
    case DType::kF32: return "f32";
    case DType::kBF16: return "bf16";
    case DType::kF16: return "f16";
  }
  return "?";
}

[[nodiscard]] constexpr float BF16ToFloat(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

// Rounds to nearest, ties to even. A NaN stays a NaN.
[[nodiscard]] constexpr std::uint16_t FloatToBF16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>((bits >> 16U) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U);
}

// Exact: every half is a float.
[[nodiscard]] constexpr float F16ToFloat(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16U;
  const std::uint32_t exponent = (bits >> 10U) & 0x1fU;
  const std::uint32_t mantissa = bits & 0x3ffU;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000U | (mantissa << 13U));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112U) << 23U) | (mantissa << 13U));
  const float magnitude = static_cast<float>(mantissa) * 0x1.0p-24F;
  return sign != 0 ? -magnitude : magnitude;
}

// Element `index` of an array of `dtype`.
[[nodiscard]] inline float LoadElement(const void* data, DType dtype, std::size_t index) {
  if (dtype == DType::kF32) return static_cast<const float*>(data)[index];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(data)[index];
  return dtype == DType::kBF16 ? BF16ToFloat(bits) : F16ToFloat(bits);
}

// `dtype` is kF32 or kBF16: no op computes in f16.
inline void StoreElement(void* data, DType dtype, std::size_t index, float value) {
  if (dtype == DType::kF32) {
    static_cast<float*>(data)[index] = value;
  } else {
    static_cast<std::uint16_t*>(data)[index] = FloatToBF16(value);
  }
}

}  // namespace roost::kernels
