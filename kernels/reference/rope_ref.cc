#include "kernels/rope.h"

#include <cmath>
#include <vector>

namespace roost::kernels {
namespace {

std::vector<double> Loaded(const RopeToCacheArgs& args, std::size_t first) {
  std::vector<double> values(args.kv.head_dim);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = LoadElement(args.qkv, args.activation_dtype, first + i);
  return values;
}

std::vector<double> Normed(std::vector<double> values, const float* weight, float epsilon) {
  if (weight == nullptr) return values;
  double sum = 0;
  for (const double value : values) sum += value * value;
  const double scale = 1 / std::sqrt(sum / static_cast<double>(values.size()) + epsilon);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] *= scale * weight[i];
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
  std::size_t head_first = r * (args.query_head_count + 2 * kv.kv_head_count) * head_dim;
  const float* cos = args.cos + r * (head_dim / 2);
  const float* sin = args.sin + r * (head_dim / 2);
  const std::uint32_t block = args.slots[r] / kv.block_tokens;
  const std::size_t in_block = std::size_t{args.slots[r] % kv.block_tokens} * head_dim;
  for (std::uint32_t h = 0; h < args.query_head_count; ++h, head_first += head_dim) {
    std::vector<double> head = Normed(Loaded(args, head_first), args.q_norm, args.epsilon);
    Rotate(head, cos, sin);
    Store(head, args.q, args.activation_dtype, (r * args.query_head_count + h) * head_dim);
  }
  for (std::uint32_t h = 0; h < kv.kv_head_count; ++h, head_first += head_dim) {
    std::vector<double> head = Normed(Loaded(args, head_first), args.k_norm, args.epsilon);
    Rotate(head, cos, sin);
    Store(head, kv.base, kv.dtype, kv.KOffset(block, args.layer, h) + in_block);
  }
  for (std::uint32_t h = 0; h < kv.kv_head_count; ++h, head_first += head_dim) {
    Store(Loaded(args, head_first), kv.base, kv.dtype, kv.VOffset(block, args.layer, h) + in_block);
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
