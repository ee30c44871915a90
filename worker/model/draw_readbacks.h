// The batches whose draws are being copied back from the device: how many tokens each of them drew and scored, in the
// order in which the batches began. All results of a batch come in one copy:
//   SampledToken [draws]   ScoredToken [scored]   TopToken [top]      8 bytes each
//
// Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "common/base/check.h"
#include "kernels/device_memory.h"
#include "kernels/ops.h"
#include "worker/model/model.h"

namespace roost::worker {

// The number of results of each kind that a batch brings back.
struct DrawCounts {
  std::size_t sampled = 0;
  std::size_t scored = 0;
  std::size_t top = 0;

  static constexpr std::size_t kBytesOfEach = 8;
  [[nodiscard]] std::size_t bytes() const { return (sampled + scored + top) * kBytesOfEach; }
};
static_assert(sizeof(kernels::SampledToken) == DrawCounts::kBytesOfEach &&
              sizeof(kernels::ScoredToken) == DrawCounts::kBytesOfEach &&
              sizeof(kernels::TopToken) == DrawCounts::kBytesOfEach);

[[nodiscard]] inline DrawCounts CountsOf(const Draws& draws) {
  return {.sampled = draws.rows.size(), .scored = draws.scored.size(), .top = draws.top_count};
}

// The place of the scores of `counts` on the device: behind the drawn tokens at `sampled`.
[[nodiscard]] inline kernels::ScoredToken* ScoredBehind(kernels::SampledToken* sampled, const DrawCounts& counts) {
  return reinterpret_cast<kernels::ScoredToken*>(sampled + counts.sampled);
}
[[nodiscard]] inline kernels::TopToken* TopBehind(kernels::SampledToken* sampled, const DrawCounts& counts) {
  return reinterpret_cast<kernels::TopToken*>(sampled + counts.sampled + counts.scored);
}

class DrawReadbacks {
 public:
  // `backend` outlives it.
  explicit DrawReadbacks(const kernels::Backend& backend) : backend_(backend) {}

  // Starts the copy of what is at `sampled`, on the device. At most kMaxReadbacks copies are under way at a time.
  void Begin(const void* sampled, const DrawCounts& counts) {
    ROOST_CHECK(begun_count_ - ended_count_ < counts_.size(), "{} readbacks are on their way", counts_.size());
    backend_.ops().begin_readback(backend_.device(), sampled, counts.bytes());
    counts_[begun_count_++ % counts_.size()] = counts;
  }

  // Waits for the oldest copy under way. The result is valid until the next call.
  [[nodiscard]] std::span<const kernels::SampledToken> Await() {
    ROOST_CHECK(ended_count_ < begun_count_, "no batch has begun");
    const DrawCounts& counts = counts_[ended_count_++ % counts_.size()];
    bytes_.resize(counts.bytes());
    backend_.ops().end_readback(backend_.device(), bytes_.data());
    const std::byte* from = bytes_.data();
    from = Take(from, counts.sampled, sampled_);
    from = Take(from, counts.scored, scored_);
    Take(from, counts.top, top_);
    return sampled_;
  }

  // The scores of the batch that Await returned last; valid as long.
  [[nodiscard]] Scores scores() const { return {scored_, top_}; }

 private:
  template <typename T>
  static const std::byte* Take(const std::byte* from, std::size_t count, std::vector<T>& to) {
    to.resize(count);
    if (count > 0) std::memcpy(to.data(), from, count * sizeof(T));
    return from + count * sizeof(T);
  }

  const kernels::Backend& backend_;
  std::array<DrawCounts, kernels::kMaxReadbacks> counts_{};  // used in turn
  std::size_t begun_count_ = 0;
  std::size_t ended_count_ = 0;
  std::vector<std::byte> bytes_;
  std::vector<kernels::SampledToken> sampled_;
  std::vector<kernels::ScoredToken> scored_;
  std::vector<kernels::TopToken> top_;
};

}  // namespace roost::worker
