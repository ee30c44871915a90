#include "worker/adapters/host/adapter_host.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/random_seed.h"
#include "common/base/thread_name.h"
#include "common/wire/codec.h"
#include "worker/adapters/block_source.h"
#include "worker/adapters/facts_round.h"

namespace roost::worker::adapters {
namespace {

using std::chrono::milliseconds;

// While an OutputLost, a report or a snapshot waits for space in the queue.
constexpr milliseconds kRoomWait{5};
// A command or an event ends the wait at once; this limit is only a safety net.
constexpr milliseconds kLongestWait{1000};
// The most bytes of blocks' events in a report: a message holds them and half its bytes of tokens.
constexpr std::size_t kMaxEventBytes = wire::WireLimits::kMaxPlainFrameBytes / 4;
constexpr Duration kFactsPageTime = std::chrono::seconds(10);
constexpr Duration kWaitingLogInterval = std::chrono::seconds(30);

milliseconds WaitOf(Duration duration) {
  return std::clamp(std::chrono::ceil<milliseconds>(duration), milliseconds(0), kLongestWait);
}

bool FitsAReport(const std::vector<wire::CacheEvent>& events) {
  constexpr std::size_t kEventBytes = 64;
  std::size_t bytes = 0;
  for (const wire::CacheEvent& event : events) {
    const std::size_t hashes = event.stored.hashes.size() + event.removed.size() + event.resumable.size() +
                               event.unresumable.size() + event.disk_stored.hashes.size() + event.disk_removed.size();
    bytes += kEventBytes + hashes * sizeof(BlockHash);
  }
  return bytes <= kMaxEventBytes;
}

// Runs one round of pages to its end.
Result<EngineFacts> RunRound(FactsRound& round, HttpCalls& calls) {
  round.Begin();
  for (;;) {
    for (const HttpEvent& event : calls.Poll(kLongestWait, {})) (void)round.OnHttp(event);
    if (std::optional<Result<EngineFacts>> outcome = round.TakeOutcome()) return *std::move(outcome);
  }
}

}  // namespace

Result<EngineFacts> AskForFacts(const EngineProtocol& protocol, HttpCalls& calls, const Clock& clock, AskTimes times) {
  CallIds ids;
  FactsRound round(protocol, ids, calls, kFactsPageTime);
  const Instant deadline = clock.Now() + times.patience;
  Instant next_log = clock.Now();
  for (;;) {
    Result<EngineFacts> facts = RunRound(round, calls);
    if (facts.ok() || facts.error().code != ErrorCode::kUnavailable) return facts;
    const Instant now = clock.Now();
    if (now >= deadline) return facts;
    if (now >= next_log)
      LogInfo("waiting for the engine", {{"url", calls.base_url()}, {"reason", facts.error().message}});
    if (now >= next_log) next_log = now + kWaitingLogInterval;
    (void)calls.Poll(WaitOf(std::min(times.pause, deadline - now)), {});
  }
}

void RankAlarm::Join(HttpCalls& calls) {
  const std::lock_guard lock(mutex_);
  members_.insert(&calls);
}

void RankAlarm::Leave(HttpCalls& calls) {
  const std::lock_guard lock(mutex_);
  members_.erase(&calls);
}

void RankAlarm::Ring() {
  ++count_;
  const std::lock_guard lock(mutex_);
  for (HttpCalls* const calls : members_) calls->Wake();
}

void AdapterHost::Describe(const EngineProtocol& protocol, const EngineFacts& facts, const AdapterOptions& options,
                           wire::Hello& hello) {
  const std::uint32_t grain = facts.grain_tokens();
  hello.block_tokens = grain > 0 ? grain : kGrainTokens;
  hello.block_count = facts.grain_count();
  if (grain > 0 && facts.block_tokens > grain) hello.engine_block_tokens = facts.block_tokens;
  hello.max_context_tokens = facts.max_context_tokens;
  hello.max_running_requests = MaxRunning(facts, options);
  hello.features = {wire::Feature::kAnswers};
  if (options.has_connector) hello.features.insert(wire::Feature::kConnector);
  hello.adapters.assign(facts.adapters.begin(), facts.adapters.end());
  hello.routes.assign(facts.routes.begin(), facts.routes.end());
  protocol.Claim(facts, hello);
}

// An engine may still know requests of an earlier worker, or of another one beside it.
AdapterOptions AdapterHost::WithOwnIds(AdapterOptions options) {
  options.id_prefix = fmt::format("{}-{:x}", options.id_prefix, RandomSeed());
  return options;
}

AdapterHost::AdapterHost(Setup setup, const Clock& clock, const wire::Waker& waker)
    : clock_(clock),
      calls_(std::move(setup.calls)),
      blocks_(std::move(setup.blocks)),
      alarm_(std::move(setup.alarm)),
      outbox_(waker),
      stall_watch_(clock),
      engine_(setup.protocol, std::move(setup.facts), WithOwnIds(std::move(setup.options)), clock, *calls_,
              blocks_.get()),
      forwards_(clock, *calls_) {
  alarm_->Join(*calls_);
}

AdapterHost::~AdapterHost() {
  Stop();
  alarm_->Leave(*calls_);
}

void AdapterHost::Start() {
  ROOST_CHECK(!thread_.joinable());
  thread_ = std::thread([this] { Run(); });
}

void AdapterHost::Stop() {
  stopping_.store(true);
  inbox_.Close();
  calls_->Wake();
  if (thread_.joinable()) thread_.join();
}

bool AdapterHost::TryPost(EngineCommand&& command) {
  if (!inbox_.TryPush(std::move(command))) return false;
  calls_->Wake();
  return true;
}

// ---- the engine's thread ----

void AdapterHost::Run() {
  NameThisThread("engine");
  while (!stopping_.load()) {
    DrainInbox();
    FollowAlarm();
    engine_.Tick();
    const EngineWatch& watch = engine_.watch();
    if (watch.is_away()) forwards_.EndAll(Unavailable(fmt::format("the engine is away: {}", watch.why())));
    if (engine_.TakeRestart() && blocks_ != nullptr) blocks_->OnEngineRestart(clock_.Now());
    PollBlocks();  // after a restart, so that the report's digest is that of its events
    PublishRound();
    Wait();
  }
}

// Other threads wake it by Wake, connections and the block source by their descriptors.
void AdapterHost::Wait() {
  const std::vector<int> fds = blocks_ == nullptr ? std::vector<int>() : blocks_->fds();
  stall_watch_.OnWait();
  const std::vector<HttpEvent> events = calls_->Poll(WaitOf(TimeToNextRound()), fds);
  stall_watch_.OnTurn();
  for (const HttpEvent& event : events) {
    if (!forwards_.OnHttp(event)) {
      engine_.OnHttp(event);
    } else if (const auto* const end = std::get_if<HttpEnd>(&event.what); end && end->how != CallEnd::kComplete) {
      engine_.NoteLostForward(*end);
    }
  }
}

Duration AdapterHost::TimeToNextRound() const {
  if (blocks_wait_ || inbox_.size() > 0) return Duration(0);
  Duration time = engine_.TimeToNextTick();
  if (outbox_.has_lost() || snapshot_wanted_ || engine_.HasReport() || forwards_.HasAnswer())
    time = std::min<Duration>(time, kRoomWait);
  if (blocks_ == nullptr) return time;
  if (const std::optional<Instant> due = blocks_->deadline()) time = std::min(time, *due - clock_.Now());
  return time;
}

// The limit keeps a sender that never pauses from delaying the tokens.
void AdapterHost::DrainInbox() {
  for (std::size_t taken = 0; taken < kInboxCapacity; ++taken) {
    std::optional<EngineCommand> next = inbox_.TryPop();
    if (!next) return;
    std::visit([this](auto& command) { Apply(std::move(command)); }, *next);
  }
}

void AdapterHost::Apply(SubmitCommand command) {
  const RequestId request = command.request.request_id;
  Result<void> taken = engine_.Submit(command.link, std::move(command.request), command.received);
  if (!taken.ok()) outbox_.Refuse(command.link, request, std::move(taken).error());
}

void AdapterHost::FollowAlarm() {
  const std::uint64_t alarms = alarm_->count();
  if (alarms != std::exchange(seen_alarms_, alarms)) engine_.AskHealthNow();
  const bool was_away = std::exchange(was_away_, engine_.watch().is_away());
  if (was_away_ && !was_away) alarm_->Ring();
}

void AdapterHost::Apply(const CancelCommand& command) {
  engine_.Cancel(command.key);
  forwards_.Cancel(command.key);
}

void AdapterHost::Apply(const CancelLinkCommand& command) {
  engine_.CancelLink(command.link);
  forwards_.CancelLink(command.link);
}

void AdapterHost::Apply(ForwardPart command) {
  engine_.NoteForwards(forwards_);
  if (auto* const body = std::get_if<wire::ForwardBody>(&command.what)) {
    forwards_.Append(command.key, std::move(body->body));
  } else if (const auto* const credit = std::get_if<wire::ForwardCredit>(&command.what)) {
    forwards_.Grant(command.key, credit->bytes);
  } else if (Result<void> room = engine_.CheckRoom(1); room.ok()) {
    forwards_.Begin(command.key.link, std::get<wire::Forward>(std::move(command.what)), command.received,
                    engine_.watch().facts());
  } else {
    forwards_.Refuse(command.key, std::move(room).error());
  }
}

void AdapterHost::PollBlocks() {
  if (blocks_ == nullptr) return;
  blocks_wait_ = blocks_->Poll(clock_.Now());
  std::vector<wire::CacheEvent> fresh = blocks_->TakeEvents();
  events_.insert(events_.end(), std::make_move_iterator(fresh.begin()), std::make_move_iterator(fresh.end()));
  // Without them the next digest is another than the link's copy has, so the link asks for a snapshot.
  if (!FitsAReport(events_)) events_.clear();
}

// ---- what the link thread gets ----

// No event is taken between a report and the snapshot after it, so the snapshot holds what the reports have told.
void AdapterHost::PublishRound() {
  for (EngineAnswer& answer : engine_.TakeAnswers()) outbox_.Answer(std::move(answer));
  outbox_.TellOfLoss();
  PublishStanding();
  PublishForwarded();
  engine_.NoteForwards(forwards_);
  const bool wants_snapshot = snapshot_wanted_ && outbox_.CanPublish();
  const bool is_due = engine_.HasReport() || outbox_.has_refusals() || outbox_.has_answers() || !events_.empty();
  if (is_due || wants_snapshot) outbox_.PublishReport(MakeReport());
  while (engine_.HasReport() && outbox_.CanPublish())
    outbox_.PublishReport(MakeReport());  // of further steps, one each
  if (wants_snapshot) PublishSnapshot();
}

StepReport AdapterHost::MakeReport() {
  StepReport report = engine_.TakeReport();
  report.events = std::exchange(events_, {});
  if (blocks_ != nullptr) {
    report.load.cached_block_count = static_cast<std::uint32_t>(blocks_->block_count());
    report.load.digest = blocks_->digest();
    report.load.resumable_digest = blocks_->resumable_digest();
    report.load.told_share = blocks_->told_share();
    const DiskView disk = blocks_->disk(clock_.Now());
    report.load.disk_block_count = disk.blocks;
    report.load.disk_digest = disk.digest;
    report.load.disk_bytes_per_second = disk.bytes_per_second;
    report.load.block_bytes = disk.block_bytes;
  }
  const std::uint32_t pool = engine_.watch().facts().grain_count();
  report.idle_blocks = std::min(report.load.cached_block_count, report.load.free_block_count);
  report.free_blocks = report.load.free_block_count - report.idle_blocks;
  report.referenced_blocks = pool - report.load.free_block_count;
  // Any block of an engine without events may hold something: a router that goes by its own history would forget it.
  if (blocks_ == nullptr) report.load.cached_block_count = pool;
  return report;
}

void AdapterHost::PublishForwarded() {
  while (outbox_.CanPublish()) {
    std::optional<LinkForwarded> answer = forwards_.TakeAnswer();
    if (!answer) return;
    outbox_.Publish(*std::move(answer));
  }
}

void AdapterHost::PublishStanding() {
  const EngineWatch& watch = engine_.watch();
  const std::set<std::string>& adapters = watch.facts().adapters;
  EngineStanding standing{.absence = watch.is_away() ? watch.why() : std::string(),
                          .knows_cache = blocks_ == nullptr || blocks_->exact(),
                          .adapters = {adapters.begin(), adapters.end()},
                          .checkpoints = blocks_ != nullptr && blocks_->has_checkpoints()};
  if (standing == told_standing_ || !outbox_.CanPublish()) return;
  told_standing_ = standing;
  outbox_.Publish(std::move(standing));
}

void AdapterHost::PublishSnapshot() {
  if (!outbox_.CanPublish()) return;
  EngineSnapshot snapshot;
  if (blocks_ != nullptr) snapshot = {blocks_->Snapshot(), blocks_->Resumable(), blocks_->DiskSnapshot()};
  outbox_.Publish(std::move(snapshot));
  snapshot_wanted_ = false;
}

}  // namespace roost::worker::adapters
