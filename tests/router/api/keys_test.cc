// Access by keys: who gets in, as which tenant, and how much each may use.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "router/access/key_ring.h"
#include "router/api/key_file.h"
#include "router/api/routes/api.h"
#include "router/index/prefix_index.h"
#include "tests/router/api/api_fixture.h"

namespace roost::router {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kPrompt = R"({"model":"bytes","prompt":"The hens came home to roost.","max_tokens":4})";

ApiKey KeyNamed(const std::string& name, const std::string& tenant) {
  ApiKey key;
  key.name = name;
  key.tenant = tenant;
  key.digest = DigestOfSecret("secret of " + name);
  return key;
}

class KeysTest : public ApiTest {
 protected:
  KeysTest() {
    ApiKey limited = KeyNamed("limited", "acme");
    limited.limits.requests_per_minute = 2;
    limited.limits.tokens_per_minute = 1000;
    ApiKey weighted = KeyNamed("weighted", "acme");
    weighted.limits.tokens_per_minute = 1000;
    weighted.limits.cached_token_weight = 0.25;
    ApiKey narrow = KeyNamed("narrow", "acme");
    narrow.models = {"other*"};
    ApiKey low = KeyNamed("low", "acme");
    low.max_priority = 30;
    ApiKey aliased = KeyNamed("aliased", "acme");
    aliased.models = {"other*"};
    aliased.model_aliases = {{"gpt-4o", "bytes"}, {"away", "absent"}};
    keys_->Replace({KeyNamed("acme", "acme"), KeyNamed("bird", "bird"), limited, weighted, narrow, low, aliased});
  }

  std::shared_ptr<FakeResponder> Send(Listener listener, std::string method, std::string path, std::string body,
                                      std::vector<HttpHeader> headers) {
    HttpRequest request;
    request.method = std::move(method);
    request.path = std::move(path);
    request.body = std::move(body);
    request.headers = std::move(headers);
    request.headers.push_back({"Content-Type", "application/json"});
    request.request_id = "req-1";
    auto responder = std::make_shared<FakeResponder>();
    responders_.push_back(responder);
    locked_.Handle(listener, std::move(request), responder);
    return responder;
  }
  std::shared_ptr<FakeResponder> CompleteAs(const std::string& name, std::string body = std::string(kPrompt)) {
    return Send(Listener::kApi, "POST", "/v1/completions", std::move(body),
                {{"Authorization", "Bearer secret of " + name}});
  }
  static int StatusOf(const FakeResponder& responder) { return responder.response ? responder.response->status : 0; }
  // The request that was sent last ends.
  void EndLast(std::vector<TokenId> tokens) {
    GenerationObserver& observer = *dispatcher_.observers.back();
    observer.OnDispatched({.worker_id = "w", .decision = {}});
    observer.OnTokens({.tokens = std::move(tokens), .cached_token_count = 8});
    observer.OnEnd({wire::FinishReason::kLength, {}});
  }

  const std::shared_ptr<KeyRing> keys_ = std::make_shared<KeyRing>(std::vector<ApiKey>());
  const std::shared_ptr<KeyRing> admin_keys_ =
      std::make_shared<KeyRing>(std::vector<ApiKey>{KeyNamed("operator", "operator")});
  Api locked_{dispatcher_,
              observer_,
              clock_,
              text_,
              {.version = "1.2.3",
               .prompt_memo = prompt_memo_,
               .api_keys = keys_,
               .admin_keys = admin_keys_,
               .model_aliases = {{"claude", "bytes"}, {"gpt-4o", "absent"}},
               .metrics_text = [] { return std::string("roost_up 1\n"); },
               .unix_seconds_now = [] { return std::int64_t{1}; }}};
};

TEST_F(KeysTest, WithoutAKeyNothingButHealthAndTheConsolesFilesIsReachable) {
  const std::vector<std::string> open{"/health", "/livez", "/ping", "/ready", "/readyz"};
  std::size_t open_count = 0;
  for (const Api::RouteName& route : Api::RouteNames()) {
    for (const char* method : {"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "TRACE"}) {
      for (const Listener listener : {Listener::kApi, Listener::kAdmin, Listener::kMetrics}) {
        for (const char* suffix : {"", "x", "/", "/../health", "%2e"}) {
          const std::string path = std::string(route.path) + suffix;
          const int status = StatusOf(*Send(listener, method, path, "{}", {}));
          const bool gets = std::string(method) == "GET" || std::string(method) == "HEAD";
          const bool is_health = gets && std::find(open.begin(), open.end(), path) != open.end();
          const bool is_console =
              gets && listener == Listener::kAdmin && (path == "/console" || path.starts_with("/console/"));
          EXPECT_EQ(status == 401, !is_health && !is_console) << method << " " << path << " " << status;
          if (is_health) ++open_count;
        }
      }
    }
  }
  EXPECT_EQ(open_count, open.size() * 2 * 3);
  EXPECT_TRUE(dispatcher_.specs.empty());
}

TEST_F(KeysTest, AnUnauthenticatedRequestIsToldWhatToSend) {
  const auto answer = Send(Listener::kApi, "POST", "/v1/completions", std::string(kPrompt), {});
  EXPECT_EQ(At(answer->response->body, "/error/code"), "\"invalid_api_key\"");
  EXPECT_EQ(HeaderOf(answer->response->headers, "WWW-Authenticate"), "Bearer");
  const auto messages = Send(Listener::kApi, "POST", "/v1/messages", "{}", {{"x-api-key", "wrong"}});
  EXPECT_EQ(At(messages->response->body, "/error/type"), "\"authentication_error\"");
  EXPECT_THAT(messages->response->body, Not(HasSubstr("wrong")));  // no key in an answer
}

TEST_F(KeysTest, TheHeadAloneTellsWhoIsRefused) {
  const auto status_of = [this](Listener listener, const std::string& path, std::vector<HttpHeader> headers) {
    HttpRequest head;
    head.method = "POST";
    head.path = path;
    head.headers = std::move(headers);
    head.headers.push_back({"Content-Type", "application/json"});
    const HeadVerdict verdict = locked_.CheckHead(listener, head);
    return verdict.refusal ? verdict.refusal->status : 0;
  };
  const std::vector<HttpHeader> acme{{"Authorization", "Bearer secret of acme"}};
  EXPECT_EQ(status_of(Listener::kApi, "/v1/completions", {}), 401);
  EXPECT_EQ(status_of(Listener::kApi, "/nowhere", {}), 401);
  EXPECT_EQ(status_of(Listener::kApi, "/v1/completions", acme), 0);
  EXPECT_EQ(status_of(Listener::kAdmin, "/admin/v1/evict", acme), 401);
}

// On each listener and with any key, only a route that takes JSON gets a body.
TEST_F(KeysTest, ABodyIsRefusedByTheHeadWhereNoneIsTaken) {
  const auto status_of = [this](Listener listener, std::string method, std::string path, HttpHeader announces,
                                std::vector<HttpHeader> headers) {
    HttpRequest head;
    head.method = std::move(method);
    head.path = std::move(path);
    head.headers = std::move(headers);
    head.headers.push_back(std::move(announces));
    const HeadVerdict verdict = locked_.CheckHead(listener, head);
    return verdict.refusal ? verdict.refusal->status : 0;
  };
  const HttpHeader length{"Content-Length", "8"};
  const HttpHeader json{"Content-Type", "application/json"};
  const HttpHeader acme{"Authorization", "Bearer secret of acme"};
  for (const Listener listener : {Listener::kApi, Listener::kAdmin, Listener::kMetrics}) {
    for (const char* path : {"/health", "/livez", "/ping", "/ready", "/readyz"}) {
      for (const char* method : {"GET", "HEAD", "OPTIONS"}) {
        EXPECT_EQ(status_of(listener, method, path, length, {}), 413) << method << " " << path;
        EXPECT_EQ(status_of(listener, method, path, {"Transfer-Encoding", "chunked"}, {}), 413) << method << path;
        EXPECT_EQ(status_of(listener, method, path, {"Content-Length", "0"}, {}), 0) << method << " " << path;
      }
    }
  }
  EXPECT_EQ(status_of(Listener::kApi, "OPTIONS", "/v1/completions", length, {}), 413);
  EXPECT_EQ(status_of(Listener::kApi, "OPTIONS", "*", length, {}), 413);
  EXPECT_EQ(status_of(Listener::kAdmin, "GET", "/console/", length, {}), 413);
  EXPECT_EQ(status_of(Listener::kApi, "GET", "/v1/models", length, {acme}), 413);
  EXPECT_EQ(status_of(Listener::kApi, "POST", "/nowhere", length, {acme}), 404);
  EXPECT_EQ(status_of(Listener::kApi, "PUT", "/v1/completions", length, {acme}), 405);
  EXPECT_EQ(status_of(Listener::kApi, "POST", "/v1/completions", length, {acme}), 415);
  EXPECT_EQ(status_of(Listener::kApi, "POST", "/v1/completions", length, {acme, json}), 0);
}

TEST_F(KeysTest, LimitsAreJudgedByTheHeadAndCountedOnce) {
  HttpRequest head;
  head.method = "POST";
  head.path = "/v1/completions";
  head.headers = {{"Authorization", "Bearer secret of limited"}, {"Content-Type", "application/json"}};
  HeadVerdict first = locked_.CheckHead(Listener::kApi, head);
  ASSERT_FALSE(first.refusal);
  ASSERT_NE(first.ticket, nullptr);
  EXPECT_EQ(first.budget, keys_->Find("secret of limited")->account->memory());
  head.ticket = std::move(first.ticket);
  head.body = std::string(kPrompt);
  const auto answer = std::make_shared<FakeResponder>();
  responders_.push_back(answer);
  locked_.Handle(Listener::kApi, std::move(head), answer);
  EXPECT_EQ(dispatcher_.specs.size(), 1U);
  EXPECT_EQ(StatusOf(*CompleteAs("limited")), 0);  // the second of two in a minute
  HttpRequest third;
  third.method = "POST";
  third.path = "/v1/completions";
  third.headers = {{"Authorization", "Bearer secret of limited"}, {"Content-Type", "application/json"}};
  const HeadVerdict refused = locked_.CheckHead(Listener::kApi, third);
  ASSERT_TRUE(refused.refusal);
  EXPECT_EQ(refused.refusal->status, 429);
  EXPECT_EQ(HeaderOf(refused.refusal->headers, "x-ratelimit-remaining-requests"), "0");
}

TEST_F(KeysTest, BothHeadersCarryAKey) {
  for (const HttpHeader& header : std::vector<HttpHeader>{{"Authorization", "Bearer secret of acme"},
                                                          {"authorization", "bearer  secret of acme"},
                                                          {"x-api-key", "secret of acme"}}) {
    EXPECT_EQ(StatusOf(*Send(Listener::kApi, "GET", "/v1/models", "", {header})), 200) << header.value;
  }
  for (const HttpHeader& header : std::vector<HttpHeader>{{"Authorization", "Basic secret of acme"},
                                                          {"Authorization", "Bearer "},
                                                          {"Authorization", "secret of acme"},
                                                          {"x-api-key", ""}}) {
    EXPECT_EQ(StatusOf(*Send(Listener::kApi, "GET", "/v1/models", "", {header})), 401) << header.value;
  }
}

TEST_F(KeysTest, KeysOfOneListenerOpenNoOther) {
  const std::vector<HttpHeader> client{{"Authorization", "Bearer secret of acme"}};
  const std::vector<HttpHeader> admin{{"Authorization", "Bearer secret of operator"}};
  EXPECT_EQ(StatusOf(*Send(Listener::kAdmin, "GET", "/admin/v1/workers", "", client)), 401);
  EXPECT_EQ(StatusOf(*Send(Listener::kMetrics, "GET", "/metrics", "", client)), 401);
  EXPECT_EQ(StatusOf(*Send(Listener::kApi, "GET", "/v1/models", "", admin)), 401);
  EXPECT_EQ(StatusOf(*Send(Listener::kAdmin, "GET", "/admin/v1/workers", "", admin)), 200);
  EXPECT_EQ(StatusOf(*Send(Listener::kMetrics, "GET", "/metrics", "", admin)), 200);
  EXPECT_EQ(StatusOf(*Send(Listener::kAdmin, "GET", "/metrics", "", admin)), 200);
  // A listener has no routes of another.
  EXPECT_EQ(StatusOf(*Send(Listener::kApi, "GET", "/admin/v1/workers", "", client)), 404);
  EXPECT_EQ(StatusOf(*Send(Listener::kApi, "GET", "/metrics", "", client)), 404);
  EXPECT_EQ(StatusOf(*Send(Listener::kAdmin, "GET", "/v1/models", "", admin)), 404);
}

TEST_F(KeysTest, ATenantsBlocksAreItsOwnAndASaltDividesThem) {
  CompleteAs("acme");
  CompleteAs("low");
  CompleteAs("bird");
  CompleteAs("acme", R"({"model":"bytes","prompt":"The hens came home to roost.","max_tokens":4,"cache_salt":"s"})");
  CompleteAs("bird", R"({"model":"bytes","prompt":"The hens came home to roost.","max_tokens":4,"cache_salt":"s"})");
  ASSERT_EQ(dispatcher_.specs.size(), 5U);
  const std::vector<GenerateSpec> specs = dispatcher_.specs;
  const GenerateSpec& acme = specs[0];
  const GenerateSpec& low = specs[1];
  const GenerateSpec& bird = specs[2];
  const GenerateSpec& acme_salted = specs[3];
  const GenerateSpec& bird_salted = specs[4];
  EXPECT_EQ(acme.generate.tenant, "acme");
  EXPECT_EQ(bird.generate.tenant, "bird");
  EXPECT_EQ(acme.generate.block_hashes, low.generate.block_hashes);  // one tenant, two keys
  const std::vector<const GenerateSpec*> apart{&acme, &bird, &acme_salted, &bird_salted};
  for (std::size_t i = 0; i < apart.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      for (std::size_t block = 0; block < apart[i]->generate.block_hashes.size(); ++block) {
        EXPECT_NE(apart[i]->generate.block_hashes[block], apart[j]->generate.block_hashes[block]);
      }
    }
  }
  // A client's body can not change its tenant.
  CompleteAs("acme", R"({"model":"bytes","prompt":"The hens came home to roost.","max_tokens":4,"tenant":"bird"})");
  EXPECT_EQ(dispatcher_.specs.back().generate.tenant, "acme");
  EXPECT_EQ(dispatcher_.specs.back().generate.block_hashes, acme.generate.block_hashes);
  EXPECT_EQ(text_.tenants, (std::vector<std::string>{"acme", "acme", "bird", "acme", "bird", "acme"}))
      << "for its turn";
}

// A key's alias comes before the router's, and lets the key use what it means; workers get the model's own name.
TEST_F(KeysTest, AnAliasMeansItsModelAndAnswersNameTheAlias) {
  const auto body = [](const std::string& model) {
    return R"({"model":")" + model + R"(","prompt":"The hens came home to roost.","max_tokens":4})";
  };
  const auto of_key = CompleteAs("aliased", body("gpt-4o"));
  ASSERT_EQ(dispatcher_.specs.size(), 1U);
  EXPECT_EQ(dispatcher_.specs.back().model->name, "bytes");
  EndLast({65, 66, 67, 68});
  EXPECT_EQ(At(of_key->response->body, "/model"), "\"gpt-4o\"");
  const auto of_router = CompleteAs("acme", body("claude"));
  ASSERT_EQ(dispatcher_.specs.size(), 2U);
  EndLast({65, 66, 67, 68});
  EXPECT_EQ(At(of_router->response->body, "/model"), "\"claude\"");
  EXPECT_EQ(dispatcher_.specs[0].generate.block_hashes, dispatcher_.specs[1].generate.block_hashes);
  EXPECT_EQ(StatusOf(*CompleteAs("acme", body("gpt-4o"))), 404) << "the router's alias: no worker serves it";
  EXPECT_EQ(StatusOf(*CompleteAs("aliased", body("claude"))), 404)
      << "the router's alias of a model that is not the key's";
  EXPECT_EQ(StatusOf(*CompleteAs("aliased", body("bytes"))), 404) << "by its own name it is not the key's";
  EXPECT_EQ(dispatcher_.specs.size(), 2U);
}

TEST_F(KeysTest, AliasesAreListedForThoseWhoMayAskForThem) {
  const auto list = [this](const std::string& key, const std::string& path) {
    const auto answer = Send(Listener::kApi, "GET", path, "", {{"Authorization", "Bearer secret of " + key}});
    return std::pair(answer->response->status, answer->response->body);
  };
  EXPECT_EQ(At(list("aliased", "/v1/models").second, "/data/0/id"), "\"gpt-4o\"");
  EXPECT_THAT(list("aliased", "/v1/models").second, Not(HasSubstr("away")));  // nothing serves what it means
  EXPECT_THAT(list("aliased", "/v1/models").second, Not(HasSubstr("bytes")));
  EXPECT_THAT(list("acme", "/v1/models").second, HasSubstr("claude"));
  EXPECT_EQ(list("aliased", "/v1/models/gpt-4o").first, 200);
  EXPECT_EQ(list("acme", "/v1/models/claude").first, 200);
  EXPECT_EQ(list("acme", "/v1/models/gpt-4o").first, 404);
  EXPECT_EQ(list("narrow", "/v1/models/claude").first, 404);
}

TEST_F(KeysTest, AModelThatAKeyIsNotForIsNotServedToIt) {
  const auto answer = CompleteAs("narrow");
  EXPECT_EQ(answer->response->status, 404);
  EXPECT_EQ(At(answer->response->body, "/error/code"), "\"model_not_found\"");
  const std::vector<HttpHeader> narrow{{"Authorization", "Bearer secret of narrow"}};
  EXPECT_EQ(At(Send(Listener::kApi, "GET", "/v1/models", "", narrow)->response->body, "/data"), "[]");
  EXPECT_EQ(StatusOf(*Send(Listener::kApi, "GET", "/v1/models/bytes", "", narrow)), 404);
  const auto tokenized = Send(Listener::kApi, "POST", "/tokenize", R"({"prompt":"a"})", narrow);
  EXPECT_EQ(StatusOf(*tokenized), 404);
  EXPECT_EQ(tokenized->response->body.find("bytes"), std::string::npos);  // nor is it named
}

TEST_F(KeysTest, PrioritiesEndAtTheKeysCeiling) {
  const auto body = [](int priority) {
    return R"({"model":"bytes","prompt":"The hens","max_tokens":4,"priority":)" + std::to_string(priority) + "}";
  };
  const auto refused = CompleteAs("acme", body(51));
  EXPECT_EQ(refused->response->status, 403);
  EXPECT_EQ(At(refused->response->body, "/error/param"), "\"priority\"");
  CompleteAs("acme", body(20));
  EXPECT_EQ(dispatcher_.specs.back().generate.priority, 20U);
  CompleteAs("low");
  EXPECT_EQ(dispatcher_.specs.back().generate.priority, 30U);
  EXPECT_EQ(StatusOf(*CompleteAs("low", body(31))), 403);
}

TEST_F(KeysTest, OverItsRequestsAMinuteAKeyIsAnswered429WithTheTimeToWait) {
  for (int i = 0; i < 2; ++i) {
    const auto answer = CompleteAs("limited");
    EndLast(Bytes("abcd"));
    EXPECT_EQ(StatusOf(*answer), 200);
    EXPECT_EQ(HeaderOf(answer->response->headers, "x-ratelimit-limit-requests"), "2");
    EXPECT_EQ(HeaderOf(answer->response->headers, "x-ratelimit-remaining-requests"), std::to_string(1 - i));
    EXPECT_EQ(HeaderOf(answer->response->headers, "x-ratelimit-limit-tokens"), "1000");
  }
  const auto refused = CompleteAs("limited");
  EXPECT_EQ(refused->response->status, 429);
  EXPECT_EQ(At(refused->response->body, "/error/code"), "\"rate_limit_exceeded\"");
  EXPECT_EQ(HeaderOf(refused->response->headers, "Retry-After"), "30");
  EXPECT_EQ(HeaderOf(refused->response->headers, "x-ratelimit-remaining-requests"), "0");
  EXPECT_EQ(StatusOf(*Send(Listener::kApi, "GET", "/v1/models", "", {{"x-api-key", "secret of limited"}})), 200);
  CompleteAs("acme");  // others go on
  EXPECT_EQ(dispatcher_.specs.size(), 3U);
  clock_.Advance(std::chrono::seconds(30));
  CompleteAs("limited");
  EXPECT_EQ(dispatcher_.specs.size(), 4U);
}

TEST_F(KeysTest, TokensCountAsTheyAreUsed) {
  const auto answer = CompleteAs("limited");
  const std::size_t prompt = dispatcher_.specs.back().generate.prompt.size();
  EndLast(Bytes("abcd"));
  EXPECT_EQ(HeaderOf(answer->response->headers, "x-ratelimit-remaining-tokens"), std::to_string(1000 - prompt - 4));
}

TEST_F(KeysTest, ARequestThatFailsBeforeItsFirstTokenCostsNoTokens) {
  CompleteAs("limited");
  dispatcher_.observers.back()->OnEnd({wire::FinishReason::kError, Error{}});
  const auto answer = CompleteAs("limited");
  const std::size_t prompt = dispatcher_.specs.back().generate.prompt.size();
  EndLast(Bytes("abcd"));
  EXPECT_EQ(HeaderOf(answer->response->headers, "x-ratelimit-remaining-tokens"), std::to_string(1000 - prompt - 4));
}

TEST_F(KeysTest, CachedTokensCountByTheKeysWeight) {
  const auto index = std::make_shared<PrefixIndex>();
  ServedModel model = ByteModel();
  model.index = index;
  Serve(std::move(model));
  const auto remaining = [this] {
    const KeyEntry entry = *keys_->Find("secret of weighted");
    return Admission::Uncounted(entry, 1)->Look(clock_.Now()).tokens.remaining;
  };
  CompleteAs("weighted");  // the index knows none of it, and the worker finds 8 tokens
  const std::vector<BlockHash> hashes = dispatcher_.specs.back().generate.block_hashes;
  const std::size_t prompt = dispatcher_.specs.back().generate.prompt.size();
  EXPECT_EQ(remaining(), 1000 - prompt);
  EndLast(Bytes("abcd"));
  EXPECT_EQ(remaining(), 1000 - (prompt - 8 + 2) - 4);
  clock_.Advance(std::chrono::minutes(1));

  index->Store(WorkerSlot(0), 0, std::span(hashes).first(4));
  const auto answer = CompleteAs("weighted");  // 16 tokens are expected, 8 are found
  EXPECT_EQ(remaining(), 1000 - (prompt - 16 + 4));
  EndLast(Bytes("abcd"));
  EXPECT_EQ(HeaderOf(answer->response->headers, "x-ratelimit-remaining-tokens"),
            std::to_string(1000 - (prompt - 8 + 2) - 4));
  clock_.Advance(std::chrono::minutes(1));

  CompleteAs("weighted");
  dispatcher_.observers.back()->OnEnd({wire::FinishReason::kError, Error{}});
  EXPECT_EQ(remaining(), 1000U);  // and not more
  CompleteAs("weighted", R"({"model":"bytes","prompt":"The hens came home to roost.","max_tokens":4,"cache":"off"})");
  EXPECT_EQ(remaining(), 1000 - prompt);
}

TEST_F(KeysTest, WhatAnEngineSaysThatItUsedCounts) {
  ServedModel model = ByteModel();
  model.routes = {"/v1/embeddings"};
  Serve(std::move(model));
  std::uint64_t used = 0;
  const auto embed = [&](std::vector<std::string> pieces) {
    const auto answer = Send(Listener::kApi, "POST", "/v1/embeddings", R"({"model":"bytes","input":"x"})",
                             {{"Authorization", "Bearer secret of acme"}});
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      ForwardPiece piece{.body = pieces[i], .is_last = i + 1 == pieces.size()};
      if (i == 0) piece.head = ForwardHead{200, "application/json", "w1"};
      dispatcher_.forward_observers.back()->OnPiece(std::move(piece));
    }
    const std::uint64_t before = std::exchange(used, keys_->Find("secret of acme")->account->usage().prompt_tokens);
    return used - before;
  };
  const std::string numbers(20'000, '7');
  EXPECT_EQ(embed({R"({"data":[)" + numbers + R"(],"usage":{"prompt_tokens":12,"total_tokens":12}})"}), 12U);
  EXPECT_EQ(embed({R"({"usage": {"total_tokens":7},"results":[)" + numbers, "]}"}), 7U);
  EXPECT_EQ(embed({R"({"data":[],"usa)", R"(ge":{"prompt_tokens":)", R"(5,"details":{"a":1}},"id":null})"}), 5U);
  EXPECT_EQ(embed({R"({"text":"\"usage\":{\"prompt_tokens\":9}"})"}), 0U) << "a text of the answer";
  EXPECT_EQ(embed({R"({"usage":{"type":"duration","seconds":3}})"}), 0U);
  EXPECT_EQ(embed({R"({"usage":{"prompt_tokens":-4}})"}), 0U);
  EXPECT_EQ(embed({R"({"usage":{"prompt_tokens":{{{)"}), 0U);
  EXPECT_EQ(embed({R"("usage")"}), 0U);
  EXPECT_EQ(embed({""}), 0U);
  EXPECT_EQ(embed({"data: {}\n\n", R"(data: {"usage":{"input_tokens":3,"output_tokens":4}})"}), 3U);
  const KeyUsage usage = keys_->Find("secret of acme")->account->usage();
  EXPECT_EQ(usage.requests, 10U);
  EXPECT_EQ(usage.output_tokens, 4U);
}

TEST_F(KeysTest, TokensOfWhatAnEngineGetsUnreadCountForTheKeysLimit) {
  ServedModel model = ByteModel();
  model.routes = {"/v1/embeddings"};
  Serve(std::move(model));
  const auto embed = [this] {
    return Send(Listener::kApi, "POST", "/v1/embeddings", R"({"model":"bytes","input":"x"})",
                {{"Authorization", "Bearer secret of limited"}});
  };
  embed();
  dispatcher_.forward_observers.back()->OnPiece({.head = ForwardHead{200, "application/json", "w1"},
                                                 .body = R"({"data":[],"usage":{"prompt_tokens":1200}})",
                                                 .is_last = true});
  EXPECT_EQ(StatusOf(*embed()), 429);
}

TEST_F(KeysTest, UsageTellsWhatWasComputedPerKey) {
  CompleteAs("acme");
  const std::size_t prompt = dispatcher_.specs.back().generate.prompt.size();
  EndLast(Bytes("abcd"));
  CompleteAs("acme");
  dispatcher_.observers.back()->OnEnd({wire::FinishReason::kError, Error{}});  // used nothing
  const auto usage =
      Send(Listener::kAdmin, "GET", "/admin/v1/usage", "", {{"Authorization", "Bearer secret of operator"}});
  EXPECT_EQ(At(usage->response->body, "/keys/0"),
            R"({"name":"acme","tenant":"acme","requests":1,"refused_requests":0,"prompt_tokens":)" +
                std::to_string(prompt) + R"(,"cached_tokens":8,"output_tokens":4})");
}

TEST_F(KeysTest, ABrowserMayAskWhatItMaySendWithoutAKey) {
  EXPECT_EQ(StatusOf(*Send(Listener::kApi, "OPTIONS", "/v1/completions", "", {})), 204);
}

// DNS rebinding: a page that points its own name at this machine is, to the browser, this machine's own page.
TEST_F(KeysTest, WithoutKeysAPageMayNotCallByAnotherName) {
  const auto status_of = [this](std::vector<HttpHeader> headers) {
    HttpRequest head;
    head.method = "POST";
    head.path = "/v1/completions";
    head.headers = std::move(headers);
    head.headers.push_back({"Content-Type", "application/json"});
    const HeadVerdict verdict = api_.CheckHead(Listener::kApi, head);
    return verdict.refusal ? verdict.refusal->status : 0;
  };
  const HttpHeader page{"Origin", "http://evil.example:8000"};
  EXPECT_EQ(status_of({{"Host", "evil.example:8000"}, page}), 403);
  EXPECT_EQ(status_of({{"Host", "evil.example:8000"}, {"Sec-Fetch-Site", "same-origin"}}), 403);
  EXPECT_EQ(status_of({{"Host", "notlocalhost"}, page}), 403);
  for (const char* host :
       {"localhost:8000", "LocalHost", "roost.localhost:80", "127.0.0.1:8000", "[::1]:8000", "10.0.0.5"}) {
    EXPECT_EQ(status_of({{"Host", host}, page}), 0) << host;
  }
  EXPECT_EQ(status_of({{"Host", "roost.internal"}}), 0);  // no browser
}

TEST(ResetTextTest, TellsDurationsAsClientsReadThem) {
  EXPECT_EQ(ResetText(Duration(0)), "0s");
  EXPECT_EQ(ResetText(std::chrono::milliseconds(350)), "350ms");
  EXPECT_EQ(ResetText(std::chrono::milliseconds(12'001)), "13s");
  EXPECT_EQ(ResetText(std::chrono::seconds(360)), "6m0s");
}

}  // namespace
}  // namespace roost::router
