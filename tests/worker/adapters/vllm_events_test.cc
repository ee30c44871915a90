#include "worker/adapters/events/cache_change.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "common/base/rng.h"
#include "tests/worker/adapters/event_tools.h"
#include "worker/adapters/events/message_pack.h"

namespace roost::worker::adapters {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing_support::BytesOf;
using testing_support::Json;
using testing_support::Packed;
using testing_support::PackedMessage;

CacheChange OnlyVllmChange(const Json& event, const Json& rank = 0) {
  const auto changes = DecodeVllmEvents(BytesOf(PackedMessage(Json::array({event}), rank)));
  EXPECT_TRUE(changes.ok()) << (changes.ok() ? "" : changes.error().ToString());
  if (!changes.ok() || changes.value().size() != 1) return UnknownEvent();
  return changes.value().front();
}

Stored VllmStoredOf(const Json& event, const Json& rank = 0) {
  const CacheChange change = OnlyVllmChange(event, rank);
  EXPECT_TRUE(std::holds_alternative<Stored>(change));
  return std::holds_alternative<Stored>(change) ? std::get<Stored>(change) : Stored();
}

bool IsReadable(const std::string& message) { return DecodeVllmEvents(BytesOf(message)).ok(); }

// Two blocks of four tokens behind another, as 0.33 tells of them.
Json MapEvent() {
  return {{"type", "BlockStored"},  {"block_hashes", {0x0102030405060708ULL, 0xFFFFFFFFFFFFFFFFULL}},
          {"parent_block_hash", 7}, {"token_ids", {1, 2, 3, 4, 5, 6, 7, 4294967295U}},
          {"block_size", 4},        {"lora_id", nullptr},
          {"medium", "GPU"},        {"lora_name", nullptr}};
}

Json With(Json event, const std::string& name, Json value) {
  event[name] = std::move(value);
  return event;
}

const std::string kHash1 = "\x01\x02\x03\x04\x05\x06\x07\x08";
const std::string kHash2 = "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF";
const std::string kHash7 = std::string(7, '\0') + '\7';

TEST(VllmEventsTest, ReadsAStoredRun) {
  const Stored stored = VllmStoredOf(MapEvent());
  EXPECT_THAT(stored.hashes, ElementsAre(kHash1, kHash2));
  EXPECT_EQ(stored.parent, kHash7);
  EXPECT_THAT(stored.token_ids, ElementsAre(1, 2, 3, 4, 5, 6, 7, 4294967295U));
  EXPECT_EQ(stored.block_tokens, 4U);
  EXPECT_EQ(stored.place, CachePlace());
  EXPECT_EQ(stored.attention, Attention::kFull);
  EXPECT_EQ(stored.token_form, TokenForm::kPlain);
  EXPECT_EQ(stored.adapter, std::nullopt);
  EXPECT_THAT(stored.extra_keys, IsEmpty());
}

TEST(VllmEventsTest, ReadsTheArraysOfEachRelease) {
  // Each release appended to the fields of the ones before.
  const Json hashes{0x0102030405060708ULL, 0xFFFFFFFFFFFFFFFFULL};
  Json event{"BlockStored", hashes, 7, {1, 2, 3, 4, 5, 6, 7, 4294967295U}, 4, nullptr, "GPU"};
  Stored expected = VllmStoredOf(MapEvent());
  EXPECT_EQ(VllmStoredOf(event), expected) << "0.11";
  event.push_back(nullptr);
  EXPECT_EQ(VllmStoredOf(event), expected) << "0.14";
  event.push_back({Json::array({"grain"}), nullptr});
  expected.extra_keys = {ExtraKeys::kSalt, ExtraKeys::kNone};
  expected.salt = "grain";
  EXPECT_EQ(VllmStoredOf(event), expected) << "0.17";
  event.push_back(3);
  expected.place.group = 3;
  EXPECT_EQ(VllmStoredOf(event), expected) << "0.20";
  event.push_back("full_attention");
  event.push_back(nullptr);
  EXPECT_EQ(VllmStoredOf(event), expected) << "0.22";
  event.back() = 4096;
  EXPECT_EQ(VllmStoredOf(event).attention, Attention::kOther);
  event.push_back("a field of a later release");
  EXPECT_EQ(VllmStoredOf(event).hashes, expected.hashes);
}

TEST(VllmEventsTest, ReadsArraysOfRemovals) {
  const auto removed = [](const Json& event) { return std::get<Removed>(OnlyVllmChange(event, 2)); };
  EXPECT_EQ(removed({"BlockRemoved", {7}}), (Removed{{2, 0, true}, {kHash7}}));
  EXPECT_EQ(removed({"BlockRemoved", {7}, "CPU"}), (Removed{{2, 0, false}, {kHash7}}));
  EXPECT_EQ(removed({"BlockRemoved", {7}, "GPU", 5}), (Removed{{2, 5, true}, {kHash7}}));
  EXPECT_EQ(std::get<Cleared>(OnlyVllmChange(Json::array({"AllBlocksCleared"}), 2)), Cleared{2});
}

TEST(VllmEventsTest, ReadsMapsOfRemovals) {
  const Json event{{"type", "BlockRemoved"}, {"block_hashes", {7}}, {"medium", "GPU"}, {"group_idx", 5}};
  EXPECT_EQ(std::get<Removed>(OnlyVllmChange(event)), (Removed{{0, 5, true}, {kHash7}}));
  EXPECT_EQ(std::get<Cleared>(OnlyVllmChange({{"type", "AllBlocksCleared"}})), Cleared{0});
}

TEST(VllmEventsTest, TakesHashesOfBytes) {
  const Json hash = Json::binary(std::vector<std::uint8_t>(32, 9));
  const Stored stored =
      VllmStoredOf(With(With(MapEvent(), "block_hashes", Json::array({hash, hash})), "parent_block_hash", hash));
  EXPECT_THAT(stored.hashes, ElementsAre(std::string(32, '\x09'), std::string(32, '\x09')));
  EXPECT_EQ(stored.parent, std::string(32, '\x09'));
}

TEST(VllmEventsTest, TellsWhereBlocksLie) {
  EXPECT_EQ(VllmStoredOf(With(MapEvent(), "medium", "CPU")).place.on_device, false);
  EXPECT_EQ(VllmStoredOf(With(MapEvent(), "medium", nullptr)).place.on_device, true);
  EXPECT_EQ(VllmStoredOf(With(MapEvent(), "locality", "LOCAL")).place.on_device, true);
  EXPECT_EQ(VllmStoredOf(With(MapEvent(), "locality", "REMOTE")).place.on_device, false);
  EXPECT_EQ(VllmStoredOf(With(MapEvent(), "group_idx", 4)).place.group, 4U);
  EXPECT_EQ(VllmStoredOf(MapEvent(), 6).place.rank, 6U);
  EXPECT_EQ(VllmStoredOf(MapEvent(), nullptr).place.rank, 0U);
}

TEST(VllmEventsTest, TellsWhatElseTheHashCovers) {
  const auto keys = [](const Json& extra) { return VllmStoredOf(With(MapEvent(), "extra_keys", extra)).extra_keys; };
  EXPECT_THAT(keys({nullptr, Json::array()}), ElementsAre(ExtraKeys::kNone, ExtraKeys::kNone));
  EXPECT_THAT(keys({{"a", "b"}, Json::array({3})}), ElementsAre(ExtraKeys::kOther, ExtraKeys::kOther));
  EXPECT_THAT(keys(Json::array({Json::array({Json::array({"image", 3})})})), ElementsAre(ExtraKeys::kOther));
  const auto form = [](const Json& ahead) {
    return VllmStoredOf(With(MapEvent(), "lookahead_token_ids", ahead)).token_form;
  };
  EXPECT_EQ(form(nullptr), TokenForm::kPlain);
  EXPECT_EQ(form(Json::array({nullptr, Json::array()})), TokenForm::kPlain);
  EXPECT_EQ(form({9}), TokenForm::kLookahead);
  EXPECT_EQ(form(Json::array({nullptr, {9}})), TokenForm::kLookahead);
}

TEST(VllmEventsTest, TellsTheAdapterAndTakesItFromTheKeys) {
  EXPECT_EQ(VllmStoredOf(With(MapEvent(), "lora_name", "poet")).adapter, "poet");
  EXPECT_EQ(VllmStoredOf(With(MapEvent(), "lora_id", 1)).adapter, "") << "a number says nothing";
  const Json poet = With(With(MapEvent(), "lora_id", 1), "lora_name", "poet");
  const Stored stored = VllmStoredOf(With(poet, "extra_keys", {{"poet", "grain"}, Json::array({"poet"})}));
  EXPECT_EQ(stored.adapter, "poet");
  EXPECT_THAT(stored.extra_keys, ElementsAre(ExtraKeys::kSalt, ExtraKeys::kNone));
  EXPECT_EQ(stored.salt, "grain");
  const Stored image = VllmStoredOf(With(poet, "extra_keys", Json::array({Json::array({"poet", {"image", 3}})})));
  EXPECT_THAT(image.extra_keys, ElementsAre(ExtraKeys::kOther));
  EXPECT_THAT(VllmStoredOf(With(MapEvent(), "extra_keys", Json::array({Json::array({"poet"})}))).extra_keys,
              ElementsAre(ExtraKeys::kSalt))
      << "without an adapter it is a salt";
  EXPECT_FALSE(IsReadable(PackedMessage(Json::array({With(MapEvent(), "lora_name", 7)}))));
}

TEST(VllmEventsTest, TellsOfOtherAttention) {
  const auto of = [](const char* kind) { return VllmStoredOf(With(MapEvent(), "kv_cache_spec_kind", kind)).attention; };
  EXPECT_EQ(of("full_attention"), Attention::kFull);
  EXPECT_EQ(of("mla_attention"), Attention::kFull);
  EXPECT_EQ(of("mamba"), Attention::kRecurrent);
  EXPECT_EQ(of("sliding_window"), Attention::kOther) << "its size is not told";
  EXPECT_EQ(of("chunked_local_attention"), Attention::kOther);
  const Stored window =
      VllmStoredOf(With(With(MapEvent(), "kv_cache_spec_kind", "sliding_window"), "kv_cache_spec_sliding_window", 512));
  EXPECT_EQ(window.attention, Attention::kWindow);
  EXPECT_EQ(window.window_tokens, 512U);
}

TEST(VllmEventsTest, PassesOverEventsOfALaterRelease) {
  EXPECT_TRUE(std::holds_alternative<UnknownEvent>(OnlyVllmChange({{"type", "BlockMoved"}, {"to", "MARS"}})));
  EXPECT_EQ(VllmStoredOf(With(MapEvent(), "mood", "good")), VllmStoredOf(MapEvent()));
}

TEST(VllmEventsTest, RefusesFieldsOfWrongTypes) {
  EXPECT_TRUE(IsReadable(PackedMessage(Json::array({MapEvent()}))));
  const std::vector<std::pair<std::string, Json>> wrong{
      {"block_hashes", 7},
      {"block_hashes", {"text"}},
      {"block_hashes", {Json::binary({})}},
      {"block_hashes", nullptr},
      {"parent_block_hash", "text"},
      {"token_ids", {-1}},
      {"token_ids", {1.5}},
      {"token_ids", 1},
      {"token_ids", {4294967296ULL}},
      {"block_size", nullptr},
      {"block_size", "four"},
      {"medium", 3},
      {"group_idx", "first"},
      {"extra_keys", 3},
      {"type", 3},
  };
  for (const auto& [name, value] : wrong) {
    EXPECT_FALSE(IsReadable(PackedMessage(Json::array({With(MapEvent(), name, value)})))) << name << value;
  }
  EXPECT_FALSE(IsReadable(PackedMessage(3)));
  EXPECT_FALSE(IsReadable(PackedMessage(Json::array({3}))));
  EXPECT_FALSE(IsReadable(PackedMessage(Json::array({Json::array()}))));
  EXPECT_FALSE(IsReadable(PackedMessage(Json::array(), "rank")));
  EXPECT_FALSE(IsReadable(Packed(Json::array({1.5}))));
  EXPECT_FALSE(IsReadable(Packed(3)));
}

// ---- SGLang ----

Stored SglangStoredOf(const Json& event) {
  const auto changes = DecodeSglangEvents(BytesOf(PackedMessage(Json::array({event}), 0)));
  EXPECT_TRUE(changes.ok());
  const bool is_stored = changes.ok() && std::holds_alternative<Stored>(changes.value().at(0));
  EXPECT_TRUE(is_stored);
  return is_stored ? std::get<Stored>(changes.value()[0]) : Stored();
}

TEST(SglangEventsTest, TakesSignedHashes) {
  const Stored stored = SglangStoredOf(With(With(MapEvent(), "block_hashes", {-1, 7}), "parent_block_hash", -1));
  EXPECT_THAT(stored.hashes, ElementsAre(kHash2, kHash7));
  EXPECT_EQ(stored.parent, kHash2);
}

TEST(SglangEventsTest, TakesTheSaltOfAFirstBlock) {
  Json event = With(MapEvent(), "cache_salt", "grain");
  EXPECT_THAT(SglangStoredOf(event).extra_keys, IsEmpty()) << "it follows from the parent";
  event["parent_block_hash"] = nullptr;
  EXPECT_THAT(SglangStoredOf(event).extra_keys, ElementsAre(ExtraKeys::kSalt));
  EXPECT_EQ(SglangStoredOf(event).salt, "grain");
  event["cache_salt"] = "";
  EXPECT_THAT(SglangStoredOf(event).extra_keys, IsEmpty());
}

TEST(SglangEventsTest, KnowsItsMediums) {
  EXPECT_TRUE(SglangStoredOf(MapEvent()).place.on_device);
  for (const char* medium : {"CPU_PINNED", "DISK", "EXTERNAL"}) {
    EXPECT_FALSE(SglangStoredOf(With(MapEvent(), "medium", medium)).place.on_device) << medium;
  }
}

TEST(SglangEventsTest, PairsOfTokensAreNoTokens) {
  const Stored stored = SglangStoredOf(With(MapEvent(), "token_ids", {{1, 2}, {2, 3}}));
  EXPECT_EQ(stored.token_form, TokenForm::kOther);
  EXPECT_THAT(stored.token_ids, IsEmpty());
}

TEST(SglangEventsTest, ReadsTheOtherEvents) {
  const Json events{{{"type", "BlockRemoved"}, {"block_hashes", {-1}}, {"medium", "GPU"}},
                    {{"type", "AllBlocksCleared"}},
                    {{"type", "LoadStat"}}};
  const auto changes = DecodeSglangEvents(BytesOf(PackedMessage(events, 1)));
  ASSERT_TRUE(changes.ok());
  EXPECT_THAT(changes.value(), ElementsAre(CacheChange(Removed{{1, 0, true}, {kHash2}}), CacheChange(Cleared{1}),
                                           CacheChange(UnknownEvent())));
}

// ---- hostile bytes ----

TEST(HostileEventsTest, AMessageCutAnywhereIsRefused) {
  const std::string whole = PackedMessage(Json::array({MapEvent()}));
  for (std::size_t size = 0; size < whole.size(); ++size) EXPECT_FALSE(IsReadable(whole.substr(0, size))) << size;
  EXPECT_FALSE(IsReadable(whole + '\0'));
}

TEST(HostileEventsTest, DepthIsBounded) {
  EXPECT_FALSE(IsReadable(std::string(1'000'000, '\x91')));
  const auto nested = [](std::size_t depth) { return std::string(depth, '\x91') + '\xC0'; };
  EXPECT_TRUE(ParseMessagePack(BytesOf(nested(kMaxPackedDepth))).ok());
  EXPECT_FALSE(ParseMessagePack(BytesOf(nested(kMaxPackedDepth + 1))).ok());
}

TEST(HostileEventsTest, AnnouncedLengthsReserveNothing) {
  for (const char* head : {"\xDD", "\xDF", "\xDB", "\xC6", "\xC9"}) {
    EXPECT_FALSE(IsReadable(std::string(head) + "\xFF\xFF\xFF\xFF" + "\x01\x01"));
  }
}

TEST(HostileEventsTest, SizeAndCountAreBounded) {
  const auto array32 = [](std::uint32_t count) {
    std::string bytes = "\xDD";
    for (unsigned shift = 32; shift > 0; shift -= 8) bytes += static_cast<char>((count >> (shift - 8)) & 0xFFU);
    return bytes + std::string(count, '\xC0');
  };
  EXPECT_TRUE(ParseMessagePack(BytesOf(array32(kMaxPackedValues / 8))).ok());
  EXPECT_FALSE(ParseMessagePack(BytesOf(array32(kMaxPackedValues))).ok());
  EXPECT_FALSE(ParseMessagePack(BytesOf(std::string(kMaxPackedBytes + 1, '\xC0'))).ok());
}

TEST(HostileEventsTest, RandomBytesAreSurvived) {
  Rng rng(1);
  const std::string whole = PackedMessage(Json::array({MapEvent(), With(MapEvent(), "extra_keys", {{"a"}, {}})}));
  for (int round = 0; round < 10'000; ++round) {
    std::string bytes = whole;
    for (std::uint64_t changes = 1 + rng.Below(4); changes > 0; --changes) {
      bytes[rng.Below(bytes.size())] = static_cast<char>(rng.Below(256));
    }
    (void)DecodeVllmEvents(BytesOf(bytes));
    (void)DecodeSglangEvents(BytesOf(bytes));
  }
}

}  // namespace
}  // namespace roost::worker::adapters
