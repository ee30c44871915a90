#include "common/wire/codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <future>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "tests/common/wire/codec_support.h"
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
    ExpectRoundTrip(random.Peer());
  }
}

TEST(CodecTest, NothingStaysOfTheMessagesBefore) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    RandomMessages random(seed);
    const WorkerMessage message = random.Worker();
    const Bytes after_others = Encode(message);
    const Bytes first = std::async(std::launch::async, [&] { return Encode(message); }).get();
    EXPECT_EQ(after_others, first);
  }
}

TEST(CodecTest, DamagedFramesGetAnAnswer) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    RandomMessages random(seed);
    Rng rng(seed);
    DamageInManyWays(random.Worker(), rng);
    DamageInManyWays(random.Router(), rng);
    DamageInManyWays(random.Peer(), rng);
  }
}

TEST(CodecTest, NoiseIsRefused) {
  Rng rng(1);
  for (int i = 0; i < 2000; ++i) {
    Bytes noise(rng.Below(40) * 8);
    for (std::byte& byte : noise) byte = static_cast<std::byte>(rng());
    ExpectAnswer(WorkerMessage(), noise);
    ExpectAnswer(RouterMessage(), noise);
    ExpectAnswer(PeerMessage(), noise);
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
            "0000000001000000"  // a struct of one data word
            "8877665544332211");
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
            "000000002e00000000000000010001000200000000000000000000000d000d00"
            "07000000000000000000003f0000c00028000000100000006300000000000000"
            "02000000017401002000000005000000e8030000000000008877665544332211"
            "30750000000000000000003e00002000000000bf0000803e0100051401000000"
            "0300000000000000310000002400000034000000020000003900000017000000"
            "490000000c000000490000004a0000004c00000003000000350000000f000000"
            "00000000000000004d0000000a0000000000000000000000490000002a000000"
            "0000000000000000000000000000000001000000020000000300000004000000"
            "0807060504030201100f0e0d0c0b0a090400000002000000a8a7a6a5a4a3a2a1"
            "b8b7b6b5b4b3b2b10400000001000000060000000000c8c20500000000000000"
            "726f6f73746572730000000000000000733700000000000060ea000000000000"
            "88130000000000000000000000000000706f657400000000");
}

// Older routers read each feature as a field of its own.
TEST(CodecTest, FeaturesAreBooleansOnTheWire) {
  RandomMessages random(21);
  Hello hello = random.MakeHello();
  hello.features = {};
  const Bytes without = Encode(WorkerMessage(hello));
  std::set<std::pair<std::size_t, std::byte>> changes;
  for (std::size_t i = 0; i < kFeatureNames.size(); ++i) {
    hello.features = {static_cast<Feature>(i)};
    const Bytes with = Encode(WorkerMessage(hello));
    ASSERT_EQ(with.size(), without.size());
    const auto [a, b] = std::mismatch(with.begin(), with.end(), without.begin());
    ASSERT_NE(a, with.end()) << kFeatureNames.at(i);
    EXPECT_EQ(std::popcount(static_cast<unsigned>(*a ^ *b)), 1) << kFeatureNames.at(i);
    EXPECT_TRUE(std::equal(a + 1, with.end(), b + 1));
    changes.emplace(a - with.begin(), *a ^ *b);
    ExpectRoundTrip(WorkerMessage(hello));
  }
  EXPECT_EQ(changes.size(), kFeatureNames.size());
}

TEST(CodecTest, ARequestNeedsTheFeaturesThatItUses) {
  Generate generate;
  EXPECT_TRUE(NeedsOf(generate).empty());
  generate.sampling.presence_penalty = 1;
  EXPECT_EQ(NeedsOf(generate), Features{Feature::kFullSampling});
  generate.prompt_logprobs = 0;
  generate.min_output_tokens = 1;
  generate.constraint.emplace();
  EXPECT_EQ(NeedsOf(generate), (Features{Feature::kFullSampling, Feature::kLogprobs, Feature::kMinOutputTokens,
                                         Feature::kConstrainsOutput}));
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
