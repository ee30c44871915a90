// Serves the blocks of this worker to other workers: a listener, and a thread for each connection.
//
//   listener ─ accept ─▶ connection: (ticket ─) hello ─ welcome ─ fetch ─ frames … ─ end ─ fetch …
//                                     └─ refused: no ticket, another layout, another name, too many connections
//
// With TransferAccess::kTicketsOnly each connection is encrypted under a ticket, and ends when the ticket does, also in
// mid fetch: before the next frame, or at once where a message or a frame is on its way. A consumer has
// MostServedOfOne connections at a time, half of the places, so that no ticket takes all. For one more its oldest ends
// that has had a fetch and waits for the next; while all have a fetch, the newcomer is told that the source is busy.
//
// A fetch may follow blocks that the engine is computing: each is sent once its step has finished, and while none is
// there the source says so each half second. It ends as missing when the fetch's own time is over.
//
// Bounds: most_readers fetches at a time, each with memory for one frame; a fetch beyond them is told that the source
// is busy. So many connections after their handshake, and kServedBeside more; one beyond them is told the same.
// kMaxHandshakes before it, within kPeerHandshakeTime: a newcomer is let in, and the oldest makes room, so that
// strangers keep a worker out only while they come faster than its handshake ends.
//
// Threads: Start and Stop from one owner; counts from any.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "common/base/result.h"
#include "common/wire/endpoint.h"
#include "common/wire/gate.h"
#include "common/wire/transfer_ticket.h"
#include "worker/transfer/frame_memory.h"
#include "worker/transfer/peer_connection.h"
#include "worker/transfer/peer_messages.h"
#include "worker/transfer/peer_tls.h"
#include "worker/transfer/readable_blocks.h"

namespace roost::worker {

inline constexpr std::uint32_t kDefaultReaders = 16;
inline constexpr std::uint32_t kMostReaders = 256;
// Connections that wait for their next fetch while others are served.
inline constexpr std::size_t kServedBeside = 8;
// Connections of one consumer, by its tickets. At least 2, because its next one may come while its last one ends.
[[nodiscard]] constexpr std::size_t MostServedOfOne(std::uint32_t most_readers) {
  return std::max<std::size_t>(2, most_readers / 2);
}
// How often a followed fetch that waits says so; less than kPeerSilence.
inline constexpr std::chrono::milliseconds kFollowKeepAlive{500};
// Room for all followed fetches of two consumers that dial at once.
inline constexpr std::size_t kMaxHandshakes = 32;
// A connection without a fetch ends after this time. Consumers end theirs earlier.
inline constexpr std::chrono::milliseconds kServedIdle{30'000};

struct BlockServerOptions {
  std::string worker_id;  // the name that consumers must ask for
  PeerLayout layout;
  wire::Endpoint address;                                   // port 0: any
  std::optional<wire::Endpoint> advertised = std::nullopt;  // where others dial it; none: where it is bound
  TransferAccess access = TransferAccess::kLoopback;
  wire::TransferSecret secret = wire::TransferSecret::Random();  // kTicketsOnly: its tickets let consumers in
  std::uint32_t most_readers = kDefaultReaders;                  // at least 1
  FrameStaging* staging = nullptr;                               // of the model, if it has one
  std::function<wire::WallSeconds()> wall_now = &wire::WallNow;
};

// Totals since the start, and what is under way.
struct BlockServerCounts {
  std::uint64_t served_bytes = 0;
  std::uint64_t readers = 0;        // fetches under way
  std::uint64_t leaving_bytes = 0;  // that these have asked for and that are not sent
  std::array<std::uint64_t, wire::kFetchRefusalNames.size()> refused{};
};

class BlockServer {
 public:
  // Listens. kUnavailable: the address can not be bound. `blocks` outlives it.
  [[nodiscard]] static Result<std::unique_ptr<BlockServer>> Start(ReadableBlocks& blocks, BlockServerOptions options);
  // The same with a socket that listens at options.address.
  BlockServer(ReadableBlocks& blocks, BlockServerOptions options, wire::Descriptor listener);
  ~BlockServer();
  BlockServer(const BlockServer&) = delete;
  BlockServer& operator=(const BlockServer&) = delete;

  // Ends, without waiting, the connections that send a block which is no longer readable. From any thread.
  void EndRetracted();
  // The frames that are being sent.
  [[nodiscard]] const std::shared_ptr<FrameMemory>& memory() const { return memory_; }

  // Listens no more, ends all connections, and waits for their threads. Idempotent.
  void Stop();

  // HOST:PORT that others dial.
  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] BlockServerCounts counts() const;

 private:
  // kDropped: it has to make room for another one. A connection is served only if it was not dropped before.
  enum class Stage { kHandshake, kDropped, kServed, kOver };

  struct Served {
    explicit Served(wire::Descriptor socket) : connection(std::move(socket)) {}

    PeerConnection connection;
    std::optional<wire::WallSeconds> ticket_expiry;  // its thread's
    std::string consumer;                            // guarded by mutex_; empty without a ticket
    std::optional<BlockHash> sent;                   // guarded by mutex_; the block that is being sent
    std::uint64_t tenant = 0;                        // guarded by mutex_; of the fetch
    std::atomic<Stage> stage = Stage::kHandshake;
    std::atomic<bool> is_idle = false;  // between two fetches
    std::thread thread;
  };

  [[nodiscard]] std::size_t most_served() const { return options_.most_readers + kServedBeside; }
  void Accept();
  void TakeIn(wire::Descriptor socket);
  // Where kMaxHandshakes are under way, the oldest of these ends.
  void DropForAnother();
  // Its handshake is over. Why it is not served: it has to make room, or its consumer has too many fetches.
  [[nodiscard]] std::optional<wire::FetchRefusal> BeginServing(Served& served);
  void JoinEnded();
  void Serve(Served& served);
  [[nodiscard]] Result<void> ShakeHands(Served& served);
  [[nodiscard]] Result<void> CheckTicket(Served& served);
  // Until its ticket ends; nothing: it needs none.
  [[nodiscard]] std::optional<std::chrono::milliseconds> TimeOfTicket(const Served& served) const;
  // Has its ticket not ended?
  [[nodiscard]] Result<void> CheckTicketTime(const Served& served);
  [[nodiscard]] Result<void> AwaitHello(PeerConnection& connection);
  [[nodiscard]] Result<void> Refuse(PeerConnection& connection, wire::FetchRefusal cause);
  void Count(wire::FetchRefusal cause) { ++refused_[static_cast<std::size_t>(cause)]; }
  [[nodiscard]] Result<void> ServeFetch(Served& served);
  [[nodiscard]] static Result<void> EndFetch(Served& served, wire::HoldOutcome outcome);
  // Does the consumer still want it, and may it have it?
  [[nodiscard]] Result<void> CheckGoingOn(const Served& served);
  // Sends the block if it is readable. False: it is not.
  [[nodiscard]] Result<bool> SendFrame(Served& served, BlockHash hash, std::uint64_t tenant);
  // Counts down the blocks that are `left` to send.
  [[nodiscard]] Result<wire::HoldOutcome> SendFrames(Served& served, const wire::PeerFetch& fetch, std::uint64_t& left);

  ReadableBlocks& blocks_;
  const BlockServerOptions options_;
  const std::shared_ptr<FrameMemory> memory_;  // a frame for each fetch
  wire::Descriptor listener_;                  // the acceptor's; closed when it has ended
  const PeerTlsRules tls_rules_{PeerSide::kSource};
  std::string address_;

  std::atomic<bool> stopping_ = false;
  std::atomic<std::uint64_t> served_bytes_ = 0;
  std::atomic<std::size_t> reader_count_ = 0;
  std::atomic<std::uint64_t> leaving_count_ = 0;  // blocks that fetches have asked for and that are not sent
  std::atomic<std::size_t> served_count_ = 0;     // after their handshake
  std::array<std::atomic<std::uint64_t>, wire::kFetchRefusalNames.size()> refused_{};
  std::atomic<std::uint64_t> ended_retracted_count_ = 0;  // calls of EndRetracted

  std::mutex mutex_;
  std::list<Served> served_;  // guarded by mutex_; in the order of their coming
  std::thread acceptor_;
};

}  // namespace roost::worker
