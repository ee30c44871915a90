// A worker's whole part in the travel of blocks: the listener that serves its blocks to other workers, and the way in
// for blocks of others.
//
//   engine ─ Publish ─▶ ReadableBlocks ─▶ BlockServer ─▶ other workers
//      ◄───────────────── FrameInbox ◄─ Peers ◄───────── other workers
//
// Threads: made, ended and destroyed by one owner; counts from any. The destructor waits for all threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/wire/endpoint.h"
#include "common/wire/gate.h"
#include "common/wire/messages.h"
#include "common/wire/transfer_ticket.h"
#include "worker/engine_api/exchange.h"
#include "worker/model/model.h"
#include "worker/transfer/block_server.h"
#include "worker/transfer/frame_memory.h"
#include "worker/transfer/frame_source.h"
#include "worker/transfer/peer_tls.h"
#include "worker/transfer/peers.h"
#include "worker/transfer/readable_blocks.h"

namespace roost::worker {

// The least number of frames that wait, and the memory for them where none is given.
inline constexpr std::size_t kMinFrames = 8;
inline constexpr std::uint64_t kDefaultTransferBytes = std::uint64_t{256} << 20U;

// The number of frames that `bytes` hold; 0 bytes: kDefaultTransferBytes, or a sixteenth of `available` if that is
// less, and at least kMinFrames. kInvalidArgument when given bytes hold fewer than kMinFrames.
[[nodiscard]] Result<std::size_t> FrameCountOf(FrameSizes sizes, std::uint64_t bytes,
                                               std::optional<std::uint64_t> available);

struct TransferSetup {
  std::string worker_id;
  wire::Descriptor listener = {};                           // not open: serves no blocks
  wire::Endpoint address = {};                              // that the listener was asked to bind
  std::optional<wire::Endpoint> advertised = std::nullopt;  // where others dial it; none: where it is bound
  PeerLayout layout = {};
  TransferAccess access = TransferAccess::kLoopback;
  std::size_t frame_count = kMinFrames;      // that may wait for the engine
  std::uint32_t pull_count = kDefaultPulls;  // 0: fetches no blocks
  std::uint32_t reader_count = kDefaultReaders;
};

// The frames that there may be: those that wait, and one of each reader.
[[nodiscard]] std::size_t FrameCountOf(const TransferSetup& setup);

struct TransferCounts {
  BlockServerCounts served;
  std::uint64_t waiting_bytes = 0;  // of frames that have come and wait for the engine
};

class BlockTransfer {
 public:
  // `model` has a block reader; it and the clock outlive this. `wake` is called from any thread when something has come
  // that was asked for.
  BlockTransfer(const Model& model, TransferSetup setup, const Clock& clock, std::function<void()> wake);

  // Ends the way in, and waits for its threads: `wake` is not called afterwards. Idempotent.
  void StopFetching() { peers_.Stop(); }

  [[nodiscard]] ReadableBlocks& readable() { return readable_; }
  [[nodiscard]] FrameInbox& inbox() { return inbox_; }
  [[nodiscard]] FrameSource& source() { return peers_; }
  // All frames on their way.
  [[nodiscard]] std::vector<std::shared_ptr<FrameMemory>> memories() const;
  // See BlockServer.
  void EndRetracted() const {
    if (server_ != nullptr) server_->EndRetracted();
  }
  [[nodiscard]] bool fetches() const { return pull_count_ > 0; }
  // Neither: it is here for the readable blocks and the inbox, which the disk needs too.
  [[nodiscard]] bool stays() const { return pull_count_ == 0 && server_ == nullptr; }
  // For the worker's hello.
  [[nodiscard]] wire::Transfer Describe() const;
  // With kTicketsOnly, if it serves: the secret of this process, for routers alone.
  [[nodiscard]] std::optional<wire::TransferSecret> secret() const;
  [[nodiscard]] TransferCounts counts() const;
  [[nodiscard]] TravellingBytes travelling_bytes() const;

 private:
  const TransferAccess access_;
  const std::uint32_t pull_count_;
  const wire::TransferSecret secret_ = wire::TransferSecret::Random();
  const PeerLayout layout_;
  ReadableBlocks readable_;
  FrameInbox inbox_;
  const std::shared_ptr<FrameMemory> memory_;
  Peers peers_;
  std::unique_ptr<BlockServer> server_;  // null: serves no blocks
};

// Hash of all that decides the bytes of a block but the arithmetic: fingerprint of the model, KV dtype, layers, KV
// heads, head size, tokens of a block, versions of the frame and of the messages between workers. Never 0.
[[nodiscard]] std::uint64_t LayoutHash(const Model& model, std::string_view fingerprint, std::string_view kv_dtype);

// Where the model's arithmetic has a name: hash of that, equal for models whose blocks are equal up to rounding. Else
// hash of K and V of a fixed block, which the model computes now: equal for models that compute the same bits. At most
// `most_tokens` in a batch. It writes to the pool's first block, so it comes before any engine. 0 where the model takes
// no whole block.
[[nodiscard]] std::uint64_t NumericsHash(Model& model, std::uint32_t most_tokens);

// The promise of equal hashes, for the log: "same" bits, or values that are "like" each other.
[[nodiscard]] std::string_view NumericsPromise(const Model& model);

}  // namespace roost::worker
