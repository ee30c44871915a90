// An HttpServer on a free port, with small verbs. HttpServerTest runs each of its tests twice: plain, and over TLS.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/http/server.h"
#include "tests/common/http/raw_client.h"
#include "tests/common/http/test_certificates.h"

namespace roost {

using std::chrono::milliseconds;

inline constexpr milliseconds kPatience{20'000};
inline constexpr std::string_view kGet = "GET /x HTTP/1.1\r\nHost: a\r\n\r\n";

// Hands requests from the server's threads to the test.
class Mailbox {
 public:
  struct Item {
    HttpRequest request;
    std::shared_ptr<Responder> responder;
  };

  void Put(Item item) {
    const std::lock_guard lock(mutex_);
    items_.push_back(std::move(item));
    changed_.notify_all();
  }
  Item Take() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kPatience, [this] { return !items_.empty(); }));
    Item item = std::move(items_.front());
    items_.erase(items_.begin());
    return item;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Item> items_;
};

inline HttpResponse Text(std::string body) {
  HttpResponse response;
  response.content_type = "text/plain";
  response.body = std::move(body);
  return response;
}

// Echoes "<method> <path>?<query> <body>".
inline void Echo(HttpRequest request, const std::shared_ptr<Responder>& responder) {
  responder->Respond(Text(request.method + " " + request.path + "?" + request.query + " " + request.body.TakeText(0)));
}

enum class Wire { kPlain, kTls };

class HttpServerFixture : public ::testing::Test {
 protected:
  explicit HttpServerFixture(Wire wire) {
    if (wire == Wire::kPlain) return;
    options_.tls = TlsContext::Load(FilesOf(SharedServerCertificate())).value();
    client_context_ = SharedClientContext();
  }

  void Serve(HttpHandler handler) {
    options_.port = 0;
    Result<std::unique_ptr<HttpServer>> server = HttpServer::Start(options_, std::move(handler));
    ASSERT_TRUE(server.ok()) << server.error().ToString();
    server_ = std::move(*server);
  }
  // Requests wait in mailbox_ for the test to answer; set_up runs in the handler.
  void ServeByHand(std::function<void(Responder&)> set_up = {}) {
    Serve([this, set_up](HttpRequest request, std::shared_ptr<Responder> responder) {
      if (set_up) set_up(*responder);
      mailbox_.Put({std::move(request), std::move(responder)});
    });
  }
  // Without receive_buffer_bytes the kernel's buffer has its usual size.
  [[nodiscard]] RawClient Connect(int receive_buffer_bytes = 0) const {
    return RawClient(server_->port(), receive_buffer_bytes, client_context_.get());
  }
  RawResponse Ask(std::string_view bytes) {
    RawClient client = Connect();
    client.Write(bytes);
    return client.ReadResponse();
  }

  ClientContext client_context_;  // null: plain
  HttpServerOptions options_;
  Mailbox mailbox_;
  std::unique_ptr<HttpServer> server_;
};

class HttpServerTest : public HttpServerFixture, public ::testing::WithParamInterface<Wire> {
 protected:
  HttpServerTest() : HttpServerFixture(GetParam()) {}

  // A deadline that runs out in a test. A handshake must fit, on a busy machine too.
  [[nodiscard]] static milliseconds Soon() { return milliseconds(GetParam() == Wire::kPlain ? 30 : 500); }
};

class PlainHttpServerTest : public HttpServerFixture {
 protected:
  PlainHttpServerTest() : HttpServerFixture(Wire::kPlain) {}
};

}  // namespace roost
