#include "router/route/prefix_sums.h"

#include <algorithm>

#include "common/base/rng.h"

namespace roost::router {

std::size_t PrefixSums::SetOf(BlockHash prefix) const { return Mix64(prefix.low ^ seed_) % kSets; }

void PrefixSums::Add(BlockHash prefix, double amount, Instant now) {
  if (amount <= 0) return;
  Set& set = sets_[SetOf(prefix)];
  auto entry = std::find_if(set.begin(), set.end(), [&](const Entry& each) { return each.prefix == prefix; });
  if (entry == set.end()) {
    entry = std::min_element(set.begin(), set.end(),
                             [now](const Entry& a, const Entry& b) { return a.sum.At(now) < b.sum.At(now); });
    *entry = {.prefix = prefix};
  }
  entry->sum.Add(amount, now);
}

void PrefixSums::Clear(BlockHash prefix) {
  for (Entry& entry : sets_[SetOf(prefix)]) {
    if (entry.prefix == prefix) entry = {};
  }
}

double PrefixSums::At(BlockHash prefix, Instant now) const {
  for (const Entry& entry : sets_[SetOf(prefix)]) {
    if (entry.prefix == prefix) return entry.sum.At(now);
  }
  return 0;
}

}  // namespace roost::router
