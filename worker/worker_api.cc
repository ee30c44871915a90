#include "worker/worker_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "common/base/json_writer.h"
#include "common/http/cors.h"

namespace roost::worker {
namespace {

constexpr std::string_view kAllowed = "GET, HEAD, OPTIONS";

HttpResponse JsonAnswer(int status, std::string body) {
  HttpResponse response;
  response.status = status;
  response.body = std::move(body);
  return response;
}

std::string_view NameOf(LinkStanding standing) {
  switch (standing) {
    case LinkStanding::kConnecting: return "connecting";
    case LinkStanding::kUp: return "up";
    case LinkStanding::kRefused: return "refused";
  }
  return "connecting";
}

// "ready", or why not.
struct Readiness {
  std::string_view status;
  std::string reason = {};
};

Readiness LinkReadinessOf(const std::vector<RouterStatus>& routers) {
  const auto with = [&routers](LinkStanding standing) {
    return std::find_if(routers.begin(), routers.end(), [standing](const auto& r) { return r.standing == standing; });
  };
  if (with(LinkStanding::kUp) != routers.end()) return {"ready"};
  if (const auto refusing = with(LinkStanding::kRefused); refusing != routers.end()) {
    return {"refused", fmt::format("the router at {} refuses this worker: {}", refusing->router, refusing->reason)};
  }
  if (routers.empty()) return {"connecting", "no address of a router is known: the names in --router do not resolve"};
  return {"connecting", fmt::format("no answer from the router at {}", routers.front().router)};
}

Readiness ReadinessOf(const WorkerApi::Sources& sources, const std::vector<RouterStatus>& routers) {
  if (sources.is_draining()) return {"draining", "the worker is shutting down"};
  if (std::string absence = sources.engine_absence(); !absence.empty()) return {"engine_away", std::move(absence)};
  return LinkReadinessOf(routers);
}

}  // namespace

struct WorkerApi::Route {
  std::string_view path;
  enum class Door { kEveryone, kOperators } door;
  HttpResponse (WorkerApi::*answer)() const;
};

WorkerApi::WorkerApi(Sources sources, Options options) : sources_(std::move(sources)), options_(std::move(options)) {}

HttpResponse WorkerApi::Answer(const HttpRequest& request) const {
  using Door = Route::Door;
  static constexpr std::array kRoutes{
      Route{"/health", Door::kEveryone, &WorkerApi::Health},
      Route{"/livez", Door::kEveryone, &WorkerApi::Live},
      Route{"/ready", Door::kEveryone, &WorkerApi::Ready},
      Route{"/readyz", Door::kEveryone, &WorkerApi::Ready},
      Route{"/metrics", Door::kOperators, &WorkerApi::Metrics},
      Route{"/version", Door::kOperators, &WorkerApi::Version},
  };
  const auto route =
      std::find_if(kRoutes.begin(), kRoutes.end(), [&request](const Route& r) { return r.path == request.path; });
  if (route == kRoutes.end()) {
    return ErrorResponse({ErrorCode::kNotFound, fmt::format("there is no {}", request.path), ""});
  }
  if (request.method == "OPTIONS") {
    HttpResponse response;
    response.status = 204;
    response.headers.push_back({"Allow", std::string(kAllowed)});
    return response;
  }
  if (request.method != "GET" && request.method != "HEAD") {
    HttpResponse response = ErrorResponse(
        {ErrorCode::kMethodNotAllowed, fmt::format("{} does not take {}", request.path, request.method), ""});
    response.headers.push_back({"Allow", std::string(kAllowed)});
    return response;
  }
  if (route->door == Door::kOperators && MayBeRebound(request, BrowserSign::kOriginOrLooks)) {
    return ErrorResponse({ErrorCode::kPermissionDenied,
                          "a browser calls this server by a name that is not its own; use an IP address or localhost",
                          ""});
  }
  return (this->*route->answer)();
}

HttpResponse WorkerApi::Health() const {
  JsonWriter json;
  json.BeginObject().Key("status").String("ok").EndObject();
  return JsonAnswer(200, json.Take());
}

HttpResponse WorkerApi::Live() const {
  for (const ThreadProgress& thread : sources_.threads()) {
    if (thread.step_time <= options_.stall_timeout) continue;
    JsonWriter json;
    json.BeginObject().Key("status").String("stalled");
    json.Key("reason").String(fmt::format("the {} thread has work and has not finished a step for {:.1f} s",
                                          thread.thread, ToSeconds(thread.step_time)));
    json.EndObject();
    return JsonAnswer(503, json.Take());
  }
  return Health();
}

HttpResponse WorkerApi::Ready() const {
  const std::vector<RouterStatus> routers = sources_.routers();
  const Readiness readiness = ReadinessOf(sources_, routers);
  JsonWriter json;
  json.BeginObject().Key("status").String(readiness.status);
  if (!readiness.reason.empty()) json.Key("reason").String(readiness.reason);
  json.Key("routers").BeginArray();
  for (const RouterStatus& router : routers) {
    json.BeginObject().Key("router").String(router.router).Key("state").String(NameOf(router.standing));
    if (!router.reason.empty()) json.Key("reason").String(router.reason);
    json.EndObject();
  }
  json.EndArray().EndObject();
  return JsonAnswer(readiness.status == "ready" ? 200 : 503, json.Take());
}

HttpResponse WorkerApi::Metrics() const {
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = sources_.metrics_text();
  return response;
}

HttpResponse WorkerApi::Version() const {
  JsonWriter json;
  json.BeginObject().Key("version").String(options_.version).EndObject();
  return JsonAnswer(200, json.Take());
}

}  // namespace roost::worker
