// An HttpServer on a free port, with small verbs.
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

#include "router/http/server.h"
#include "tests/router/http/raw_client.h"

namespace roost::router {

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

class HttpServerTest : public ::testing::Test {
 protected:
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
  RawResponse Ask(std::string_view bytes) {
    RawClient client(server_->port());
    client.Write(bytes);
    return client.ReadResponse();
  }

  HttpServerOptions options_;
  Mailbox mailbox_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace roost::router
