// The other workers as a source of blocks: this worker dials them, and asks one for one chain at a time.
//
//   Ask ─▶ queue of the peer ─▶ its thread: dial, shake hands, fetch, check each frame ─▶ inbox
//
// Blocks that this worker holds already when the fetch begins are not asked for. A request for blocks that another one
// asks for already joins it. A connection stays open for kPeerIdle after its last fetch, and is not used for longer
// than kPeerConnectionAge, so that its ticket is younger than any clock may be wrong. A frame that is not the block
// asked for, whole, ends the fetch and the connection; nothing of it is used. A source that fails pauses
// (pair_pauses.h): meanwhile its requests end at once, as broken. A cancelled fetch ends with its connection at once,
// however little comes: a source that drips keeps no place beyond the Hold that it was asked for.
//
// A request with a ticket is encrypted. One without is dialled as `access` says: kTicketsOnly not at all.
//
// A fetch of blocks that its source is still computing follows it: it has a connection for itself, so that it and other
// fetches do not wait for each other.
//
// Bounds: most_peers peers at a time, kMaxAsked requests in all, kMaxAskedOfOne of them for one source, which has one
// place at a time, whatever its address; and kMaxFollowed fetches that follow. More are told that this worker is busy.
// Frames that have come wait in `memory`, and while it is full the peer waits.
//
// Thread-safe. Stop before the inbox goes; it waits for all threads.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "worker/transfer/frame_memory.h"
#include "worker/transfer/frame_source.h"
#include "worker/transfer/pair_pauses.h"
#include "worker/transfer/peer_connection.h"
#include "worker/transfer/peer_tls.h"
#include "worker/transfer/readable_blocks.h"

namespace roost::worker {

inline constexpr std::uint32_t kDefaultPulls = 8;
inline constexpr std::uint32_t kMostPulls = 64;
inline constexpr std::size_t kMaxAsked = 64;
inline constexpr std::size_t kMaxAskedOfOne = kMaxAsked / 2;
inline constexpr std::size_t kMaxFollowed = 16;
inline constexpr std::chrono::milliseconds kPeerIdle{10'000};
inline constexpr std::chrono::minutes kPeerConnectionAge{5};

struct PeersOptions {
  std::string worker_id;  // this worker's name, for which its tickets are
  PeerLayout layout;
  TransferAccess access = TransferAccess::kLoopback;
  std::uint32_t most_peers = kDefaultPulls;
};

class Peers final : public FrameSource {
 public:
  // All outlive it. `held` is this worker's blocks.
  Peers(FrameInbox& inbox, const ReadableBlocks& held, std::shared_ptr<FrameMemory> memory, PeersOptions options,
        const Clock& clock);
  ~Peers() override;
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  void Ask(FrameRequest request) override;
  void Cancel(HoldId id) override;
  void Distrust(const std::string& worker_id) override;

  // Requests that have not ended are cancelled. Idempotent; afterwards every request ends at once.
  void Stop();

  // Bytes of the blocks that are asked for and have not come.
  [[nodiscard]] std::uint64_t awaited_bytes() const { return awaited_count_.load() * memory_->sizes().frame_bytes(); }

 private:
  struct Asked {
    FrameRequest request;
    std::uint32_t awaited_count = 0;  // blocks that have not come; its peer's thread's
    std::atomic<bool> is_cancelled = false;
  };

  // One peer's thread, and what it has to do. Its place changes only while it has nothing to do.
  struct Peer {
    PeerPlace place;                           // guarded by mutex_
    bool follows = false;                      // its only fetch; as place
    std::deque<std::shared_ptr<Asked>> asked;  // guarded by mutex_; the first one is under way
    std::condition_variable changed;
    std::optional<PeerConnection> connection;  // its thread's; guarded by mutex_ when it is replaced, and for Shut
    PeerPlace connected_to;                    // its thread's
    Instant connected_at{};                    // its thread's
    std::thread thread;
  };

  [[nodiscard]] Peer* PeerFor(const FrameRequest& request);
  [[nodiscard]] std::optional<HoldId> FindCovering(const FrameChain& chain) const;
  void Run(Peer& peer);
  // The end of a fetch. After a clean one the connection waits for the next one.
  struct FetchEnd {
    wire::HoldOutcome outcome = wire::HoldOutcome::kBroken;
    bool is_clean = false;
    bool was_tried = true;  // the source was asked, or dialled for it
    wire::HoldCause cause = wire::HoldCause::kNone;
    std::string why = {};  // it failed
  };

  [[nodiscard]] FetchEnd Fetch(Peer& peer, Asked& asked);
  [[nodiscard]] Result<void> Begin(Peer& peer, const Asked& asked, std::uint32_t first);
  [[nodiscard]] bool MayGoOn(const Peer& peer, const FrameRequest& request) const;
  [[nodiscard]] Result<void> Dial(Peer& peer, const Asked& asked);
  [[nodiscard]] Result<void> CheckOpen(const wire::Endpoint& endpoint) const;
  [[nodiscard]] Result<void> Introduce(Peer& peer, const FrameRequest& request);
  [[nodiscard]] FetchEnd ReceiveFrames(Peer& peer, Asked& asked, std::uint32_t first);
  // Nothing: the source says that the next block of a followed fetch is still being computed.
  [[nodiscard]] std::optional<FetchEnd> ReceiveEnd(Peer& peer, const PartHead& head);
  // So many of its blocks are not awaited any more.
  void Drop(Asked& asked, std::uint32_t count);
  void HangUp(Peer& peer);
  // The peer's first request has ended.
  void End(Peer& peer, const FetchEnd& end);

  FrameInbox& inbox_;
  const ReadableBlocks& held_;
  const std::shared_ptr<FrameMemory> memory_;
  const PeersOptions options_;
  const Clock& clock_;
  const PeerTlsRules tls_rules_{PeerSide::kConsumer};

  std::atomic<bool> stopping_ = false;
  std::atomic<std::uint64_t> awaited_count_ = 0;  // blocks, of all that is asked for
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Peer>> peers_;  // guarded by mutex_; grows only
  std::size_t asked_count_ = 0;               // guarded by mutex_
  PairPauses pauses_;                         // guarded by mutex_
};

}  // namespace roost::worker
