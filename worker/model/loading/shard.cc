#include "worker/model/loading/shard.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "common/base/check.h"
#include "kernels/collective.h"

namespace roost::worker {
namespace {

WeightRange EvenPart(std::uint32_t size, const Shard& shard) {
  const std::uint32_t part = size / shard.rank_count;
  return {shard.rank * part, (shard.rank + 1) * part};
}

// The kv heads that a range of query heads uses.
WeightRange KvHeadsOf(const HfConfig& config, const WeightRange& query_heads) {
  const std::uint32_t group = config.query_head_count / config.kv_head_count;
  return {query_heads.begin / group, (query_heads.end - 1) / group + 1};
}

WeightRange Scaled(const WeightRange& range, std::uint32_t factor) {
  return {range.begin * factor, range.end * factor};
}

}  // namespace

Result<void> CheckRankCount(const HfConfig& config, std::uint32_t rank_count) {
  const auto refuse = [rank_count](std::string_view what, std::uint32_t size) {
    return InvalidArgument("tensor_parallel", "{} ranks can not share {} {} evenly", rank_count, size, what);
  };
  if (rank_count == 0 || rank_count > kMaxRanks) {
    return InvalidArgument("tensor_parallel", "must be 1 to {}, is {}", kMaxRanks, rank_count);
  }
  if (config.query_head_count % rank_count != 0) return refuse("query heads", config.query_head_count);
  if (config.kv_head_count % rank_count != 0 && rank_count % config.kv_head_count != 0) {
    return refuse("kv heads", config.kv_head_count);
  }
  if (config.intermediate_size % rank_count != 0) return refuse("columns of the inner layer", config.intermediate_size);
  for (std::uint32_t rank = 0; rank < rank_count; ++rank) {
    if (RangesOf(config, {rank, rank_count}).vocabulary.size() == 0) {
      return refuse("tokens of the vocabulary", config.vocab_size);
    }
  }
  return {};
}

ShardRanges RangesOf(const HfConfig& config, const Shard& shard) {
  ROOST_CHECK(shard.rank < shard.rank_count && config.query_head_count % shard.rank_count == 0);
  const WeightRange query_heads = EvenPart(config.query_head_count, shard);
  return {.q = Scaled(query_heads, config.head_dim),
          .kv = Scaled(KvHeadsOf(config, query_heads), config.head_dim),
          .intermediate = EvenPart(config.intermediate_size, shard),
          .vocabulary = {kernels::ColumnsBegin(config.vocab_size, shard.rank, shard.rank_count),
                         kernels::ColumnsBegin(config.vocab_size, shard.rank + 1, shard.rank_count)}};
}

HfConfig ConfigOf(const HfConfig& config, const Shard& shard) {
  const ShardRanges ranges = RangesOf(config, shard);
  HfConfig part = config;
  part.query_head_count = ranges.q.size() / config.head_dim;
  part.kv_head_count = ranges.kv.size() / config.head_dim;
  part.intermediate_size = ranges.intermediate.size();
  return part;
}

Weight RowsOf(const Weight& weight, std::uint32_t columns, const WeightRange& rows) {
  ROOST_CHECK(std::uint64_t{rows.end} * columns <= weight.elements);
  Weight part = weight;
  part.data = static_cast<const std::byte*>(weight.data) + std::size_t{rows.begin} * columns * SizeOf(weight.dtype);
  part.elements = std::uint64_t{rows.size()} * columns;
  return part;
}

Weight ColumnsOf(const Weight& weight, std::uint32_t columns, const WeightRange& range) {
  ROOST_CHECK(range.end <= columns && weight.elements % columns == 0);
  if (range.size() == columns) return weight;
  const std::size_t rows = weight.elements / columns;
  const std::size_t element = SizeOf(weight.dtype);
  const auto copy = std::make_shared<std::vector<std::byte>>(rows * range.size() * element);
  const std::byte* from = static_cast<const std::byte*>(weight.data) + range.begin * element;
  for (std::size_t row = 0; row < rows; ++row) {
    std::memcpy(copy->data() + row * range.size() * element, from + row * columns * element, range.size() * element);
  }
  return {copy->data(), weight.dtype, rows * range.size(), copy};
}

}  // namespace roost::worker
