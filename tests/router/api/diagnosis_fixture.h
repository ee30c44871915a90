// An Api that keeps what diagnoses need, for two tenants: acme and bird, whose keys are their names.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "router/access/key_ring.h"
#include "router/api/diagnosis_memory.h"
#include "tests/router/api/api_fixture.h"
#include "tests/router/api/request_bodies.h"

namespace roost::router {

class DiagnosisTest : public ApiTest {
 protected:
  DiagnosisTest() {
    ServedModel model = ByteModel();
    model.max_context_tokens = 2000;
    Serve(std::move(model));
    ServedModel other = ByteModel();
    other.name = "other";
    other.fingerprint = std::string(32, 'f');
    dispatcher_.models.push_back(std::make_shared<const ServedModel>(std::move(other)));
  }

  std::shared_ptr<FakeResponder> Send(std::string path, std::string body, std::string key = "acme") {
    HttpRequest request;
    request.method = "POST";
    request.path = std::move(path);
    request.body = std::move(body);
    request.headers = {{"Content-Type", "application/json"}, {"Authorization", "Bearer " + key}};
    request.request_id = "req-1";
    auto responder = std::make_shared<FakeResponder>();
    responders_.push_back(responder);
    comparing_.Handle(Listener::kApi, std::move(request), responder);
    return responder;
  }
  // The last request ends; all but the last token of what it has in common with the one before was found.
  void End(std::uint32_t cached = 0, wire::PromptMiss miss = wire::PromptMiss::kCold) {
    dispatcher_.observers.back()->OnDispatched({.worker_id = "w1", .decision = {}});
    dispatcher_.observers.back()->OnTokens(
        {.tokens = Bytes("x"), .cached_token_count = cached, .written_token_count = 0, .miss = miss});
    dispatcher_.Finish(wire::FinishReason::kStop);
  }
  static std::string Message(std::string_view system, std::string_view messages, std::string_view more = "") {
    return fmt::format(R"({{"model":"bytes","max_tokens":5,"system":"{}","messages":[{}]{}}})", system, messages, more);
  }
  static std::string Compare(std::string_view id) {
    return fmt::format(R"(,"diagnostics":{{"previous_message_id":{}}})", id);
  }
  const PromptComparison& Comparison() const { return dispatcher_.specs.back().comparison; }

  static ApiKey KeyOf(const std::string& tenant) {
    ApiKey key;
    key.name = key.tenant = tenant;
    key.digest = DigestOfSecret(tenant);
    return key;
  }
  Api comparing_{dispatcher_,
                 observer_,
                 clock_,
                 text_,
                 {.api_keys = std::make_shared<KeyRing>(std::vector<ApiKey>{KeyOf("acme"), KeyOf("bird")}),
                  .diagnosis_memory = std::make_shared<DiagnosisMemory>(1U << 20U, 7),
                  .unix_seconds_now = [] { return std::int64_t{1'800'000'000}; }}};
};

}  // namespace roost::router
