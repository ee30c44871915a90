#include "common/wire/codec.h"

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "schema/roost.capnp.h"
#include "tests/common/wire/random_messages.h"

namespace roost::wire {
namespace {

using testing::RandomMessages;

std::string ToHex(const Bytes& bytes) {
  std::string hex;
  for (const std::byte byte : bytes) hex += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return hex;
}

Bytes FromHex(std::string_view hex) {
  Bytes bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

Result<std::optional<WorkerMessage>> Decode(const WorkerMessage&, std::span<const std::byte> frame) {
  return DecodeWorkerMessage(frame);
}
Result<std::optional<RouterMessage>> Decode(const RouterMessage&, std::span<const std::byte> frame) {
  return DecodeRouterMessage(frame);
}

template <typename Message>
void ExpectRoundTrip(const Message& message) {
  const auto decoded = Decode(message, Encode(message));
  ASSERT_TRUE(decoded.ok()) << decoded.error().ToString();
  ASSERT_TRUE(decoded.value().has_value());
  EXPECT_TRUE(*decoded.value() == message);
}

// Decoding must return an answer for any input; a message that it accepts must encode again.
template <typename Message>
void ExpectAnswer(const Message& kind, std::span<const std::byte> frame) {
  const auto decoded = Decode(kind, frame);
  if (decoded.ok() && decoded.value().has_value()) {
    EXPECT_FALSE(Encode(*decoded.value()).empty());
  }
}

template <typename Message>
void DamageInManyWays(const Message& message, Rng& rng) {
  const Bytes whole = Encode(message);
  for (std::size_t size = 0; size < whole.size(); ++size) ExpectAnswer(message, std::span(whole).first(size));
  for (int i = 0; i < 100; ++i) {
    Bytes damaged = whole;
    for (std::uint64_t flips = 1 + rng.Below(4); flips > 0; --flips) {
      damaged[rng.Below(damaged.size())] ^= std::byte{1} << static_cast<int>(rng.Below(8));
    }
    ExpectAnswer(message, damaged);
  }
}

TEST(CodecTest, EveryMessageReadsBackEqual) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(seed);
    RandomMessages random(seed);
    ExpectRoundTrip(random.Worker());
    ExpectRoundTrip(random.Router());
  }
}

TEST(CodecTest, DamagedFramesGetAnAnswer) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    RandomMessages random(seed);
    Rng rng(seed);
    DamageInManyWays(random.Worker(), rng);
    DamageInManyWays(random.Router(), rng);
  }
}

TEST(CodecTest, NoiseIsRefused) {
  Rng rng(1);
  for (int i = 0; i < 2000; ++i) {
    Bytes noise(rng.Below(40) * 8);
    for (std::byte& byte : noise) byte = static_cast<std::byte>(rng());
    ExpectAnswer(WorkerMessage(), noise);
    ExpectAnswer(RouterMessage(), noise);
  }
}

TEST(CodecTest, ReadsFramesAtAnyAlignment) {
  RandomMessages random(5);
  const WorkerMessage message = random.MakeStep();
  const Bytes frame = Encode(message);
  for (std::size_t shift = 0; shift < 8; ++shift) {
    Bytes shifted(shift + frame.size());
    std::memcpy(shifted.data() + shift, frame.data(), frame.size());
    const auto decoded = DecodeWorkerMessage(std::span(shifted).subspan(shift));
    ASSERT_TRUE(decoded.ok());
    EXPECT_TRUE(*decoded.value() == message);
  }
}

// Changing these bytes changes the protocol. Fields added at the end of a message lengthen it, and peers of the
// previous version still understand it; they do not understand any other change.
TEST(CodecTest, BytesOfACancelDoNotChange) {
  EXPECT_EQ(ToHex(Encode(RouterMessage(Cancel{RequestId(0x1122334455667788)}))),
            "0000000004000000"  // one segment of four words
            "0000000001000100"  // root: a struct of one data word and one pointer
            "0300000000000000"  // member 3 of the union
            "0000000001000000"  // which is a struct of one data word
            "8877665544332211");
}

Generate GenerateWithoutWishes() {
  Generate generate;
  generate.request_id = RequestId(7);
  generate.prompt = {1, 2, 3, 4};
  generate.root = {0x0102030405060708, 0x090a0b0c0d0e0f10};
  generate.block_hashes = {{0xa1a2a3a4a5a6a7a8, 0xb1b2b3b4b5b6b7b8}};
  generate.sampling = {.temperature = 0.5F, .top_p = 0.75F, .top_k = 40, .seed = 99};
  generate.max_output_tokens = 16;
  generate.first_output_index = 2;
  generate.stop_tokens = {5};
  generate.ignore_eos = true;
  generate.expected_cached_tokens = 32;
  generate.deadline_ms = 1000;
  return generate;
}

TEST(CodecTest, BytesOfAGenerateDoNotChange) {
  Generate generate = GenerateWithoutWishes();
  generate.tenant = "roosters";
  generate.adapter = "poet";
  generate.cache_mode = CacheMode::kOff;
  generate.priority = 70;
  generate.retention = Retention{80, 60'000, 20, 5'000};
  generate.session_hash = 0x1122334455667788;
  generate.expect_return_ms = 30'000;
  generate.sample_count = 4;
  generate.sampling.min_p = 0.125F;
  generate.sampling.repetition_penalty = 1.25F;
  generate.sampling.presence_penalty = -0.5F;
  generate.sampling.frequency_penalty = 0.25F;
  generate.sampling.logit_bias = {{6, -100}};
  generate.output_logprobs = 5;
  generate.prompt_logprobs = 20;
  generate.min_output_tokens = 3;
  EXPECT_EQ(ToHex(Encode(RouterMessage(generate))),
            "000000002c00000000000000010001000200000000000000000000000d000b00"
            "07000000000000000000003f0000c00028000000100000006300000000000000"
            "02000000017401002000000005000000e8030000000000008877665544332211"
            "30750000000000000000003e00002000000000bf0000803e0100051401000000"
            "030000000000000029000000240000002c000000020000003100000017000000"
            "410000000c000000450000004a0000004c000000030000002d0000000f000000"
            "0000000000000000310000000a0000000000000000000000350000002a000000"
            "010000000200000003000000040000000807060504030201100f0e0d0c0b0a09"
            "0400000002000000a8a7a6a5a4a3a2a1b8b7b6b5b4b3b2b10400000001000000"
            "060000000000c8c205000000000000000000000000000000726f6f7374657273"
            "0000000000000000706f657400000000733700000000000060ea000000000000"
            "8813000000000000");
}

TEST(CodecTest, BytesOfAPinDoNotChange) {
  const Pin pin{{1, 2}, {{0xa1a2a3a4a5a6a7a8, 0xb1b2b3b4b5b6b7b8}}, 600'000, 7};
  EXPECT_EQ(ToHex(Encode(RouterMessage(pin))),
            "000000000c000000000000000100010008000000000000000000000002000200"
            "c027090000000000070000000000000004000000020000000900000017000000"
            "010000000000000002000000000000000400000002000000a8a7a6a5a4a3a2a1"
            "b8b7b6b5b4b3b2b1");
}

// As sent by a peer that does not know about answers.
TEST(CodecTest, AShorterPinWantsNoAnswer) {
  const auto decoded =
      DecodeRouterMessage(FromHex("000000000b000000000000000100010008000000000000000000000001000200"
                                  "c027090000000000040000000200000009000000170000000100000000000000"
                                  "02000000000000000400000002000000a8a7a6a5a4a3a2a1b8b7b6b5b4b3b2b1"));
  ASSERT_TRUE(decoded.ok()) << decoded.error().ToString();
  EXPECT_TRUE(*decoded.value() == RouterMessage(Pin{{1, 2}, {{0xa1a2a3a4a5a6a7a8, 0xb1b2b3b4b5b6b7b8}}, 600'000, 0}));
}

// As sent by a peer that does not know about tenants, retention, sessions, choices, penalties and log probabilities.
TEST(CodecTest, AShorterGenerateMeansTheDefaults) {
  const Bytes frame = FromHex(
      "0000000016000000000000000100010002000000000000000000000007000400"
      "07000000000000000000003f0000c00028000000100000006300000000000000"
      "02000000010000002000000000000000e8030000000000000d00000024000000"
      "100000000200000015000000170000001d0000000c0000000100000002000000"
      "03000000040000000807060504030201100f0e0d0c0b0a090400000002000000"
      "a8a7a6a5a4a3a2a1b8b7b6b5b4b3b2b10500000000000000");
  const auto decoded = DecodeRouterMessage(frame);
  ASSERT_TRUE(decoded.ok()) << decoded.error().ToString();
  EXPECT_TRUE(*decoded.value() == RouterMessage(GenerateWithoutWishes()));
}

// A hand-made frame with an empty message: [segment count - 1, segment size], a root of one data word, the union's tag.
Bytes FrameWithTag(std::uint16_t tag) {
  const std::uint64_t words[] = {std::uint64_t{3} << 32U, (std::uint64_t{1} << 32U) | (std::uint64_t{1} << 48U), tag,
                                 0};
  Bytes frame(sizeof(words));
  std::memcpy(frame.data(), words, sizeof(words));
  return frame;
}

TEST(CodecTest, UnknownKindIsNoError) {
  const auto from_worker = DecodeWorkerMessage(FrameWithTag(999));
  ASSERT_TRUE(from_worker.ok()) << from_worker.error().ToString();
  EXPECT_FALSE(from_worker.value().has_value());
  const auto from_router = DecodeRouterMessage(FrameWithTag(999));
  ASSERT_TRUE(from_router.ok());
  EXPECT_FALSE(from_router.value().has_value());
}

TEST(CodecTest, EmptyMessageIsMalformed) {
  EXPECT_FALSE(DecodeWorkerMessage(FrameWithTag(0)).ok());
  EXPECT_FALSE(DecodeRouterMessage(FrameWithTag(0)).ok());
  EXPECT_FALSE(DecodeWorkerMessage({}).ok());
}

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
  hello.worker_id = std::string(WireLimits::kMaxWorkerIdBytes + 1, 'w');
  expect_refused(WorkerMessage(hello), "workerId");
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
  expect_refused([](TokenEvent& event) { event.prompt_logprobs[0].logprob = 2 * kLeastLogprob; }, "logprob");
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

// Our own encoder can not send a priority over its limit, so the byte is changed in the frame.
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

TEST(CodecTest, LongErrorMessagesAreCutToValidText) {
  Error error{ErrorCode::kInternal, {}, {}};
  for (int i = 0; i < 3000; ++i) error.message += "€\xff";
  TokenEvent event;
  event.finish = FinishReason::kError;
  event.error = error;
  const WorkerMessage message = Step{.epoch = 1, .sequence = 1, .tokens = {event}, .events = {}, .load = {}};
  const auto decoded = DecodeWorkerMessage(Encode(message));
  ASSERT_TRUE(decoded.ok()) << decoded.error().ToString();
  EXPECT_TRUE(std::get<Step>(*decoded.value()).tokens.at(0).error->message.starts_with("€"));
}

TEST(CodecTest, LargestPromptAndATokenizerOfTwentyMegabytesFit) {
  Generate generate;
  generate.prompt.assign(WireLimits::kMaxPromptTokens, 3);
  generate.block_hashes.assign(generate.prompt.size() / kMinBlockTokens, BlockHash{1, 2});
  ExpectRoundTrip(RouterMessage(generate));
  ExpectRoundTrip(RouterMessage(Pin{generate.root, generate.block_hashes, 0}));
  ExpectRoundTrip(RouterMessage(Evict{PromptToEvict{generate.root, generate.prompt, generate.block_hashes}, 1}));
  ExpectRoundTrip(WorkerMessage(Tokenizer{"digest", std::string(20'000'000, 'x'), "template", "<s>", "</s>"}));
}

}  // namespace
}  // namespace roost::wire
