// A dispatcher that records: it forwards everything to another dispatcher, and passes each finished request to a
// Recorder. So neither the fleet nor the HTTP side depends on recording.
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
#include "router/fleet/dispatcher.h"
#include "router/record/recorder.h"

namespace roost::router {

class RecordingDispatcher final : public Dispatcher {
 public:
  // All references outlive the dispatcher; `recorder` also outlives every request that was submitted here.
  RecordingDispatcher(Dispatcher& inner, Recorder& recorder, const Clock& clock);

  [[nodiscard]] std::shared_ptr<const ServedModel> FindModel(std::string_view name) const override {
    return inner_.FindModel(name);
  }
  [[nodiscard]] std::vector<std::shared_ptr<const ServedModel>> RevisionsOf(std::string_view name) const override {
    return inner_.RevisionsOf(name);
  }
  [[nodiscard]] std::shared_ptr<const ServedModel> ChooseModel(std::string_view name) override {
    return inner_.ChooseModel(name);
  }
  [[nodiscard]] bool IsExpected(std::string_view model) const override { return inner_.IsExpected(model); }
  [[nodiscard]] std::vector<std::shared_ptr<const ServedModel>> Models() const override { return inner_.Models(); }
  [[nodiscard]] std::uint32_t RouterCount() const override { return inner_.RouterCount(); }
  [[nodiscard]] std::vector<WorkerStatus> Workers() const override { return inner_.Workers(); }
  [[nodiscard]] std::vector<QueueStatus> Queues() const override { return inner_.Queues(); }
  [[nodiscard]] FleetStanding Standing() const override { return inner_.Standing(); }
  [[nodiscard]] std::optional<std::string> KnownModel(std::string_view name) const override {
    return inner_.KnownModel(name);
  }
  [[nodiscard]] bool IsArriving(std::string_view model) const override { return inner_.IsArriving(model); }
  [[nodiscard]] bool WhenServed(std::string_view model, std::function<void()> go) override {
    return inner_.WhenServed(model, std::move(go));
  }
  [[nodiscard]] std::vector<DecisionRecord> LatestDecisions(std::size_t limit) const override {
    return inner_.LatestDecisions(limit);
  }
  [[nodiscard]] std::vector<DecisionRecord> FindDecisions(std::string_view id) const override {
    return inner_.FindDecisions(id);
  }
  [[nodiscard]] Result<void> CheckRoom(const ServedModel& model) const override { return inner_.CheckRoom(model); }
  // Records each accepted request when it ends, with the first choice as its answer.
  [[nodiscard]] Result<RequestId> Submit(GenerateSpec spec, std::shared_ptr<GenerationObserver> observer) override;
  [[nodiscard]] Result<void> Pin(PinOrder order, AnswersDone done) override {
    return inner_.Pin(std::move(order), std::move(done));
  }
  [[nodiscard]] Result<void> MostUsed(PrefixesQuestion question, AnswersDone done) override {
    return inner_.MostUsed(std::move(question), std::move(done));
  }
  [[nodiscard]] Result<void> Warm(WarmOrder order, AnswersDone done) override {
    return inner_.Warm(std::move(order), std::move(done));
  }
  [[nodiscard]] Result<void> Evict(EvictOrder order, AnswersDone done) override {
    return inner_.Evict(std::move(order), std::move(done));
  }
  [[nodiscard]] Result<void> Cordon(CordonOrder order, AnswersDone done) override {
    return inner_.Cordon(std::move(order), std::move(done));
  }
  [[nodiscard]] Result<PromptMatch> Match(PromptQuery query) override { return inner_.Match(std::move(query)); }
  void Cancel(RequestId id) override { inner_.Cancel(id); }

 private:
  Dispatcher& inner_;
  Recorder& recorder_;
  const Clock& clock_;
  const Instant start_;
};

}  // namespace roost::router
