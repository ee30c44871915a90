// The engine that a worker stands beside: asked what it is, its events or slots connected, and told to routers.
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/base/one_line.h"
#include "common/wire/endpoint.h"
#include "worker/adapters/block_source.h"
#include "worker/adapters/events/cache_salt.h"
#include "worker/adapters/events/event_feed.h"
#include "worker/adapters/host/adapter_host.h"
#include "worker/adapters/slots/slot_shelf.h"
#include "worker/engine_api/cache_view_counts.h"

namespace roost::worker::adapters {
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
  [[nodiscard]] bool has_checkpoints() const override { return feed_->has_checkpoints(); }
  [[nodiscard]] std::vector<BlockHash> Resumable() const override { return feed_->resume_points().All(); }
  [[nodiscard]] BlockHash resumable_digest() const override { return feed_->resume_points().digest(); }
  [[nodiscard]] HitGuess Guess(std::span<const BlockHash> hashes, std::uint32_t prompt_tokens) const override {
    return feed_->Guess(hashes, prompt_tokens);
  }
  void NoteHit(const HitGuess& guess, std::uint32_t found_tokens) override { feed_->NoteHit(guess, found_tokens); }
  [[nodiscard]] std::uint32_t engine_block_tokens() const override { return feed_->engine_block_tokens(); }
  [[nodiscard]] bool wants_found_runs() const override { return feed_->wants_found_runs(); }
  [[nodiscard]] double told_share() const override { return feed_->told_share(); }
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

// Why the engine's events are not followed, and what would change that. Empty: they are.
std::string CacheAbsence(const EngineFacts& facts, const EngineAddress& address) {
  if (!facts.generates) return "the engine generates nothing, so it has no prefixes";
  if (!facts.keeps_prefixes) return "the engine keeps no prefixes: switch its prefix cache on";
  const bool is_read = address.prompts_absence.empty();
  if (is_read && facts.grain_tokens() == 0) {
    return fmt::format(
        "the engine's blocks of {} tokens fit none of Roost's: give it blocks of 1, 2 or a multiple of 4",
        facts.block_tokens);
  }
  if (is_read && facts.slot_count > 0) return "";
  if (is_read && !facts.advice.empty()) return facts.advice;
  if (is_read) return address.events_endpoint.empty() ? address.events_absence : "";
  return facts.advice.empty() ? address.prompts_absence : fmt::format("{}; {}", address.prompts_absence, facts.advice);
}

// A rank publishes and answers at the ports of rank 0 plus its own number.
Result<std::string> OfRank(const std::string& endpoint, const EngineFacts& facts, const char* flag) {
  if (endpoint.empty() || !facts.rank) return endpoint;
  ROOST_ASSIGN_OR_RETURN(wire::Endpoint address, wire::ParseEndpoint(endpoint));
  const std::uint64_t port = std::uint64_t{address.port} + facts.rank->number;
  if (port > std::numeric_limits<std::uint16_t>::max()) {
    return InvalidArgument(flag, "{} leaves no port for rank {} of the engine", endpoint, facts.rank->number);
  }
  address.port = static_cast<std::uint16_t>(port);
  return address.ToString();
}

// Releases of vLLM up to 0.33 tell of each copy of a block that goes. Later ones have to show it.
bool TellsEachCopy(const EngineProtocol& protocol, const std::string& version) {
  constexpr unsigned kLastKnown = 33;
  constexpr std::string_view kMajor = "0.";
  if (protocol.name() != "vllm") return true;
  if (!version.starts_with(kMajor)) return false;
  unsigned minor = kLastKnown + 1;
  std::from_chars(version.data() + kMajor.size(), version.data() + version.size(), minor);
  return minor <= kLastKnown;
}

Result<std::unique_ptr<EventFeed>> ConnectFeed(const EngineProtocol& protocol, const EngineAddress& address,
                                               const ConnectedEngine& engine, const AdapterRoot& root,
                                               const Clock& clock) {
  const EngineFacts& facts = engine.facts;
  EventFeed::Options options;
  ROOST_ASSIGN_OR_RETURN(options.sockets.events_endpoint, OfRank(address.events_endpoint, facts, "engine-events"));
  ROOST_ASSIGN_OR_RETURN(options.sockets.replay_endpoint, OfRank(address.replay_endpoint, facts, "engine-replay"));
  options.book = {.block_tokens = facts.grain_tokens(),
                  .default_root = root(""),
                  .adapter_root = root,
                  .max_blocks = facts.grain_count() + 1,  // the count is rounded down
                  .tells_each_copy = TellsEachCopy(protocol, facts.version)};
  if (facts.rank) options.book.rank = facts.rank->number;
  options.decode = protocol.event_decoder();
  options.expects_groups = engine.options.expects_groups;
  return EventFeed::Connect(options, clock.Now());
}

// So that routers do not meet the workers as ones whose caches are unknown, only to hear otherwise at once. Ends with
// the feeds' own patience at the latest.
void AwaitFirstReplays(const std::vector<ConnectedEngine>& engines, const Clock& clock) {
  const auto replays = [](const ConnectedEngine& engine) { return engine.feed && engine.feed->is_replaying(); };
  while (std::any_of(engines.begin(), engines.end(), replays)) {
    std::vector<pollfd> waits;
    for (const ConnectedEngine& engine : engines) {
      for (const int fd : engine.feed->fds()) waits.push_back({.fd = fd, .events = POLLIN, .revents = 0});
    }
    (void)poll(waits.data(), waits.size(), static_cast<int>(kLook.count()));
    for (const ConnectedEngine& engine : engines) {
      while (engine.feed->Poll(clock.Now())) {
      }
    }
  }
}

void LogConnected(const ConnectedEngine& engine, const EngineAddress& address) {
  const EngineFacts& facts = engine.facts;
  std::string cache = "not followed";
  if (engine.slots != nullptr) cache = fmt::format("{} slots", facts.slot_count);
  if (engine.slots != nullptr && engine.slots->shelf() != nullptr) {
    cache += fmt::format(", {} of them on disk", engine.slots->shelf()->entry_count());
  }
  if (engine.feed != nullptr) cache = engine.feed->exact() ? "exact" : "predicted until it is emptied";
  LogInfo("beside an engine", {{"engine", std::string(engine.protocol->name())},
                               {"version", facts.version},
                               {"rank", facts.rank ? fmt::format("{}", facts.rank->number) : "its only one"},
                               {"model", facts.model},
                               {"blocks", facts.block_count},
                               {"block_tokens", facts.block_tokens},
                               {"context_tokens", facts.max_context_tokens},
                               {"cache", cache}});
  if (engine.slots != nullptr && !facts.advice.empty()) {
    LogWarning("the engine could find more", {{"advice", facts.advice}});
  }
  if (address.slots && engine.slots == nullptr) {
    LogWarning("no slots are saved: the server chooses them itself", {{"reason", engine.cache_absence}});
  }
  if (engine.feed == nullptr && engine.slots == nullptr) {
    LogWarning("routers are not told what the engine's cache holds", {{"reason", engine.cache_absence}});
  }
}

std::unique_ptr<BlockSource> SourceOf(ConnectedEngine& engine, const EngineSurroundings& surroundings) {
  if (engine.feed == nullptr) return std::move(engine.slots);
  return std::make_unique<FeedSource>(std::move(engine.feed), surroundings.on_view_counts);
}

// Each rank's worker asks for the pages by itself: so many of them as two workers ask for, at most.
Duration LoadInterval(Duration of_one, const EngineFacts& facts) {
  constexpr std::size_t kAsking = 2;
  return of_one * static_cast<int>(std::max<std::size_t>(facts.ranks.size() / kAsking, 1));
}

// Connects to the facts' rank.
Result<ConnectedEngine> ConnectRank(const EngineProtocol& protocol, const EngineAddress& address, EngineFacts facts,
                                    AdapterOptions options, const AdapterRoot& root, const Clock& clock) {
  ConnectedEngine engine{.protocol = &protocol, .facts = std::move(facts), .options = std::move(options)};
  engine.options.times.load_interval = LoadInterval(engine.options.times.load_interval, engine.facts);
  engine.options.salt_of = [root](const wire::Generate& generate) {
    return SaltOf(generate.root, generate.own, root(generate.adapter));
  };
  HttpOptions http = address.http;
  if (engine.facts.rank) http.headers.push_back(fmt::format("X-data-parallel-rank: {}", engine.facts.rank->index));
  ROOST_ASSIGN_OR_RETURN(engine.calls, HttpCalls::Make(std::move(http)));
  engine.cache_absence = CacheAbsence(engine.facts, address);
  if (engine.facts.slot_count > 0 && engine.cache_absence.empty() && protocol.takes_tokens()) {
    std::unique_ptr<SlotShelf> shelf;
    if (address.slots) {
      engine.options.slot_origin = [slots = *address.slots, model = root("")](const EngineFacts& now) {
        return OriginOf(slots, model, now);
      };
      ROOST_ASSIGN_OR_RETURN(shelf, SlotShelf::Open(*address.slots, engine.options.expects_groups,
                                                    engine.options.slot_origin(engine.facts),
                                                    [calls = engine.calls.get()] { calls->Wake(); }));
    }
    engine.slots = std::make_unique<SlotTable>(SlotTable::Options{.slot_count = engine.facts.slot_count,
                                                                  .context_tokens = engine.facts.max_context_tokens,
                                                                  .goes_on_at_points = engine.options.expects_groups,
                                                                  .window = engine.options.window},
                                               std::move(shelf));
  } else if (!address.events_endpoint.empty() && engine.cache_absence.empty()) {
    ROOST_ASSIGN_OR_RETURN(engine.feed, ConnectFeed(protocol, address, engine, root, clock));
  }
  return engine;
}

}  // namespace

Result<EngineFacts> AwaitEngine(const EngineProtocol& protocol, const HttpOptions& http, const Clock& clock,
                                Duration patience) {
  ROOST_ASSIGN_OR_RETURN(const std::unique_ptr<HttpCalls> calls, HttpCalls::Make(http));
  Result<EngineFacts> facts = AskForFacts(protocol, *calls, clock, {.patience = patience});
  if (facts.ok()) return facts;
  return Error{facts.error().code, fmt::format("{}: {}", http.base_url, facts.error().message), "engine-url"};
}

Result<std::vector<ConnectedEngine>> ConnectEngine(const EngineProtocol& protocol, const EngineAddress& address,
                                                   const AdapterOptions& options, PrefixScope scope, const Clock& clock,
                                                   Duration patience) {
  ROOST_ASSIGN_OR_RETURN(EngineFacts facts, AwaitEngine(protocol, address.http, clock, patience));
  const std::uint32_t grain = facts.grain_tokens();
  scope.block_tokens = grain > 0 ? grain : kGrainTokens;
  const AdapterRoot root = [scope](const std::string& adapter) {
    PrefixScope own = scope;
    own.adapter = adapter;
    return RootHash(own);
  };
  std::vector<ConnectedEngine> engines;
  for (std::size_t i = 0; i < std::max<std::size_t>(facts.ranks.size(), 1); ++i) {
    if (!facts.ranks.empty()) facts.rank = facts.ranks[i];
    ROOST_ASSIGN_OR_RETURN(engines.emplace_back(), ConnectRank(protocol, address, facts, options, root, clock));
  }
  const auto alarm = std::make_shared<RankAlarm>();
  for (ConnectedEngine& engine : engines) engine.alarm = alarm;
  AwaitFirstReplays(engines, clock);
  for (const ConnectedEngine& engine : engines) LogConnected(engine, address);
  return engines;
}

AdapterWorker::AdapterWorker(ConnectedEngine engine, const EngineSurroundings& surroundings)
    : protocol_(*engine.protocol),
      facts_(engine.facts),
      options_(engine.options),
      sends_events_(engine.feed != nullptr || engine.slots != nullptr),
      cache_absence_(std::move(engine.cache_absence)),
      evicts_(engine.slots != nullptr && engine.slots->shelf() != nullptr),
      checkpoints_((engine.feed != nullptr && engine.feed->has_checkpoints()) ||
                   (engine.slots != nullptr && engine.slots->has_checkpoints())),
      disk_(engine.slots != nullptr && engine.slots->shelf() != nullptr ? engine.slots->shelf()->start() : DiskStart()),
      host_({.protocol = *engine.protocol,
             .facts = std::move(engine.facts),
             .options = std::move(engine.options),
             .calls = std::move(engine.calls),
             .blocks = SourceOf(engine, surroundings),
             .alarm = std::move(engine.alarm)},
            surroundings.clock, surroundings.waker) {}

DiskStart AdapterWorker::Disk() { return disk_; }

// Paths and an engine's words may be in it.
constexpr std::size_t kMaxAbsenceBytes = 1024;

void AdapterWorker::Describe(wire::Hello& hello) const {
  AdapterHost::Describe(protocol_, facts_, options_, hello);
  hello.sends_cache_events = sends_events_;
  hello.engine = OneLine(fmt::format("{} {}", protocol_.name(), facts_.version), wire::kMaxHostBytes);
  hello.cache_absence = OneLine(cache_absence_, kMaxAbsenceBytes);
  hello.checkpoints = checkpoints_;
  if (evicts_) hello.features.insert({wire::Feature::kEvicts, wire::Feature::kEvictsBlocks});
  // Routers read no prompts for it: its requests are handed on as they are.
  if (!facts_.generates) hello.tokenizer_digest.clear();
  if (!facts_.generates) hello.keeps_prefixes = false;
}

}  // namespace roost::worker::adapters
