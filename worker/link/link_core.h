// The worker's side of its links to routers, as a pure state machine without socket or thread. The caller passes in
// messages and the time; the core acts through LinkEffects.
//
//                              Welcome(epoch)
//   greeting: Hello each second ────────────────► up: Snapshot, Steps, heartbeats
//      ▲                                             │
//      └── new life: new epoch, new LinkId ◄─────────┘   and CancelLink for the old one
//          on silence, WantHello, a Welcome from another router process, a message that could not be sent, a malformed
//          message, a Ping that counts other Generates than arrived, reports lost between engine and link
//
// A router that is silent or does not answer hellos is dialled again: its connection may be dead without a sign. A
// router that answers Refused, or whose Welcome is of another major version, is asked again each second. Each cause is
// logged once a minute at most, and the last one is remembered for some seconds, for statuses().
//
// Each life of a link has its own LinkId, so the engine's output for an earlier life is dropped.
//
// Snapshots come from a mirror of the ready blocks. The mirror follows the events of all reports, whether a router gets
// them or not, so snapshots take no time on the engine's thread. A link gets a snapshot of the mirror as of the latest
// report, and then the events of later reports; before the snapshot, its steps have no events. So a router always holds
// what the worker held after the last step that it received.
//
//                reports lost, or digests differ              at most once per interval: SnapshotCommand
//   mirror: current ──────────────────────────────► stale ─────────────────────────────────────────► awaited
//              ▲                                                                                        │
//              └── EngineSnapshot: assigned at its place in the order of outputs ◄──────────────────────┘
//
// An engine that is away makes the worker drain until it is back; the load tells routers which of both it is. One of
// another program may lose track of its cache: routers are told with the load, and the events go on. Its adapters may
// change: each router that is up is told at once, and another after its welcome, unless its hello had them already.
//
// While the mirror is not current, events are skipped (the engine's snapshot will contain them) and no link is sent a
// snapshot. A worker that sends no cache events needs no mirror: it stays empty, and steps carry tokens and load only.
//
// Lost reports mean lost tokens, so the links begin new lives. When only the digest differs, no token is lost: links
// stay up, keep their requests, and get a snapshot as soon as the mirror is current.
//
// Each router is told which prompts the others have queued here (peer_prompt_board.h): with every step, and within
// LinkTimes::news_interval after another router has sent a request. So each router sees the whole queue.
//
// Threads: one (the link thread). An EngineSnapshot takes O(blocks), and so does a Tick for each link that is sent a
// snapshot. Every other call takes at most O(links × the content of one message or report).
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/wire/codec.h"
#include "common/wire/messages.h"
#include "common/wire/socket.h"
#include "worker/engine_api/exchange.h"
#include "worker/engine_api/stall_watch.h"
#include "worker/engine_api/worker_engine.h"
#include "worker/link/link_status.h"
#include "worker/link/peer_prompt_board.h"
#include "worker/link/peer_prompt_sender.h"
#include "worker/link/request_spans.h"
#include "worker/link/snapshot_mirror.h"

namespace roost::worker {

// A router address that the worker talks to. Outlives the lives of its link.
using PeerId = StrongId<struct PeerTag, std::uint32_t>;

// The actions of a core. References passed to it last for the call.
class LinkEffects {
 public:
  virtual ~LinkEffects() = default;
  virtual wire::SendOutcome Send(PeerId peer, const wire::WorkerMessage& message) = 0;
  // Drops the peer's connection and makes another one.
  virtual void Redial(PeerId peer) = 0;
  // Passes on a request, pin or question; routers may send any number of these. False when the engine's inbox is full.
  [[nodiscard]] virtual bool Submit(EngineCommand command) = 0;
  // Passes on a cancel or a snapshot request. These are never refused, because they are few: at most one per request in
  // flight and per link.
  virtual void Command(EngineCommand command) = 0;
};

struct LinkTimes {
  Duration hello_interval = std::chrono::seconds(1);
  Duration unsent_hello_interval = std::chrono::milliseconds(50);  // while there is no connection
  Duration heartbeat_interval = std::chrono::milliseconds(250);
  Duration news_interval = PeerPromptBoard::kNewsInterval;  // before a message with other routers' prompts only
  Duration router_timeout = std::chrono::seconds(3);
  Duration refusal_memory = std::chrono::seconds(10);    // several hellos and attempts to connect
  Duration refusal_reminder = std::chrono::seconds(60);  // between two log lines about one cause, or about silence
  Duration engine_snapshot_interval =
      std::chrono::seconds(1);  // between two requests for the mirror's blocks, when it is lost repeatedly
};

// The reason why a link that was up began a new life, or a snapshot was sent again.
enum class ResyncReason : std::uint8_t {
  kAsked,          // the router asked for it
  kDigest,         // the mirror behind the link's snapshot was wrong
  kGap,            // Generates were lost on their way here
  kOverflow,       // the link thread fell behind the engine, and reports were lost
  kRouterRestart,  // another router process answers
  kSilent,         // nothing heard for router_timeout
  kUnsent,         // a message could not be sent: there is no connection, or too many messages wait for it
  kCheckpoints,    // the engine's layers are in other groups than its hello said
};
inline constexpr std::array<std::string_view, 8> kResyncReasonNames{
    "asked", "digest", "gap", "overflow", "router_restart", "silent", "unsent", "checkpoints"};
[[nodiscard]] constexpr std::size_t IndexOf(ResyncReason reason) { return static_cast<std::size_t>(reason); }

// The reason why the mirror no longer equals the engine's blocks.
enum class MirrorLoss : std::uint8_t { kDigest, kOverflow };
inline constexpr std::array<std::string_view, 2> kMirrorLossNames{"digest", "overflow"};
[[nodiscard]] constexpr std::size_t IndexOf(MirrorLoss loss) { return static_cast<std::size_t>(loss); }

// The reasons why a router does not take this worker: RefusalCauses of the wire, and one more that comes before any
// message.
inline constexpr std::size_t kRefusalReasonCount = wire::kRefusalCauseNames.size() + 1;
inline constexpr std::size_t kHandshakeRefusal = kRefusalReasonCount - 1;

[[nodiscard]] constexpr std::size_t IndexOf(wire::FinishReason reason) { return static_cast<std::size_t>(reason); }

// Totals since the start, for metrics.
struct LinkCounts {
  std::array<std::uint64_t, kRefusalReasonCount> refusals{};           // by RefusalCause; then handshakes that failed
  std::array<std::uint64_t, kResyncReasonNames.size()> resyncs{};      // by ResyncReason
  std::array<std::uint64_t, kMirrorLossNames.size()> mirror_losses{};  // by MirrorLoss
  std::array<std::uint64_t, 4> finished_requests{};                    // by wire::FinishReason
  std::uint64_t engine_absences = 0;                                   // times that the engine went away
  std::uint64_t malformed_messages = 0;
  std::uint64_t unknown_messages = 0;  // messages of a kind that this version does not know
};

class LinkCore {
 public:
  struct Setup {
    wire::Hello hello;          // the core fills in the epoch
    wire::Tokenizer tokenizer;  // sent to routers that ask
    std::uint64_t first_epoch = 1;
    LinkTimes times;
    RequestSpansOptions spans = {};
    DiskStart disk = {};
  };

  // `clock` and `effects` outlive it.
  LinkCore(Setup setup, const Clock& clock, LinkEffects& effects);

  // ---- what happens ----
  // `name` is for logs.
  void AddPeer(PeerId peer, std::string name);
  void RemovePeer(PeerId peer);
  void OnMessage(PeerId peer, wire::RouterMessage message);
  void OnMalformed(PeerId peer);
  void OnUnknown() { ++counts_.unknown_messages; }
  // The keys of this worker and of the router do not fit, for this reason. The caller logs it.
  void OnHandshakeFailure(PeerId peer, const std::string& reason);
  void OnOutput(EngineOutput output);
  // The parts of steps that the engine has done. Heartbeats tell routers of them, so that they do not take a slow step
  // for a hung one.
  void OnStepParts(StallWatch::Parts parts);
  // The blocks that are on their way now. Reports and heartbeats tell routers of them.
  void OnTravellingBytes(TravellingBytes bytes);
  // Sends what is due. Call it often; TimeToNextTick() tells when something is due next.
  void Tick();

  // From now on requests are refused, and routers are told so. An operator's Cordon does the same until it is taken
  // back.
  void BeginDrain();
  // A router that is up says that no other worker can continue what this one has begun: see wire::Ping.
  [[nodiscard]] bool is_sole() const;
  // Sends the last message on every link that is up.
  void SayBye();

  [[nodiscard]] Duration TimeToNextTick() const;
  [[nodiscard]] std::size_t in_flight_request_count() const;
  [[nodiscard]] std::size_t up_count() const;
  [[nodiscard]] std::size_t link_count() const { return links_.size(); }
  [[nodiscard]] const LinkCounts& counts() const { return counts_; }
  [[nodiscard]] std::vector<RouterStatus> statuses() const;
  // The reason why the engine takes no requests now; empty if it takes them. A change counts as a change of status.
  [[nodiscard]] const std::string& engine_absence() const { return engine_absence_; }
  // True if no other worker will fetch blocks here any more: each router that is up has said so since this worker
  // drains, or does not hand over, and nothing is on its way.
  [[nodiscard]] bool is_handed_over() const;
  // True if a status may have changed since the last call.
  [[nodiscard]] bool TakeStatusChange() { return std::exchange(status_changed_, false); }

 private:
  enum class State : std::uint8_t { kGreeting, kUp };

  // The state of a request until its last choice ends.
  struct InFlight {
    std::uint32_t open_choices = 1;
    OwnedPrompt prompt;  // as received, for other routers; without an id if there were none at that time
    std::unique_ptr<RequestSpans::Traced> traced = {};  // null: not traced
  };

  struct Link {
    PeerId peer;
    std::string name;
    State state = State::kGreeting;
    LinkId id;
    std::uint64_t epoch = 0;
    std::uint64_t next_sequence = 1;
    std::uint64_t generate_digest = 0;  // digest of the received Generates; see wire::Ping
    bool is_sole = false;               // as the router said last
    bool takes_checkpoints = false;     // its protocol has resumable blocks
    bool hands_over = false;            // its protocol has handedOver
    bool has_handed_over = false;       // since this worker drains
    bool snapshot_due = true;  // a snapshot is due and will contain the events so far, so none are sent before it
    Instant next_hello;
    Instant last_heard;  // or last dialled, if that is later
    Instant last_step;
    std::unordered_map<RequestId, InFlight> in_flight;
    std::unordered_set<RequestId> forwards;  // requests that are passed on, until their answers end
    PeerPromptSender peer_prompt_sender;
    bool has_news = false;      // another router's prompt has arrived, and this router has not been told
    bool adapters_due = false;  // they have changed since the life began, and this router has not been told
    // About the last life that was up:
    std::optional<std::uint64_t> router_instance;
    std::optional<ResyncReason> resync_reason;  // the reason why it ended
    // The reason why the router does not take this worker; forgotten after LinkTimes::refusal_memory.
    std::optional<std::string> refusal;
    Instant refused_at;
    // The time of the last log line about a refusal, by RefusalCause; empty once the router has welcomed the worker.
    std::array<std::optional<Instant>, wire::kRefusalCauseNames.size()> refusal_logged{};
    std::optional<Instant> silence_logged;  // the time of the last log line about the router's silence; likewise
  };

  void BeginLife(Link& link);
  void EndLife(Link& link);
  void Restart(Link& link, ResyncReason reason);
  void RedialIfSilent(Link& link);
  // Logs that the router has not answered for router_timeout, unless it has lately, or a refusal says more.
  void NoteSilence(Link& link);
  void SendHello(Link& link);
  void SendStep(Link& link, std::vector<wire::TokenEvent> tokens, const std::vector<wire::CacheEvent>& events,
                const wire::Load& load);
  void Refuse(Link& link, RequestId request, Error error);
  // The router does not take this worker. Logs it unless it has lately.
  void NoteRefusal(Link& link, wire::RefusalCause cause, const std::string& reason);
  void RememberRefusal(Link& link, std::size_t cause, const std::string& reason);
  void ForgetRefusal(Link& link);

  [[nodiscard]] bool HasDueSnapshot() const;
  void SendDueSnapshots();
  void SendSnapshot(Link& link, std::vector<wire::WorkerMessage>& chunks);

  void Handle(Link& link, const wire::Welcome& welcome);
  void Handle(Link& link, const wire::Refused& refused);
  void Handle(Link& link, wire::Generate generate);
  void Handle(Link& link, const wire::Cancel& cancel);
  void Handle(Link& link, wire::Forward forward);
  void Handle(Link& link, wire::ForwardBody body);
  void Handle(Link& link, const wire::ForwardCredit& credit);
  void Handle(Link& link, const wire::WantHello&);
  void Handle(Link& link, const wire::WantSnapshot&);
  void Handle(Link& link, const wire::WantTokenizer&);
  void Handle(Link& link, const wire::Ping& ping);
  template <typename Order>
  requires kIsEngineOrder<Order>
  void Handle(Link& link, Order order) { HandleOrder(link, std::move(order)); }
  void HandleOrder(Link& link, EngineOrder order);
  void Handle(Link& link, const wire::Cordon& cordon);
  void Handle(Link& link, const wire::HandedOver&);

  void WarnOfCrowding(const wire::Crowding& crowding);
  void TellLoad();
  void ApplyDraining();
  // The fields of a load that the link knows and the engine does not.
  void FillOwn(wire::Load& load) const;
  void FillAbsence(wire::Load& load) const;
  [[nodiscard]] std::string WhyNoRequests() const;
  void NoteEvent(Link& link, const wire::TokenEvent& event);
  void NoteQueue(const StepReport& report);
  void Take(StepReport report);
  void Take(const EngineSnapshot& snapshot);
  void Take(const EngineAnswer& answer);
  void Take(OutputLost);
  void Take(LinkForwarded forwarded);
  void Take(EngineStanding standing);
  void TakeAbsence(std::string absence);
  void TakeCacheKnowledge(bool is_known);
  void TakeAdapters(std::vector<std::string> adapters);
  void TellAdapters(Link& link);
  void TakeCheckpoints(bool checkpoints);
  // Can the router of this link follow the cache? If not, it is told that it is unknown.
  [[nodiscard]] bool FollowsCache(const Link& link) const { return !checkpoints_ || link.takes_checkpoints; }
  void Follow(const StepReport& report);
  [[nodiscard]] bool Agrees(const wire::Load& load) const;
  // The fields of a load that tell of the disk's set.
  void FillDisk(wire::Load& load) const;
  void LoseMirror(MirrorLoss reason);
  void AskForEngineSnapshot();

  [[nodiscard]] Link* FindPeer(PeerId peer);
  [[nodiscard]] const InFlight* FindInFlight(RequestKey key) const;
  [[nodiscard]] Instant NextDue(const Link& link) const;

  const Setup setup_;
  const Clock& clock_;
  const RequestSpans spans_;
  LinkEffects& effects_;

  std::vector<Link> links_;
  std::uint32_t next_link_id_ = 1;
  std::uint64_t next_epoch_;
  std::uint64_t progress_count_ = 0;      // reports with which the engine made progress
  std::uint64_t part_count_ = 0;          // parts of steps
  double saved_prefill_seconds_ = 0;      // of all reports
  double computed_prefill_seconds_ = 0;   // the same
  std::uint64_t tier_cached_tokens_ = 0;  // the same
  std::uint64_t submit_count_ = 0;        // requests given to the engine; the count at each one is its prompt's id
  wire::Crowding crowding_told_;          // the last that was logged
  wire::Load load_;                       // the last known load, without a step's numbers
  bool is_leaving_ = false;               // BeginDrain was called
  std::string engine_absence_;
  Instant engine_away_since_;          // while it is away
  std::vector<std::string> adapters_;  // that the engine serves now
  bool checkpoints_;                   // of the hello, as it is now
  PeerPromptBoard peer_prompt_board_;  // empty while there is one link
  LinkCounts counts_;
  bool status_changed_ = true;

  enum class MirrorState : std::uint8_t { kCurrent, kStale, kAwaited };
  SnapshotMirror mirror_;
  SnapshotMirror disk_mirror_;  // follows the disk's set as `mirror_` follows the pool's, and is as current
  MirrorState mirror_state_ = MirrorState::kCurrent;  // mirror and engine are empty at first
  Instant next_engine_snapshot_;                      // the earliest time to ask for it
};

// Cuts a snapshot into messages within the wire's limits: long runs are split, and each chunk holds at most
// `max_hashes` hashes and `max_runs` runs. Returns at least one chunk.
[[nodiscard]] std::vector<std::vector<wire::StoredRun>> CutSnapshot(std::vector<wire::StoredRun> runs,
                                                                    std::size_t max_hashes, std::size_t max_runs);

}  // namespace roost::worker
