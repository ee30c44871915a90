#include "kernels/rope.h"

#include <cmath>
#include <vector>

namespace roost::kernels {
namespace {

std::vector<double> Normed(const float* head, const float* weight, float epsilon, std::uint32_t head_dim) {
  std::vector<double> values(head, head + head_dim);
  if (weight == nullptr) return values;
  double sum = 0;
  for (const double value : values) sum += value * value;
  const double scale = 1 / std::sqrt(sum / head_dim + epsilon);
  for (std::uint32_t i = 0; i < head_dim; ++i) values[i] *= scale * weight[i];
  return values;
}

void Rotate(std::vector<double>& head, const float* cos, const float* sin) {
  const std::size_t half = head.size() / 2;
  for (std::size_t i = 0; i < half; ++i) {
    const double a = head[i];
    const double b = head[half + i];
    head[i] = a * cos[i] - b * sin[i];
    head[half + i] = b * cos[i] + a * sin[i];
  }
}

void Store(const std::vector<double>& head, void* to, DType dtype, std::size_t first) {
  for (std::size_t i = 0; i < head.size(); ++i) StoreElement(to, dtype, first + i, static_cast<float>(head[i]));
}

void RopeRow(const RopeToCacheArgs& args, std::size_t r) {
  const KvLayout& kv = args.kv;
  const std::uint32_t head_dim = kv.head_dim;
  const float* row = args.qkv + r * (args.query_head_count + 2 * kv.kv_head_count) * head_dim;
  const float* cos = args.cos + r * (head_dim / 2);
  const float* sin = args.sin + r * (head_dim / 2);
  const std::uint32_t block = args.slots[r] / kv.block_tokens;
  const std::size_t in_block = std::size_t{args.slots[r] % kv.block_tokens} * head_dim;
  for (std::uint32_t h = 0; h < args.query_head_count; ++h, row += head_dim) {
    std::vector<double> head = Normed(row, args.q_norm, args.epsilon, head_dim);
    Rotate(head, cos, sin);
    Store(head, args.q, DType::kF32, (r * args.query_head_count + h) * head_dim);
  }
  for (std::uint32_t h = 0; h < kv.kv_head_count; ++h, row += head_dim) {
    std::vector<double> head = Normed(row, args.k_norm, args.epsilon, head_dim);
    Rotate(head, cos, sin);
    Store(head, kv.base, kv.dtype, kv.KOffset(block, args.layer, h) + in_block);
  }
  for (std::uint32_t h = 0; h < kv.kv_head_count; ++h, row += head_dim) {
    Store({row, row + head_dim}, kv.base, kv.dtype, kv.VOffset(block, args.layer, h) + in_block);
  }
}

}  // namespace

void RopeAnglesRef(Device& /*device*/, const RopeAnglesArgs& args) {
  for (std::size_t r = 0; r < args.rows; ++r) {
    for (std::size_t i = 0; i < args.half_dim; ++i) {
      const float angle = static_cast<float>(args.positions[r]) * args.inverse_frequencies[i];
      args.cos[r * args.half_dim + i] = static_cast<float>(std::cos(double{angle}));
      args.sin[r * args.half_dim + i] = static_cast<float>(std::sin(double{angle}));
    }
  }
}

void RopeToCacheRef(Device& /*device*/, const RopeToCacheArgs& args) {
  for (std::size_t r = 0; r < args.rows; ++r) RopeRow(args, r);
}

}  // namespace roost::kernels
