// The links between workers on virtual time, over which they fetch blocks from each other: in place of sockets, threads
// and KV, what worker/transfer/peers.h and block_server.h do with them.
//
//   Ask ─▶ queue of the peer ─▶ fetch: its message, then frame by frame ─▶ news for the consumer's engine
//                                          │
//             source's queue out ──────────┴─▶ consumer's queue in         a frame occupies each for bytes / rate
//
// A worker's link is a queue out and a queue in, of one rate. A frame begins when its source's way out and its
// consumer's way in are both free; of those that could begin, the one that has waited longest. So fetches over one link
// take turns, frame by frame, and those of a fetch come front to back.
//
// Real are the frames of a block (without K and V), the blocks that may be read, the memory of a consumer for frames
// that its engine has not taken, pauses of pairs, joined fetches, and the bounds of peers and readers. A fetch's
// message takes `delay`; a connection costs nothing more.
//
// A source that has left breaks its fetches at once. One whose link is broken sends nothing: its fetches break after
// worker::kPeerSilence.
//
// Runs on one Timeline. The constructor's arguments outlive it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/clock.h"
#include "deploy/roostctl/simulate/timeline.h"
#include "worker/transfer/frame_memory.h"
#include "worker/transfer/frame_source.h"
#include "worker/transfer/pair_pauses.h"
#include "worker/transfer/readable_blocks.h"

namespace roost::simulate {

struct LinkOptions {
  double gigabits_per_second = 0;  // of each worker's link, in each direction. 0: no links
  std::uint64_t kv_bytes_per_token = 131'072;

  [[nodiscard]] bool is_on() const { return gigabits_per_second > 0; }
  // The size of a block of so many tokens, on its way and on a disk.
  [[nodiscard]] std::uint64_t FrameBytes(std::uint32_t block_tokens) const;
};

// The differences between workers' links.
struct LinkSpec {
  double speed = 1;
  std::optional<Duration> breaks_after = {};  // after the start of the run it sends nothing more
};

class BlockLinks {
 public:
  BlockLinks(const LinkOptions& options, std::uint32_t block_tokens, std::vector<LinkSpec> workers, Duration delay,
             Timeline& timeline);

  // A worker as a source and as a consumer. `tell` takes its news, at once. What it holds outlives the attachment.
  struct Place {
    std::string worker_id;
    std::uint32_t index = 0;
    worker::ReadableBlocks* readable = nullptr;
    std::function<void(worker::FrameNews)> tell;
  };
  void Attach(Place place);
  // The worker leaves: what others fetch from it breaks, and what it has asked for is forgotten.
  void Detach(std::uint32_t consumer);

  // See worker::FrameSource.
  void Ask(std::uint32_t consumer, worker::FrameRequest request);
  void Cancel(std::uint32_t consumer, worker::HoldId id);
  // The source has blocks that it had not: those who follow it may go on.
  void OnPublished(std::uint32_t source);
  // The consumer's engine has taken or dropped frames.
  void OnRoom(std::uint32_t consumer);

  // A block's size on its way.
  [[nodiscard]] std::uint64_t frame_bytes() const { return frame_bytes_; }
  // Bytes that the worker has asked for and that have not come.
  [[nodiscard]] std::uint64_t ArrivingBytes(std::uint32_t consumer) const;
  // Bytes that others have asked it for and that it has not sent.
  [[nodiscard]] std::uint64_t LeavingBytes(std::uint32_t source) const;

 private:
  struct Fetch {
    worker::FrameRequest request;
    std::uint32_t consumer = 0;
    std::uint32_t source = 0;
    std::uint32_t next = 0;  // of the chain
    bool is_served = false;  // the source knows of it
    bool is_cancelled = false;
    bool is_over = false;
    worker::FrameBuffer frame;  // the memory for the next one
    Instant follow_end{};       // until then it waits for blocks that the source lacks
  };
  using FetchPtr = std::shared_ptr<Fetch>;

  struct Peer {
    worker::PeerPlace place;
    std::deque<FetchPtr> fetches;  // the first one is under way
    bool follows = false;          // its only one
  };
  struct Worker {
    std::optional<Place> place;
    LinkSpec link;
    std::shared_ptr<worker::FrameMemory> memory;
    std::vector<std::unique_ptr<Peer>> peers;
    std::size_t asked_count = 0;
    worker::PairPauses pauses;
    std::deque<FetchPtr> stalled;    // fetches that wait for memory
    std::deque<FetchPtr> followers;  // of this source, each with its memory
    std::uint32_t reader_count = 0;
    std::uint64_t arriving_count = 0;  // frames
    std::uint64_t leaving_count = 0;
    bool sends = false;
    bool receives = false;
  };

  [[nodiscard]] Peer* PeerFor(Worker& consumer, const worker::FrameRequest& request) const;
  [[nodiscard]] static std::optional<worker::HoldId> FindCovering(const Worker& consumer,
                                                                  const worker::FrameChain& chain);
  [[nodiscard]] bool IsBroken(const Worker& source) const;
  void Begin(const FetchPtr& fetch);
  void ReachSource(const FetchPtr& fetch);
  void QueueFrame(const FetchPtr& fetch);
  void StartFrames();
  void StartFrame(const FetchPtr& fetch);
  void OnFrame(const FetchPtr& fetch);
  struct Outcome {
    wire::HoldOutcome outcome = wire::HoldOutcome::kBroken;
    bool was_tried = true;
  };
  void End(const FetchPtr& fetch, Outcome outcome);
  void Forget(Fetch& fetch);
  // Seconds for a frame over this link.
  [[nodiscard]] Duration FrameTime(const Worker& worker) const;

  const double bytes_per_second_;
  const std::uint64_t frame_bytes_;
  const Duration delay_;
  Timeline& timeline_;
  std::vector<Worker> workers_;  // by index
  std::unordered_map<std::string, std::uint32_t> index_by_id_;
  std::list<FetchPtr> waiting_;  // with memory for their next frame, in the order of their waits
  bool is_starting_ = false;
};

// Reads blocks without K and V.
[[nodiscard]] std::unique_ptr<worker::BlockReader> MakeEmptyBlockReader();

}  // namespace roost::simulate
