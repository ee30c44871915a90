#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/attention.h"

namespace roost::kernels {
namespace {

struct Softmax {
  double max = -std::numeric_limits<double>::infinity();
  double sum = 0;
  std::vector<double> weighted;
};

std::size_t ElementOf(const AttentionArgs& args, const AttentionItem& item, std::uint32_t kv_head, std::uint32_t j,
                      std::size_t (KvLayout::*of)(std::uint32_t, std::uint32_t, std::uint32_t) const) {
  const std::uint32_t in_item = j - item.first_position;
  const std::uint32_t block = args.blocks[item.first_block + in_item / args.kv.block_tokens];
  return (args.kv.*of)(block, args.layer, kv_head) + std::size_t{in_item % args.kv.block_tokens} * args.kv.head_dim;
}

double Score(const AttentionArgs& args, const AttentionItem& item, std::size_t q, std::uint32_t kv_head,
             std::uint32_t j) {
  const std::size_t k = ElementOf(args, item, kv_head, j, &KvLayout::KOffset);
  double sum = 0;
  for (std::uint32_t d = 0; d < args.kv.head_dim; ++d) {
    sum += double{LoadElement(args.q, args.q_dtype, q + d)} * LoadElement(args.kv.base, args.kv.dtype, k + d);
  }
  return sum * args.scale;
}

Softmax Attend(const AttentionArgs& args, const AttentionItem& item, const AttentionRow& row, std::uint32_t head) {
  const std::size_t q = (std::size_t{row.token} * args.query_head_count + head) * args.kv.head_dim;
  const std::uint32_t kv_head = head / (args.query_head_count / args.kv.kv_head_count);
  const std::uint32_t end = std::min(row.position + 1, item.first_position + item.position_count);
  Softmax result;
  result.weighted.resize(args.kv.head_dim);
  std::vector<double> scores;
  for (std::uint32_t j = item.first_position; j < end; ++j) {
    scores.push_back(Score(args, item, q, kv_head, j));
    result.max = std::max(result.max, scores.back());
  }
  for (std::uint32_t j = item.first_position; j < end; ++j) {
    const double weight = std::exp(scores[j - item.first_position] - result.max);
    const std::size_t v = ElementOf(args, item, kv_head, j, &KvLayout::VOffset);
    result.sum += weight;
    for (std::uint32_t d = 0; d < args.kv.head_dim; ++d) {
      result.weighted[d] += weight * LoadElement(args.kv.base, args.kv.dtype, v + d);
    }
  }
  return result;
}

void WriteOut(const AttentionArgs& args, std::uint32_t token, std::uint32_t head, const Softmax& result) {
  const std::size_t first = (std::size_t{token} * args.query_head_count + head) * args.kv.head_dim;
  for (std::uint32_t d = 0; d < args.kv.head_dim; ++d) {
    StoreElement(args.out, args.out_dtype, first + d, static_cast<float>(result.weighted[d] / result.sum));
  }
}

float* PartialAt(const AttentionArgs& args, std::size_t index) {
  return args.partials + index * PartialFloats(args.kv.head_dim);
}

void RunItem(const AttentionArgs& args, const AttentionItem& item) {
  for (std::uint32_t r = 0; r < item.row_count; ++r) {
    const AttentionRow& row = args.rows[item.first_row + r];
    for (std::uint32_t h = 0; h < args.query_head_count; ++h) {
      const Softmax result = Attend(args, item, row, h);
      if (item.output == AttentionItem::Output::kWhole) {
        WriteOut(args, row.token, h, result);
        continue;
      }
      float* partial = PartialAt(args, item.first_partial + std::size_t{r} * args.query_head_count + h);
      partial[0] = result.sum > 0 ? static_cast<float>(result.max) : 0;
      partial[1] = static_cast<float>(result.sum);
      std::transform(result.weighted.begin(), result.weighted.end(), partial + 2,
                     [](double value) { return static_cast<float>(value); });
    }
  }
}

void RunMerge(const AttentionArgs& args, const AttentionMerge& merge, std::uint32_t head) {
  const auto partial_of = [&](std::uint32_t i) {
    return PartialAt(args, std::size_t{args.parts[merge.first_part + i]} + head);
  };
  Softmax total;
  total.weighted.resize(args.kv.head_dim);
  for (std::uint32_t i = 0; i < merge.part_count; ++i) {
    if (partial_of(i)[1] > 0) total.max = std::max(total.max, double{partial_of(i)[0]});
  }
  for (std::uint32_t i = 0; i < merge.part_count; ++i) {
    const float* partial = partial_of(i);
    if (partial[1] == 0) continue;
    const double weight = std::exp(double{partial[0]} - total.max);
    total.sum += weight * partial[1];
    for (std::uint32_t d = 0; d < args.kv.head_dim; ++d) total.weighted[d] += weight * partial[2 + d];
  }
  WriteOut(args, merge.token, head, total);
}

}  // namespace

void AttentionRef(Device& /*device*/, const AttentionArgs& args) {
  for (std::uint32_t i = 0; i < args.item_count; ++i) RunItem(args, args.items[i]);
  for (std::uint32_t i = 0; i < args.merge_count; ++i) {
    for (std::uint32_t h = 0; h < args.query_head_count && args.merges[i].part_count > 0; ++h) {
      RunMerge(args, args.merges[i], h);
    }
  }
}

}  // namespace roost::kernels
