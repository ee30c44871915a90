#include "worker/model/pad_plan.h"

#include <algorithm>
#include <bit>

namespace roost::worker {
namespace {

template <typename T>
void FillToPowerOfTwo(std::vector<T>& values) {
  values.resize(std::bit_ceil(values.size()));
}

// For lists whose entries start threads, although padding entries end at once: a list with more than a few grows by
// less than a quarter.
template <typename T>
void FillByLittle(std::vector<T>& values) {
  constexpr std::size_t kFew = 64;
  const std::size_t power = std::bit_ceil(values.size());
  const std::size_t step = power <= kFew ? power : power / 8;
  values.resize((values.size() + step - 1) / step * step);
}

}  // namespace

std::uint32_t PaddedRows(std::uint32_t rows) {
  constexpr std::uint32_t kFine = 8;
  constexpr std::uint32_t kCoarse = kMaxPadding + 1;
  if (rows <= kFine) return std::bit_ceil(rows);
  const std::uint32_t step = rows <= 4 * kCoarse ? kFine : kCoarse;
  return (rows + step - 1) / step * step;
}

bool IsDecode(const Batch& batch) {
  return batch.slices.size() <= kMaxPaddedRows &&
         std::all_of(batch.slices.begin(), batch.slices.end(),
                     [](const BatchSlice& slice) { return slice.token_count == 1 && slice.logits_count == 1; });
}

void PadPlan(std::uint32_t first_spare_slot, std::vector<TokenId>& tokens, BatchPlan& plan) {
  const auto rows = static_cast<std::uint32_t>(tokens.size());
  const std::uint32_t padded = PaddedRows(rows);
  tokens.resize(padded, 0);
  plan.positions.resize(padded, 0);
  for (std::uint32_t row = rows; row < padded; ++row) {
    plan.slots.push_back(first_spare_slot + row - rows);
    plan.logits_rows.push_back(row);
  }
  AttentionPlan& attention = plan.attention;
  FillToPowerOfTwo(attention.rows);
  FillByLittle(attention.items);
  if (!attention.merges.empty()) FillByLittle(attention.merges);
  if (!attention.parts.empty()) FillToPowerOfTwo(attention.parts);
}

}  // namespace roost::worker
