#include "worker/adapters/engine_standing_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "worker/adapters/metrics_page.h"

namespace roost::worker::adapters {
namespace {

// A busy server may be slow to answer a page now and then.
constexpr int kMaxFailures = 3;

// Counters of tokens stand still while a long prompt is computed in parts; its blocks grow in number with each part.
bool IsProgress(const EngineLoad& before, const EngineLoad& now) {
  return now.computed_tokens > before.computed_tokens || now.used_share != before.used_share;
}

}  // namespace

EngineWatch::EngineWatch(const EngineProtocol& protocol, EngineFacts facts, WatchTimes times, const Clock& clock,
                         CallIds& ids, HttpPort& port)
    : protocol_(protocol),
      facts_(std::move(facts)),
      times_(times),
      clock_(clock),
      ids_(ids),
      port_(port),
      round_(protocol, ids, port, times.page_time),
      started_at_(facts_.started_at),
      last_life_(clock.Now()),
      next_load_(clock.Now()),
      next_health_(clock.Now()),
      next_adapters_(clock.Now() + times.adapters_interval),
      next_round_(clock.Now()) {}

EngineWatch::~EngineWatch() { CloseCalls(); }

void EngineWatch::Tick(OpenWork work) {
  const Instant now = clock_.Now();
  if (work == OpenWork::kNone) last_life_ = now;
  if (away_) return TickAway();
  if (now - last_life_ >= times_.silence) {
    needs_trial_ = true;
    return GoAway(fmt::format("it sends no token although it has requests, since {:.0f} s", ToSeconds(times_.silence)));
  }
  AskForLoad();
  AskIfDue(Page::kHealth, protocol_.health_page(), protocol_.health_interval(), next_health_);
  AskIfDue(Page::kAdapters, protocol_.adapters_page(), times_.adapters_interval, next_adapters_);
}

void EngineWatch::TickAway() {
  if (std::optional<Result<EngineFacts>> outcome = round_.TakeOutcome()) OnRound(*std::move(outcome));
  if (!away_ || round_.is_under_way() || IsAsking(Page::kTrial) || clock_.Now() < next_round_) return;
  round_.Begin();
}

// A page that is asked for already wakes its caller when it comes.
Duration EngineWatch::TimeToNextTick() const {
  const Instant now = clock_.Now();
  Instant due = now + times_.page_time;
  if (away_) {
    if (!round_.is_under_way() && !IsAsking(Page::kTrial)) due = std::min(due, next_round_);
  } else {
    due = std::min(due, last_life_ + times_.silence);
    if (!IsAsking(Page::kLoad)) due = std::min(due, next_load_);
    if (!IsAsking(Page::kHealth)) due = std::min(due, next_health_);
    if (!IsAsking(Page::kAdapters)) due = std::min(due, next_adapters_);
  }
  return std::max(due - now, Duration(0));
}

bool EngineWatch::IsAsking(Page page) const {
  return std::any_of(calls_.begin(), calls_.end(), [page](const auto& call) { return call.second.page == page; });
}

void EngineWatch::Ask(Page page, HttpCall call) {
  const CallId id = ids_.Next();
  calls_[id] = Call{.page = page, .asked_at = clock_.Now()};
  port_.Start(id, std::move(call));
}

void EngineWatch::AskIfDue(Page page, std::string_view path, Duration interval, Instant& next) {
  const Instant now = clock_.Now();
  if (now < next || IsAsking(page)) return;
  next = now + interval;
  Ask(page, {.path = std::string(path), .time_limit = times_.page_time, .max_body_bytes = kMaxPageBytes});
}

// Without a page the load is the worker's own requests, which are to be told as often.
void EngineWatch::AskForLoad() {
  if (!protocol_.load_page().empty()) {
    return AskIfDue(Page::kLoad, protocol_.load_page(), times_.load_interval, next_load_);
  }
  if (clock_.Now() < next_load_) return;
  next_load_ = clock_.Now() + times_.load_interval;
  has_new_load_ = true;
}

bool EngineWatch::OnHttp(const HttpEvent& event) {
  if (round_.OnHttp(event)) {
    if (away_) TickAway();
    return true;
  }
  const auto found = calls_.find(event.call);
  if (found == calls_.end()) return false;
  if (const auto* const status = std::get_if<HttpStatus>(&event.what)) found->second.status = status->status;
  if (const auto* const bytes = std::get_if<HttpBytes>(&event.what)) found->second.body += bytes->bytes;
  if (const auto* const end = std::get_if<HttpEnd>(&event.what)) {
    const Call call = std::move(found->second);
    calls_.erase(found);
    OnEnd(call, *end);
  }
  return true;
}

void EngineWatch::OnEnd(const Call& call, const HttpEnd& end) {
  switch (call.page) {
    case Page::kLoad: return OnLoad(call, end);
    case Page::kHealth: return OnHealth(call, end);
    case Page::kAdapters: return OnAdapters(call, end);
    case Page::kTrial: return OnTrial(call, end);
  }
}

void EngineWatch::OnLoad(const Call& call, const HttpEnd& end) {
  if (end.how == CallEnd::kNotConnected) return GoAway(end.why);
  load_ = end.how == CallEnd::kComplete && call.status == 200 ? protocol_.ReadLoad(call.body, facts_) : EngineLoad();
  load_.asked_at = call.asked_at;
  has_new_load_ = true;
  if (load_.computed_tokens || load_.used_share) {
    if (seen_load_ && IsProgress(*seen_load_, load_)) last_life_ = clock_.Now();
    seen_load_ = load_;
  }
  if (load_.started_at && started_at_ && *load_.started_at != *started_at_) GoAway("it has restarted");
}

void EngineWatch::OnHealth(const Call& call, const HttpEnd& end) {
  if (end.how == CallEnd::kComplete && call.status == 200) {
    failures_ = 0;
  } else if (end.how == CallEnd::kNotConnected) {
    GoAway(end.why);
  } else if (end.how == CallEnd::kComplete) {
    GoAway(fmt::format("its health page answers with status {}", call.status));
  } else if (++failures_ >= kMaxFailures) {
    GoAway("its health page does not answer");
  }
}

// A page that can not be read changes nothing: the health page tells whether the engine is there.
void EngineWatch::OnAdapters(const Call& call, const HttpEnd& end) {
  if (end.how != CallEnd::kComplete || call.status != 200) return;
  EngineFacts facts;
  if (protocol_.ReadFacts(protocol_.adapters_page(), call.body, facts)) facts_.adapters = std::move(facts.adapters);
}

void EngineWatch::OnUnknownAdapter(const std::string& name) {
  facts_.adapters.erase(name);
  next_adapters_ = clock_.Now();
}

void EngineWatch::OnLostCall(const HttpEnd& end) {
  if (away_) return;
  if (end.how == CallEnd::kNotConnected) return GoAway(end.why);
  AskHealthNow();
}

void EngineWatch::GoAway(std::string why) {
  away_ = true;
  why_ = std::move(why);
  CloseCalls();
  failures_ = 0;
  load_ = {};
  has_new_load_ = true;
  next_round_ = clock_.Now();
}

void EngineWatch::CloseCalls() {
  for (const auto& [id, call] : calls_) port_.Close(id);
  calls_.clear();
}

void EngineWatch::OnRound(Result<EngineFacts> outcome) {
  next_round_ = clock_.Now() + times_.retry_interval;
  const Result<void> same = outcome.ok() ? CheckSameEngine(facts_, *outcome) : outcome.error();
  if (!same.ok()) {
    why_ = same.error().message;
    return;
  }
  next_started_at_ = outcome->started_at;
  facts_.adapters = std::move(outcome->adapters);
  facts_.model_file = std::move(outcome->model_file);
  facts_.version = std::move(outcome->version);
  if (needs_trial_) return Try();
  ComeBack();
}

// One token of a prompt of one token, which every vocabulary has.
void EngineWatch::Try() {
  wire::Generate generate;
  generate.prompt = {0};
  generate.sampling.temperature = 0;
  const std::string id = fmt::format("roost-trial-{}", clock_.Now().time_since_epoch().count());
  const CallPlan plan{.generate = generate, .facts = facts_, .id = id, .max_tokens = 1, .is_streamed = false};
  Result<HttpCall> call = protocol_.BuildRequest(plan);
  if (!call.ok()) return;
  call->time_limit = times_.silence;
  Ask(Page::kTrial, *std::move(call));
}

void EngineWatch::OnTrial(const Call& call, const HttpEnd& end) {
  if (end.how == CallEnd::kComplete && call.status == 200) return ComeBack();
  why_ = end.how == CallEnd::kComplete ? fmt::format("it answers a request with status {}", call.status)
                                       : "it does not answer a request";
  next_round_ = clock_.Now() + times_.retry_interval;
}

void EngineWatch::ComeBack() {
  const bool is_same_process = started_at_ && next_started_at_ && *started_at_ == *next_started_at_;
  restarted_ = !is_same_process;
  started_at_ = next_started_at_;
  away_ = false;
  needs_trial_ = false;
  why_.clear();
  last_life_ = clock_.Now();
  next_load_ = clock_.Now();
  next_health_ = clock_.Now() + protocol_.health_interval();
  next_adapters_ = clock_.Now() + times_.adapters_interval;
}

}  // namespace roost::worker::adapters
