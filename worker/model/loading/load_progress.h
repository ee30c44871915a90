// Shows the progress of reading a model's weights: a bar on a terminal, otherwise a log line from time to time and one
// at the end.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "worker/model/loading/weights.h"

namespace roost::worker {

struct LoadState {
  std::uint64_t bytes = 0;
  std::optional<std::uint64_t> total_bytes = std::nullopt;  // empty if unknown
  double seconds = 0;
};

// "reading weights  [######              ]  30 %  4.8 of 16.1 GB  8.3 GB/s"
[[nodiscard]] std::string BarText(const LoadState& state);

// The pace of showing progress: after `most`, or after `least` if this share of all bytes has been read in the
// meantime.
struct ProgressPace {
  Duration least{};
  Duration most{};
  double share = 0;
};

// The outlet that shows progress.
struct ProgressOutlet {
  ProgressPace pace;
  std::function<void(const LoadState& state)> tell;
  std::function<void(const LoadState& state)> finish;
};
// The bar if stderr is a terminal, else the log.
[[nodiscard]] ProgressOutlet StandardProgress();

// Thread-safe. `clock` outlives it.
class LoadProgress {
 public:
  LoadProgress(std::optional<std::uint64_t> total_bytes, const Clock& clock, ProgressOutlet outlet);
  void Add(std::uint64_t bytes);
  // Everything has been read: the time ends at the last weight that was added. Call once.
  void Finish();

 private:
  [[nodiscard]] bool IsDue(Instant now) const;
  [[nodiscard]] LoadState StateAt(Instant now) const;

  const std::optional<std::uint64_t> total_bytes_;
  const Clock& clock_;
  const ProgressOutlet outlet_;
  const Instant begin_;
  std::mutex mutex_;
  std::uint64_t bytes_ = 0;  // guarded by mutex_, as all below
  std::uint64_t told_bytes_ = 0;
  Instant added_;
  Instant told_;
};

// Counts the weights of a source as they are read; each of `reader_count` readers counts for an equal part of a weight.
// The source and the progress outlive it.
class CountedWeights final : public WeightSource {
 public:
  CountedWeights(const WeightSource& source, LoadProgress& progress, std::uint32_t reader_count = 1)
      : source_(source), progress_(progress), reader_count_(reader_count) {}
  [[nodiscard]] Result<Weight> Get(std::string_view name, std::span<const std::uint64_t> shape) const override;
  [[nodiscard]] Result<Weight> GetPart(std::string_view name, std::span<const std::uint64_t> shape,
                                       const WeightPart& part) const override;
  [[nodiscard]] std::optional<std::uint64_t> total_bytes() const override { return source_.total_bytes(); }

 private:
  Result<Weight> Counted(Result<Weight> weight, std::span<const std::uint64_t> shape) const;

  const WeightSource& source_;
  LoadProgress& progress_;
  const std::uint32_t reader_count_;
};

}  // namespace roost::worker
