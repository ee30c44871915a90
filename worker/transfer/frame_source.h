// Where blocks come from: another worker. A source is asked for a part of a chain, and tells of its blocks front to
// back, then of its end. The other side takes frames and ends from the inbox on a thread of its own.
//
//   Ask ─▶ frame, frame, … ─▶ end        exactly one end follows each Ask, also after Cancel
//
// Thread-safe, both.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/clock.h"
#include "common/wire/messages.h"
#include "common/wire/transfer_ticket.h"
#include "worker/engine_api/engine_order.h"
#include "worker/transfer/frame.h"

namespace roost::worker {

// The blocks that a Hold names.
[[nodiscard]] inline FrameChain ChainOf(const wire::Hold& hold) {
  return {.root = hold.root,
          .own = hold.own,
          .parent = hold.parent,
          .first_position = hold.first_position,
          .hashes = hold.hashes,
          .tenant = TenantHash(hold.tenant)};
}

// The place of a source.
struct PeerPlace {
  std::string worker_id;
  std::string address;  // numeric HOST:PORT

  auto operator<=>(const PeerPlace&) const = default;
};

struct FrameRequest {
  HoldId id;
  FrameChain chain;
  PeerPlace peer;
  std::optional<wire::TransferTicket> ticket = std::nullopt;  // with one the transfer is encrypted
  // The source is computing the blocks: so long it may wait for each. 0: what it lacks is missing.
  std::chrono::milliseconds follow{0};
};

// A checked frame: block `index` of the chain that was asked for.
struct ArrivedFrame {
  HoldId id;
  std::uint32_t index = 0;
  FrameBuffer buffer;
  OpenedFrame opened;
  Instant at;
};

// The end of a request. kComplete and kMissing: all that the source has was told.
struct FramesEnded {
  HoldId id;
  wire::HoldOutcome outcome = wire::HoldOutcome::kBroken;
  wire::HoldCause cause = wire::HoldCause::kNone;
};

// The request asks for what another one asks for already: its blocks come with that one.
struct FramesJoined {
  HoldId id;
  HoldId first;
};

using FrameNews = std::variant<ArrivedFrame, FramesEnded, FramesJoined>;

class FrameInbox {
 public:
  // `wake` is called after news, from the thread that brings them.
  explicit FrameInbox(std::function<void()> wake) : wake_(std::move(wake)) {}

  void Push(FrameNews news) {
    {
      const std::lock_guard lock(mutex_);
      news_.push_back(std::move(news));
      has_news_.store(true, std::memory_order_release);
    }
    wake_();
  }
  [[nodiscard]] bool has_news() const { return has_news_.load(std::memory_order_acquire); }
  // In order.
  [[nodiscard]] std::vector<FrameNews> Take() {
    const std::lock_guard lock(mutex_);
    has_news_.store(false, std::memory_order_release);
    return std::exchange(news_, {});
  }

 private:
  const std::function<void()> wake_;
  std::mutex mutex_;
  std::vector<FrameNews> news_;  // guarded by mutex_; bounded by FrameMemory and the number of Holds
  std::atomic<bool> has_news_ = false;
};

class FrameSource {
 public:
  virtual ~FrameSource() = default;

  // Never waits. Frames and the end go to the inbox that the source was made with.
  virtual void Ask(FrameRequest request) = 0;
  // The engine does not want the rest. Does nothing if the request has ended.
  virtual void Cancel(HoldId id) = 0;
  // Blocks that came from this worker were wrong: it is left alone for a while.
  virtual void Distrust(const std::string& worker_id) = 0;
};

}  // namespace roost::worker
