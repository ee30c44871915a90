// The output of an engine's thread to the link thread: a bounded queue that says when it has lost something, and the
// refusals and answers that go out with the next report.
//
// A report that does not fit is dropped, and an OutputLost follows as soon as there is space, before anything else. So
// the link thread knows that it has missed something at that place of the order. Answers are dropped without a word:
// each is awaited for a limited time only.
//
// Threads: the engine's thread, but TryTake, which the link thread calls.
#pragma once

#include <optional>
#include <vector>

#include "common/base/bounded_queue.h"
#include "common/base/error.h"
#include "common/wire/socket.h"
#include "worker/engine_api/engine_host.h"
#include "worker/engine_api/exchange.h"

namespace roost::worker {

class EngineOutbox {
 public:
  // `waker` outlives it, and is rung after each output.
  explicit EngineOutbox(const wire::Waker& waker) : waker_(waker) {}

  // The link thread's.
  [[nodiscard]] std::optional<EngineOutput> TryTake() { return queue_.TryPop(); }

  // A request that the engine did not take: in the next report.
  void Refuse(LinkId link, RequestId request, Error error);
  [[nodiscard]] bool has_refusals() const { return !refusals_.empty(); }
  // Goes out behind the next report. Dropped when no reply is wanted.
  void Answer(EngineAnswer answer);
  [[nodiscard]] bool has_answers() const { return !answers_.empty(); }

  // The report with the refusals, and then the answers.
  void PublishReport(StepReport report);
  void Publish(EngineOutput output);
  // Says that something is lost, if it is and there is space.
  void TellOfLoss();

  // The next output will not be dropped.
  [[nodiscard]] bool CanPublish() const { return !has_lost_ && queue_.size() < queue_.capacity(); }
  [[nodiscard]] bool has_lost() const { return has_lost_; }

 private:
  const wire::Waker& waker_;
  BoundedQueue<EngineOutput> queue_{kOutboxCapacity};
  std::vector<RequestEvent> refusals_;
  std::vector<EngineAnswer> answers_;
  bool has_lost_ = false;
};

}  // namespace roost::worker
