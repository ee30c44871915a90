#include "deploy/roostctl/generate/offline_run.h"

#include <algorithm>
#include <map>
#include <utility>

#include "common/base/check.h"
#include "router/api/choice_text.h"
#include "router/fleet/workers/text_bundle.h"
#include "worker/prepare.h"

namespace roost::roostctl {

Result<OfflineModel> LoadOfflineModel(const worker::WorkerOptions& options) {
  worker::WorkerOptions alone = options;
  alone.transfer = "off";
  OfflineModel model;
  ROOST_ASSIGN_OR_RETURN(model.setup, worker::PrepareWorker(alone));
  ROOST_ASSIGN_OR_RETURN(router::TextBundle text, router::ReadTextBundle(model.setup.tokenizer));
  const wire::Hello& hello = model.setup.hello;
  auto served = std::make_shared<router::ServedModel>();
  served->name = hello.model;
  served->fingerprint = hello.fingerprint;
  served->kv_dtype = hello.kv_dtype;
  served->block_tokens = model.setup.own.model->block_tokens();
  served->max_context_tokens = worker::ServableContext(*model.setup.own.model);
  served->sampling = hello.sampling;
  served->tokenizer = std::move(text.tokenizer);
  served->chat_template = std::move(text.chat_template);
  served->bos_token = std::move(text.bos_token);
  served->eos_token = std::move(text.eos_token);
  model.served = std::move(served);
  return model;
}

namespace {

// The engine has only this one link.
constexpr worker::LinkId kLink{1};

RequestId IdOf(std::size_t index) { return RequestId(index + 1); }
std::size_t IndexOf(RequestId id) { return id.value() - 1; }

wire::Generate MessageOf(router::GenerateSpec& spec, std::size_t index, wire::CacheMode cache) {
  wire::Generate message = std::move(spec.generate);
  message.request_id = IdOf(index);
  if (cache == wire::CacheMode::kOff) message.cache_mode = cache;
  message.output_logprobs.reset();  // an OfflineAnswer has none
  message.prompt_logprobs.reset();
  return message;
}

// A request that was submitted to the engine and has not ended.
struct OpenRequest {
  struct Choice {
    router::ChoiceText stream;
    OfflineChoice result;
    bool ended = false;
  };

  OfflineAnswer answer;
  std::vector<TokenId> stop_tokens;
  std::vector<Choice> choices;

  [[nodiscard]] bool HasOpenChoice() const {
    return std::any_of(choices.begin(), choices.end(), [](const Choice& choice) { return !choice.ended; });
  }
};

void AddTokens(OpenRequest::Choice& choice, const wire::StepTokens& step_tokens,
               const std::vector<TokenId>& stop_tokens) {
  const std::vector<TokenId> tokens(step_tokens.begin(), step_tokens.end());
  for (const TokenId token : tokens) choice.result.text += choice.stream.Push(token, stop_tokens);
  choice.result.tokens.insert(choice.result.tokens.end(), tokens.begin(), tokens.end());
  choice.result.tokens.resize(choice.stream.token_count());  // drops what came after a stop string
}

void EndChoice(OpenRequest::Choice& choice, wire::FinishReason reason) {
  if (!choice.stream.stopped()) choice.result.text += choice.stream.Flush();
  // The text held back may contain a stop string at its end.
  choice.result.finish = choice.stream.stopped() ? wire::FinishReason::kStop : reason;
  choice.ended = true;
}

class OfflineRun {
 public:
  OfflineRun(const OfflineSetup& setup, std::vector<OfflineRequest> requests, OfflineSink& sink)
      : setup_(setup),
        engine_(setup.model, setup.clock, setup.engine),
        start_(setup.clock.Now()),
        requests_(std::move(requests)),
        sink_(sink) {
    totals_.request_count = requests_.size();
  }

  OfflineTotals Run() {
    while (next_ < requests_.size() || !open_.empty()) {
      Submit();
      if (!engine_.HasWork() && engine_.AwaitsGrammars()) setup_.await_grammar();
      const worker::StepReport report = engine_.Step();
      waiting_count_ = report.load.waiting_requests;
      for (const worker::RequestEvent& event : report.tokens) Take(event.event);
      Count(report);
      sink_.OnStep(totals_);
    }
    return totals_;
  }

 private:
  void Submit() {
    switch (setup_.scheduler) {
      case OfflineScheduler::kNaive:
        if (open_.empty() && next_ < requests_.size()) SubmitNext();
        return;
      case OfflineScheduler::kOffline:
        if (open_.empty()) SubmitWave();
        return;
      case OfflineScheduler::kOnline:
        while (next_ < requests_.size() && waiting_count_ < setup_.engine.max_waiting_requests) SubmitNext();
        return;
    }
  }

  // Submits as many requests as can run together even without cache hits, and at least one.
  void SubmitWave() {
    std::uint64_t choice_count = 0;
    std::uint64_t block_count = 0;
    while (next_ < requests_.size() && open_.size() < setup_.engine.max_waiting_requests) {
      const router::GenerateSpec& spec = requests_[next_].spec;
      choice_count += spec.generate.sample_count;
      block_count += MostBlocksOf(spec);
      const bool fits = choice_count <= setup_.engine.max_running_requests && block_count <= setup_.model.block_count();
      if (!fits && !open_.empty()) return;
      SubmitNext();
    }
  }

  [[nodiscard]] std::uint64_t MostBlocksOf(const router::GenerateSpec& spec) const {
    const std::uint64_t block_tokens = setup_.model.block_tokens();
    const std::uint64_t tokens = spec.generate.prompt.size() + std::uint64_t{spec.generate.max_output_tokens};
    return (tokens + block_tokens - 1) / block_tokens * spec.generate.sample_count;
  }

  void SubmitNext() {
    const std::size_t index = next_++;
    OfflineRequest request = std::move(requests_[index]);
    OpenRequest& open = open_[index];
    open.answer.index = index;
    open.answer.prompt_token_count = static_cast<std::uint32_t>(request.spec.generate.prompt.size());
    open.stop_tokens = request.spec.generate.stop_tokens;
    for (std::uint32_t i = 0; i < request.spec.generate.sample_count; ++i) {
      open.choices.push_back({router::ChoiceText(request.spec.model->tokenizer, {.stop = request.stop}), {}, false});
    }
    const Result<void> taken = engine_.Submit(kLink, MessageOf(request.spec, index, setup_.cache));
    if (!taken.ok()) return Fail(index, taken.error());
    ++waiting_count_;
  }

  void Take(const wire::TokenEvent& event) {
    const std::size_t index = IndexOf(event.request_id);
    const auto found = open_.find(index);
    if (found == open_.end()) return;  // a stop string ended it, and it was cancelled
    OpenRequest& request = found->second;
    if (event.cached_token_count) request.answer.cached_token_count = *event.cached_token_count;
    if (event.finish && wire::EndsAllChoices(*event.finish)) {
      return Fail(index, event.error.value_or(Error{ErrorCode::kInternal, "the generation was cancelled", ""}));
    }
    OpenRequest::Choice& choice = request.choices.at(event.choice);
    if (choice.ended) return;
    AddTokens(choice, event.tokens, request.stop_tokens);
    if (event.finish || choice.stream.stopped()) EndChoice(choice, event.finish.value_or(wire::FinishReason::kStop));
    if (request.HasOpenChoice()) return;
    engine_.Cancel({kLink, event.request_id});  // otherwise choices that a stop string ended would run on
    for (OpenRequest::Choice& each : request.choices) request.answer.choices.push_back(std::move(each.result));
    End(index);
  }

  void Fail(std::size_t index, Error error) {
    open_.at(index).answer.error = std::move(error);
    ++totals_.failed_count;
    End(index);
  }

  void End(std::size_t index) {
    const auto ended = open_.find(index);
    answers_.emplace(index, std::move(ended->second.answer));
    open_.erase(ended);
    ++totals_.ended_count;
    while (!answers_.empty() && answers_.begin()->first == told_count_) {
      sink_.OnAnswer(answers_.begin()->second);
      answers_.erase(answers_.begin());
      ++told_count_;
    }
  }

  void Count(const worker::StepReport& report) {
    const std::uint32_t prefill = report.load.step_prefill_tokens;
    const std::uint32_t decode = report.load.step_decode_tokens;
    if (prefill + decode > 0) {
      const double prefill_share = static_cast<double>(prefill) / (prefill + decode);
      totals_.prefill_seconds += prefill_share * report.load.step_seconds;
      totals_.decode_seconds += (1 - prefill_share) * report.load.step_seconds;
    }
    totals_.computed_prompt_tokens += prefill;
    totals_.decode_tokens += decode;
    totals_.prompt_tokens += report.counts.prompt_tokens;
    totals_.cached_tokens += report.counts.cached_prompt_tokens;
    totals_.output_tokens += report.counts.output_tokens;
    totals_.total_seconds = ToSeconds(setup_.clock.Now() - start_);
  }

  const OfflineSetup& setup_;
  worker::Engine engine_;
  const Instant start_;
  std::vector<OfflineRequest> requests_;  // those before next_ are moved-from
  OfflineSink& sink_;

  std::size_t next_ = 0;
  std::uint32_t waiting_count_ = 0;  // in the engine's queue
  std::map<std::size_t, OpenRequest> open_;
  std::map<std::size_t, OfflineAnswer> answers_;  // finished, but an earlier request is not
  std::size_t told_count_ = 0;
  OfflineTotals totals_;
};

}  // namespace

OfflineTotals RunOffline(const OfflineSetup& setup, std::vector<OfflineRequest> requests, OfflineSink& sink) {
  return OfflineRun(setup, std::move(requests), sink).Run();
}

}  // namespace roost::roostctl
