#include "worker/model/loading/load_progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "common/base/log.h"

namespace roost::worker {
namespace {

constexpr ProgressPace kBarPace{.least = std::chrono::milliseconds(100), .most = std::chrono::milliseconds(100)};
constexpr ProgressPace kLogPace{.least = std::chrono::seconds(1), .most = std::chrono::seconds(5), .share = 0.1};
// The cursor stays at the beginning of the line, so that the next output does not follow the bar.
constexpr const char* kClearLine = "\r\x1b[K";

double Gigabytes(std::uint64_t bytes) { return static_cast<double>(bytes) / 1e9; }

std::string BytesText(const LoadState& state) {
  if (!state.total_bytes) return fmt::format("{:.1f} GB", Gigabytes(state.bytes));
  return fmt::format("{:.1f} of {:.1f} GB", Gigabytes(state.bytes), Gigabytes(*state.total_bytes));
}

std::string RateText(const LoadState& state) {
  return fmt::format("{:.1f} GB/s", state.seconds > 0 ? Gigabytes(state.bytes) / state.seconds : 0.0);
}

std::optional<double> ShareOf(const LoadState& state) {
  if (!state.total_bytes || *state.total_bytes == 0) return std::nullopt;
  return std::min(1.0, static_cast<double>(state.bytes) / static_cast<double>(*state.total_bytes));
}

void LogState(const LoadState& state) {
  std::optional<double> percent = ShareOf(state);
  if (percent) *percent = std::round(100 * *percent);
  LogInfo("reading weights", {{"read", BytesText(state)}, {"percent", percent}, {"rate", RateText(state)}});
}

void LogEnd(const LoadState& state) {
  LogInfo("weights read", {{"bytes", state.bytes}, {"seconds", state.seconds}, {"rate", RateText(state)}});
}

}  // namespace

std::string BarText(const LoadState& state) {
  constexpr std::uint64_t kWidth = 30;
  std::string bar;
  if (const std::optional<double> share = ShareOf(state)) {
    const auto filled = static_cast<std::size_t>(*share * kWidth);
    bar = fmt::format("  [{:<{}}]  {:.0f} %", std::string(filled, '#'), kWidth, 100 * *share);
  }
  return fmt::format("reading weights{}  {}  {}", bar, BytesText(state), RateText(state));
}

ProgressOutlet StandardProgress() {
  if (::isatty(STDERR_FILENO) == 0) return {.pace = kLogPace, .tell = LogState, .finish = LogEnd};
  return {.pace = kBarPace,
          .tell = [](const LoadState& state) { fmt::print(stderr, "{}{}\r", kClearLine, BarText(state)); },
          .finish =
              [](const LoadState& state) {
                fmt::print(stderr, "{}", kClearLine);
                LogEnd(state);
              }};
}

LoadProgress::LoadProgress(std::optional<std::uint64_t> total_bytes, const Clock& clock, ProgressOutlet outlet)
    : total_bytes_(total_bytes),
      clock_(clock),
      outlet_(std::move(outlet)),
      begin_(clock.Now()),
      added_(begin_),
      told_(begin_) {}

void LoadProgress::Add(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  bytes_ += bytes;
  const Instant now = clock_.Now();
  added_ = now;
  if (!IsDue(now)) return;
  told_ = now;
  told_bytes_ = bytes_;
  outlet_.tell(StateAt(now));
}

void LoadProgress::Finish() {
  const std::lock_guard lock(mutex_);
  outlet_.finish(StateAt(added_));
}

bool LoadProgress::IsDue(Instant now) const {
  const ProgressPace& pace = outlet_.pace;
  if (now - told_ >= pace.most) return true;
  if (now - told_ < pace.least || !total_bytes_) return false;
  return static_cast<double>(bytes_ - told_bytes_) >= pace.share * static_cast<double>(*total_bytes_);
}

LoadState LoadProgress::StateAt(Instant now) const {
  return {.bytes = bytes_, .total_bytes = total_bytes_, .seconds = ToSeconds(now - begin_)};
}

Result<Weight> CountedWeights::Get(std::string_view name, std::span<const std::uint64_t> shape) const {
  return Counted(source_.Get(name, shape), shape);
}

Result<Weight> CountedWeights::GetPart(std::string_view name, std::span<const std::uint64_t> shape,
                                       const WeightPart& part) const {
  return Counted(source_.GetPart(name, shape, part), shape);
}

Result<Weight> CountedWeights::Counted(Result<Weight> weight, std::span<const std::uint64_t> shape) const {
  if (weight.ok()) progress_.Add(ElementsOf(shape) * SizeOf(weight->dtype) / reader_count_);
  return weight;
}

}  // namespace roost::worker
