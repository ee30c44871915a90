// Blocks that travel between workers of the simulation: the messages of worker/transfer/peer_messages.h over lines that
// lose, double, reorder, alter and tear them, with the real frames, tickets, checks and memory. Only connections and
// threads are not real.
//
//   Ask ─▶ one fetch at a time for each source ─▶ line ─▶ the source's Read, a few blocks at a time ─▶ line ─▶ inbox
//
// A fetch without news for kSilence is broken, as a connection would be.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "common/base/clock.h"
#include "common/wire/transfer_ticket.h"
#include "worker/engine_api/exchange.h"
#include "worker/transfer/frame_memory.h"
#include "worker/transfer/frame_source.h"
#include "worker/transfer/readable_blocks.h"

namespace roost::sim {

// ---- the messages between two workers; `fetch` is unique among all processes ----

struct FetchMessage {
  std::uint64_t fetch = 0;
  std::string consumer;
  std::string ticket;
  std::uint64_t tenant = 0;
  std::vector<BlockHash> hashes;
};
struct FrameMessage {
  std::uint64_t fetch = 0;
  std::vector<std::byte> bytes;
};
struct EndMessage {
  std::uint64_t fetch = 0;
  wire::HoldOutcome outcome = wire::HoldOutcome::kBroken;
};
struct CancelMessage {
  std::uint64_t fetch = 0;
};
using TransferMessage = std::variant<FetchMessage, FrameMessage, EndMessage, CancelMessage>;

class SimTransfer final : public worker::FrameSource {
 public:
  using Carry = std::function<void(const std::string& worker_id, TransferMessage message)>;
  static constexpr std::size_t kFrameLimit = 6;
  static constexpr Duration kSilence = std::chrono::seconds(2);

  struct Setup {
    std::string worker_id;
    std::uint64_t first_fetch = 0;
  };
  // All outlive it.
  SimTransfer(Setup setup, const Clock& clock, worker::ReadableBlocks& readable, worker::FrameInbox& inbox,
              Carry carry);

  void Ask(worker::FrameRequest request) override;
  void Cancel(worker::HoldId id) override;
  void Distrust(const std::string& /*worker_id*/) override {}

  void Receive(const std::string& from, TransferMessage message);
  // Begins fetches, ends silent ones, and sends what was asked for.
  void Run();

  [[nodiscard]] const wire::TransferSecret& secret() const { return secret_; }
  [[nodiscard]] worker::TravellingBytes travelling_bytes() const;
  // No fetch, no reader, no memory of frames.
  [[nodiscard]] bool is_idle() const { return asked_.empty() && served_.empty() && memory_->used() == 0; }

 private:
  struct Asked {
    worker::FrameRequest request;
    std::uint64_t fetch = 0;  // 0: not begun
    std::uint32_t next = 0;   // of the chain
    Instant heard{};
    std::deque<TransferMessage> backlog = {};  // while there is no memory
    bool is_cancelled = false;
    bool is_over = false;
  };
  struct Served {
    std::string consumer;
    FetchMessage fetch;
    std::size_t next = 0;
  };

  [[nodiscard]] Asked* FindFetch(std::uint64_t fetch);
  [[nodiscard]] bool IsAllowed(const std::string& from, const FetchMessage& fetch) const;
  void Begin(Asked& asked);
  void End(Asked& asked, wire::HoldOutcome outcome);
  void TakeBacklog(Asked& asked);
  void TakeFrame(Asked& asked, const FrameMessage& frame);
  void TakeEnd(Asked& asked, const EndMessage& end);
  void RunAsked();
  [[nodiscard]] bool SendNext(Served& served);

  const Setup setup_;
  const Clock& clock_;
  worker::ReadableBlocks& readable_;
  worker::FrameInbox& inbox_;
  const Carry carry_;
  const wire::TransferSecret secret_;
  const std::shared_ptr<worker::FrameMemory> memory_;
  std::uint64_t last_fetch_;
  std::deque<Asked> asked_;
  std::vector<Served> served_;
};

}  // namespace roost::sim
