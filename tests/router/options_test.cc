#include "router/options.h"

#include <gtest/gtest.h>

#include <vector>

#include "common/config/config.h"
#include "common/wire/codec.h"

namespace roost::router {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30U;

// Tests and the simulation use parts without flags; with equal defaults they measure what a router does.
TEST(RouterOptionsTest, FlagsTakeTheDefaultsOfTheParts) {
  const RouterOptions flags;
  const RequestBookOptions requests;
  EXPECT_EQ(flags.max_in_flight_requests, requests.max_requests);
  EXPECT_EQ(flags.worker_queue_bound, requests.worker_queue_bound);
  EXPECT_EQ(flags.max_queue, requests.max_queue);
  EXPECT_EQ(std::chrono::milliseconds(flags.max_queue_wait_ms), requests.max_queue_wait);
  EXPECT_EQ(FromSeconds(flags.worker_timeout_seconds), FleetCoreOptions().worker_timeout);
  EXPECT_EQ(FromSeconds(flags.stall_timeout_seconds), FleetCoreOptions().stall_timeout);
  EXPECT_EQ(FromSeconds(flags.request_timeout_seconds), ApiOptions().request_timeout);
  EXPECT_EQ(flags.max_body_bytes, HttpServerOptions().body_bytes);
  EXPECT_EQ(FromSeconds(flags.http_idle_seconds), HttpServerOptions().idle_timeout);
}

TEST(RouterOptionsTest, MemoryIsAQuarterOfThatOfTheMachineEach) {
  const RouterOptions options = DefaultsFor({.memory_bytes = 2 * kGiB, .processor_count = 1});
  EXPECT_EQ(options.input_memory_bytes, kGiB / 2);
  EXPECT_EQ(options.index_memory_bytes, kGiB / 2);
  EXPECT_EQ(options.tokenization_memo_bytes, kGiB / 8);  // a sixteenth of the memory
  EXPECT_EQ(options.text_threads, 2U);
}

TEST(RouterOptionsTest, MemoryIsBoundedOnLargeMachines) {
  const RouterOptions options = DefaultsFor({.memory_bytes = 1024 * kGiB, .processor_count = 128});
  EXPECT_EQ(options.input_memory_bytes, 2 * kGiB);
  EXPECT_EQ(options.index_memory_bytes, kGiB);
  EXPECT_EQ(options.tokenization_memo_bytes, kGiB / 4);
  EXPECT_EQ(options.text_threads, 4U);
}

TEST(RouterOptionsTest, WorkersHaveAPartOfTheInputMemoryThatTakesTheLargestFrame) {
  EXPECT_EQ(SharesOf(2 * kGiB).clients, 11 * kGiB / 8);
  EXPECT_EQ(SharesOf(2 * kGiB).operators, kGiB / 4);
  EXPECT_EQ(SharesOf(2 * kGiB).heads, kGiB / 8);
  EXPECT_EQ(SharesOf(2 * kGiB).workers, kGiB / 4);
  EXPECT_EQ(SharesOf(kGiB / 16).workers, wire::WireLimits::kMaxFrameBytes);
}

TEST(RouterOptionsTest, MemoryBeyondTheLimitNamesBothFlags) {
  const Machine machine{.memory_bytes = 2 * kGiB, .processor_count = 2};
  RouterOptions options = DefaultsFor(machine);
  EXPECT_TRUE(CheckMemory(options, machine).ok());
  options.input_memory_bytes = 2 * kGiB - options.index_memory_bytes - options.tokenization_memo_bytes;
  EXPECT_TRUE(CheckMemory(options, machine).ok());
  ++options.input_memory_bytes;
  const Result<void> checked = CheckMemory(options, machine);
  ASSERT_FALSE(checked.ok());
  EXPECT_EQ(checked.error().field, "input-memory-bytes");
  EXPECT_NE(checked.error().message.find("index-memory-bytes"), std::string::npos);
  EXPECT_NE(checked.error().message.find("tokenization-memo-bytes"), std::string::npos);
  options.index_memory_bytes = 3 * kGiB;
  EXPECT_FALSE(CheckMemory(options, machine).ok());
}

TEST(RouterOptionsTest, MessagesSpellSpecialTokensOnlyWithTheirFlag) {
  const auto parsed = [](std::vector<const char*> arguments) {
    RouterOptions options;
    ConfigParser parser("roost-router", "test");
    Declare(options, parser);
    arguments.insert(arguments.begin(), "roost-router");
    EXPECT_TRUE(parser.Parse(static_cast<int>(arguments.size()), arguments.data()).ok());
    return options.content_may_contain_special_tokens;
  };
  EXPECT_FALSE(parsed({}));
  EXPECT_TRUE(parsed({"--content-may-contain-special-tokens"}));
}

TEST(RouterOptionsTest, LinkKeysAreTwoFilesOrNone) {
  const ManualClock clock;
  RouterOptions options;
  EXPECT_FALSE(ReadLinkKeys(options, clock, {})->has_value());
  options.link_peers = "/nowhere";
  EXPECT_EQ(ReadLinkKeys(options, clock, {}).error().field, "link-secret-key");
  options.link_secret_key = "/nowhere";
  EXPECT_EQ(ReadLinkKeys(options, clock, {}).error().field, "/nowhere");
  options.link_peers.clear();
  EXPECT_EQ(ReadLinkKeys(options, clock, {}).error().field, "link-peers");
}

}  // namespace
}  // namespace roost::router
