#include "router/route/wait_sketch.h"

#include <algorithm>

#include "common/base/rng.h"

namespace roost::router {

std::size_t WaitSketch::SetOf(BlockHash prefix) const { return Mix64(prefix.low ^ seed_) % kSets; }

void WaitSketch::Add(BlockHash prefix, double seconds, Instant now) {
  if (seconds <= 0) return;
  Set& set = sets_[SetOf(prefix)];
  auto entry = std::find_if(set.begin(), set.end(), [&](const Entry& each) { return each.prefix == prefix; });
  if (entry == set.end()) {
    entry = std::min_element(set.begin(), set.end(),
                             [now](const Entry& a, const Entry& b) { return a.seconds.At(now) < b.seconds.At(now); });
    *entry = {.prefix = prefix};
  }
  entry->seconds.Add(seconds, now);
}

void WaitSketch::Clear(BlockHash prefix) {
  for (Entry& entry : sets_[SetOf(prefix)]) {
    if (entry.prefix == prefix) entry = {};
  }
}

double WaitSketch::Seconds(BlockHash prefix, Instant now) const {
  for (const Entry& entry : sets_[SetOf(prefix)]) {
    if (entry.prefix == prefix) return entry.seconds.At(now);
  }
  return 0;
}

}  // namespace roost::router
