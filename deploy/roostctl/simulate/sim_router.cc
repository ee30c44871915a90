#include "deploy/roostctl/simulate/sim_router.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "common/base/rng.h"
#include "router/policies/policies.h"

namespace roost::simulate {
namespace {

// The client of one request. It only records failures.
class Client final : public router::GenerationObserver {
 public:
  Client(std::uint32_t number, Timeline& timeline, RequestLog& log) : number_(number), timeline_(timeline), log_(log) {}

  void OnDispatched(const router::Dispatched& dispatched) override {
    log_.OnDispatched(number_, dispatched.decision.worth);
  }
  void OnTokens(router::ChoiceTokens /*tokens*/) override {}
  void OnChoiceEnd(router::ChoiceEnd /*end*/) override {}
  void OnEnd(router::GenerationEnd end) override {
    if (end.error.has_value()) log_.OnRefused(number_, timeline_.Now());
  }

 private:
  const std::uint32_t number_;
  Timeline& timeline_;
  RequestLog& log_;
};

// Clients give one bound for all their requests, and do not know how long an answer will be.
std::uint32_t LongestAnswer(const workload::Trace& trace) {
  std::uint32_t longest = 1;
  for (const workload::TraceRequest& request : trace.requests) longest = std::max(longest, request.output_token_count);
  return longest;
}

}  // namespace

SimRouter::SimRouter(std::unique_ptr<router::Policy> policy, const router::FleetCoreOptions& options,
                     std::uint64_t seed, const TraceText& text, Timeline& timeline, RequestLog& log, Send send)
    : text_(text),
      timeline_(timeline),
      log_(log),
      send_(std::move(send)),
      max_output_tokens_(LongestAnswer(text.trace()) + 1),
      policy_(std::move(policy)),
      core_(options, *policy_, metrics_, seed) {}

void SimRouter::Submit(std::uint32_t number) {
  const Instant now = timeline_.Now();
  log_.OnArrival(number, text_.PromptTokenCount(number), now);
  const auto models = core_.models()->models;
  if (models.empty()) return log_.OnRefused(number, now);
  router::GenerateSpec spec = SpecOf(number, models.front());
  const std::vector<WorkerMatch> matches = spec.model->index->Match(spec.generate.block_hashes);
  const Result<RequestId> id =
      core_.Submit(std::move(spec), std::make_shared<Client>(number, timeline_, log_), matches, now);
  if (!id.ok()) log_.OnRefused(number, now);
  CarryOutAll();
}

// Asks for one token more than the answer has, so that the worker decides the end; at least two, which distinguishes it
// from a copy.
router::GenerateSpec SimRouter::SpecOf(std::uint32_t number, std::shared_ptr<const router::ServedModel> model) const {
  const workload::TraceRequest& request = text_.trace().requests[number];
  router::GenerateSpec spec;
  spec.model = std::move(model);
  spec.generate.prompt = text_.Prompt(number);
  spec.generate.root = TraceText::root();
  spec.generate.block_hashes = text_.PromptHashes(number);
  spec.generate.sampling.seed = number;
  spec.generate.max_output_tokens = max_output_tokens_;
  spec.generate.session_hash = request.session == 0 ? 0 : Mix64(request.session);
  if (request.tenant != 0) spec.generate.tenant = std::to_string(request.tenant);
  return spec;
}

void SimRouter::OnMessage(const std::string& worker_id, wire::WorkerMessage message) {
  core_.OnMessage(worker_id, std::move(message), timeline_.Now());
  CarryOutAll();
}

void SimRouter::Tick() {
  core_.Tick(timeline_.Now());
  CarryOutAll();
}

void SimRouter::CarryOutAll() {
  for (router::Effect& effect : core_.TakeEffects()) {
    if (auto* const send = std::get_if<router::SendToWorker>(&effect)) {
      send_(send->identity, std::move(send->message));
    } else if (auto* const read = std::get_if<router::ReadBundle>(&effect)) {
      core_.OnTextBundle(read->bundle.digest, router::TextBundle{}, timeline_.Now());
    } else {
      router::NotifyObserver(effect);
    }
  }
}

std::uint64_t SimRouter::charge_count() {
  std::uint64_t count = 0;
  for (const router::WorkerStatus& worker : core_.Workers(timeline_.Now())) count += worker.in_flight_requests;
  return count;
}

const std::vector<std::string>& RouterPolicyNames() {
  static const std::vector<std::string> all_names(router::PolicyNames().begin(), router::PolicyNames().end());
  return all_names;
}

}  // namespace roost::simulate
