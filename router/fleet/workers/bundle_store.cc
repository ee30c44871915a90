#include "router/fleet/workers/bundle_store.h"

#include <algorithm>
#include <utility>

namespace roost::router {

bool BundleStore::Ask(const std::string& digest, const Source& source,
                      const std::function<bool(const Source&)>& is_here, Instant now) {
  Bundle& bundle = bundles_[digest];
  if (!bundle.is_open() || bundle.answered || !IsTrusted(source.worker_id, now)) return false;
  if (bundle.asked.has_value() && is_here(*bundle.asked) && now < bundle.ask_again) return false;
  bundle.ask_again = now + kPatience;
  bundle.asked = source;
  return true;
}

bool BundleStore::TakeAnswer(std::string_view digest, const Source& source) {
  const auto found = bundles_.find(digest);
  if (found == bundles_.end() || !found->second.is_open() || found->second.asked != source) return false;
  return !std::exchange(found->second.answered, true);
}

void BundleStore::SetText(const std::string& digest, TextBundle text) {
  bundles_[digest].text = std::make_shared<const TextBundle>(std::move(text));
}

void BundleStore::SetFault(const std::string& digest, BundleError error, Instant now) {
  Bundle& bundle = bundles_[digest];
  bundle.answered = false;
  switch (error.fault) {
    case BundleFault::kUnreadable: bundle.unreadable = std::move(error.error); return;
    case BundleFault::kPassing: return;  // asked again at ask_again
    case BundleFault::kNotAsTold: break;
  }
  if (!bundle.asked.has_value()) return;
  if (distrusted_.size() >= kMaxDistrusted) distrusted_.clear();
  Distrust& distrust = distrusted_[bundle.asked->worker_id];
  distrust.time = distrust.time == Duration(0) ? kFirstDistrust : std::min(2 * distrust.time, kLongestDistrust);
  distrust.until = now + distrust.time;
  bundle.asked.reset();
}

bool BundleStore::IsTrusted(const std::string& worker_id, Instant now) const {
  const auto found = distrusted_.find(worker_id);
  return found == distrusted_.end() || now >= found->second.until;
}

std::shared_ptr<const TextBundle> BundleStore::Find(std::string_view digest) const {
  const auto found = bundles_.find(digest);
  return found == bundles_.end() ? nullptr : found->second.text;
}

const Error* BundleStore::FindUnreadable(std::string_view digest) const {
  const auto found = bundles_.find(digest);
  return found == bundles_.end() || !found->second.unreadable.has_value() ? nullptr : &*found->second.unreadable;
}

void BundleStore::DropUnused(const std::set<std::string_view>& used) {
  if (bundles_.size() < kMaxUnused) return;
  std::erase_if(bundles_, [&](const auto& entry) { return !used.contains(entry.first); });
}

}  // namespace roost::router
