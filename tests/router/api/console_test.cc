// The operators' page: its files, on which listener, and with which headers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "router/access/key_ring.h"
#include "router/api/routes/api.h"
#include "router/console/console_files.h"
#include "tests/router/api/api_fixture.h"

namespace roost::router {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

class ConsoleTest : public ApiTest {
 protected:
  std::shared_ptr<FakeResponder> Fetch(Api& api, Listener listener, std::string path,
                                       std::vector<HttpHeader> headers = {}, std::string method = "GET") {
    HttpRequest request;
    request.method = std::move(method);
    request.path = std::move(path);
    request.headers = std::move(headers);
    if (HeadVerdict verdict = api.CheckHead(listener, request); verdict.refusal) {
      auto refused = std::make_shared<FakeResponder>();
      refused->Respond(*std::move(verdict.refusal));
      return refused;
    }
    auto responder = std::make_shared<FakeResponder>();
    responders_.push_back(responder);
    api.Handle(listener, std::move(request), responder);
    return responder;
  }
  std::shared_ptr<FakeResponder> Fetch(std::string path, std::vector<HttpHeader> headers = {}) {
    return Fetch(api_, Listener::kAdmin, std::move(path), std::move(headers));
  }
};

TEST(ConsoleFilesTest, TheNamelessFileIsThePage) {
  ASSERT_NE(FindConsoleFile(""), nullptr);
  EXPECT_EQ(FindConsoleFile(""), FindConsoleFile("index.html"));
  EXPECT_THAT(std::string(FindConsoleFile("")->content), StartsWith("<!doctype html>"));
}

TEST(ConsoleFilesTest, ThereIsNothingBesideTheFiles) {
  for (const char* name :
       {"nowhere.js", "/index.html", "../api/api.cc", "index.html/", "INDEX.HTML", "%69ndex.html", "."}) {
    EXPECT_EQ(FindConsoleFile(name), nullptr) << name;
  }
}

TEST(ConsoleFilesTest, EveryFileHasATypeATagOfItsOwnAndItsContent) {
  std::vector<std::string_view> tags;
  for (const ConsoleFile& file : ConsoleFiles()) {
    EXPECT_EQ(FindConsoleFile(file.name), &file);
    EXPECT_THAT(std::string(file.content_type),
                MatchesRegex("(text/(html|css|javascript); charset=utf-8)|image/svg.xml"));
    EXPECT_THAT(std::string(file.etag), MatchesRegex("\"[0-9a-f]{32}\""));
    EXPECT_GT(file.content.size(), 100U) << file.name;
    EXPECT_EQ(file.content.back(), '\n') << file.name;  // whole
    EXPECT_EQ(std::count(tags.begin(), tags.end(), file.etag), 0) << file.name;
    tags.push_back(file.etag);
  }
  EXPECT_GE(tags.size(), 3U);
}

// The page has no way to another server, not even a name of one, but for a namespace.
TEST(ConsoleFilesTest, NoFileNamesAnotherServer) {
  for (const ConsoleFile& file : ConsoleFiles()) {
    std::string content(file.content);
    for (const std::string_view own : {"http://www.w3.org/2000/svg", "http://127.0.0.1:8000/v1/completions"}) {
      for (std::size_t at = content.find(own); at != std::string::npos; at = content.find(own))
        content.erase(at, own.size());
    }
    EXPECT_THAT(content, Not(HasSubstr("http://"))) << file.name;
    EXPECT_THAT(content, Not(HasSubstr("https://"))) << file.name;
    EXPECT_THAT(content, Not(HasSubstr("innerHTML"))) << file.name;
  }
}

// Every script and style that a file names is there.
TEST(ConsoleFilesTest, WhatFilesNameIsThere) {
  for (const ConsoleFile& file : ConsoleFiles()) {
    for (const std::string_view before : {"from './", "href=\"", "src=\""}) {
      for (std::size_t at = file.content.find(before); at != std::string_view::npos;
           at = file.content.find(before, at + 1)) {
        const std::string_view rest = file.content.substr(at + before.size());
        const std::string_view name = rest.substr(0, rest.find_first_of("'\""));
        if (name.starts_with('#')) continue;
        EXPECT_NE(FindConsoleFile(name), nullptr) << file.name << ": " << name;
      }
    }
  }
}

TEST_F(ConsoleTest, ThePageIsServedToOperatorsAlone) {
  const auto page = Fetch("/console/");
  EXPECT_EQ(page->response->status, 200);
  EXPECT_EQ(page->response->content_type, "text/html; charset=utf-8");
  EXPECT_EQ(page->response->body, FindConsoleFile("")->content);
  EXPECT_EQ(Fetch("/console/app.js")->response->content_type, "text/javascript; charset=utf-8");
  EXPECT_EQ(Fetch("/console/nowhere.js")->response->status, 404);
  EXPECT_EQ(Fetch("/console/../admin/v1/workers")->response->status, 404);
  EXPECT_EQ(Fetch("/consoles")->response->status, 404);
  for (const Listener listener : {Listener::kApi, Listener::kMetrics}) {
    for (const char* path : {"/console", "/console/", "/console/app.js"}) {
      EXPECT_EQ(Fetch(api_, listener, path)->response->status, 404) << path;
    }
  }
  EXPECT_EQ(Fetch(api_, Listener::kAdmin, "/console/", {}, "POST")->response->status, 405);
}

// Relative, for a proxy that adds a path.
TEST_F(ConsoleTest, TheNameWithoutItsSlashLeadsThere) {
  const auto entry = Fetch("/console");
  EXPECT_EQ(entry->response->status, 308);
  EXPECT_EQ(HeaderOf(entry->response->headers, "Location"), "console/");
}

TEST_F(ConsoleTest, HeadersKeepThePageToItself) {
  for (const char* path : {"/console/", "/console/app.js"}) {
    const std::vector<HttpHeader> headers = Fetch(path)->response->headers;
    const std::string policy = HeaderOf(headers, "Content-Security-Policy");
    for (const char* rule : {"default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'",
                             "base-uri 'none'", "form-action 'none'", "require-trusted-types-for 'script'"}) {
      EXPECT_THAT(policy, HasSubstr(rule));
    }
    EXPECT_THAT(policy, Not(HasSubstr("unsafe")));
    EXPECT_EQ(HeaderOf(headers, "X-Content-Type-Options"), "nosniff");
    EXPECT_EQ(HeaderOf(headers, "Referrer-Policy"), "no-referrer");
    EXPECT_EQ(HeaderOf(headers, "X-Frame-Options"), "DENY");
    EXPECT_EQ(HeaderOf(headers, "Cross-Origin-Resource-Policy"), "same-origin");
  }
}

TEST_F(ConsoleTest, AFileThatTheBrowserHasIsNotSentAgain) {
  const auto first = Fetch("/console/style.css");
  const std::string tag = HeaderOf(first->response->headers, "ETag");
  EXPECT_EQ(HeaderOf(first->response->headers, "Cache-Control"), "no-cache");
  for (const std::string& known : {tag, "W/" + tag, "\"other\", " + tag, std::string("*")}) {
    const auto again = Fetch("/console/style.css", {{"If-None-Match", known}});
    EXPECT_EQ(again->response->status, 304) << known;
    EXPECT_EQ(again->response->body, "");
    EXPECT_EQ(HeaderOf(again->response->headers, "ETag"), tag);
  }
  for (const std::string& other :
       {std::string(), std::string("\"\""), HeaderOf(Fetch("/console/")->response->headers, "ETag")}) {
    EXPECT_EQ(Fetch("/console/style.css", {{"If-None-Match", other}})->response->status, 200) << other;
  }
}

TEST_F(ConsoleTest, OperatorsMayReadMetricsWhereThePageIs) {
  EXPECT_EQ(Fetch("/metrics")->response->body, "roost_up 1\n");
  EXPECT_EQ(Fetch(api_, Listener::kApi, "/metrics")->response->status, 404);
}

// The files are open, so that the page can ask for a key. The data that it then asks for is not.
TEST_F(ConsoleTest, WithKeysTheFilesAreOpenAndTheDataIsNot) {
  ApiKey key;
  key.name = "operator";
  key.digest = DigestOfSecret("secret");
  Api locked(dispatcher_, observer_, clock_, text_,
             {.admin_keys = std::make_shared<KeyRing>(std::vector<ApiKey>{key}),
              .metrics_text = [] { return std::string("roost_up 1\n"); }});
  for (const char* path : {"/console", "/console/", "/console/app.js"}) {
    EXPECT_LT(Fetch(locked, Listener::kAdmin, path)->response->status, 400) << path;
  }
  for (const char* path : {"/admin/v1/workers", "/admin/v1/decisions", "/metrics", "/consolex", "/"}) {
    EXPECT_EQ(Fetch(locked, Listener::kAdmin, path)->response->status, 401) << path;
  }
  EXPECT_EQ(Fetch(locked, Listener::kAdmin, "/metrics", {{"Authorization", "Bearer secret"}})->response->status, 200);
}

// DNS rebinding: what a page gets over http from its own name has no header that says that a browser asks, but it looks
// like a browser's.
TEST_F(ConsoleTest, WithoutKeysABrowserMayNotReadTheDataByAnotherName) {
  const auto status_of = [this](Listener listener, const char* path, std::vector<HttpHeader> headers) {
    const auto answered = Fetch(api_, listener, path, std::move(headers));
    // An answer that workers have to give first is not there yet.
    return answered->response ? answered->response->status : 0;
  };
  for (const HttpHeader& look :
       {HttpHeader{"Accept-Language", ""}, HttpHeader{"User-Agent", "Mozilla/5.0 (X11; Linux x86_64)"}}) {
    for (const char* path : {"/admin/v1/workers", "/admin/v1/prefixes", "/metrics"}) {
      EXPECT_EQ(status_of(Listener::kAdmin, path, {{"Host", "evil.example:8001"}, look}), 403) << path;
      EXPECT_NE(status_of(Listener::kAdmin, path, {{"Host", "127.0.0.1:8001"}, look}), 403) << path;
      EXPECT_NE(status_of(Listener::kAdmin, path, {{"Host", "localhost:8001"}, look}), 403) << path;
    }
    EXPECT_EQ(status_of(Listener::kMetrics, "/metrics", {{"Host", "evil.example:8002"}, look}), 403);
    // Clients of the API are of many kinds.
    EXPECT_EQ(status_of(Listener::kApi, "/v1/models", {{"Host", "router.internal:8000"}, look}), 200);
  }
  const std::vector<HttpHeader> no_browser{{"Host", "router.internal:8001"}, {"User-Agent", "Prometheus/2.42.0"}};
  EXPECT_EQ(status_of(Listener::kAdmin, "/admin/v1/workers", no_browser), 200);
}

// The router itself refuses it, whatever the browser asks before.
TEST_F(ConsoleTest, WithoutKeysAPageOfAnotherSiteGivesNoOrders) {
  const auto status_of = [](Api& api, Listener listener, const char* origin) {
    HttpRequest head;
    head.method = "POST";
    head.path = listener == Listener::kApi ? "/v1/completions" : "/admin/v1/cordon";
    head.headers = {
        {"Host", "127.0.0.1:8001"}, {"Content-Type", "application/json"}, {"Content-Length", "2"}, {"Origin", origin}};
    const HeadVerdict verdict = api.CheckHead(listener, head);
    return verdict.refusal ? verdict.refusal->status : 200;
  };
  for (const char* foreign : {"https://evil.example", "http://127.0.0.1:3000", "http://localhost:8001", "null", ""}) {
    EXPECT_EQ(status_of(api_, Listener::kAdmin, foreign), 403) << foreign;
    EXPECT_EQ(status_of(api_, Listener::kApi, foreign), 200) << foreign;
  }
  EXPECT_EQ(status_of(api_, Listener::kAdmin, "http://127.0.0.1:8001"), 200) << "the console";
  Api named(dispatcher_, observer_, clock_, text_,
            {.cors_origins = {"https://ops.example"}, .unix_seconds_now = [] { return std::int64_t{0}; }});
  EXPECT_EQ(status_of(named, Listener::kAdmin, "https://ops.example"), 200);
  EXPECT_EQ(status_of(named, Listener::kAdmin, "https://evil.example"), 403);
}

TEST_F(ConsoleTest, APageThatIsNamedMayReadItsOwnServer) {
  Api named(dispatcher_, observer_, clock_, text_,
            {.cors_origins = {"https://router.internal:8001"}, .unix_seconds_now = [] { return std::int64_t{0}; }});
  const auto status_of = [&](const char* host) {
    return Fetch(named, Listener::kAdmin, "/admin/v1/workers", {{"Host", host}, {"Sec-Fetch-Site", "same-origin"}})
        ->response->status;
  };
  EXPECT_EQ(status_of("router.internal:8001"), 200);
  EXPECT_EQ(status_of("Router.Internal:8001"), 200);
  for (const char* other :
       {"router.internal", "router.internal:8002", "evil.router.internal:8001", "internal:8001", "x"}) {
    EXPECT_EQ(status_of(other), 403) << other;
  }
}

}  // namespace
}  // namespace roost::router
