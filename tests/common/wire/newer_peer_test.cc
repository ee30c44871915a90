// Messages that a newer peer of this major version, or a peer of the next one, may send: values that this version does
// not know.
#include <capnp/message.h>
#include <capnp/serialize.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/wire/codec.h"
#include "schema/roost.capnp.h"
#include "tests/common/wire/random_messages.h"

namespace roost::wire {
namespace {

using testing::RandomMessages;

Generate PlainGenerate() {
  Generate generate;
  generate.request_id = RequestId(7);
  generate.prompt = {1, 2, 3, 4};
  generate.max_output_tokens = 16;
  return generate;
}

// Values of newer peers, one beyond those that this version knows. Our own encoder can not send them.
class NewerPeerTest : public ::testing::Test {
 protected:
  // A frame as a newer peer would build it: `change` gets the message that our encoder would have sent.
  template <typename Schema, typename Message, typename Change>
  static Bytes FrameOf(const Message& message, Change change) {
    const Bytes frame = Encode(message);
    std::vector<capnp::word> words(frame.size() / sizeof(capnp::word));
    std::memcpy(words.data(), frame.data(), frame.size());
    capnp::FlatArrayMessageReader reader(kj::arrayPtr(words.data(), words.size()));
    capnp::MallocMessageBuilder builder;
    builder.setRoot(reader.getRoot<Schema>());
    change(builder.getRoot<Schema>());
    const kj::Array<capnp::word> flat = capnp::messageToFlatArray(builder);
    Bytes changed(flat.asBytes().size());
    std::memcpy(changed.data(), flat.begin(), changed.size());
    return changed;
  }

  // The event of a newer worker.
  template <typename Change>
  static TokenEvent EventOf(const TokenEvent& event, Change change) {
    Step step;
    step.epoch = 1;
    step.sequence = 1;
    step.tokens = {event};
    const Bytes frame = FrameOf<schema::WorkerMessage>(
        WorkerMessage(step), [&](schema::WorkerMessage::Builder out) { change(out.getStep().getTokens()[0]); });
    const auto decoded = DecodeWorkerMessage(frame);
    EXPECT_TRUE(decoded.ok()) << decoded.error().ToString();
    return decoded.ok() ? std::get<Step>(**decoded).tokens.at(0) : TokenEvent();
  }

  template <typename Change>
  static Generate GenerateOf(const Generate& generate, Change change) {
    const Bytes frame = FrameOf<schema::RouterMessage>(
        RouterMessage(generate), [&](schema::RouterMessage::Builder out) { change(out.getGenerate()); });
    const auto decoded = DecodeRouterMessage(frame);
    EXPECT_TRUE(decoded.ok()) << decoded.error().ToString();
    return decoded.ok() ? std::get<Generate>(**decoded) : Generate();
  }
};

TEST_F(NewerPeerTest, ItsErrorCodeIsInternal) {
  TokenEvent event;
  event.finish = FinishReason::kError;
  event.error = Error{ErrorCode::kOverloaded, "why", "field"};
  const TokenEvent read = EventOf(event, [](schema::TokenEvent::Builder out) {
    out.getError().setCode(static_cast<schema::ErrorCode>(kErrorCodeCount));
  });
  EXPECT_EQ(read.error, (Error{ErrorCode::kInternal, "why", "field"}));
}

TEST_F(NewerPeerTest, ItsFinishReasonFailsTheRequest) {
  TokenEvent event;
  event.request_id = RequestId(7);
  event.tokens = {1, 2};
  event.finish = FinishReason::kStop;
  event.stop_token = 9;
  const TokenEvent read = EventOf(event, [](schema::TokenEvent::Builder out) {
    out.getFinish().setFinished(static_cast<schema::FinishReason>(static_cast<int>(FinishReason::kError) + 1));
  });
  EXPECT_EQ(read.request_id, RequestId(7));
  EXPECT_EQ(read.finish, FinishReason::kError);
  EXPECT_FALSE(read.stop_token.has_value());
  ASSERT_TRUE(read.error.has_value());
  EXPECT_EQ(read.error->code, ErrorCode::kInternal);
  EXPECT_NE(read.error->message.find("(4)"), std::string::npos) << read.error->message;
}

TEST_F(NewerPeerTest, ItsCacheModeIsOff) {
  const Generate read = GenerateOf(PlainGenerate(), [](schema::Generate::Builder out) {
    out.setCacheMode(static_cast<schema::CacheMode>(static_cast<int>(CacheMode::kOff) + 1));
  });
  EXPECT_EQ(read.cache_mode, CacheMode::kOff);
  EXPECT_FALSE(read.refusal.has_value());
}

TEST_F(NewerPeerTest, ItsOutcomeOfAHoldIsBrokenAndItsPurposeARequest) {
  const HoldAnswer answer{.answer_id = 7, .outcome = HoldOutcome::kComplete};
  const Bytes answered = FrameOf<schema::WorkerMessage>(WorkerMessage(answer), [](auto out) {
    out.getHoldAnswer().setOutcome(static_cast<schema::HoldOutcome>(kHoldOutcomeNames.size()));
    out.getHoldAnswer().setCause(static_cast<schema::HoldCause>(kHoldCauseNames.size()));
  });
  EXPECT_EQ(std::get<HoldAnswer>(**DecodeWorkerMessage(answered)).outcome, HoldOutcome::kBroken);
  EXPECT_EQ(std::get<HoldAnswer>(**DecodeWorkerMessage(answered)).cause, HoldCause::kNone);
  Hold hold = RandomMessages(3).MakeHold();
  hold.purpose = HoldPurpose::kCopy;
  const Bytes asked = FrameOf<schema::RouterMessage>(RouterMessage(hold), [](auto out) {
    out.getHold().setPurpose(static_cast<schema::HoldPurpose>(kHoldPurposeNames.size()));
  });
  EXPECT_EQ(std::get<Hold>(**DecodeRouterMessage(asked)).purpose, HoldPurpose::kRequest);
}

TEST_F(NewerPeerTest, ItsCauseOfARefusalIsAnother) {
  const Refused sent{.epoch = 7, .reason = "the moon is full", .cause = RefusalCause::kFull};
  const auto read_with = [&sent](int cause) {
    const Bytes frame = FrameOf<schema::RouterMessage>(RouterMessage(sent), [cause](auto out) {
      out.getRefused().setCause(static_cast<schema::RefusalCause>(cause));
    });
    return std::get<Refused>(**DecodeRouterMessage(frame));
  };
  EXPECT_EQ(read_with(static_cast<int>(RefusalCause::kFull)), sent);
  const Refused read = read_with(static_cast<int>(RefusalCause::kFull) + 1);
  EXPECT_EQ(read.cause, RefusalCause::kOther);
  EXPECT_EQ(read.reason, sent.reason);
}

TEST_F(NewerPeerTest, ItsKindOfConstraintRefusesTheRequest) {
  Generate generate = PlainGenerate();
  generate.constraint = Constraint{ConstraintKind::kRegex, "a+", "response_format"};
  const Generate read = GenerateOf(generate, [](schema::Generate::Builder out) {
    const int beyond = static_cast<int>(ConstraintKind::kStructuralTag) + 1;
    out.getConstraint().setKind(static_cast<schema::ConstraintKind>(beyond));
  });
  EXPECT_EQ(read.request_id, generate.request_id);
  EXPECT_FALSE(read.constraint.has_value());
  ASSERT_TRUE(read.refusal.has_value());
  EXPECT_EQ(read.refusal->code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(read.refusal->field, "response_format");
}

TEST_F(NewerPeerTest, ItsHelloOfAnotherMajorVersionNamesItself) {
  RandomMessages random(3);
  const Hello hello = random.MakeHello();
  const Bytes frame = FrameOf<schema::WorkerMessage>(WorkerMessage(hello), [](schema::WorkerMessage::Builder out) {
    out.getHello().getVersion().setMajor(kProtocolMajor + 1);
    out.getHello().setBlockTokens(17);  // it may mean anything by its other fields
  });
  const auto decoded = DecodeWorkerMessage(frame);
  ASSERT_TRUE(decoded.ok()) << decoded.error().ToString();
  const Hello& read = std::get<Hello>(**decoded);
  EXPECT_EQ(read.version.major, kProtocolMajor + 1);
  EXPECT_EQ(read.worker_id, hello.worker_id);
  EXPECT_EQ(read.epoch, hello.epoch);
}

TEST_F(NewerPeerTest, ItsCacheEventIsSkipped) {
  Step step;
  step.epoch = 1;
  step.sequence = 1;
  CacheEvent removed;
  removed.kind = CacheEvent::Kind::kRemoved;
  removed.removed = {{1, 2}};
  step.events = {removed, removed};
  Bytes frame = Encode(WorkerMessage(step));
  // Two elements of one data word, whose tag is 1, and one pointer: the first follows the list's tag word.
  const std::uint64_t tag = std::uint64_t{2} << 2U | std::uint64_t{1} << 32U | std::uint64_t{1} << 48U;
  const auto tag_bytes = std::as_bytes(std::span(&tag, 1));
  const auto list = std::search(frame.begin(), frame.end(), tag_bytes.begin(), tag_bytes.end());
  ASSERT_NE(list, frame.end());
  *(list + 8) = std::byte{200};
  const auto decoded = DecodeWorkerMessage(frame);
  ASSERT_TRUE(decoded.ok()) << decoded.error().ToString();
  EXPECT_EQ(std::get<Step>(**decoded).events, std::vector{removed});
}

}  // namespace
}  // namespace roost::wire
