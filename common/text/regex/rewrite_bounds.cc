#include "common/text/regex/rewrite_bounds.h"

#include <algorithm>
#include <ctime>

namespace roost::text {
namespace {

constexpr std::size_t kMaxGrowth = 16;
constexpr std::size_t kFreeBytes = 4096;
constexpr std::size_t kMaxBytes = std::size_t{24} << 20U;
constexpr std::size_t kMaxGrowthOfLongTexts = 3;

double ThreadSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace

std::size_t MaxRewrittenBytes(std::size_t input_bytes) {
  return std::min(kMaxGrowth * input_bytes + kFreeBytes, std::max(kMaxBytes, kMaxGrowthOfLongTexts * input_bytes));
}

Error GrowsOver(std::size_t limit) { return InvalidArgument("", "the text grows over {} bytes", limit); }

void CpuBudget::Start(std::size_t text_bytes) {
  seconds_ = kSeconds + kSecondsPerByte * static_cast<double>(text_bytes);
  deadline_ = ThreadSeconds() + seconds_;
  work_ = 0;
}

bool CpuBudget::Look() {
  if (ThreadSeconds() > deadline_) return false;  // work_ stays, so that the next TrySpend looks again
  work_ = 0;
  return true;
}

Error CpuBudget::SpentTime() const {
  return InvalidArgument("", "the tokenizer's rules take more than {:.1f} seconds on this text", seconds_);
}

}  // namespace roost::text
