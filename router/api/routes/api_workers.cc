// The Api's routes for operators: who is there, and what they order. They run on text threads.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/json_writer.h"
#include "router/api/operator/models_json.h"
#include "router/api/operator/verb.h"
#include "router/api/routes/api_call.h"
#include "router/fleet/dispatcher.h"
#include "router/fleet/fleet_snapshot.h"

namespace roost::router {
namespace {

// One line that says how a router stands, which `roostctl status`, `roostctl top` and the console show on top, and the
// body of /admin/v1/workers, which it begins. Pure functions.
struct FleetNow {
  std::span<const WorkerStatus> workers;
  std::span<const QueueStatus> queues;
  const FleetStanding& standing;
  std::int64_t unix_seconds = 0;
};

enum class VerdictLevel : std::uint8_t {
  kOk,
  kDegraded,  // fewer workers than there could be, or requests that wait
  kDown,      // some model has no worker that takes requests, and was not stopped
};
[[nodiscard]] std::string_view NameOf(VerdictLevel level);

struct ModelVerdict {
  std::string model;
  VerdictLevel level = VerdictLevel::kOk;
  std::string text;  // "2 of 3 workers take requests; worker-a lost 6 s ago (silent), 3 requests continue elsewhere"
  std::uint32_t ready_workers = 0;
  std::uint32_t workers = 0;
  double seconds = 0;  // since when it has ready workers, or has none
};

struct Verdict {
  VerdictLevel level = VerdictLevel::kOk;
  // The worst models, each with its name: "demo-model: no worker takes requests since 09:24 UTC; worker-a, worker-b
  // lost 6 s ago (silent)". If all is well, all of them in short.
  std::string text;
  std::vector<ModelVerdict> models;  // the worst first
};

constexpr std::int64_t kMinute = 60;
constexpr std::int64_t kHour = 60 * kMinute;
constexpr std::int64_t kDay = 24 * kHour;
// A line stays a line: of long lists the front.
constexpr std::size_t kMaxNames = 4;
constexpr std::size_t kMaxModels = 3;
constexpr std::size_t kMaxEvents = 10;

std::int64_t Rounded(double seconds) { return static_cast<std::int64_t>(std::llround(seconds)); }

// "6 s", "4 min"
std::string Age(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::lround(std::max(0.0, seconds)));
  if (whole < kMinute) return fmt::format("{} s", whole);
  if (whole < kHour) return fmt::format("{} min", whole / kMinute);
  return fmt::format("{} h {} min", whole / kHour, whole % kHour / kMinute);
}

// "09:24 UTC"; of another day with the number of days.
std::string TimeOfDay(std::int64_t unix_seconds, std::int64_t now) {
  const std::int64_t of_day = ((unix_seconds % kDay) + kDay) % kDay;
  std::string text = fmt::format("{:02}:{:02} UTC", of_day / kHour, of_day % kHour / kMinute);
  if (const std::int64_t days = now / kDay - unix_seconds / kDay; days > 0) text += fmt::format(", {} d ago", days);
  return text;
}

std::string Joined(const std::vector<std::string>& names) {
  const std::size_t shown = std::min(names.size(), kMaxNames);
  std::string text =
      fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (names.size() > shown) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

std::string WorkersText(std::uint32_t count) { return count == 1 ? "1 worker" : fmt::format("{} workers", count); }

std::string FateText(const Aftermath& fate) {
  std::vector<std::string> parts;
  if (fate.moved > 0) parts.push_back(fmt::format("{} continue elsewhere", fate.moved));
  if (fate.waiting > 0) parts.push_back(fmt::format("{} wait", fate.waiting));
  if (fate.failed > 0) parts.push_back(fmt::format("{} failed", fate.failed));
  return parts.empty() ? "" : fmt::format("; of their requests {}", fmt::join(parts, ", "));
}

// "worker-a, worker-b lost 6 s ago (silent); of their requests 3 continue elsewhere". Workers that are back are left
// out.
std::string LostText(const std::string& model, const FleetStanding& standing) {
  std::vector<std::string> names;
  const LostWorker* latest = nullptr;
  Aftermath fate;
  for (const LostWorker& lost : standing.lost) {
    if (lost.model != model || lost.is_back) continue;
    names.push_back(lost.worker_id);
    if (latest == nullptr) latest = &lost;
    fate = {fate.moved + lost.requests.moved, fate.waiting + lost.requests.waiting, fate.failed + lost.requests.failed};
  }
  if (latest == nullptr) return "";
  return fmt::format("; {} lost {} ago ({}){}", Joined(names), Age(latest->seconds_ago), latest->reason,
                     FateText(fate));
}

// "can not be reached since 08:43 UTC (connection refused)"
std::string AbsenceText(const wire::Load& load, std::int64_t now) {
  const std::int64_t since = now - Rounded(static_cast<double>(load.engine_away_ms) / 1000);
  const std::string why = load.engine_absence.empty() ? "" : fmt::format(" ({})", load.engine_absence);
  return fmt::format("can not be reached since {}{}", TimeOfDay(since, now), why);
}

// "; worker-c is cordoned; v1: its engine can not be reached since 08:43 UTC (connection refused)"
std::string AsideText(const std::string& model, const FleetNow& now) {
  std::map<std::string_view, std::vector<std::string>> by_state;
  std::map<std::string, std::vector<std::string>> by_absence;
  for (const WorkerStatus& worker : now.workers) {
    if (worker.model != model || worker.state == WorkerState::kReady) continue;
    if (worker.state == WorkerState::kAway) {
      by_absence[AbsenceText(worker.load, now.unix_seconds)].push_back(worker.worker_id);
    } else {
      by_state[NameOf(worker.state)].push_back(worker.worker_id);
    }
  }
  std::string text;
  for (const auto& [state, names] : by_state) {
    text += fmt::format("; {} {} {}", Joined(names), names.size() == 1 ? "is" : "are", state);
  }
  for (const auto& [absence, names] : by_absence) {
    text += fmt::format("; {}: {} engine {}", Joined(names), names.size() == 1 ? "its" : "their", absence);
  }
  return text;
}

std::string WaitText(const std::string& model, std::span<const QueueStatus> queues) {
  const auto queue = std::find_if(queues.begin(), queues.end(), [&](const auto& each) { return each.model == model; });
  if (queue == queues.end() || queue->waiting_requests == 0) return "";
  return fmt::format("; {} wait, the oldest for {}",
                     queue->waiting_requests == 1 ? "1 request" : fmt::format("{} requests", queue->waiting_requests),
                     Age(queue->oldest_wait_seconds));
}

ModelVerdict VerdictOnModel(const ModelStanding& standing, const FleetNow& now) {
  ModelVerdict verdict;
  verdict.model = standing.model;
  verdict.seconds = standing.seconds;
  for (const WorkerStatus& worker : now.workers) {
    if (worker.model != standing.model) continue;
    ++verdict.workers;
    if (worker.state == WorkerState::kReady) ++verdict.ready_workers;
  }
  const std::string lost = LostText(standing.model, now.standing);
  const std::string aside = AsideText(standing.model, now);
  const std::string waits = WaitText(standing.model, now.queues);
  const std::int64_t since = now.unix_seconds - Rounded(standing.seconds);
  if (verdict.workers == 0 && standing.left_on_its_own && lost.empty() && waits.empty()) {
    verdict.text = fmt::format("was stopped at {}", TimeOfDay(since, now.unix_seconds));
    return verdict;
  }
  if (verdict.ready_workers == 0) {
    verdict.level = VerdictLevel::kDown;
    verdict.text = fmt::format("no worker takes requests since {}", TimeOfDay(since, now.unix_seconds));
  } else {
    const bool all_ready = verdict.ready_workers == verdict.workers;
    verdict.level = all_ready && lost.empty() && waits.empty() ? VerdictLevel::kOk : VerdictLevel::kDegraded;
    verdict.text = all_ready
                       ? fmt::format("{} {} requests since {}", WorkersText(verdict.workers),
                                     verdict.workers == 1 ? "takes" : "take", TimeOfDay(since, now.unix_seconds))
                       : fmt::format("{} of {} take requests", verdict.ready_workers, WorkersText(verdict.workers));
  }
  verdict.text += lost + aside + waits;
  return verdict;
}

std::string Together(const std::vector<ModelVerdict>& models) {
  const bool has_trouble = models.front().level != VerdictLevel::kOk;
  std::vector<std::string> parts;
  std::size_t left_out = 0;
  for (const ModelVerdict& model : models) {
    if (has_trouble && model.level == VerdictLevel::kOk) continue;
    if (parts.size() == kMaxModels) {
      ++left_out;
      continue;
    }
    parts.push_back(fmt::format("{}: {}", model.model, model.text));
  }
  std::string text = fmt::format("{}", fmt::join(parts, " | "));
  if (left_out > 0) text += fmt::format(" | and {} more models{}", left_out, has_trouble ? " in trouble" : "");
  return text;
}

void WriteVerdict(const Verdict& verdict, std::int64_t now, JsonWriter& json) {
  json.Key("verdict").BeginObject().Key("level").String(NameOf(verdict.level)).Key("text").String(verdict.text);
  json.EndObject().Key("models").BeginArray();
  for (const ModelVerdict& model : verdict.models) {
    json.BeginObject().Key("id").String(model.model).Key("level").String(NameOf(model.level));
    json.Key("text").String(model.text).Key("ready_workers").Number(model.ready_workers);
    json.Key("workers").Number(model.workers);
    json.Key("since_unix_seconds").Number(now - Rounded(model.seconds)).EndObject();
  }
  json.EndArray();
}

void WriteLost(std::span<const LostWorker> lost, std::int64_t now, JsonWriter& json) {
  json.Key("lost").BeginArray();
  for (const LostWorker& worker : lost) {
    json.BeginObject().Key("id").String(worker.worker_id).Key("model").String(worker.model);
    json.Key("reason").String(worker.reason).Key("seconds_ago").Number(worker.seconds_ago);
    json.Key("unix_seconds").Number(now - Rounded(worker.seconds_ago)).Key("back").Bool(worker.is_back);
    json.Key("moved_requests").Number(worker.requests.moved).Key("waiting_requests").Number(worker.requests.waiting);
    json.Key("failed_requests").Number(worker.requests.failed).EndObject();
  }
  json.EndArray();
}

void WriteEvents(std::span<const FleetEvent> events, std::int64_t now, JsonWriter& json) {
  json.Key("events").BeginArray();
  for (const FleetEvent& event : events.first(std::min(events.size(), kMaxEvents))) {
    json.BeginObject().Key("seconds_ago").Number(event.seconds_ago);
    json.Key("unix_seconds").Number(now - Rounded(event.seconds_ago)).Key("model").String(event.model);
    json.Key("worker").String(event.worker_id).Key("what").String(event.what).EndObject();
  }
  json.EndArray();
}

std::string_view NameOf(VerdictLevel level) {
  constexpr std::array<std::string_view, 3> kNames{"ok", "degraded", "down"};
  return kNames.at(static_cast<std::size_t>(level));
}

[[nodiscard]] Verdict VerdictOn(const FleetNow& now) {
  Verdict verdict;
  for (const ModelStanding& model : now.standing.models) verdict.models.push_back(VerdictOnModel(model, now));
  if (verdict.models.empty()) {
    const std::int64_t began = now.unix_seconds - Rounded(now.standing.up_seconds);
    verdict.level = VerdictLevel::kDown;
    verdict.text = fmt::format("no worker is connected; the router began at {}", TimeOfDay(began, now.unix_seconds));
    return verdict;
  }
  std::stable_sort(verdict.models.begin(), verdict.models.end(),
                   [](const auto& a, const auto& b) { return a.level > b.level; });
  verdict.level = verdict.models.front().level;
  verdict.text = Together(verdict.models);
  return verdict;
}

// {"verdict":{…},"models":[…],"workers":[…],"lost":[…],"events":[…]}: the last ten events.
[[nodiscard]] std::string WorkersBody(const FleetNow& now) {
  JsonWriter json;
  json.BeginObject();
  WriteVerdict(VerdictOn(now), now.unix_seconds, json);
  WriteWorkers(now.workers, json);
  WriteLost(now.standing.lost, now.unix_seconds, json);
  WriteEvents(now.standing.events, now.unix_seconds, json);
  return json.EndObject().Take();
}

}  // namespace

void Api::Workers(Call& call) {
  const std::shared_ptr<const FleetSnapshot> view = services_.dispatcher.View();
  Answer(call, JsonResponse(WorkersBody({view->workers, view->queues, view->standing, options_.unix_seconds_now()})));
}

void Api::History(Call& call) { Answer(call, JsonResponse(options_.history_json())); }

// ---- orders ----

void Api::CarryOut(Call& call) {
  Result<OrderPlan> plan = PlanOf(call);
  Result<void> sent = plan.ok() ? Result<void>() : Result<void>(plan.error());
  if (plan.ok()) sent = services_.dispatcher.Send(std::move(plan->order), AnswerLater(call, std::move(plan->body)));
  if (!sent.ok()) AnswerError(call, sent.error());
}

namespace {

Result<void> CheckText(const ServedModel& model) {
  if (model.has_text) return {};
  return InvalidArgument("model", "the tokenizer of '{}' can not be read here, so its prompts have no blocks",
                         model.name);
}

}  // namespace

Result<OrderPlan> Api::PlanOf(Call& call) {
  VerbCall verb{.request = call.request,
                .model = call.model,
                .view = services_.dispatcher.View(),
                .settings = Settings(),
                .prefix_text = options_.prefix_text,
                .deadline = DeadlineOf(call),
                .clock = services_.clock,
                .memo = *memo_,
                .read_model = [this, &call](const JsonObject& body) -> Result<void> {
                  ROOST_RETURN_IF_ERROR(CheckModel(call, body));
                  return CheckText(*call.model);
                },
                .find_model = [this](const std::string& name) { return FindModel(name); }};
  return call.verb->plan(verb);
}

// The workers' answers arrive on the link thread; a text thread turns them into the body.
AnswersDone Api::AnswerLater(const Call& call, MakeBody make_body) {
  return [this, responder = call.responder, route = call.route,
          make_body = std::move(make_body)](std::vector<WorkerAnswer> answers) {
    auto later = std::make_shared<Call>();
    later->responder = responder;
    later->route = route;
    later->thread = CallThread::kText;
    auto shared = std::make_shared<std::vector<WorkerAnswer>>(std::move(answers));
    const auto job = [this, later, shared, make_body] { AnswerResult(*later, make_body(*shared)); };
    if (text_.TryPost({}, 0, job)) return;
    AnswerError(*later, {ErrorCode::kOverloaded, "too many requests wait to be read", ""});
  };
}

}  // namespace roost::router
