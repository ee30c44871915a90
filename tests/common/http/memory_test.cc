// Memory of requests while they arrive, and the answers to requests that find no memory.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "common/http/server.h"
#include "tests/common/http/raw_client.h"
#include "tests/support/out_of_memory.h"

namespace roost {
namespace {

constexpr std::size_t kBudgetBytes = 512 * 1024;
constexpr std::size_t kLargeBytes = 300 * 1024;  // two do not fit
constexpr std::size_t kHeadsBytes = 64 * 1024;
// More than the kernel keeps for a client that does not read; two do not fit.
constexpr std::size_t kAnswerBytes = 20'000'000;
constexpr std::size_t kAnswersBudgetBytes = 30'000'000;

class HttpMemoryTest : public ::testing::Test {
 protected:
  HttpMemoryTest() {
    HttpServerOptions options;
    options.port = 0;
    options.input_budget = budget_;
    options.head_budget = heads_;
    options.check_head = [this](const HttpRequest& head) -> HeadVerdict {
      if (head.path != "/of-a-share") return {};
      return {.budget = share_};
    };
    server_ = std::move(HttpServer::Start(options, [this](HttpRequest request, std::shared_ptr<Responder> responder) {
                          if (request.path == "/bad_alloc") testing_support::FailAllocation();
                          HttpResponse response;
                          response.body = std::to_string(request.body.size());
                          if (request.path == "/answer") response.body = std::string(kAnswerBytes, 'x');
                          if (request.path == "/stream") return Stream(responder);
                          if (request.path == "/keep") Keep(std::move(request.body));
                          responder->Respond(std::move(response));
                        }).value());
  }

  void Keep(HttpBody body) {
    const std::lock_guard lock(mutex_);
    kept_ = std::move(body);
  }
  // Frames, until its client is cut off or reads all.
  static void Stream(const std::shared_ptr<Responder>& responder) {
    responder->Send("data: " + std::string(kAnswerBytes, 'x') + "\n\n");
    responder->End();
  }
  // A client whose answer is larger than the kernel's buffers, and who reads nothing of it.
  [[nodiscard]] std::unique_ptr<RawClient> AskWithoutReading(std::string_view path) const {
    auto client = std::make_unique<RawClient>(server_->port(), 2048);
    client->Write("GET " + std::string(path) + " HTTP/1.1\r\nHost: a\r\n\r\n");
    return client;
  }
  RawResponse Ask(std::string_view bytes) {
    RawClient client(server_->port());
    client.Write(bytes);
    return client.ReadResponse();
  }
  static std::string Head(std::size_t size, std::string_view path = "/") {
    return "POST " + std::string(path) + " HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(size) + "\r\n\r\n";
  }
  static std::string Post(std::size_t size, std::string_view path = "/") {
    return Head(size, path) + std::string(size, 'x');
  }
  // Small requests are served in the meantime.
  void AskUntil(const std::function<bool()>& done) {
    while (!done() && !HasFailure()) ASSERT_EQ(Ask(Post(10)).status, 200);
  }

  const std::shared_ptr<ByteBudget> budget_ = std::make_shared<ByteBudget>(kBudgetBytes);
  const std::shared_ptr<ByteBudget> share_ = std::make_shared<ByteBudget>(kBudgetBytes / 2, budget_);
  const std::shared_ptr<ByteBudget> heads_ = std::make_shared<ByteBudget>(kHeadsBytes);
  std::mutex mutex_;
  HttpBody kept_;  // guarded by mutex_
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpMemoryTest, UnfinishedBodiesShareOneBudget) {
  RawClient unfinished(server_->port());
  unfinished.Write(Head(kLargeBytes) + std::string(kLargeBytes - 1, 'x'));
  AskUntil([&] { return budget_->used() >= kLargeBytes; });

  const RawResponse refused = Ask(Post(kLargeBytes));
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.Header("retry-after"), "1");
  const RawResponse chunked = Ask("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4b000\r\n" +
                                  std::string(kLargeBytes, 'x') + "\r\n0\r\n\r\n");
  EXPECT_EQ(chunked.status, 429);

  unfinished.Close();
  AskUntil([&] { return budget_->used() < kLargeBytes; });
  EXPECT_EQ(Ask(Post(kLargeBytes)).body, std::to_string(kLargeBytes));
}

TEST_F(HttpMemoryTest, ABodyThatCanNeverFitIsTooLarge) {
  EXPECT_EQ(Ask(Head(kBudgetBytes + 1)).status, 413);
  EXPECT_EQ(Ask(Post(10)).status, 200);
}

TEST_F(HttpMemoryTest, BytesAreHeldAsLongAsTheBodyIs) {
  EXPECT_EQ(Ask(Post(kLargeBytes, "/keep")).status, 200);
  EXPECT_GE(budget_->used(), kLargeBytes);
  EXPECT_EQ(Ask(Post(kLargeBytes)).status, 429);
  Keep({});
  AskUntil([&] { return budget_->used() < kLargeBytes; });
  EXPECT_EQ(Ask(Post(kLargeBytes)).status, 200);
}

TEST_F(HttpMemoryTest, ABodyCountsInTheShareThatItsHeadBelongsTo) {
  EXPECT_EQ(Ask(Head(kLargeBytes, "/of-a-share")).status, 413);
  EXPECT_EQ(Ask(Post(kLargeBytes)).status, 200);
  RawClient unfinished(server_->port());
  constexpr std::size_t kMost = kBudgetBytes / 2 - 80'000;
  unfinished.Write(Head(kMost, "/of-a-share") + std::string(kMost - 1, 'x'));
  AskUntil([&] { return share_->used() >= kMost - 1; });
  EXPECT_GE(budget_->used(), share_->used());
  EXPECT_EQ(Ask(Head(100'000, "/of-a-share")).status, 429);
  EXPECT_EQ(Ask(Post(100'000)).status, 200);  // others have the rest
}

TEST_F(HttpMemoryTest, HeadsThatNeverEndTakeNothingFromBodies) {
  std::vector<std::unique_ptr<RawClient>> strangers;
  for (int i = 0; i < 8; ++i) {
    strangers.push_back(std::make_unique<RawClient>(server_->port()));
    strangers.back()->Write("GET / HTTP/1.1\r\nHost: a\r\nX: " + std::string(20'000, 'x'));
  }
  AskUntil([&] { return heads_->used() > kHeadsBytes / 2; });
  EXPECT_LT(budget_->used(), kBudgetBytes / 8);
  EXPECT_EQ(Ask(Post(kLargeBytes)).status, 200);
}

TEST_F(HttpMemoryTest, AnAnswerIsHeldUntilItIsRead) {
  budget_->SetLimit(kAnswersBudgetBytes);
  const std::unique_ptr<RawClient> client = AskWithoutReading("/answer");
  AskUntil([&] { return budget_->used() >= kAnswerBytes; });
  EXPECT_EQ(Ask("GET /answer HTTP/1.1\r\nHost: a\r\n\r\n").status, 429);
  EXPECT_EQ(client->ReadResponse().body.size(), kAnswerBytes);
  AskUntil([&] { return budget_->used() < kAnswerBytes; });
  EXPECT_EQ(Ask("GET /answer HTTP/1.1\r\nHost: a\r\n\r\n").status, 200);
}

TEST_F(HttpMemoryTest, AStreamHoldsWhatItsClientHasNotRead) {
  budget_->SetLimit(kAnswersBudgetBytes);
  const std::unique_ptr<RawClient> client = AskWithoutReading("/stream");
  AskUntil([&] { return budget_->used() >= kAnswerBytes; });
  const std::unique_ptr<RawClient> second = AskWithoutReading("/stream");
  EXPECT_FALSE(second->ReadResponse().complete);  // there is no memory for it
  const RawResponse whole = client->ReadResponse();
  EXPECT_TRUE(whole.complete);  // one frame may be more than the bound of a stream's unread bytes
  EXPECT_EQ(whole.body.size(), kAnswerBytes + 8);
}

TEST_F(HttpMemoryTest, ManySmallPiecesCountForWhatTheyTake) {
  RawClient client(server_->port());
  client.Write(Head(1000));
  for (int i = 0; i < 1000; ++i) client.Write("x");
  EXPECT_EQ(client.ReadResponse().body, "1000");
}

TEST_F(HttpMemoryTest, ARequestThatFindsNoMemoryEndsAlone) {
  RawClient client(server_->port());
  client.Write("GET /bad_alloc HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(client.ReadResponse().status, 500);
  EXPECT_EQ(Ask(Post(10)).status, 200);
}

TEST(HttpBodyTest, JoinsItsPiecesAndGivesBackWhatItHeld) {
  const auto budget = std::make_shared<ByteBudget>(kBudgetBytes);
  {
    HttpBody body(budget);
    std::string expected;
    for (std::size_t i = 0; expected.size() < 200'000; ++i) {
      const std::string part(i * 37 % 5000, static_cast<char>('a' + i % 26));
      ASSERT_TRUE(body.TryAppend(part));
      expected += part;
    }
    EXPECT_EQ(body.size(), expected.size());
    EXPECT_GE(body.memory().bytes(), expected.size());
    EXPECT_LT(body.memory().bytes(), 2 * expected.size());
    const std::string text = body.TakeText(64);
    EXPECT_EQ(text, expected);
    EXPECT_GE(text.capacity(), expected.size() + 64);
    EXPECT_EQ(body.size(), 0U);
    EXPECT_EQ(body.TakeText(64), "");
  }
  EXPECT_EQ(budget->used(), 0U);
}

}  // namespace
}  // namespace roost
