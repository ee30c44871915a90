// Requests that routers pass on unread, on their way to the engine and back.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/worker/link/link_core_fixture.h"

namespace roost::worker {
namespace {

class LinkForwardsTest : public LinkCoreTest {
 protected:
  LinkForwardsTest() : LinkCoreTest(SetupWithRoutes()) {}

  static LinkCore::Setup SetupWithRoutes() {
    LinkCore::Setup setup = MakeSetup();
    setup.hello.routes = {"/v1/embeddings"};
    return setup;
  }
  static wire::Forward Forward(std::uint64_t id, std::string path = "/v1/embeddings") {
    wire::Forward forward;
    forward.request_id = RequestId(id);
    forward.path = std::move(path);
    forward.body = "{}";
    forward.body_bytes = 2;
    return forward;
  }
  static wire::Forwarded Answer(std::uint64_t id, std::string body) {
    wire::Forwarded answer;
    answer.request_id = RequestId(id);
    answer.status = 200;
    answer.body = std::move(body);
    return answer;
  }
  // The peer passes a request on. Returns the id of the present life of its link.
  LinkId Pass(std::uint64_t id) {
    core_.OnMessage(kPeer, Forward(id));
    return effects_.TakeCommands<ForwardPart>().at(0).key.link;
  }
  Error Refusal(wire::Forward forward) {
    core_.OnMessage(kPeer, std::move(forward));
    const auto answers = effects_.Take<wire::Forwarded>();
    EXPECT_EQ(answers.size(), 1U);
    EXPECT_TRUE(answers.at(0).last);
    return answers.at(0).error.value_or(Error());
  }
};

TEST_F(LinkForwardsTest, ItsPartsGoToTheEngineInOrder) {
  BringUp(kPeer);
  core_.OnMessage(kPeer, Forward(7));
  core_.OnMessage(kPeer, wire::ForwardBody{.request_id = RequestId(7), .body = "more"});
  core_.OnMessage(kPeer, wire::ForwardCredit{.request_id = RequestId(7), .bytes = 5});
  core_.OnMessage(kPeer, wire::ForwardBody{.request_id = RequestId(8), .body = "of nothing"});
  core_.OnMessage(kPeer, wire::ForwardCredit{.request_id = RequestId(8), .bytes = 5});
  const std::vector<ForwardPart> parts = effects_.TakeCommands<ForwardPart>();
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(std::get<wire::Forward>(parts[0].what).path, "/v1/embeddings");
  EXPECT_EQ(parts[0].received, clock_.Now());
  EXPECT_EQ(std::get<wire::ForwardBody>(parts[1].what).body, "more");
  EXPECT_EQ(std::get<wire::ForwardCredit>(parts[2].what).bytes, 5U);
  EXPECT_EQ(core_.in_flight_request_count(), 1U);
}

TEST_F(LinkForwardsTest, TheAnswerGoesToTheRouterThatAsked) {
  BringUp(kPeer);
  BringUp(kOther);
  const LinkId link = Pass(7);
  effects_.sent.clear();
  wire::Forwarded answer = Answer(7, "half");
  core_.OnOutput(LinkForwarded{link, answer});
  ASSERT_EQ(effects_.sent.size(), 1U);
  EXPECT_EQ(effects_.sent[0].first, kPeer);
  EXPECT_NE(effects_.Take<wire::Forwarded>().at(0).epoch, 0U);
  EXPECT_EQ(core_.in_flight_request_count(), 1U);
  answer.last = true;
  core_.OnOutput(LinkForwarded{link, answer});
  EXPECT_EQ(effects_.Take<wire::Forwarded>().size(), 1U);
  EXPECT_EQ(core_.in_flight_request_count(), 0U);
  core_.OnOutput(LinkForwarded{link, answer});
  EXPECT_TRUE(effects_.Take<wire::Forwarded>().empty()) << "nothing follows an end";
}

TEST_F(LinkForwardsTest, ACancelEndsIt) {
  BringUp(kPeer);
  const LinkId link = Pass(7);
  core_.OnMessage(kPeer, wire::Cancel{RequestId(7)});
  EXPECT_EQ(effects_.TakeCommands<CancelCommand>().at(0).key, (RequestKey{link, RequestId(7)}));
  EXPECT_EQ(core_.in_flight_request_count(), 0U);
  core_.OnOutput(LinkForwarded{link, Answer(7, "late")});
  EXPECT_TRUE(effects_.Take<wire::Forwarded>().empty());
}

TEST_F(LinkForwardsTest, ANewLifeForgetsItAndTellsTheEngine) {
  BringUp(kPeer);
  const LinkId link = Pass(7);
  core_.OnMessage(kPeer, wire::WantHello{});
  EXPECT_EQ(effects_.TakeCommands<CancelLinkCommand>().at(0).link, link);
  EXPECT_EQ(core_.in_flight_request_count(), 0U);
}

TEST_F(LinkForwardsTest, ALostOneIsNoticedByTheNextPing) {
  BringUp(kPeer);
  Pass(7);
  core_.OnMessage(kPeer, wire::Ping{.generate_digest = DigestOf({7})});
  EXPECT_EQ(ResyncCount(ResyncReason::kGap), 0U);
  EXPECT_EQ(core_.up_count(), 1U);
  core_.OnMessage(kPeer, wire::Ping{.generate_digest = DigestOf({7, 8})});
  EXPECT_EQ(core_.up_count(), 0U) << "a new life begins";
}

TEST_F(LinkForwardsTest, WhatCanNotBeTakenIsRefused) {
  BringUp(kPeer);
  EXPECT_EQ(Refusal(Forward(1, "/reset_prefix_cache")).code, ErrorCode::kNotFound);
  effects_.inbox_is_full = true;
  EXPECT_EQ(Refusal(Forward(2)).code, ErrorCode::kOverloaded);
  effects_.inbox_is_full = false;
  core_.BeginDrain();
  effects_.sent.clear();
  EXPECT_EQ(Refusal(Forward(3)).code, ErrorCode::kUnavailable);
  EXPECT_EQ(core_.in_flight_request_count(), 0U);
}

TEST_F(LinkForwardsTest, AnIdThatIsInUseIsIgnored) {
  BringUp(kPeer);
  Submit(kPeer, 7);
  core_.OnMessage(kPeer, Forward(7));
  EXPECT_TRUE(effects_.TakeCommands<ForwardPart>().empty());
  EXPECT_EQ(core_.counts().malformed_messages, 1U);
}

}  // namespace
}  // namespace roost::worker
