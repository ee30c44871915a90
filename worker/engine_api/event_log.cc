#include "worker/engine_api/event_log.h"

namespace roost::worker {

void EventLog::AddStored(BlockHash hash, std::uint32_t position, std::optional<BlockHash> parent) {
  const bool joins =
      !entries_.empty() && parent && entries_.back().kind == Kind::kStored && entries_.back().hash == *parent;
  entries_.push_back({.hash = hash, .position = position, .kind = Kind::kStored, .joins = joins});
}

void EventLog::AddRemoved(BlockHash hash) {
  const bool joins = !entries_.empty() && entries_.back().kind == Kind::kRemoved;
  entries_.push_back({.hash = hash, .position = 0, .kind = Kind::kRemoved, .joins = joins});
}

void EventLog::TakeTo(std::vector<wire::CacheEvent>& events) {
  events.reserve(events.size() + entries_.size());
  for (const Entry& entry : entries_) {
    if (!entry.joins) {
      wire::CacheEvent& event = events.emplace_back();
      event.kind = entry.kind;
      event.stored.first_position = entry.position;
    }
    std::vector<BlockHash>& hashes = entry.kind == Kind::kStored ? events.back().stored.hashes : events.back().removed;
    hashes.push_back(entry.hash);
  }
  entries_.clear();
}

}  // namespace roost::worker
