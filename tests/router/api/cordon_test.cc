// POST /admin/v1/cordon, /admin/v1/uncordon and /admin/v1/drain.
#include <gtest/gtest.h>

#include "tests/router/api/api_fixture.h"

namespace roost::router {
namespace {

using namespace std::chrono_literals;

class CordonTest : public ApiTest {
 protected:
  std::shared_ptr<FakeResponder> Order(const std::string& verb, std::string body, WorkerReply reply = ServiceState{}) {
    auto responder = Ask("POST", "/admin/v1/" + verb, std::move(body));
    if (dispatcher_.done) std::exchange(dispatcher_.done, nullptr)({{"w1", std::move(reply)}});
    return responder;
  }
};

TEST_F(CordonTest, NamesTheWorkerAndWhatItShallDo) {
  const auto responder = Order("cordon", R"({"worker":"w1"})", ServiceState{true, 2, 1, 3});
  ASSERT_TRUE(responder->response.has_value());
  EXPECT_EQ(responder->response->status, 200);
  EXPECT_EQ(responder->response->body,
            R"({"worker":"w1","answered":true,"cordoned":true,"idle":false,"running_requests":2,)"
            R"("waiting_requests":1,"in_flight_requests":3})");
  Order("uncordon", R"({"worker":"w1"})");
  Order("drain", R"({"worker":"w1","wait_ms":5000})");
  Order("drain", R"({"worker":"w1"})");
  ASSERT_EQ(dispatcher_.cordon_orders.size(), 4U);
  EXPECT_EQ(dispatcher_.cordon_orders[0].worker_id, "w1");
  EXPECT_EQ(dispatcher_.cordon_orders[0].service, Service::kCordoned);
  EXPECT_EQ(dispatcher_.cordon_orders[1].service, Service::kOpen);
  EXPECT_EQ(dispatcher_.cordon_orders[2].service, Service::kCordoned);
  EXPECT_EQ(dispatcher_.cordon_orders[2].patience, 5s);
  EXPECT_EQ(dispatcher_.cordon_orders[3].patience, 1ms);  // by which a drain is told from a cordon
  EXPECT_EQ(dispatcher_.cordon_orders[0].patience, 0s);
}

TEST_F(CordonTest, SaysWhenAWorkerDoesNotAnswer) {
  EXPECT_EQ(Order("cordon", R"({"worker":"w1"})", {})->response->body,
            R"({"worker":"w1","answered":false,"reason":"no answer"})");
  EXPECT_EQ(Order("cordon", R"({"worker":"w1"})", NotSupported{})->response->body,
            R"({"worker":"w1","answered":false,"reason":"not supported: the worker is of an older release"})");
}

TEST_F(CordonTest, WrongBodiesAreRefusedByField) {
  const auto param = [&](const std::string& verb, const std::string& body) {
    const auto responder = Order(verb, body);
    EXPECT_EQ(responder->response->status, 400) << body;
    return At(responder->response->body, "/error/param");
  };
  EXPECT_EQ(param("cordon", "{}"), R"("worker")");
  EXPECT_EQ(param("cordon", R"({"worker":7})"), R"("worker")");
  EXPECT_EQ(param("cordon", R"({"worker":""})"), R"("worker")");
  EXPECT_EQ(param("cordon", R"({"worker":"w1","wait_ms":5})"), R"("wait_ms")");
  EXPECT_EQ(param("drain", R"({"worker":"w1","wait_ms":-1})"), R"("wait_ms")");
  EXPECT_EQ(param("drain", R"({"worker":"w1","wait_ms":600001})"), R"("wait_ms")");
  EXPECT_EQ(Order("cordon", "[]")->response->status, 400);
  EXPECT_TRUE(dispatcher_.cordon_orders.empty());
}

TEST_F(CordonTest, AnUnknownWorkerIsA404) {
  dispatcher_.refusal = Error{ErrorCode::kNotFound, "there is no worker 'x'", "worker"};
  EXPECT_EQ(Order("cordon", R"({"worker":"x"})")->response->status, 404);
}

TEST_F(CordonTest, StandsOnlyOnTheAdminListener) { EXPECT_EQ(Ask("GET", "/admin/v1/cordon")->response->status, 405); }

}  // namespace
}  // namespace roost::router
