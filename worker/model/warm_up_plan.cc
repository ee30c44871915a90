#include "worker/model/warm_up_plan.h"

#include <algorithm>
#include <cmath>

#include "kernels/matmul_bucket.h"
#include "worker/model/pad_plan.h"

namespace roost::worker {
namespace {

// Shorter contexts are read in one piece, whatever their length.
constexpr std::uint32_t kShortContext = 64;

std::uint32_t BlocksOf(std::uint32_t tokens, std::uint32_t block_tokens) {
  return (tokens + block_tokens - 1) / block_tokens;
}

std::uint32_t LengthOf(const WarmUpDecode& decode, std::uint32_t request) {
  if (decode.shortest == decode.longest) return decode.longest;
  const double part = static_cast<double>(request + 1) / decode.request_count;
  const double factor = std::pow(static_cast<double>(decode.longest) / decode.shortest, part);
  return std::min(decode.longest, static_cast<std::uint32_t>(decode.shortest * factor));
}

std::vector<std::uint32_t> DoublingContexts(std::uint32_t most) {
  std::vector<std::uint32_t> contexts;
  for (std::uint64_t context = kShortContext; context < most; context *= 2) {
    contexts.push_back(static_cast<std::uint32_t>(context));
  }
  contexts.push_back(most);
  return contexts;
}

}  // namespace

std::vector<std::uint32_t> WarmUpRows(std::uint32_t most) {
  std::vector<std::uint32_t> wanted;
  for (std::uint32_t rows = 1; rows <= most; ++rows) {
    const bool is_decode = rows <= kMaxPaddedRows && PaddedRows(rows) == rows;
    if (is_decode || rows == std::min(kernels::MatmulBucket(rows), most)) wanted.push_back(rows);
  }
  return wanted;
}

std::vector<WarmUpDecode> WarmUpDecodes(const WarmUpLimits& limits) {
  const std::uint32_t most = std::min({limits.bounds.token_count, limits.bounds.request_count, kMaxPaddedRows});
  std::vector<WarmUpDecode> equal;
  std::vector<WarmUpDecode> spread;
  for (std::uint32_t requests = 1; requests <= most; ++requests) {
    if (requests != std::min(PaddedRows(requests), most)) continue;
    for (const std::uint32_t context : DoublingContexts(std::max(limits.context_tokens, 1U))) {
      if (std::uint64_t{requests} * BlocksOf(context, limits.block_tokens) > limits.block_count) break;
      equal.push_back({requests, context, context});
      if (requests > 1 && context > kShortContext) spread.push_back({requests, kShortContext, context});
    }
  }
  equal.insert(equal.end(), spread.begin(), spread.end());
  return equal;
}

Batch BatchOf(const WarmUpDecode& decode, std::uint32_t block_tokens, std::vector<BlockId>& blocks) {
  std::vector<std::uint32_t> block_counts;
  std::size_t block_count = 0;
  for (std::uint32_t i = 0; i < decode.request_count; ++i) {
    block_counts.push_back(BlocksOf(LengthOf(decode, i), block_tokens));
    block_count += block_counts.back();
  }
  blocks.clear();
  for (std::size_t i = 0; i < block_count; ++i) blocks.emplace_back(static_cast<std::uint32_t>(i));
  Batch batch;
  batch.tokens.assign(decode.request_count, 0);
  std::size_t first = 0;
  for (std::uint32_t i = 0; i < decode.request_count; ++i) {
    batch.slices.push_back({.blocks = std::span(blocks).subspan(first, block_counts[i]),
                            .first_position = LengthOf(decode, i) - 1,
                            .token_count = 1,
                            .logits_count = 1});
    first += block_counts[i];
  }
  return batch;
}

}  // namespace roost::worker
