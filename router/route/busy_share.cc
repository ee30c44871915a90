#include "router/route/busy_share.h"

#include <algorithm>

namespace roost::router {

namespace {

constexpr double kMinSpanSeconds = 1;

}  // namespace

void BusyShare::Observe(double busy_seconds, Instant now) {
  elapsed_seconds_.Add(ToSeconds(now - last_), now);
  busy_seconds_.Add(busy_seconds, now);
  last_ = now;
}

double BusyShare::value() const {
  return std::min(1.0, busy_seconds_.value() / std::max(elapsed_seconds_.value(), kMinSpanSeconds));
}

}  // namespace roost::router
