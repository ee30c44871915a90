// Calls against servers of the test that answer, stall, break off or send garbage.
#include "worker/adapters/http_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>

#include "tests/support/loopback_socket.h"
#include "tests/worker/adapters/raw_server.h"

namespace roost::worker::adapters {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using testing_support::RawAnswer;
using testing_support::RawServer;
using testing_support::WholeAnswer;

constexpr seconds kPatience{20};

// The answer to one call.
struct Answer {
  int status = 0;
  std::string body;
  std::size_t uploaded = 0;
  std::optional<HttpEnd> end;
};

class HttpCallsTest : public ::testing::Test {
 protected:
  void Connect(const std::string& url, HttpOptions options = {}) {
    options.base_url = url;
    calls_ = HttpCalls::Make(std::move(options)).value();
  }
  CallId Start(HttpCall call) {
    const CallId id = ids_.Next();
    calls_->Start(id, std::move(call));
    return id;
  }
  void PollOnce() {
    for (HttpEvent& event : calls_->Poll(milliseconds(100), {})) {
      Answer& answer = answers_[event.call];
      EXPECT_FALSE(answer.end.has_value());
      if (auto* const status = std::get_if<HttpStatus>(&event.what)) answer.status = status->status;
      if (auto* const bytes = std::get_if<HttpBytes>(&event.what)) answer.body += bytes->bytes;
      if (auto* const uploaded = std::get_if<HttpUploaded>(&event.what)) answer.uploaded += uploaded->bytes;
      if (auto* const end = std::get_if<HttpEnd>(&event.what)) answer.end = *end;
    }
  }
  bool PollUntil(const std::function<bool()>& done) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!done() && std::chrono::steady_clock::now() < deadline) PollOnce();
    return done();
  }
  Answer Await(CallId id) {
    EXPECT_TRUE(PollUntil([&] { return answers_[id].end.has_value(); }));
    return answers_[id];
  }
  CallEnd EndOf(HttpCall call) { return Await(Start(std::move(call))).end.value_or(HttpEnd()).how; }

  CallIds ids_;
  std::map<CallId, Answer> answers_;
  std::unique_ptr<HttpCalls> calls_;
};

TEST_F(HttpCallsTest, AnAnswerHasAStatusAndABody) {
  std::string request;
  RawServer server([&request](const std::string& text) {
    request = text;
    return WholeAnswer("hello", 404);
  });
  Connect(server.url() + "/prefix/", {.bearer_key = "secret", .headers = {"X-data-parallel-rank: 3"}});
  const Answer answer =
      Await(Start({.method = HttpMethod::kPost, .path = "/v1", .headers = {"X-Request-Id: 7"}, .body = R"({"a":1})"}));
  EXPECT_EQ(answer.status, 404);
  EXPECT_EQ(answer.body, "hello");
  EXPECT_EQ(answer.end->how, CallEnd::kComplete);
  EXPECT_THAT(request, HasSubstr("POST /prefix/v1 HTTP/1.1\r\n"));
  EXPECT_THAT(request, HasSubstr("Authorization: Bearer secret\r\n"));
  EXPECT_THAT(request, HasSubstr("X-Request-Id: 7\r\n"));
  EXPECT_THAT(request, HasSubstr("X-data-parallel-rank: 3\r\n"));
  EXPECT_THAT(request, HasSubstr("Content-Type: application/json\r\n"));
  EXPECT_THAT(request, HasSubstr("\r\n\r\n{\"a\":1}"));
  EXPECT_EQ(request.find("Expect:"), std::string::npos);
}

TEST_F(HttpCallsTest, NobodyListeningIsSaidInTheSystemsWords) {
  Connect("http://127.0.0.1:9");
  const HttpEnd end = Await(Start({.path = "/health"})).end.value();
  EXPECT_EQ(end.how, CallEnd::kNotConnected);
  EXPECT_EQ(end.why, "connection refused");
}

TEST_F(HttpCallsTest, ABodyMayComeInPieces) {
  std::string request;
  RawServer server([&request](const std::string& text) {
    request = text;
    return WholeAnswer("done");
  });
  Connect(server.url());
  std::string body(600'000, 'x');
  for (std::size_t i = 0; i < body.size(); i += 777) body[i] = static_cast<char>('a' + i % 26);
  const CallId id = Start({.method = HttpMethod::kPost,
                           .path = "/v1",
                           .body = body.substr(0, 100),
                           .content_type = "audio/wav",
                           .body_bytes = body.size()});
  std::size_t given = 100;
  while (given < body.size()) {
    ASSERT_TRUE(PollUntil([&] { return answers_[id].uploaded >= given; })) << given;
    calls_->Append(id, body.substr(given, 100'000));
    given = std::min(body.size(), given + 100'000);
  }
  EXPECT_EQ(Await(id).body, "done");
  EXPECT_EQ(answers_[id].uploaded, body.size());
  EXPECT_THAT(request, HasSubstr("Content-Type: audio/wav\r\n"));
  EXPECT_THAT(request, HasSubstr("Content-Length: 600000\r\n"));
  EXPECT_TRUE(request.ends_with("\r\n\r\n" + body));
}

TEST_F(HttpCallsTest, AnAnswerStopsAtItsCredit) {
  const std::string body(20'000'000, 'x');
  RawServer server([&body](const std::string&) { return WholeAnswer(body); });
  Connect(server.url());
  constexpr std::size_t kCredit = 1'000'000;
  constexpr std::size_t kRead = 16'384;  // the most that one read of libcurl gives
  const CallId id = Start({.path = "/x", .answer_credit = kCredit});
  std::size_t granted = kCredit;
  while (!answers_[id].end) {
    ASSERT_TRUE(PollUntil([&] { return answers_[id].body.size() >= granted || answers_[id].end.has_value(); }));
    if (answers_[id].end) break;
    PollOnce();
    ASSERT_LE(answers_[id].body.size(), granted + kRead);
    calls_->Grant(id, kCredit);
    granted += kCredit;
  }
  EXPECT_EQ(answers_[id].body.size(), body.size());
  EXPECT_EQ(answers_[id].end->how, CallEnd::kComplete);
}

TEST_F(HttpCallsTest, AConnectionIsUsedAgain) {
  RawServer server([](const std::string&) { return WholeAnswer("x"); });
  Connect(server.url());
  for (int i = 0; i < 20; ++i) EXPECT_EQ(EndOf({.path = "/health"}), CallEnd::kComplete);
  EXPECT_EQ(server.connection_count(), 1U);
  EXPECT_EQ(server.request_count(), 20U);
}

TEST_F(HttpCallsTest, ABodyMayComeInManyPolls) {
  std::string body(20'000'000, 'x');
  body[12'345'678] = 'y';
  RawServer server([&body](const std::string&) { return WholeAnswer(body); });
  Connect(server.url());
  const CallId id = Start({.path = "/metrics"});
  std::size_t polls = 0;
  ASSERT_TRUE(PollUntil([&] { return ++polls > 0 && answers_[id].end.has_value(); }));
  EXPECT_GT(polls, 5U);
  EXPECT_TRUE(answers_[id].body == body);
}

TEST_F(HttpCallsTest, AnEmptyBodyHasAStatusToo) {
  RawServer server([](const std::string&) { return WholeAnswer("", 503); });
  Connect(server.url());
  EXPECT_EQ(Await(Start({.path = "/health"})).status, 503);
}

TEST_F(HttpCallsTest, ManyStreamsRunAtOnceAndAClosedOneClosesItsConnection) {
  constexpr std::size_t kStreams = 64;
  RawServer server([](const std::string& request) {
    const std::string name = request.substr(5, request.find(' ', 5) - 5);
    return RawAnswer{"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: " + name + "\n\n",
                     RawAnswer::Then::kHold};
  });
  Connect(server.url());
  std::vector<CallId> streams;
  for (std::size_t i = 0; i < kStreams; ++i) {
    streams.push_back(Start({.method = HttpMethod::kGet, .path = "/" + std::to_string(i)}));
  }
  ASSERT_TRUE(PollUntil([&] {
    return answers_.size() == kStreams && std::all_of(answers_.begin(), answers_.end(), [](const auto& answer) {
             return answer.second.body.ends_with("\n\n");
           });
  }));
  EXPECT_EQ(calls_->open_count(), kStreams);
  for (std::size_t i = 0; i < kStreams; ++i) {
    EXPECT_EQ(answers_[streams[i]].body, "data: " + std::to_string(i) + "\n\n");
    calls_->Close(streams[i]);
  }
  EXPECT_TRUE(server.WaitForClosed(kStreams));
  EXPECT_EQ(calls_->open_count(), 0U);
  for (const CallId id : streams) EXPECT_FALSE(answers_[id].end.has_value());
}

TEST_F(HttpCallsTest, ACloseTakesTheEventsThatWait) {
  RawServer server([](const std::string&) { return WholeAnswer("x"); });
  Connect(server.url());
  const CallId id = Start({.path = "/health"});
  calls_->Close(id);
  calls_->Close(id);
  EXPECT_EQ(EndOf({.path = "/health"}), CallEnd::kComplete);
  EXPECT_FALSE(answers_.contains(id));
}

TEST_F(HttpCallsTest, NobodyThereIsNotConnected) {
  std::string url;
  {
    url = RawServer([](const std::string&) { return WholeAnswer(""); }).url();
  }
  Connect(url);
  EXPECT_EQ(EndOf({.path = "/health"}), CallEnd::kNotConnected);
}

TEST_F(HttpCallsTest, AServerThatStallsIsTooSlow) {
  RawServer server([](const std::string&) { return RawAnswer{"", RawAnswer::Then::kHold}; });
  Connect(server.url());
  EXPECT_EQ(EndOf({.path = "/health", .time_limit = milliseconds(50)}), CallEnd::kTooSlow);
  EXPECT_TRUE(server.WaitForClosed(1));
}

// Its connection stands, so it is there.
TEST_F(HttpCallsTest, AServerThatStallsOnAConnectionInUseIsTooSlow) {
  std::atomic<int> requests = 0;
  RawServer server([&requests](const std::string&) {
    return ++requests == 1 ? WholeAnswer("ok") : RawAnswer{"", RawAnswer::Then::kHold};
  });
  Connect(server.url());
  EXPECT_EQ(EndOf({.path = "/metrics"}), CallEnd::kComplete);
  EXPECT_EQ(EndOf({.path = "/metrics", .time_limit = milliseconds(50)}), CallEnd::kTooSlow);
  EXPECT_EQ(server.connection_count(), 1U);
}

TEST_F(HttpCallsTest, AServerThatAcceptsNobodyIsNotConnected) {
  const roost::testing_support::LoopbackSocket listener;
  ASSERT_EQ(listen(listener.fd(), 0), 0);
  const sockaddr_in& address = listener.address();
  std::vector<int> others;  // they fill its queue
  for (int i = 0; i < 4; ++i) {
    others.push_back(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    (void)connect(others.back(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  }
  Connect(listener.url(), {.connect_timeout = milliseconds(50)});
  EXPECT_EQ(EndOf({.path = "/health"}), CallEnd::kNotConnected);
  for (const int other : others) close(other);
}

TEST_F(HttpCallsTest, AnAnswerThatEndsTooEarlyIsBroken) {
  for (const char* const bytes : {"", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
                                  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"}) {
    RawServer server([bytes](const std::string&) { return RawAnswer{bytes, RawAnswer::Then::kClose}; });
    Connect(server.url());
    EXPECT_EQ(EndOf({.path = "/health"}), CallEnd::kBroken) << bytes;
  }
}

TEST_F(HttpCallsTest, GarbageIsBroken) {
  for (const std::string& bytes : {std::string("GARBAGE\r\n\r\n"), std::string(100'000, 'x'),
                                   std::string("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n")}) {
    RawServer server([&bytes](const std::string&) { return RawAnswer{bytes, RawAnswer::Then::kClose}; });
    Connect(server.url());
    EXPECT_EQ(EndOf({.path = "/health"}), CallEnd::kBroken) << bytes.substr(0, 20);
  }
}

TEST_F(HttpCallsTest, AHeadWithoutEndIsBroken) {
  RawServer server([](const std::string&) {
    return RawAnswer{"HTTP/1.1 200 OK\r\nX: " + std::string(2'000'000, 'x'), RawAnswer::Then::kHold};
  });
  Connect(server.url());
  EXPECT_EQ(EndOf({.path = "/health"}), CallEnd::kBroken);
}

TEST_F(HttpCallsTest, ABodyOverItsLimitIsBroken) {
  RawServer server([](const std::string&) { return WholeAnswer(std::string(100'000, 'x')); });
  Connect(server.url());
  const Answer answer = Await(Start({.path = "/metrics", .max_body_bytes = 50'000}));
  EXPECT_EQ(answer.end->how, CallEnd::kBroken);
  EXPECT_THAT(answer.end->why, HasSubstr("larger than 50000 bytes"));
  EXPECT_LE(answer.body.size(), 50'000U);
  EXPECT_EQ(EndOf({.path = "/metrics", .max_body_bytes = 100'000}), CallEnd::kComplete);
}

TEST_F(HttpCallsTest, RedirectsAreNotFollowed) {
  RawServer server(
      [](const std::string&) { return RawAnswer{"HTTP/1.1 302 X\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n"}; });
  Connect(server.url());
  EXPECT_EQ(Await(Start({.path = "/health"})).status, 302);
  EXPECT_EQ(server.request_count(), 1U);
}

TEST_F(HttpCallsTest, AWakeFromAnotherThreadEndsAPoll) {
  Connect("http://127.0.0.1:9");
  std::thread waker([this] { calls_->Wake(); });
  const auto before = std::chrono::steady_clock::now();
  EXPECT_TRUE(calls_->Poll(kPatience, {}).empty());
  EXPECT_LT(std::chrono::steady_clock::now() - before, kPatience);
  waker.join();
}

TEST_F(HttpCallsTest, AReadableDescriptorEndsAPoll) {
  Connect("http://127.0.0.1:9");
  const int fd = eventfd(1, 0);
  const auto before = std::chrono::steady_clock::now();
  EXPECT_TRUE(calls_->Poll(kPatience, std::span(&fd, 1)).empty());
  EXPECT_LT(std::chrono::steady_clock::now() - before, kPatience);
  close(fd);
}

TEST_F(HttpCallsTest, WhatIsNoUrlIsRefused) {
  for (const char* const url : {"", "127.0.0.1:8000", "ftp://a", "http://", "http:///", "http://a b"}) {
    const auto made = HttpCalls::Make({.base_url = url});
    ASSERT_FALSE(made.ok()) << url;
    EXPECT_EQ(made.error().field, "engine-url");
  }
}

TEST_F(HttpCallsTest, AKeyIsTheFirstLineOfItsFile) {
  const std::filesystem::path path = std::filesystem::path(::testing::TempDir()) / "engine_key";
  std::ofstream(path) << "secret\nmore\n";
  EXPECT_EQ(ReadBearerKey(path).value(), "secret");
  std::ofstream(path) << "\n";
  EXPECT_FALSE(ReadBearerKey(path).ok());
  EXPECT_FALSE(ReadBearerKey(path.string() + "2").ok());
}

}  // namespace
}  // namespace roost::worker::adapters
