// The messages that decoding refuses, and the fields that its errors name.
#include <capnp/message.h>
#include <capnp/serialize.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/wire/codec.h"
#include "schema/roost.capnp.h"
#include "tests/common/wire/codec_support.h"
#include "tests/common/wire/random_messages.h"

namespace roost::wire {
namespace {

using testing::RandomMessages;

TEST(CodecTest, RefusesValuesThatMakeNoSense) {
  RandomMessages random(11);
  const auto expect_refused = [](const auto& message, const char* field) {
    const auto decoded = Decode(message, Encode(message));
    ASSERT_FALSE(decoded.ok()) << field;
    EXPECT_EQ(decoded.error().code, ErrorCode::kDataLoss);
    EXPECT_EQ(decoded.error().field, field);
  };
  Hello hello = random.MakeHello();
  hello.block_tokens = 17;
  expect_refused(WorkerMessage(hello), "blockTokens");
  hello = random.MakeHello();
  hello.engine_block_tokens = hello.block_tokens + 1;
  expect_refused(WorkerMessage(hello), "engineBlockTokens");
  hello = random.MakeHello();
  hello.max_sample_count = 0;
  expect_refused(WorkerMessage(hello), "maxSampleCount");
  hello = random.MakeHello();
  hello.sampling.repetition_penalty = std::numeric_limits<float>::infinity();
  expect_refused(WorkerMessage(hello), "repetitionPenalty");
  hello = random.MakeHello();
  hello.model = "\xff";
  expect_refused(WorkerMessage(hello), "model");
  Generate generate = random.MakeGenerate();
  generate.sampling.temperature = std::numeric_limits<float>::quiet_NaN();
  expect_refused(RouterMessage(generate), "temperature");
  generate = random.MakeGenerate();
  generate.prompt.clear();
  expect_refused(RouterMessage(generate), "prompt");
  generate = random.MakeGenerate();
  generate.block_hashes.resize(generate.prompt.size() / kMinBlockTokens + 1);
  expect_refused(RouterMessage(generate), "blockHashes");
  Pin pin = random.MakePin();
  pin.hashes.clear();
  expect_refused(RouterMessage(pin), "hashes");
  expect_refused(RouterMessage(Unpin{pin.root, {}}), "hashes");
  pin = random.MakePin();
  pin.duration_ms = kMaxKeepMs + 1;
  expect_refused(RouterMessage(pin), "durationMs");
  PromptToEvict prompt{{1, 2}, {7, 8, 9, 10}, {}};
  prompt.block_hashes.resize(2);
  expect_refused(RouterMessage(Evict{prompt, 1}), "blockHashes");
  expect_refused(RouterMessage(Evict{PromptToEvict{}, 1}), "tokens");
  WantPrefixes want = random.MakeWantPrefixes();
  want.answer_id = 0;
  expect_refused(RouterMessage(want), "answerId");
  const auto expect_prefix_refused = [&expect_refused](const UsedPrefix& prefix, const char* field) {
    expect_refused(WorkerMessage(Prefixes{1, {prefix}}), field);
  };
  expect_prefix_refused({.hash = {1, 2}, .block_count = 0, .hits = 1, .first_tokens = {}, .last_tokens = {}},
                        "prefixes.blockCount");
  expect_prefix_refused({.hash = {1, 2}, .block_count = 1, .hits = 0, .first_tokens = {}, .last_tokens = {}},
                        "prefixes.hits");
  UsedPrefix used = random.MakeUsedPrefix();
  used.block_count = 3;
  used.hashes = {{1, 1}, {2, 2}, {3, 3}};
  used.hash = {3, 3};
  used.own = {.first_block = 3, .root = {4, 4}};
  expect_prefix_refused(used, "prefixes.own.firstBlock");
  used.own.reset();
  used.hash = {2, 2};
  expect_prefix_refused(used, "prefixes.hashes");
  used.hash = {3, 3};
  used.block_count = 4;
  expect_prefix_refused(used, "prefixes.hashes");
  used.hashes.assign(WireLimits::kMaxPromptHashes, {3, 3});
  used.block_count = WireLimits::kMaxPromptHashes;
  EXPECT_TRUE(DecodeWorkerMessage(Encode(WorkerMessage(Prefixes{1, {used}}))).ok());
  expect_refused(WorkerMessage(Prefixes{1, {used, used}}), "prefixes.hashes");
  const auto expect_hold_refused = [&](auto change, const char* field) {
    Hold hold = random.MakeHold();
    change(hold);
    expect_refused(RouterMessage(hold), field);
  };
  expect_hold_refused([](Hold& hold) { hold.answer_id = 0; }, "answerId");
  expect_hold_refused([](Hold& hold) { hold.hashes.clear(); }, "hashes");
  expect_hold_refused([](Hold& hold) { hold.patience_ms = 0; }, "patienceMs");
  expect_hold_refused([](Hold& hold) { hold.patience_ms = kMaxHoldMs + 1; }, "patienceMs");
  expect_hold_refused([](Hold& hold) { hold.source.worker_id.clear(); }, "workerId");
  expect_hold_refused([](Hold& hold) { hold.first_position = WireLimits::kMaxPromptHashes; }, "firstPosition");
  expect_hold_refused(
      [](Hold& hold) {
        hold.first_position = 0;
        hold.parent = hold.root ^ BlockHash { 1, 1 };
      },
      "parent");
  for (const char* const address : {"", "worker-a:7100", "localhost:7100", "10.0.0.1", "10.0.0.1:0", "10.0.0.1:x",
                                    "::1:7100", "[10.0.0.1]:7100", "10.0.0.1:7100 "}) {
    expect_hold_refused([address](Hold& hold) { hold.source.address = address; }, "source.address");
    if (std::string_view(address).empty()) continue;  // a hello without it serves no blocks
    hello = random.MakeHello();
    hello.transfer.address = address;
    expect_refused(WorkerMessage(hello), "transfer.address");
  }
  for (const std::string& wrong : {std::string("secret"), std::string(kTransferSecretBytes, 'x')}) {
    hello = random.MakeHello();
    hello.transfer.secret = wrong;
    expect_refused(WorkerMessage(hello), "transfer.secret");
    expect_hold_refused([&wrong](Hold& hold) { hold.source.ticket = wrong; }, "source.ticket");
  }
  Step step = random.MakeStep();
  step.tokens.assign(1, TokenEvent());
  step.tokens[0].choice = kMaxSampleCount;
  expect_refused(WorkerMessage(step), "choice");
  step = random.MakeStep();
  step.tokens.assign(1, TokenEvent());
  step.tokens[0].finish = FinishReason::kError;
  expect_refused(WorkerMessage(step), "error");
  step = random.MakeStep();
  step.load.step_seconds = -1;
  expect_refused(WorkerMessage(step), "stepSeconds");
}

// Values that the router would use for its rates, or write into logs and labels.
class WorkersClaimsTest : public ::testing::Test {
 protected:
  static void ExpectRefused(const WorkerMessage& message, const char* field) {
    const auto decoded = DecodeWorkerMessage(Encode(message));
    ASSERT_FALSE(decoded.ok()) << field;
    EXPECT_EQ(decoded.error().field, field);
  }
  Step PlainStep() {
    Step step = random_.MakeStep();
    step.load.step_seconds = 1;
    step.load.step_prefill_tokens = 1000;
    step.load.step_decode_tokens = 10;
    return step;
  }

  RandomMessages random_{13};
};

TEST_F(WorkersClaimsTest, NoEngineStepsSoFastOrSoLong) {
  for (const double seconds : {1e-300, WireLimits::kMinStepSeconds / 2, WireLimits::kMaxStepSeconds * 2}) {
    Step step = PlainStep();
    step.load.step_seconds = seconds;
    ExpectRefused(step, "stepSeconds");
  }
  Step step = PlainStep();
  step.load.step_seconds = 1e-6;
  step.load.step_prefill_tokens = 1001;
  ExpectRefused(step, "stepPrefillTokens");
  step.load.step_seconds = 0;  // no step was computed
  EXPECT_TRUE(DecodeWorkerMessage(Encode(WorkerMessage(step))).ok());
}

TEST_F(WorkersClaimsTest, NoWorkerHasSoManyTokens) {
  Step step = PlainStep();
  step.load.queued_prefill_tokens = WireLimits::kMaxTokensOfAWorker + 1;
  ExpectRefused(step, "queuedPrefillTokens");
  step = PlainStep();
  step.load.running_context_tokens = WireLimits::kMaxTokensOfAWorker + 1;
  ExpectRefused(step, "runningContextTokens");
}

TEST_F(WorkersClaimsTest, NamesHaveNoControlCharacters) {
  const auto expect_refused = [&](std::string Hello::*name, const char* field) {
    for (const char* text : {"a\nb", "a\x1B[2J", "\x7F", "a\tb"}) {
      Hello hello = random_.MakeHello();
      hello.*name = text;
      ExpectRefused(hello, field);
    }
  };
  expect_refused(&Hello::worker_id, "workerId");
  expect_refused(&Hello::model, "model");
  expect_refused(&Hello::fingerprint, "fingerprint");
  expect_refused(&Hello::kv_dtype, "kvDtype");
  expect_refused(&Hello::tokenizer_digest, "tokenizerDigest");
}

TEST_F(WorkersClaimsTest, AChunkOfASnapshotIsNoLongerThanARouterTakesInAtOnce) {
  Snapshot chunk = random_.MakeSnapshot();
  chunk.runs.assign(2, StoredRun{0, std::vector<BlockHash>(WireLimits::kMaxSnapshotHashes / 2)});
  EXPECT_TRUE(DecodeWorkerMessage(Encode(WorkerMessage(chunk))).ok());
  chunk.runs.push_back(StoredRun{0, std::vector<BlockHash>(1)});
  ExpectRefused(chunk, "run.hashes");
}

TEST(CodecTest, RefusesWishesThatMakeNoSense) {
  RandomMessages random(12);
  const auto expect_refused = [&random](auto damage, const char* field) {
    Generate generate = random.MakeGenerate();
    generate.retention = Retention();
    damage(generate);
    const auto decoded = DecodeRouterMessage(Encode(RouterMessage(generate)));
    ASSERT_FALSE(decoded.ok()) << field;
    EXPECT_EQ(decoded.error().field, field);
  };
  expect_refused([](Generate& generate) { generate.tenant = "\xff"; }, "tenant");
  expect_refused([](Generate& generate) { generate.expect_return_ms = kMaxKeepMs + 1; }, "expectReturnMs");
  expect_refused([](Generate& generate) { generate.retention->prompt_duration_ms = kMaxKeepMs + 1; },
                 "retention.promptDurationMs");
  expect_refused([](Generate& generate) { generate.retention->decode_duration_ms = kMaxKeepMs + 1; },
                 "retention.decodeDurationMs");
  expect_refused([](Generate& generate) { generate.sampling.min_p = 1.5F; }, "minP");
  expect_refused([](Generate& generate) { generate.sampling.repetition_penalty = 0; }, "repetitionPenalty");
  expect_refused([](Generate& generate) { generate.sampling.presence_penalty = 3; }, "presencePenalty");
  expect_refused([](Generate& generate) { generate.sampling.frequency_penalty = -std::nanf(""); }, "frequencyPenalty");
  expect_refused([](Generate& generate) { generate.sampling.logit_bias = {{1, 101}}; }, "logitBias");
  expect_refused([](Generate& generate) { generate.sampling.logit_bias = {{1, 1}, {1, 1}}; }, "logitBias");
  expect_refused([](Generate& generate) { generate.sample_count = 0; }, "sampleCount");
  expect_refused([](Generate& generate) { generate.sample_count = kMaxSampleCount + 1; }, "sampleCount");
}

TEST(CodecTest, RefusesLogprobsThatMakeNoSense) {
  RandomMessages random(13);
  const auto expect_refused = [&random](auto damage, const char* field) {
    Step step = random.MakeStep();
    TokenEvent event;
    event.tokens = {1, 2};
    event.logprobs = {{-1, 1, {{7, -0.5F}}}, {-2, 3, {{8, -1}}}};
    event.prompt_logprobs = event.logprobs;
    damage(event);
    step.tokens = {event};
    const auto decoded = DecodeWorkerMessage(Encode(WorkerMessage(step)));
    ASSERT_FALSE(decoded.ok()) << field;
    EXPECT_EQ(decoded.error().field, field);
  };
  expect_refused([](TokenEvent& event) { event.logprobs[1].logprob = 0.25F; }, "logprob");
  expect_refused([](TokenEvent& event) { event.logprobs[0].logprob = std::nanf(""); }, "logprob");
  expect_refused([](TokenEvent& event) { event.prompt_logprobs[0].logprob = 2 * kMinLogprob; }, "logprob");
  expect_refused([](TokenEvent& event) { event.prompt_logprobs[1].rank = 0; }, "rank");
  expect_refused([](TokenEvent& event) { event.logprobs[0].top[0].logprob = -std::numeric_limits<float>::infinity(); },
                 "topLogprobs");
  expect_refused([](TokenEvent& event) { event.stop_token = 5; }, "stopToken");
}

// Our own encoder can not send numbers over their limit, so the bytes are changed in the frame.
TEST(CodecTest, RefusesMoreLikeliestTokensThanTheirLimit) {
  for (const bool of_prompt : {false, true}) {
    Generate generate = GenerateWithoutWishes();
    (of_prompt ? generate.prompt_logprobs : generate.output_logprobs) = 19;
    Bytes damaged = Encode(RouterMessage(generate));
    const auto found = std::find(damaged.begin(), damaged.end(), std::byte{19});
    ASSERT_NE(found, damaged.end());
    *found = std::byte{kMaxTopLogprobs + 1};
    const auto decoded = DecodeRouterMessage(damaged);
    ASSERT_FALSE(decoded.ok());
    EXPECT_EQ(decoded.error().field, of_prompt ? "promptLogprobs" : "outputLogprobs");
  }
}

TEST(CodecTest, RefusesAdaptersThatHaveNoNameOrAreTooMany) {
  RandomMessages random(14);
  Hello hello = random.MakeHello();
  const auto is_read = [&hello](std::vector<std::string> names) {
    hello.adapters = std::move(names);
    return DecodeWorkerMessage(Encode(hello)).ok() &&
           DecodeWorkerMessage(Encode(Adapters{.epoch = 1, .names = hello.adapters})).ok();
  };
  EXPECT_TRUE(is_read({"poet", std::string(WireLimits::kMaxAdapterBytes, 'a')}));
  EXPECT_TRUE(is_read(std::vector<std::string>(kMaxAdapters, "a")));
  EXPECT_FALSE(is_read({""}));
  EXPECT_FALSE(is_read({"two\nlines"}));
}

// Our own encoder can not send a priority over its limit, so the byte is changed in the frame.
TEST(CodecTest, RefusesPrioritiesOverTheirLimit) {
  Generate generate = GenerateWithoutWishes();
  generate.priority = 91;
  generate.retention = Retention{92, 1, 93, 1};
  const Bytes whole = Encode(RouterMessage(generate));
  const std::pair<int, const char*> cases[] = {
      {91, "priority"}, {92, "retention.promptPriority"}, {93, "retention.decodePriority"}};
  for (const auto& [value, field] : cases) {
    Bytes damaged = whole;
    const auto found =
        std::find(damaged.begin(), damaged.end(), static_cast<std::byte>(value ^ (value == 91 ? 50 : 35)));
    ASSERT_NE(found, damaged.end()) << field;
    *found = std::byte{0xff};
    const auto decoded = DecodeRouterMessage(damaged);
    ASSERT_FALSE(decoded.ok()) << field;
    EXPECT_EQ(decoded.error().field, field);
  }
}

// Nor can it send lists over their limits: these are built by hand.
TEST(CodecTest, RefusesMoreOfOtherRoutersThanMayBeTold) {
  const auto decode = [](unsigned prompt_count, unsigned hashes_each) {
    capnp::MallocMessageBuilder builder;
    auto step = builder.initRoot<schema::WorkerMessage>().initStep();
    step.setEpoch(1);
    step.setSequence(1);
    auto prompts = step.initLoad().initOtherPrompts(prompt_count);
    for (auto prompt : prompts) prompt.initHashes(hashes_each);
    const auto words = capnp::messageToFlatArray(builder);
    return DecodeWorkerMessage(std::as_bytes(std::span(words.begin(), words.size())));
  };
  EXPECT_TRUE(decode(kMaxOtherPrompts, kMaxOtherHashes / kMaxOtherPrompts).ok());
  const auto prompts = decode(kMaxOtherPrompts + 1, 0);
  ASSERT_FALSE(prompts.ok());
  EXPECT_EQ(prompts.error().field, "otherPrompts");
  const auto hashes = decode(2, kMaxOtherHashes / 2 + 1);
  ASSERT_FALSE(hashes.ok());
  EXPECT_EQ(hashes.error().field, "otherPrompts.hashes");
}

TEST(CodecTest, RefusesAHoldOfMoreBlocksThanTheLimit) {
  const auto decode = [](unsigned count) {
    capnp::MallocMessageBuilder builder;
    auto hold = builder.initRoot<schema::RouterMessage>().initHold();
    hold.setAnswerId(1);
    hold.setPatienceMs(1);
    hold.getSource().setWorkerId("worker-a");
    hold.getSource().setAddress("127.0.0.1:7100");
    hold.initHashes(count);
    const auto words = capnp::messageToFlatArray(builder);
    return DecodeRouterMessage(std::as_bytes(std::span(words.begin(), words.size())));
  };
  const auto most = decode(WireLimits::kMaxHeldHashes);
  EXPECT_TRUE(most.ok()) << most.error().ToString();
  const auto more = decode(WireLimits::kMaxHeldHashes + 1);
  ASSERT_FALSE(more.ok());
  EXPECT_EQ(more.error().field, "hashes");
}

TEST(CodecTest, RefusesTextsOverTheirLimit) {
  capnp::MallocMessageBuilder builder;
  auto hello = builder.initRoot<schema::WorkerMessage>().initHello();
  hello.getVersion().setMajor(kProtocolMajor);
  hello.setEpoch(1);
  const std::string worker_id(WireLimits::kMaxWorkerIdBytes + 1, 'w');
  hello.setWorkerId(worker_id.c_str());
  const auto words = capnp::messageToFlatArray(builder);
  const auto decoded = DecodeWorkerMessage(std::as_bytes(std::span(words.begin(), words.size())));
  ASSERT_FALSE(decoded.ok());
  EXPECT_EQ(decoded.error().field, "workerId");
  EXPECT_EQ(decoded.error().message, "201 bytes of text, limit 200");
}

TEST(CodecTest, RefusesMorePrefixesThanMayBeTold) {
  const auto decode = [](unsigned prefix_count, unsigned token_count) {
    capnp::MallocMessageBuilder builder;
    auto answer = builder.initRoot<schema::WorkerMessage>().initPrefixes();
    for (auto prefix : answer.initPrefixes(prefix_count)) {
      prefix.setBlockCount(1);
      prefix.setHits(1);
      prefix.initLastTokens(token_count);
    }
    const auto words = capnp::messageToFlatArray(builder);
    return DecodeWorkerMessage(std::as_bytes(std::span(words.begin(), words.size())));
  };
  EXPECT_TRUE(decode(kMaxUsedPrefixes, kMaxBlockTokens).ok());
  EXPECT_EQ(decode(kMaxUsedPrefixes + 1, 0).error().field, "prefixes");
  EXPECT_EQ(decode(1, kMaxBlockTokens + 1).error().field, "prefixes.lastTokens");
}

TEST(CodecTest, RefusesAQuestionForNoPrefixesOrTooMany) {
  for (const std::uint32_t most : {0U, kMaxUsedPrefixes + 1}) {
    capnp::MallocMessageBuilder builder;
    auto want = builder.initRoot<schema::RouterMessage>().initWantPrefixes();
    want.setAnswerId(1);
    want.setMost(most);
    const auto words = capnp::messageToFlatArray(builder);
    const auto decoded = DecodeRouterMessage(std::as_bytes(std::span(words.begin(), words.size())));
    ASSERT_FALSE(decoded.ok());
    EXPECT_EQ(decoded.error().field, "most");
  }
}

}  // namespace
}  // namespace roost::wire
