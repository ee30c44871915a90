#include "worker/engine/engine_thread.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <variant>

#include "common/base/check.h"
#include "common/base/give_way.h"
#include "common/base/thread_name.h"

namespace roost::worker {
namespace {

// A command ends the wait at once. While requests wait for their grammars or for blocks, a report after each wait tells
// routers that this engine does not hang.
constexpr std::chrono::milliseconds kIdleWait{1000};
// While an OutputLost or a snapshot waits for space in the queue.
constexpr std::chrono::milliseconds kRoomWait{5};

// The decoder has checked its form.
std::optional<wire::TransferTicket> TicketOf(const wire::Hold& hold) {
  Result<wire::TransferTicket> ticket = wire::TransferTicket::Parse(hold.source.ticket);
  return ticket.ok() ? std::optional(std::move(ticket).value()) : std::nullopt;
}

}  // namespace

EngineThread::EngineThread(Engine& engine, const Clock& clock, const wire::Waker& waker)
    : outbox_(waker), stall_watch_(clock), clock_(clock), engine_(engine) {}

EngineThread::~EngineThread() { Stop(); }

void EngineThread::Start() {
  ROOST_CHECK(!thread_.joinable());
  engine_.SetPulse([this] { stall_watch_.OnPart(); });
  thread_ = std::thread([this] { Run(); });
}

void EngineThread::Stop() {
  stopping_.store(true);
  inbox_.Close();
  if (!thread_.joinable()) return;
  thread_.join();
  engine_.SetPulse({});
}

bool EngineThread::TryPost(EngineCommand&& command) {
  auto* const order = std::get_if<OrderCommand>(&command);
  const bool is_hold = order != nullptr && std::holds_alternative<wire::Hold>(order->order);
  return is_hold && source_ != nullptr ? TryPostHold(*order, command) : inbox_.TryPush(std::move(command));
}

// The blocks are asked for at once, not at the engine's next step. The engine has the order before anything comes.
bool EngineThread::TryPostHold(OrderCommand& order, EngineCommand& command) {
  const wire::Hold& hold = std::get<wire::Hold>(order.order);
  const HoldId id(++last_hold_id_);
  FrameRequest request{.id = id,
                       .chain = ChainOf(hold),
                       .peer = {.worker_id = hold.source.worker_id, .address = hold.source.address},
                       .ticket = TicketOf(hold),
                       .follow = std::chrono::milliseconds(hold.source.follow ? hold.patience_ms : 0)};
  order.receipt = {id, clock_.Now()};
  if (!inbox_.TryPush(std::move(command))) return false;
  source_->Ask(std::move(request));
  return true;
}

void EngineThread::Run() {
  NameThisThread("engine");
  while (!stopping_.load()) {
    stall_watch_.OnTurn();
    DrainInbox();
    outbox_.TellOfLoss();
    const bool has_room_for_snapshot = snapshot_wanted_ && outbox_.CanPublish();
    if (engine_.HasWork() || report_due_ || outbox_.has_refusals() || has_room_for_snapshot) Round();
  }
}

// The news first: a Hold is in the inbox before anything comes for it.
void EngineThread::DrainInbox() {
  std::optional<EngineCommand> first;
  if (!engine_.HasWork()) {
    stall_watch_.OnWait();
    first = inbox_.PopFor(IdleWait());
    stall_watch_.OnTurn();
    if (!first) report_due_ = report_due_ || engine_.AwaitsGrammars() || engine_.AwaitsBlocksUntil().has_value();
  }
  engine_.TakeNews();
  if (first) ApplyAny(*std::move(first));
  // The limit keeps a sender that never pauses from delaying the engine's step.
  for (std::size_t taken = 0; taken < kInboxCapacity; ++taken) {
    std::optional<EngineCommand> next = inbox_.TryPop();
    if (!next) return;
    ApplyAny(*std::move(next));
  }
}

Duration EngineThread::IdleWait() const {
  if (outbox_.has_lost() || snapshot_wanted_) return kRoomWait;
  const std::optional<Instant> end = engine_.AwaitsBlocksUntil();
  return end ? std::clamp<Duration>(*end - clock_.Now(), std::chrono::milliseconds(1), kIdleWait) : Duration(kIdleWait);
}

void EngineThread::ApplyAny(EngineCommand command) {
  std::visit([this](auto& value) { Apply(std::move(value)); }, command);
}

void EngineThread::Apply(SubmitCommand command) {
  const RequestId request = command.request.request_id;
  Result<void> taken = engine_.Submit(command.link, std::move(command.request), command.received);
  if (!taken.ok()) outbox_.Refuse(command.link, request, std::move(taken).error());
}

void EngineThread::Apply(const CancelLinkCommand& command) {
  engine_.CancelLink(command.link);
  report_due_ = true;
}

void EngineThread::Apply(OrderCommand command) {
  const LinkId link = command.link;
  const std::optional<OrderReply> reply = engine_.CarryOut(link, std::move(command.order), command.receipt);
  if (reply) outbox_.Answer({link, *reply});
  report_due_ = true;
}

// No step runs between a report and the snapshot after it, so the snapshot holds what the reports so far have told.
void EngineThread::Round() {
  report_due_ = false;
  StepReport report = engine_.Step();
  for (const EngineAnswer& answer : report.answers) outbox_.Answer(answer);
  outbox_.PublishReport(std::move(report));
  GiveWay();  // to the thread that sends it
  if (!snapshot_wanted_ || !outbox_.CanPublish()) return;
  outbox_.Publish(EngineSnapshot{.runs = engine_.Snapshot(), .disk_runs = engine_.DiskSnapshot()});
  snapshot_wanted_ = false;
}

}  // namespace roost::worker
