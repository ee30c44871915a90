#include "tests/sim/sim_transfer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/base/rng.h"

namespace roost::sim {
namespace {

using wire::HoldOutcome;

constexpr std::size_t kFramesPerRun = 2;

// Differs for each process, and is the same in each run of the seed.
wire::TransferSecret SecretOf(std::uint64_t seed) {
  Rng rng(seed);
  std::array<std::uint8_t, wire::kTransferKeyBytes> bytes{};
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(rng());
  return wire::TransferSecret(wire::TransferKey(bytes));
}

wire::WallSeconds WallTime(Instant now) {
  return wire::WallSeconds(std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()));
}

}  // namespace

SimTransfer::SimTransfer(Setup setup, const Clock& clock, worker::ReadableBlocks& readable, worker::FrameInbox& inbox,
                         Carry carry)
    : setup_(std::move(setup)),
      clock_(clock),
      readable_(readable),
      inbox_(inbox),
      carry_(std::move(carry)),
      secret_(SecretOf(setup_.first_fetch)),
      memory_(std::make_shared<worker::FrameMemory>(readable.sizes(), kFrameLimit)),
      last_fetch_(setup_.first_fetch) {}

void SimTransfer::Ask(worker::FrameRequest request) {
  const worker::FrameChain& chain = request.chain;
  for (const Asked& asked : asked_) {
    const worker::FrameChain& other = asked.request.chain;
    const bool covers = other.first_position == chain.first_position && other.size() >= chain.size() &&
                        other.tenant == chain.tenant &&
                        std::equal(chain.hashes.begin(), chain.hashes.end(), other.hashes.begin());
    if (covers && !asked.is_cancelled) return inbox_.Push(worker::FramesJoined{request.id, asked.request.id});
  }
  asked_.push_back({.request = std::move(request)});
}

void SimTransfer::Cancel(worker::HoldId id) {
  for (Asked& asked : asked_) asked.is_cancelled |= asked.request.id == id;
}

SimTransfer::Asked* SimTransfer::FindFetch(std::uint64_t fetch) {
  const auto is_it = [fetch](const Asked& asked) { return asked.fetch == fetch; };
  const auto found = std::find_if(asked_.begin(), asked_.end(), is_it);
  return found == asked_.end() ? nullptr : &*found;
}

// ---- the source ----

bool SimTransfer::IsAllowed(const std::string& from, const FetchMessage& fetch) const {
  const Result<wire::TransferTicket> shown = wire::TransferTicket::Parse(fetch.ticket);
  if (!shown.ok() || from != fetch.consumer) return false;
  const Result<wire::TransferTicket> own =
      DeriveTicket(secret_, {.consumer = fetch.consumer, .expiry = shown->expiry()}, WallTime(clock_.Now()));
  return own.ok() && *own == *shown;
}

// False when it has sent all.
bool SimTransfer::SendNext(Served& served) {
  const FetchMessage& fetch = served.fetch;
  if (served.next == fetch.hashes.size()) {
    carry_(served.consumer, EndMessage{fetch.fetch, HoldOutcome::kComplete});
    return false;
  }
  worker::FrameBuffer frame(readable_.sizes());
  if (!readable_.Read(fetch.hashes[served.next++], fetch.tenant, frame)) {
    carry_(served.consumer, EndMessage{fetch.fetch, HoldOutcome::kMissing});
    return false;
  }
  carry_(served.consumer, FrameMessage{fetch.fetch, {frame.bytes().begin(), frame.bytes().end()}});
  return true;
}

// ---- the consumer ----

void SimTransfer::Receive(const std::string& from, TransferMessage message) {
  if (auto* const fetch = std::get_if<FetchMessage>(&message)) {
    const auto is_doubled = [&](const Served& served) { return served.fetch.fetch == fetch->fetch; };
    if (std::any_of(served_.begin(), served_.end(), is_doubled)) return;
    if (!IsAllowed(from, *fetch)) return carry_(from, EndMessage{fetch->fetch, HoldOutcome::kBroken});
    served_.push_back({.consumer = from, .fetch = std::move(*fetch)});
  } else if (const auto* const cancel = std::get_if<CancelMessage>(&message)) {
    std::erase_if(served_, [&](const Served& served) { return served.fetch.fetch == cancel->fetch; });
  } else {
    const auto* const frame = std::get_if<FrameMessage>(&message);
    Asked* const asked = FindFetch(frame != nullptr ? frame->fetch : std::get<EndMessage>(message).fetch);
    if (asked == nullptr || asked->is_over) return;  // of a fetch that has ended, or of an earlier process
    asked->heard = clock_.Now();
    asked->backlog.push_back(std::move(message));
    TakeBacklog(*asked);
  }
}

void SimTransfer::TakeBacklog(Asked& asked) {
  while (!asked.backlog.empty() && !asked.is_over) {
    const TransferMessage& first = asked.backlog.front();
    if (const auto* const frame = std::get_if<FrameMessage>(&first)) {
      if (memory_->used() == memory_->limit()) return;
      TakeFrame(asked, *frame);
    } else {
      TakeEnd(asked, std::get<EndMessage>(first));
    }
    asked.backlog.pop_front();
  }
}

void SimTransfer::TakeFrame(Asked& asked, const FrameMessage& frame) {
  const worker::FrameChain& chain = asked.request.chain;
  if (asked.next == chain.size() || frame.bytes.size() != readable_.sizes().frame_bytes()) {
    return End(asked, HoldOutcome::kBroken);
  }
  worker::FrameBuffer buffer = *memory_->Take([] { return true; });
  std::copy(frame.bytes.begin(), frame.bytes.end(), buffer.bytes().begin());
  Result<worker::OpenedFrame> opened = OpenFrame(buffer, chain, asked.next);
  if (!opened.ok()) return End(asked, HoldOutcome::kWrong);
  inbox_.Push(worker::ArrivedFrame{.id = asked.request.id,
                                   .index = asked.next++,
                                   .buffer = std::move(buffer),
                                   .opened = std::move(opened).value(),
                                   .at = clock_.Now()});
}

void SimTransfer::TakeEnd(Asked& asked, const EndMessage& end) {
  const bool is_short = end.outcome == HoldOutcome::kComplete && asked.next < asked.request.chain.size();
  End(asked, is_short ? HoldOutcome::kBroken : end.outcome);
}

void SimTransfer::End(Asked& asked, HoldOutcome outcome) {
  asked.is_over = true;
  inbox_.Push(worker::FramesEnded{asked.request.id, outcome});
}

void SimTransfer::Begin(Asked& asked) {
  const worker::FrameChain& chain = asked.request.chain;
  asked.next = readable_.CountFront(chain);
  asked.heard = clock_.Now();
  if (asked.next == chain.size()) return End(asked, HoldOutcome::kComplete);
  asked.fetch = ++last_fetch_;
  carry_(asked.request.peer.worker_id,
         FetchMessage{.fetch = asked.fetch,
                      .consumer = setup_.worker_id,
                      .ticket = asked.request.ticket ? asked.request.ticket->ToText() : "",
                      .tenant = chain.tenant,
                      .hashes = {chain.hashes.begin() + asked.next, chain.hashes.end()}});
}

void SimTransfer::RunAsked() {
  std::vector<std::string> busy;
  for (Asked& asked : asked_) {
    const std::string& source = asked.request.peer.worker_id;
    const bool is_first = std::find(busy.begin(), busy.end(), source) == busy.end();
    busy.push_back(source);
    if (asked.is_cancelled) {
      if (asked.fetch != 0) carry_(source, CancelMessage{asked.fetch});
      End(asked, HoldOutcome::kCancelled);
    } else if (asked.fetch != 0) {
      TakeBacklog(asked);
      const bool is_silent = asked.backlog.empty() && clock_.Now() - asked.heard >= kSilence;
      if (!asked.is_over && is_silent) End(asked, HoldOutcome::kBroken);
    } else if (is_first) {
      Begin(asked);
    }
  }
  std::erase_if(asked_, [](const Asked& asked) { return asked.is_over; });
}

worker::TravellingBytes SimTransfer::travelling_bytes() const {
  worker::TravellingBytes blocks;
  for (const Asked& asked : asked_) blocks.arriving += asked.request.chain.size() - asked.next;
  for (const Served& served : served_) blocks.leaving += served.fetch.hashes.size() - served.next;
  const std::uint64_t block_bytes = readable_.sizes().frame_bytes();
  return {.arriving = blocks.arriving * block_bytes, .leaving = blocks.leaving * block_bytes};
}

void SimTransfer::Run() {
  RunAsked();
  for (std::size_t i = 0; i < kFramesPerRun; ++i) {
    std::erase_if(served_, [this](Served& served) { return !SendNext(served); });
  }
}

}  // namespace roost::sim
