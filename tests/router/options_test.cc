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
  const RequestTableOptions requests;
  EXPECT_EQ(flags.max_connections, requests.max_requests);
  EXPECT_EQ(flags.worker_queue_bound, requests.worker_queue_bound);
  EXPECT_EQ(flags.max_queue, requests.max_queue);
  EXPECT_EQ(std::chrono::milliseconds(flags.max_queue_wait_ms), requests.max_queue_wait);
  EXPECT_EQ(FromSeconds(flags.worker_timeout_seconds), FleetCoreOptions().worker_timeout);
  EXPECT_EQ(FromSeconds(flags.stall_timeout_seconds), FleetCoreOptions().stall_timeout);
  EXPECT_EQ(FromSeconds(flags.request_timeout_seconds), ApiOptions().request_timeout);
  EXPECT_EQ(flags.max_body_bytes, HttpServerOptions().body_bytes);
  EXPECT_EQ(FromSeconds(flags.http_idle_seconds), HttpServerOptions().idle_timeout);
}

TEST(RouterOptionsTest, MemoryIsHalfOfThatOfTheMachine) {
  const RouterOptions options = DefaultsFor({.memory_bytes = 2 * kGiB, .processor_count = 1});
  EXPECT_EQ(options.memory_bytes, kGiB);
  EXPECT_EQ(options.text_threads, 2U);
}

TEST(RouterOptionsTest, MemoryIsBoundedOnLargeMachines) {
  const RouterOptions options = DefaultsFor({.memory_bytes = 1024 * kGiB, .processor_count = 128});
  EXPECT_EQ(options.memory_bytes, 4 * kGiB);
  EXPECT_EQ(options.text_threads, 4U);
}

TEST(RouterOptionsTest, ClientsGetTheDescriptorsThatOperatorsAndWorkersLeave) {
  const ConnectionShares few = SharesOfDescriptors(1024, 2);
  EXPECT_EQ(few.operators, 64U);
  EXPECT_EQ(few.clients, 1024U - 64 - 2 * 4 - 2 * 64 - 64 - 256);
  EXPECT_EQ(DefaultsFor({.memory_bytes = kGiB, .descriptor_count = 1024}).max_connections,
            SharesOfDescriptors(1024, RouterOptions().http_threads).clients);
  EXPECT_EQ(DefaultsFor({.memory_bytes = kGiB, .descriptor_count = 65'536}).max_connections, 10'000U);
  const ConnectionShares least = SharesOfDescriptors(64, 2);
  EXPECT_EQ(least.operators, 4U);
  EXPECT_EQ(least.clients, 16U);
}

TEST(RouterOptionsTest, MemoryHasAShareForEachUse) {
  const MemoryShares shares = SharesOf(4 * kGiB);
  EXPECT_EQ(shares.clients, 11 * kGiB / 8);
  EXPECT_EQ(shares.workers, kGiB / 4);
  EXPECT_EQ(shares.operators, kGiB / 4);
  EXPECT_EQ(shares.heads, kGiB / 8);
  EXPECT_EQ(shares.index, kGiB);
  EXPECT_EQ(shares.memo, kGiB / 4);
  EXPECT_EQ(shares.index, FleetCoreOptions().index_memory_bytes);  // the default is that of the part
}

TEST(RouterOptionsTest, WorkersHaveAPartOfTheMemoryThatTakesTheLargestFrame) {
  EXPECT_EQ(SharesOf(kGiB / 16).workers, wire::WireLimits::kMaxFrameBytes);
}

TEST(RouterOptionsTest, MemoryBeyondTheLimitNamesTheFlag) {
  const Machine machine{.memory_bytes = 2 * kGiB, .processor_count = 2};
  RouterOptions options = DefaultsFor(machine);
  EXPECT_TRUE(CheckMemory(options, machine).ok());
  options.memory_bytes = 2 * kGiB;
  EXPECT_TRUE(CheckMemory(options, machine).ok());
  ++options.memory_bytes;
  EXPECT_EQ(CheckMemory(options, machine).error().field, "memory");
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
