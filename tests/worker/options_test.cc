#include "worker/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace roost::worker {
namespace {

Result<WorkerOptions> Parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "roost-worker");
  WorkerOptions options;
  ConfigParser parser("roost-worker", "test");
  Declare(options, parser);
  ROOST_RETURN_IF_ERROR(parser.Parse(static_cast<int>(arguments.size()), arguments.data()));
  ROOST_RETURN_IF_ERROR(Complete(options));
  return options;
}

TEST(WorkerOptionsTest, DefaultsWork) {
  const Result<WorkerOptions> options = Parse({"--model", "synthetic:tiny"});
  ASSERT_TRUE(options.ok()) << options.error().ToString();
  EXPECT_EQ(options->routers, std::vector<std::string>{"tcp://127.0.0.1:7001"});
  EXPECT_EQ(options->block_tokens, 16U);
  EXPECT_GT(options->threads, 0U);
}

TEST(WorkerOptionsTest, StepsAreLargerOnCudaUnlessTheFlagsSay) {
  const auto defaults = Parse({"--model", "m"});
  EXPECT_EQ(StepBoundsOf(*defaults, DeviceKind::kCpu).token_count, 512U);
  EXPECT_EQ(StepBoundsOf(*defaults, DeviceKind::kCpu).request_count, 64U);
  EXPECT_EQ(StepBoundsOf(*defaults, DeviceKind::kCuda).token_count, 4096U);
  EXPECT_EQ(StepBoundsOf(*defaults, DeviceKind::kCuda).request_count, 256U);
  const auto given = Parse({"--model", "m", "--max-batch-tokens", "100", "--max-running-requests", "7"});
  for (const DeviceKind device : {DeviceKind::kCpu, DeviceKind::kCuda}) {
    EXPECT_EQ(StepBoundsOf(*given, device).token_count, 100U);
    EXPECT_EQ(StepBoundsOf(*given, device).request_count, 7U);
  }
  EXPECT_EQ(StepBoundsOf(*Parse({"--model", "m", "--max-batch-tokens", "100"}), DeviceKind::kCuda).request_count, 256U);
}

TEST(WorkerOptionsTest, PrefixCacheIsOnUnlessItIsSwitchedOff) {
  EXPECT_EQ(Parse({"--model", "m"})->prefix_cache, "on");
  EXPECT_EQ(Parse({"--model", "m", "--prefix-cache", "off"})->prefix_cache, "off");
  EXPECT_FALSE(Parse({"--model", "m", "--prefix-cache", "none"}).ok());
}

TEST(WorkerOptionsTest, RoutersMayBeRepeatedAndListed) {
  const auto options =
      Parse({"--model", "m", "--router", "tcp://a:1,tcp://b:2", "--router", "tcp://c:3", "--insecure-bind"});
  ASSERT_TRUE(options.ok()) << options.error().ToString();
  EXPECT_EQ(options->routers, (std::vector<std::string>{"tcp://a:1", "tcp://b:2", "tcp://c:3"}));
}

TEST(WorkerOptionsTest, LinksBeyondLoopbackNeedKeysUnlessToldOtherwise) {
  for (const char* router : {"tcp://10.0.0.5:7001", "tcp://roost-routers:7001", "tcp://[fd00::1]:7001"}) {
    EXPECT_EQ(Parse({"--model", "m", "--router", router}).error().field, "router") << router;
    EXPECT_TRUE(Parse({"--model", "m", "--router", router, "--insecure-bind"}).ok()) << router;
  }
  for (const char* router : {"tcp://127.0.0.9:7001", "tcp://localhost:7001", "tcp://[::1]:7001"}) {
    EXPECT_TRUE(Parse({"--model", "m", "--router", router}).ok()) << router;
  }
}

TEST(WorkerOptionsTest, AnotherEngineIsAskedForByNameAndStaysOnThisMachineUnlessToldOtherwise) {
  EXPECT_TRUE(Parse({"--model", "m", "--engine", "vllm"}).ok());
  EXPECT_TRUE(Parse({"--model", "m", "--engine", "sglang", "--engine-events", "tcp://localhost:5557"}).ok());
  EXPECT_FALSE(Parse({"--model", "m", "--engine", "tgi"}).ok());
  EXPECT_EQ(Parse({"--model", "m", "--engine-events", "tcp://127.0.0.1:5557"}).error().field, "engine");
  const auto field_of = [](std::vector<const char*> flags) {
    flags.insert(flags.begin(), {"--model", "m", "--engine", "vllm"});
    const auto options = Parse(flags);
    return options.ok() ? std::string() : options.error().field;
  };
  EXPECT_EQ(field_of({"--engine-events", "localhost"}), "engine-events");
  EXPECT_EQ(field_of({"--engine-replay", "tcp://127.0.0.1:1"}), "engine-events");
  for (const char* url : {"http://10.0.0.5:8000", "http://vllm/v1", "http://[fd00::1]:80/"}) {
    EXPECT_EQ(field_of({"--engine-url", url}), "engine-url") << url;
    EXPECT_EQ(field_of({"--engine-url", url, "--insecure-bind"}), "") << url;
  }
  for (const char* url :
       {"http://127.0.0.1", "http://localhost:8000/engine", "http://[::1]:8000", "https://10.0.0.5"}) {
    EXPECT_EQ(field_of({"--engine-url", url}), "") << url;
  }
  EXPECT_EQ(field_of({"--engine-events", "tcp://10.0.0.5:5557"}), "engine-events");
  const auto with_password = Parse({"--model", "m", "--engine", "vllm", "--engine-url", "http://me:secret@127.0.0.1"});
  EXPECT_EQ(with_password.error().field, "engine-url");
  EXPECT_EQ(with_password.error().ToString().find("secret"), std::string::npos);
}

TEST(WorkerOptionsTest, LinkKeysAreTwoFilesThatAreReadBeforeTheModel) {
  EXPECT_EQ(Parse({"--model", "m", "--link-secret-key", "/nowhere"}).error().field, "link-peers");
  EXPECT_EQ(Parse({"--model", "m", "--link-peers", "/nowhere"}).error().field, "link-secret-key");
  const auto missing = Parse({"--model", "m", "--link-secret-key", "/nowhere", "--link-peers", "/nowhere"});
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(missing.error().field, "/nowhere");
}

TEST(WorkerOptionsTest, TheListenerIsCheckedBeforeTheModelIsLoaded) {
  EXPECT_EQ(Parse({"--model", "m", "--metrics-address", "http://127.0.0.1:1"}).error().field, "metrics-address");
  EXPECT_EQ(Parse({"--model", "m", "--metrics-address", "0.0.0.0:9101"}).error().field, "metrics-address");
  EXPECT_TRUE(Parse({"--model", "m", "--metrics-address", "0.0.0.0:9101", "--insecure-bind"}).ok());
  EXPECT_TRUE(Parse({"--model", "m", "--metrics-address", ""}).ok());
  EXPECT_EQ(Parse({"--model", "m", "--tls-cert", "/nowhere"}).error().field, "tls-key");
  EXPECT_EQ(Parse({"--model", "m", "--tls-cert", "/nowhere", "--tls-key", "/nowhere"}).error().field, "tls-cert");
}

TEST(WorkerOptionsTest, WrongValuesAreErrors) {
  EXPECT_FALSE(Parse({}).ok());
  EXPECT_FALSE(Parse({"--model", "m", "--bogus", "1"}).ok());
  EXPECT_FALSE(Parse({"--model", "m", "--compute-dtype", "f64"}).ok());
  EXPECT_EQ(Parse({"--model", "m", "--block-tokens", "17"}).error().field, "block-tokens");
  EXPECT_EQ(Parse({"--model", "m", "--router", "localhost:7001"}).error().field, "router");
}

TEST(WorkerOptionsTest, TensorParallelIsABoundedNumberOfRanks) {
  EXPECT_EQ(Parse({"--model", "m"})->tensor_parallel, 1U);
  EXPECT_EQ(Parse({"--model", "m", "--tensor-parallel", "8"})->tensor_parallel, 8U);
  for (const char* wrong : {"0", "65", "-1", "two"}) {
    EXPECT_THAT(Parse({"--model", "m", "--tensor-parallel", wrong}).error().ToString(),
                testing::HasSubstr("tensor-parallel"))
        << wrong;
  }
}

TEST(WorkerOptionsTest, KvMemoryIsAShareOrBytes) {
  EXPECT_EQ(ParseKvMemory("0.9")->share, 0.9);
  EXPECT_EQ(ParseKvMemory("1048576")->bytes, 1U << 20U);
  EXPECT_EQ(ParseKvMemory("8e9")->bytes, 8'000'000'000U);
  EXPECT_EQ(ParseKvMemory("8GiB")->bytes, 8ULL << 30U);
  EXPECT_EQ(ParseKvMemory("512MiB")->bytes, 512ULL << 20U);
  EXPECT_EQ(ParseKvMemory("0.5GiB")->bytes, 512ULL << 20U);
  EXPECT_FALSE(ParseKvMemory("auto")->share.has_value() || ParseKvMemory("auto")->bytes.has_value());
  for (const char* wrong : {"", "0", "1", "-0.5", "100", "0.9x", "1e16", "nan", "all", "8G", "1KiB"}) {
    EXPECT_EQ(Parse({"--model", "m", "--kv-memory", wrong}).error().field, "kv-memory") << wrong;
  }
}

TEST(WorkerOptionsTest, TenantSharesAreNamesAndFractions) {
  const auto shares = ParseTenantShares({"roosters=0.5", "a=b=0.25", "é=0.25"});
  ASSERT_TRUE(shares.ok()) << shares.error().ToString();
  EXPECT_EQ(*shares, (std::vector<TenantShare>{{"roosters", 0.5}, {"a=b", 0.25}, {"é", 0.25}}));
  EXPECT_TRUE(ParseTenantShares({"a=0.1", "b=0.2", "c=0.3", "d=0.4"}).ok());
}

TEST(WorkerOptionsTest, WrongTenantSharesAreErrors) {
  const std::vector<std::vector<std::string>> wrong{{"roosters"},       {"=0"},
                                                    {"roosters="},      {"roosters=half"},
                                                    {"roosters=0.5x"},  {"roosters=0"},
                                                    {"a=-0.1"},         {"a=1.1"},
                                                    {"a=nan"},          {"a=0.1", "a=0.1"},
                                                    {"a=0.6", "b=0.5"}, {"\xff=0.5"},
                                                    {"a= 0.5"},         {std::string(201, 'a') + "=0.5"}};
  for (const std::vector<std::string>& values : wrong) {
    const auto shares = ParseTenantShares(values);
    ASSERT_FALSE(shares.ok()) << values.front();
    EXPECT_EQ(shares.error().field, "tenant-share");
  }
  EXPECT_EQ(Parse({"--model", "m", "--tenant-share", "a=2"}).error().field, "tenant-share");
}

TEST(WorkerOptionsTest, SharesNameTenantsOfKeysAndRequestsWithoutAKey) {
  EXPECT_TRUE(Parse({"--model", "m", "--tenant-share", "=0.25,roosters=0.5"}).ok());
  EXPECT_EQ(ParseTenantShares({"=0.25"}).value(), (std::vector<TenantShare>{{"", 0.25}}));
}

TEST(WorkerOptionsTest, CacheAndQueueTakeTheirValues) {
  const auto options = Parse({"--model", "m", "--eviction", "lru", "--pin-limit", "0.25", "--min-hold-ms", "1500",
                              "--tenant-share", "=0.5", "--schedule", "longest-prefix", "--max-queue-wait-ms", "2000",
                              "--verify-hits", "0.01", "--check-invariants", "--cache-events", "off"});
  ASSERT_TRUE(options.ok()) << options.error().ToString();
  EXPECT_EQ(options->eviction, "lru");
  EXPECT_EQ(options->pin_limit, 0.25);
  EXPECT_EQ(options->min_hold_ms, 1500U);
  EXPECT_EQ(options->tenant_share, std::vector<std::string>{"=0.5"});
  EXPECT_EQ(ParseSchedulePolicy(options->schedule).value(), SchedulePolicy::kLongestPrefix);
  EXPECT_EQ(options->max_queue_wait_ms, 2000U);
  EXPECT_EQ(options->verify_hits, 0.01);
  EXPECT_TRUE(options->check_invariants);
  EXPECT_EQ(options->cache_events, "off");
}

TEST(WorkerOptionsTest, BlocksAreTakenOfWorkersWithTheSameNumericsUnlessAnyDo) {
  EXPECT_EQ(Parse({"--model", "m"})->transfer_numerics, "same");
  EXPECT_EQ(Parse({"--model", "m", "--transfer-numerics", "any"})->transfer_numerics, "any");
  EXPECT_FALSE(Parse({"--model", "m", "--transfer-numerics", "equal"}).ok());
}

TEST(WorkerOptionsTest, HitsAreNotVerifiedOfStepsThatArePlannedAhead) {
  EXPECT_EQ(Parse({"--model", "m"})->plan_ahead, "auto");
  EXPECT_TRUE(Parse({"--model", "m", "--verify-hits", "0.5"}).ok());
  EXPECT_TRUE(Parse({"--model", "m", "--verify-hits", "0.5", "--plan-ahead", "off"}).ok());
  EXPECT_EQ(Parse({"--model", "m", "--verify-hits", "0.5", "--plan-ahead", "on"}).error().field, "plan-ahead");
}

TEST(WorkerOptionsTest, WrongCacheAndQueueValuesAreErrors) {
  for (const std::vector<const char*>& wrong : std::vector<std::vector<const char*>>{{"--pin-limit", "1.5"},
                                                                                     {"--min-hold-ms", "-1"},
                                                                                     {"--eviction", "random"},
                                                                                     {"--schedule", "lifo"},
                                                                                     {"--cache-events", "some"},
                                                                                     {"--plan-ahead", "perhaps"},
                                                                                     {"--verify-hits", "2"}}) {
    std::vector<const char*> arguments{"--model", "m"};
    arguments.insert(arguments.end(), wrong.begin(), wrong.end());
    EXPECT_FALSE(Parse(arguments).ok()) << wrong.front();
  }
  EXPECT_FALSE(ParseSchedulePolicy("lifo").ok());
}

TEST(WorkerOptionsTest, BlocksTravelOnLoopbackWithoutKeys) {
  const auto defaults = Parse({"--model", "m"});
  EXPECT_EQ(defaults->transfer, "auto");
  EXPECT_EQ(defaults->transfer_address, "127.0.0.1:0");
  EXPECT_EQ(defaults->transfer_bytes, 0U);
  for (const char* address : {"127.0.0.1:7100", "127.0.0.2:0", "[::1]:0"}) {
    EXPECT_TRUE(Parse({"--model", "m", "--transfer-address", address}).ok()) << address;
  }
  for (const char* address : {"10.0.0.5:7100", "[2001:db8::5]:0"}) {
    EXPECT_EQ(Parse({"--model", "m", "--transfer-address", address}).error().field, "transfer-address") << address;
    EXPECT_TRUE(Parse({"--model", "m", "--transfer-address", address, "--insecure-bind"}).ok()) << address;
  }
  for (const char* address : {"localhost:0", "127.example.org:0", "127.0.0.1", "tcp://127.0.0.1:0", "::1:0", "*:7100",
                              "10.0.0.5:70000", ""}) {
    EXPECT_EQ(Parse({"--model", "m", "--transfer-address", address, "--insecure-bind"}).error().field,
              "transfer-address")
        << address;
  }
  EXPECT_EQ(Parse({"--model", "m", "--transfer-memory", "64MiB"})->transfer_bytes, std::uint64_t{64} << 20U);
  EXPECT_FALSE(Parse({"--model", "m", "--transfer", "on"}).ok());
}

TEST(WorkerOptionsTest, PullsReadersAndTheHandoverHaveBoundsAndMayBeNone) {
  const auto defaults = Parse({"--model", "m"});
  EXPECT_EQ(defaults->transfer_pulls, 8U);
  EXPECT_EQ(defaults->transfer_readers, 16U);
  EXPECT_EQ(defaults->handover_seconds, 10);
  for (const auto& [flag, most] :
       {std::pair("transfer-pulls", 64), std::pair("transfer-readers", 256), {"handover-seconds", 600}}) {
    const std::string name = std::string("--") + flag;
    for (const int value : {0, 1, most}) {
      EXPECT_TRUE(Parse({"--model", "m", name.c_str(), std::to_string(value).c_str()}).ok()) << flag << " " << value;
    }
    for (const std::string& value : {std::to_string(most + 1), std::string("-1"), std::string("all")}) {
      const auto refused = Parse({"--model", "m", name.c_str(), value.c_str()});
      ASSERT_FALSE(refused.ok()) << flag << " " << value;
      EXPECT_THAT(refused.error().message, testing::HasSubstr(name)) << value;
    }
  }
}

TEST(WorkerOptionsTest, ARoleNeedsBlocksThatTravel) {
  const auto own = [](std::vector<const char*> more) {
    std::vector<const char*> all{"--model", "m", "--role", "decode"};
    all.insert(all.end(), more.begin(), more.end());
    return Parse(std::move(all));
  };
  EXPECT_EQ(own({})->role, "decode");
  for (const auto& more : std::vector<std::vector<const char*>>{
           {"--transfer", "off"}, {"--transfer-pulls", "0"}, {"--prefix-cache", "off"}, {"--cache-events", "off"}}) {
    EXPECT_EQ(own(more).error().field, "role") << more.front();
  }
  const auto beside = [](const char* engine) {
    return Parse({"--engine", engine, "--engine-url", "http://127.0.0.1:8000", "--role", "prefill"});
  };
  EXPECT_EQ(beside("vllm")->role, "prefill") << "its connectors carry blocks";
  for (const char* engine : {"sglang", "openai", "llama.cpp"}) {
    EXPECT_EQ(beside(engine).error().field, "role") << engine;
  }
}

TEST(WorkerOptionsTest, AnAddressThatNoOtherHostCouldDialNeedsAnother) {
  const auto parse = [](const char* address, const char* advertised) {
    return Parse(
        {"--model", "m", "--insecure-bind", "--transfer-address", address, "--transfer-advertise", advertised});
  };
  for (const char* any : {"0.0.0.0:7100", "[::]:7100", "[0:0::0]:7100", "[::ffff:0.0.0.0]:7100"}) {
    EXPECT_EQ(parse(any, "").error().field, "transfer-advertise") << any;
    EXPECT_EQ(parse("10.0.0.5:7100", any).error().field, "transfer-advertise") << any;
    const auto options = parse(any, "10.0.0.5:7101");
    ASSERT_TRUE(options.ok()) << any;
    EXPECT_EQ(PlaceOfTransfer(*options)->advertised->ToString(), "tcp://10.0.0.5:7101");
  }
  EXPECT_EQ(PlaceOfTransfer(*parse("0.0.0.0:7100", "[2001:db8::5]:7100"))->advertised->ToString(),
            "tcp://[2001:db8::5]:7100");
  EXPECT_FALSE(PlaceOfTransfer(*parse("127.0.0.1:0", ""))->advertised.has_value());
  for (const char* wrong : {"10.0.0.5", "10.0.0.5:0", "worker-a:7100", "2001:db8::5:7100"}) {
    EXPECT_EQ(parse("0.0.0.0:7100", wrong).error().field, "transfer-advertise") << wrong;
  }
  EXPECT_EQ(parse("0.0.0.0:0", "10.0.0.5:7100").error().field, "transfer-address");
}

TEST(WorkerOptionsTest, ADiskNeedsItsSizeAndAnEngineWhoseBlocksCanBeRead) {
  const auto parse = [](std::vector<const char*> more) {
    more.insert(more.begin(), {"--model", "m", "--disk-cache", "/d"});
    return Parse(more);
  };
  EXPECT_TRUE(Parse({"--model", "m"})->disk_cache.empty());
  const auto options = parse({"--disk-cache-bytes", "100GB"});
  ASSERT_TRUE(options.ok()) << options.error().ToString();
  EXPECT_EQ(options->disk_cache_bytes, 100'000'000'000U);
  EXPECT_EQ(options->disk_write_rate, 40'000'000U);
  EXPECT_EQ(parse({"--disk-cache-bytes", "1GiB", "--disk-write-rate", "0"})->disk_write_rate, 0U);
  EXPECT_EQ(parse({}).error().field, "disk-cache-bytes");
  EXPECT_EQ(parse({"--disk-cache-bytes", "1023MiB"}).error().field, "disk-cache-bytes");
  EXPECT_EQ(Parse({"--model", "m", "--disk-cache-bytes", "1GiB"}).error().field, "disk-cache");
  EXPECT_EQ(parse({"--disk-cache-bytes", "1GiB", "--engine", "vllm"}).error().field, "disk-cache");
  EXPECT_EQ(parse({"--disk-cache-bytes", "1GiB", "--prefix-cache", "off"}).error().field, "disk-cache");
}

TEST(WorkerOptionsTest, ExitCodesTellFilesFromAddresses) {
  EXPECT_EQ(ExitCodeOf({ErrorCode::kDataLoss, "", ""}), 65);
  EXPECT_EQ(ExitCodeOf({ErrorCode::kNotFound, "", ""}), 66);
  EXPECT_EQ(ExitCodeOf({ErrorCode::kUnavailable, "", ""}), 69);
  EXPECT_EQ(ExitCodeOf({ErrorCode::kInvalidArgument, "", ""}), 78);
  EXPECT_EQ(ExitCodeOf({ErrorCode::kInternal, "", ""}), 70);
}

}  // namespace
}  // namespace roost::worker
