#include "worker/options.h"

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
  EXPECT_FALSE(options->worker_id.empty());
  EXPECT_GT(options->threads, 0U);
}

TEST(WorkerOptionsTest, RoutersMayBeRepeatedAndListed) {
  const auto options = Parse({"--model", "m", "--router", "tcp://a:1,tcp://b:2", "--router", "tcp://c:3"});
  ASSERT_TRUE(options.ok()) << options.error().ToString();
  EXPECT_EQ(options->routers, (std::vector<std::string>{"tcp://a:1", "tcp://b:2", "tcp://c:3"}));
}

TEST(WorkerOptionsTest, WrongValuesAreErrors) {
  EXPECT_FALSE(Parse({}).ok());
  EXPECT_FALSE(Parse({"--model", "m", "--bogus", "1"}).ok());
  EXPECT_FALSE(Parse({"--model", "m", "--compute-dtype", "f64"}).ok());
  EXPECT_EQ(Parse({"--model", "m", "--block-tokens", "17"}).error().field, "block-tokens");
  EXPECT_EQ(Parse({"--model", "m", "--router", "localhost:7001"}).error().field, "router");
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
