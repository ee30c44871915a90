#include "router/route/busy_share.h"

#include <algorithm>
#include <cmath>

namespace roost::router {

namespace {

constexpr double kLeastSpanSeconds = 1;

}  // namespace

void BusyShare::Observe(double busy_seconds, Instant now) {
  const double elapsed = std::max(0.0, ToSeconds(now - last_));
  last_ = std::max(last_, now);
  const double kept = std::exp2(-elapsed / ToSeconds(kHalfLife));
  busy_seconds_ = kept * busy_seconds_ + busy_seconds;
  elapsed_seconds_ = kept * elapsed_seconds_ + elapsed;
}

double BusyShare::value() const { return std::min(1.0, busy_seconds_ / std::max(elapsed_seconds_, kLeastSpanSeconds)); }

}  // namespace roost::router
