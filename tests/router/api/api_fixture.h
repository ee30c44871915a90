// An Api over fakes, with small verbs.
#pragma once

#include <simdjson.h>

#include <memory>
#include <string>
#include <vector>

#include "router/api/routes/api.h"
#include "tests/router/api/fakes.h"

namespace roost::router {

// The JSON text without white space, its members in the same order: equal text means equal JSON in equal order.
inline std::string Minify(std::string_view json) {
  simdjson::dom::parser parser;
  simdjson::dom::element element;
  const simdjson::padded_string padded(json);
  if (parser.parse(padded).get(element) != simdjson::SUCCESS) return "not JSON: " + std::string(json);
  return simdjson::minify(element);
}

// The value at a JSON pointer as JSON text; empty when absent.
inline std::string At(std::string_view json, std::string_view pointer) {
  simdjson::dom::parser parser;
  simdjson::dom::element element;
  const simdjson::padded_string padded(json);
  if (parser.parse(padded).at_pointer(pointer).get(element) != simdjson::SUCCESS) return {};
  return simdjson::minify(element);
}

// The listener where a client would ask for it.
inline Listener ListenerOf(std::string_view path) {
  if (path.starts_with("/admin/")) return Listener::kAdmin;
  return path == "/metrics" ? Listener::kMetrics : Listener::kApi;
}

class ApiTest : public ::testing::Test {
 protected:
  ApiTest() { Serve(ByteModel()); }

  // Clients of open answers leave: until then an answer and its connection hold references to each other, as they
  // should.
  void TearDown() override {
    for (const auto& weak : responders_) {
      if (const auto responder = weak.lock()) responder->Close();
    }
  }

  void Serve(ServedModel model) { dispatcher_.models = {std::make_shared<const ServedModel>(std::move(model))}; }

  std::shared_ptr<FakeResponder> Ask(std::string method, std::string path, std::string body = "") {
    HttpRequest request;
    request.method = std::move(method);
    request.path = std::move(path);
    request.body = std::move(body);
    request.headers = {{"Content-Type", "application/json"}};
    return Handle(std::move(request));
  }
  std::shared_ptr<FakeResponder> Get(std::string path, std::string query) {
    HttpRequest request;
    request.method = "GET";
    request.path = std::move(path);
    request.query = std::move(query);
    return Handle(std::move(request));
  }
  std::shared_ptr<FakeResponder> Handle(HttpRequest request) {
    const Listener listener = ListenerOf(request.path);
    return Handle(listener, std::move(request));
  }
  std::shared_ptr<FakeResponder> Handle(Listener listener, HttpRequest request) {
    request.request_id = "req-1";
    auto responder = std::make_shared<FakeResponder>();
    responders_.push_back(responder);
    api_.Handle(listener, std::move(request), responder);
    return responder;
  }
  std::shared_ptr<FakeResponder> Chat(std::string body) { return Ask("POST", "/v1/chat/completions", std::move(body)); }
  std::shared_ptr<FakeResponder> Complete(std::string body) { return Ask("POST", "/v1/completions", std::move(body)); }

  // The events of a stream, without "data: " and the empty lines.
  static std::vector<std::string> Events(const FakeResponder& responder) {
    std::vector<std::string> events;
    std::string_view rest = responder.frames;
    while (!rest.empty()) {
      const std::size_t end = rest.find("\n\n");
      EXPECT_EQ(rest.substr(0, 6), "data: ");
      EXPECT_NE(end, std::string_view::npos);
      events.emplace_back(rest.substr(6, end - 6));
      rest.remove_prefix(std::min(end + 2, rest.size()));
    }
    return events;
  }
  // The text of all chunks of a chat's stream.
  static std::string StreamedText(const FakeResponder& responder) {
    std::string text;
    for (const std::string& event : Events(responder)) {
      simdjson::dom::parser parser;
      std::string_view piece;
      const simdjson::padded_string padded(event);
      if (parser.parse(padded).at_pointer("/choices/0/delta/content").get(piece) == simdjson::SUCCESS) text += piece;
    }
    return text;
  }
  static std::string HeaderOf(const std::vector<HttpHeader>& headers, std::string_view name) {
    for (const HttpHeader& header : headers) {
      if (header.name == name) return header.value;
    }
    return "absent";
  }

  FakeDispatcher dispatcher_;
  RecordingObserver observer_;
  ManualClock clock_;
  FakeTextWork text_;
  const std::shared_ptr<PromptMemo> prompt_memo_ = std::make_shared<PromptMemo>(1U << 20U);
  Api api_{dispatcher_,
           observer_,
           clock_,
           text_,
           {.version = "1.2.3",
            .seed = 7,
            .prompt_memo = prompt_memo_,
            .metrics_text = [] { return std::string("roost_up 1\n"); },
            .history_json = [] { return std::string(R"({"step_seconds":10,"models":[]})"); },
            .unix_seconds_now = [] { return std::int64_t{1'800'000'000}; }}};
  std::vector<std::weak_ptr<FakeResponder>> responders_;
};

}  // namespace roost::router
