// The feed of an engine's events (event_feed.h) as the block source of its host.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "worker/engine_api/cache_view_counts.h"
#include "worker/foreign/block_source.h"
#include "worker/foreign/event_feed.h"

namespace roost::worker::foreign {

// In the order of EventTrouble.
[[nodiscard]] inline CacheViewCounts ViewCountsOf(const EventFeed::Counts& counts) {
  return {.trouble = {counts.order.gaps, counts.order.replay_failures, counts.order.restarts, counts.bad_messages,
                      counts.overflows},
          .left_out = counts.left_out};
}

class FeedSource final : public BlockSource {
 public:
  using OnCounts = std::function<void(const CacheViewCounts&)>;

  // `on_counts` is called with the feed's counts after each Poll, unless it is null.
  FeedSource(std::unique_ptr<EventFeed> feed, OnCounts on_counts)
      : feed_(std::move(feed)), on_counts_(std::move(on_counts)) {}

  [[nodiscard]] std::vector<int> fds() override { return feed_->fds(); }
  [[nodiscard]] std::optional<Instant> deadline() const override { return feed_->deadline(); }
  [[nodiscard]] bool Poll(Instant now) override {
    const bool has_more = feed_->Poll(now);
    if (on_counts_) on_counts_(ViewCountsOf(feed_->counts()));
    return has_more;
  }
  [[nodiscard]] std::vector<wire::CacheEvent> TakeEvents() override { return feed_->TakeEvents(); }
  // While a replay is under way, its outcome is waited for: routers would begin anew twice within milliseconds.
  [[nodiscard]] bool exact() const override { return feed_->exact() || feed_->is_replaying(); }
  [[nodiscard]] std::vector<wire::StoredRun> Snapshot() const override { return feed_->Snapshot(); }
  [[nodiscard]] BlockHash digest() const override { return feed_->digest(); }
  [[nodiscard]] std::size_t block_count() const override { return feed_->block_count(); }
  void OnEngineRestart(Instant now) override { feed_->OnEngineRestart(now); }

 private:
  const std::unique_ptr<EventFeed> feed_;
  const OnCounts on_counts_;
};

}  // namespace roost::worker::foreign
