#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "worker/engine_api/cache_view_counts.h"
#include "worker/foreign/block_source.h"
#include "worker/foreign/events/cache_salt.h"
#include "worker/foreign/events/event_feed.h"

namespace roost::worker::foreign {
namespace {

// The feed of an engine's events (event_feed.h) as the block source of its host.

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

using std::chrono::milliseconds;

// The root of requests without tenant and salt, for an adapter or ("") for the model alone.
using AdapterRoot = std::function<BlockHash(const std::string& adapter)>;

// Descriptors of ZeroMQ tell of changes only, so it looks again after this long anyway.
constexpr milliseconds kLook{20};

Result<void> CheckFacts(const Dialect& dialect, const EngineFacts& facts) {
  if (!IsValidBlockTokens(facts.block_tokens)) {
    return InvalidArgument("engine-url", "the engine's blocks have {} tokens: not a power of two from {} to {}",
                           facts.block_tokens, kMinBlockTokens, kMaxBlockTokens);
  }
  if (!facts.keeps_prefixes) {
    LogWarning("the engine keeps no prefixes: switch its prefix cache on", {{"engine", std::string(dialect.name())}});
  }
  return {};
}

Result<std::unique_ptr<EventFeed>> ConnectFeed(const Dialect& dialect, const EngineAddress& address,
                                               const EngineFacts& facts, const AdapterRoot& root, const Clock& clock) {
  EventFeed::Options options;
  options.sockets = {
      .events_endpoint = address.events_endpoint, .replay_endpoint = address.replay_endpoint, .topic = ""};
  options.book = {.block_tokens = facts.block_tokens,
                  .default_root = root(""),
                  .adapter_root = root,
                  .max_blocks = facts.block_count};
  options.decode = dialect.event_decoder();
  return EventFeed::Connect(options, clock.Now());
}

// So that routers do not meet the worker as one whose cache is unknown, only to hear otherwise at once. Ends with the
// feed's own patience at the latest.
void AwaitFirstReplay(EventFeed& feed, const Clock& clock) {
  while (feed.is_replaying()) {
    std::vector<pollfd> waits;
    for (const int fd : feed.fds()) waits.push_back({.fd = fd, .events = POLLIN, .revents = 0});
    (void)poll(waits.data(), waits.size(), static_cast<int>(kLook.count()));
    while (feed.Poll(clock.Now())) {
    }
  }
}

void LogConnected(const Dialect& dialect, const EngineFacts& facts, const EventFeed* feed) {
  const char* const cache = feed == nullptr ? "no events" : (feed->exact() ? "exact" : "predicted until it is emptied");
  LogInfo("beside an engine", {{"engine", std::string(dialect.name())},
                               {"version", facts.version},
                               {"model", facts.model},
                               {"blocks", facts.block_count},
                               {"block_tokens", facts.block_tokens},
                               {"context_tokens", facts.max_context_tokens},
                               {"cache", cache}});
}

std::unique_ptr<BlockSource> SourceOf(std::unique_ptr<EventFeed> feed, const EngineSurroundings& surroundings) {
  if (feed == nullptr) return nullptr;
  return std::make_unique<FeedSource>(std::move(feed), surroundings.on_view_counts);
}

}  // namespace

Result<ConnectedEngine> ConnectEngine(const Dialect& dialect, const EngineAddress& address, ForeignOptions options,
                                      PrefixScope scope, const Clock& clock, Duration patience) {
  ConnectedEngine engine{.dialect = &dialect, .facts = {}, .options = std::move(options), .calls = nullptr};
  ROOST_ASSIGN_OR_RETURN(engine.calls, HttpCalls::Make(address.http));
  Result<EngineFacts> facts = AskForFacts(dialect, *engine.calls, clock, {.patience = patience});
  if (!facts.ok()) {
    return Error{facts.error().code, fmt::format("{}: {}", address.http.base_url, facts.error().message), "engine-url"};
  }
  engine.facts = std::move(facts).value();
  ROOST_RETURN_IF_ERROR(CheckFacts(dialect, engine.facts));
  scope.block_tokens = engine.facts.block_tokens;
  const AdapterRoot root = [scope](const std::string& adapter) {
    PrefixScope own = scope;
    own.adapter = adapter;
    return RootHash(own);
  };
  engine.options.salt_of = [root](const wire::Generate& generate) {
    return SaltOf(generate.root, generate.own, root(generate.adapter));
  };
  if (!address.events_endpoint.empty()) {
    ROOST_ASSIGN_OR_RETURN(engine.feed, ConnectFeed(dialect, address, engine.facts, root, clock));
    AwaitFirstReplay(*engine.feed, clock);
  }
  LogConnected(dialect, engine.facts, engine.feed.get());
  return engine;
}

ForeignWorker::ForeignWorker(ConnectedEngine engine, const EngineSurroundings& surroundings)
    : dialect_(*engine.dialect),
      facts_(engine.facts),
      options_(engine.options),
      sends_events_(engine.feed != nullptr),
      host_({.dialect = *engine.dialect,
             .facts = std::move(engine.facts),
             .options = std::move(engine.options),
             .calls = std::move(engine.calls),
             .blocks = SourceOf(std::move(engine.feed), surroundings)},
            surroundings.clock, surroundings.waker) {}

void ForeignWorker::Describe(wire::Hello& hello) const {
  ForeignHost::Describe(dialect_, facts_, options_, hello);
  hello.sends_cache_events = sends_events_;
}

}  // namespace roost::worker::foreign
