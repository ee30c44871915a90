// Serves the blocks of this worker to other workers: a listener, and a thread for each connection.
//
//   listener ─ accept ─▶ connection: hello ─ welcome ─ fetch ─ frames … ─ end ─ fetch …
//                                     └─ refused: another layout, another name, too many connections
//
// Bounds: kMaxReaders connections that read, each with memory for one frame; a fetch beyond them is told that the
// source is busy. kMaxServed connections in all.
//
// Threads: Start and Stop from one owner; counts from any.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
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
#include "worker/transfer/peer_connection.h"
#include "worker/transfer/peer_messages.h"
#include "worker/transfer/readable_blocks.h"

namespace roost::worker {

inline constexpr std::size_t kMaxReaders = 16;
inline constexpr std::size_t kMaxServed = kMaxReaders + 8;
// A connection without a fetch ends after this time. Consumers end theirs earlier.
inline constexpr std::chrono::milliseconds kServedIdle{30'000};

struct BlockServerOptions {
  std::string worker_id;  // the name that consumers must ask for
  PeerLayout layout;
  wire::Endpoint address;  // port 0: any
};

// Totals since the start, and what is under way.
struct BlockServerCounts {
  std::uint64_t served_bytes = 0;
  std::uint64_t readers = 0;  // fetches under way
  std::array<std::uint64_t, kPeerRefusalNames.size()> refused{};
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

  // Ends all connections, and waits for their threads. Idempotent.
  void Stop();

  // HOST:PORT as bound.
  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] BlockServerCounts counts() const;

 private:
  struct Served {
    explicit Served(wire::Descriptor socket) : connection(std::move(socket)) {}

    PeerConnection connection;
    std::atomic<bool> is_over = false;
    std::thread thread;
  };

  void Accept();
  void TakeIn(wire::Descriptor socket);
  void JoinEnded();
  void Serve(Served& served);
  [[nodiscard]] Result<void> ShakeHands(PeerConnection& connection);
  [[nodiscard]] Result<void> Refuse(PeerConnection& connection, PeerRefusal cause);
  [[nodiscard]] Result<void> ServeFetch(PeerConnection& connection);
  [[nodiscard]] Result<PeerEnd> SendFrames(PeerConnection& connection, const PeerFetch& fetch);

  ReadableBlocks& blocks_;
  const BlockServerOptions options_;
  const wire::Descriptor listener_;
  std::string address_;

  std::atomic<bool> stopping_ = false;
  std::atomic<std::uint64_t> served_bytes_ = 0;
  std::atomic<std::size_t> reader_count_ = 0;
  std::array<std::atomic<std::uint64_t>, kPeerRefusalNames.size()> refused_{};

  std::mutex mutex_;
  std::list<Served> served_;  // guarded by mutex_
  std::thread acceptor_;
};

}  // namespace roost::worker
