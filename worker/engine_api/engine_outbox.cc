#include "worker/engine_api/engine_outbox.h"

#include <iterator>
#include <utility>

namespace roost::worker {

void EngineOutbox::Refuse(LinkId link, RequestId request, Error error) {
  RequestEvent& refusal = refusals_.emplace_back();
  refusal.link = link;
  refusal.event.request_id = request;
  refusal.event.finish = wire::FinishReason::kError;
  refusal.event.error = std::move(error);
}

void EngineOutbox::Answer(EngineAnswer answer) {
  if (AnswerIdOf(answer.answer) != 0) answers_.push_back(std::move(answer));
}

void EngineOutbox::PublishReport(StepReport report) {
  report.tokens.insert(report.tokens.end(), std::make_move_iterator(refusals_.begin()),
                       std::make_move_iterator(refusals_.end()));
  refusals_.clear();
  Publish(std::move(report));
  for (EngineAnswer& answer : answers_) {
    if (CanPublish()) Publish(std::move(answer));
  }
  answers_.clear();
}

void EngineOutbox::Publish(EngineOutput output) {
  TellOfLoss();
  if (has_lost_ || !queue_.TryPush(std::move(output))) has_lost_ = true;
  waker_.Wake();
}

void EngineOutbox::TellOfLoss() {
  if (!has_lost_) return;
  has_lost_ = !queue_.TryPush(OutputLost{});
  waker_.Wake();
}

}  // namespace roost::worker
