#include "worker/compute_threads.h"

#include <prometheus/gauge.h>

#include <utility>

#include "common/base/log.h"

namespace roost::worker {

void ComputeThreads::Export(prometheus::Gauge& gauge) {
  gauge_ = &gauge;
  gauge.Set(in_use_);
}

void ComputeThreads::OnChange(std::uint32_t in_use, Instant now) {
  const News news = Note(in_use, now);
  if (gauge_ != nullptr) gauge_->Set(in_use);
  if (news == News::kFewer) {
    LogInfo("other programs keep processors busy: computing with fewer threads until they leave them",
            {{"threads", in_use}, {"of", most_}});
  } else if (news == News::kAllAgain) {
    LogInfo("computing with all threads again", {{"threads", in_use}});
  }
}

ComputeThreads::News ComputeThreads::Note(std::uint32_t in_use, Instant now) {
  in_use_ = in_use;
  if (in_use == most_) return std::exchange(told_fewer_, false) ? News::kAllAgain : News::kNone;
  if (told_fewer_ || (last_told_ && now - *last_told_ < kQuietTime)) return News::kNone;
  told_fewer_ = true;
  last_told_ = now;
  return News::kFewer;
}

}  // namespace roost::worker
