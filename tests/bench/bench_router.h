// A router in this process, for benchmarks of what happens between a worker and a client: the real server, API, text
// threads and fleet, over real sockets. The worker is the benchmark's own; it begins with WorkerHello.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "common/http/server.h"
#include "common/text/chat_template.h"
#include "common/text/tokenizer.h"
#include "common/wire/messages.h"
#include "router/api/routes/api.h"
#include "router/fleet/core/fleet.h"
#include "router/text/text_pool.h"
#include "tests/bench/bench_worker.h"

namespace roost::bench {

inline std::string ChatRequest(std::string_view body) {
  return fmt::format(
      "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
      "Content-Length: {}\r\n\r\n{}",
      body.size(), body);
}

class BenchRouter {
 public:
  explicit BenchRouter(const std::shared_ptr<const Tokenizer>& tokenizer) {
    router::FleetOptions options;
    options.bind = "tcp://127.0.0.1:0";
    const auto read = [tokenizer](const wire::Tokenizer&) -> Result<router::TextBundle> {
      return router::TextBundle{tokenizer, ChatTemplate::Parse(kTemplate, "bench").value(), "", ""};
    };
    fleet_ = std::move(router::Fleet::Start(options, read, metrics_).value());
    api_.emplace(*fleet_, observer_, clock_, text_,
                 router::ApiOptions{.version = "1",
                                    .seed = 1,
                                    .metrics_text = [] { return std::string(); },
                                    .unix_seconds_now = [] { return std::int64_t{1}; }});
  }
  BenchRouter(const BenchRouter&) = delete;
  BenchRouter& operator=(const BenchRouter&) = delete;
  // Its servers are gone by then.
  ~BenchRouter() { text_.Stop(); }

  // Plain without `tls`.
  [[nodiscard]] std::unique_ptr<HttpServer> Serve(std::shared_ptr<const TlsContext> tls = nullptr) {
    HttpServerOptions http;
    http.port = 0;
    http.input_budget = std::make_shared<ByteBudget>(std::uint64_t{2} << 30U);
    http.body_bytes = 16U << 20U;
    http.tls = std::move(tls);
    const auto handle = [this](HttpRequest request, std::shared_ptr<Responder> responder) {
      api_->Handle(router::Listener::kApi, std::move(request), std::move(responder));
    };
    return std::move(HttpServer::Start(http, handle).value());
  }

  [[nodiscard]] const std::string& link() const { return fleet_->endpoint(); }
  void WaitForModel() const {
    while (fleet_->View()->models->Main("m") == nullptr) std::this_thread::yield();
  }

 private:
  static constexpr std::string_view kTemplate =
      "{%- for m in messages -%}{{- m.role + ': ' + m.content + '\\n' -}}{%- endfor -%}";

  router::FleetMetrics metrics_;
  router::NullApiObserver observer_;
  SteadyClock clock_;
  std::unique_ptr<router::Fleet> fleet_;
  router::TextPool text_{{}};
  std::optional<router::Api> api_;
};

}  // namespace roost::bench
