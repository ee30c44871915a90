#include "worker/link/engine_thread.h"

#include <omp.h>
#include <pthread.h>

#include <chrono>
#include <iterator>
#include <utility>

#include "common/base/check.h"

namespace roost::worker {
namespace {

// A command ends the wait at once; this limit is only a safety net.
constexpr std::chrono::milliseconds kIdleWait{1000};
// While an OutputLost or a snapshot waits for space in the queue.
constexpr std::chrono::milliseconds kRoomWait{5};

}  // namespace

EngineThread::EngineThread(Engine& engine, const Clock& clock, const wire::Waker& waker,
                           std::uint32_t compute_thread_count)
    : waker_(waker), compute_thread_count_(compute_thread_count), stall_watch_(clock), engine_(engine) {}

EngineThread::~EngineThread() { Stop(); }

void EngineThread::Start() {
  ROOST_CHECK(!thread_.joinable());
  thread_ = std::thread([this] { Run(); });
}

void EngineThread::Stop() {
  stopping_.store(true);
  inbox_.Close();
  if (thread_.joinable()) thread_.join();
}

void EngineThread::Run() {
  pthread_setname_np(pthread_self(), "engine");  // the name in lists of the process's threads
  // omp_set_num_threads applies only to teams that the calling thread starts.
  if (compute_thread_count_ > 0) omp_set_num_threads(static_cast<int>(compute_thread_count_));
  while (!stopping_.load()) {
    stall_watch_.OnTurn();
    DrainInbox();
    if (output_lost_) TellOfLoss();
    if (engine_.HasWork() || report_due_ || !rejected_.empty() || (snapshot_wanted_ && CanPublish())) Round();
  }
}

void EngineThread::DrainInbox() {
  if (!engine_.HasWork()) {
    stall_watch_.OnWait();
    std::optional<EngineCommand> first = inbox_.PopFor(output_lost_ || snapshot_wanted_ ? kRoomWait : kIdleWait);
    stall_watch_.OnTurn();
    if (!first) return;
    ApplyAny(*std::move(first));
  }
  // The limit keeps a sender that never pauses from delaying the engine's step.
  for (std::size_t taken = 0; taken < kInboxCapacity; ++taken) {
    std::optional<EngineCommand> next = inbox_.TryPop();
    if (!next) return;
    ApplyAny(*std::move(next));
  }
}

void EngineThread::ApplyAny(EngineCommand command) {
  std::visit([this](auto& value) { Apply(std::move(value)); }, command);
}

void EngineThread::Apply(SubmitCommand command) {
  RequestEvent answer;
  answer.link = command.link;
  answer.event.request_id = command.request.request_id;
  Result<void> taken = engine_.Submit(command.link, std::move(command.request), command.received);
  if (taken.ok()) return;
  answer.event.finish = wire::FinishReason::kError;
  answer.event.error = std::move(taken).error();
  rejected_.push_back(std::move(answer));
}

void EngineThread::Apply(const CancelLinkCommand& command) {
  engine_.CancelLink(command.link);
  report_due_ = true;
}

void EngineThread::Apply(const PinCommand& command) {
  const wire::PinAnswer answer = engine_.Pin(command.pin);
  if (answer.answer_id != 0) answers_.push_back({command.link, answer});
  report_due_ = true;
}

void EngineThread::Apply(const UnpinCommand& command) {
  const wire::PinAnswer answer = engine_.Unpin(command.unpin);
  if (answer.answer_id != 0) answers_.push_back({command.link, answer});
  report_due_ = true;
}

void EngineThread::Apply(EvictCommand command) {
  const LinkId link = command.link;
  if (const auto refused = engine_.Evict(link, std::move(command.evict))) answers_.push_back({link, *refused});
  report_due_ = true;
}

void EngineThread::Apply(const WantPrefixesCommand& command) {
  answers_.push_back({command.link, engine_.MostUsed(command.want)});
  report_due_ = true;
}

// No step runs between a report and the snapshot after it, so the snapshot holds what the reports so far have told.
void EngineThread::Round() {
  report_due_ = false;
  StepReport report = engine_.Step();
  report.tokens.insert(report.tokens.end(), std::make_move_iterator(rejected_.begin()),
                       std::make_move_iterator(rejected_.end()));
  rejected_.clear();
  for (const EvictReport& eviction : report.evictions) {
    if (eviction.answer.answer_id != 0) answers_.push_back({eviction.link, eviction.answer});
  }
  Publish(std::move(report));
  PublishAnswers();
  if (!snapshot_wanted_ || !CanPublish()) return;
  Publish(EngineSnapshot{engine_.Snapshot()});
  snapshot_wanted_ = false;
}

void EngineThread::PublishAnswers() {
  for (EngineAnswer& answer : answers_) {
    if (CanPublish()) Publish(std::move(answer));
  }
  answers_.clear();
}

void EngineThread::Publish(EngineOutput output) {
  if (output_lost_) TellOfLoss();
  if (output_lost_ || !outbox_.TryPush(std::move(output))) output_lost_ = true;
  waker_.Wake();
}

void EngineThread::TellOfLoss() {
  output_lost_ = !outbox_.TryPush(OutputLost{});
  waker_.Wake();
}

}  // namespace roost::worker
