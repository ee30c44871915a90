#include "common/config/config.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace roost {
namespace {

struct Options {
  std::string model = "demo";
  std::uint32_t threads = 2;
  double share = 0.5;
  std::string policy = "cache-aware";
  std::vector<std::string> routers{"tcp://127.0.0.1:7001"};
  bool verbose = false;
  std::string key;
};

class ConfigTest : public testing::Test {
 protected:
  void TearDown() override {
    for (const std::string& name : variables_) unsetenv(name.c_str());
    if (!file_.empty()) std::filesystem::remove(file_);
  }

  void SetVariable(const std::string& name, const std::string& value) {
    setenv(name.c_str(), value.c_str(), 1);
    variables_.push_back(name);
  }

  std::string WriteFile(const std::string& text) {
    file_ = testing::TempDir() + "roost_config_test_" + std::to_string(getpid()) + ".toml";
    std::ofstream(file_) << text;
    return file_;
  }

  Result<ParseOutcome> Parse(std::vector<std::string> arguments) {
    ConfigParser parser("roost-test", "For tests.");
    parser.Section("Main")
        .Add("model", options.model, "Model directory")
        .Add("threads", options.threads, "Threads", {.low = 1, .high = 64})
        .Add("share", options.share, "Share", {.low = 0, .high = 1})
        .AddChoice("policy", options.policy, {"cache-aware", "random"}, "Policy")
        .AddList("router", options.routers, "Router addresses")
        .AddSwitch("verbose", options.verbose, "Say more")
        .AddSecret("key", options.key, "Secret");
    std::vector<const char*> argv{"roost-test"};
    for (const std::string& argument : arguments) argv.push_back(argument.c_str());
    return parser.Parse(static_cast<int>(argv.size()), argv.data());
  }

  std::string ErrorOf(std::vector<std::string> arguments) {
    const auto outcome = Parse(std::move(arguments));
    return outcome.ok() ? "" : outcome.error().message;
  }

  Options options;

 private:
  std::vector<std::string> variables_;
  std::string file_;
};

TEST_F(ConfigTest, DefaultsWork) {
  ASSERT_EQ(Parse({}).value(), ParseOutcome::kRun);
  EXPECT_EQ(options.model, "demo");
  EXPECT_EQ(options.routers.size(), 1U);
}

TEST_F(ConfigTest, APositionalStandsAnywhereAmongTheFlags) {
  for (const std::vector<const char*>& arguments : std::vector<std::vector<const char*>>{
           {"test", "ID-1", "--threads", "3"}, {"test", "--threads", "3", "ID-1"}, {"test", "--threads=3", "ID-1"}}) {
    std::string id;
    std::uint32_t threads = 1;
    ConfigParser parser("test", "For tests.");
    parser.AddPositional("ID", id, "An id").Add("threads", threads, "Threads");
    ASSERT_TRUE(parser.Parse(static_cast<int>(arguments.size()), arguments.data()).ok());
    EXPECT_EQ(id, "ID-1");
    EXPECT_EQ(threads, 3U);
  }
  EXPECT_NE(ErrorOf({"ID-1"}), "");  // no positional argument is declared
}

TEST_F(ConfigTest, CommandLineWinsOverEnvironmentOverFileOverDefault) {
  const std::string file = WriteFile("model = \"from-file\"\nthreads = 3\nshare = 0.25\n");
  SetVariable("ROOST_THREADS", "4");
  SetVariable("ROOST_SHARE", "0.75");
  ASSERT_TRUE(Parse({"--config", file, "--share", "1"}).ok());
  EXPECT_EQ(options.model, "from-file");
  EXPECT_EQ(options.threads, 4U);
  EXPECT_EQ(options.share, 1.0);
  EXPECT_EQ(options.policy, "cache-aware");
}

TEST_F(ConfigTest, TheLastOfTwoValuesCounts) {
  ASSERT_TRUE(Parse({"--threads", "3", "--threads=5"}).ok());
  EXPECT_EQ(options.threads, 5U);
}

TEST_F(ConfigTest, ListsRepeatAndSplitAtCommas) {
  ASSERT_TRUE(Parse({"--router", "a,b", "--router=c"}).ok());
  EXPECT_EQ(options.routers, (std::vector<std::string>{"a", "b", "c"}));
}

TEST_F(ConfigTest, SwitchesTakeAValueToo) {
  ASSERT_TRUE(Parse({"--verbose"}).ok());
  EXPECT_TRUE(options.verbose);
  ASSERT_TRUE(Parse({"--verbose=false"}).ok());
  EXPECT_FALSE(options.verbose);
}

TEST_F(ConfigTest, ErrorsNameTheFlagKeyOrVariable) {
  EXPECT_NE(ErrorOf({"--thread", "3"}).find("--thread"), std::string::npos);
  EXPECT_NE(ErrorOf({"--threads", "many"}).find("--threads"), std::string::npos);
  EXPECT_NE(ErrorOf({"--threads", "0"}).find("--threads"), std::string::npos);
  EXPECT_NE(ErrorOf({"--threads", "-1"}).find("--threads"), std::string::npos);
  EXPECT_NE(ErrorOf({"--policy", "best"}).find("cache-aware"), std::string::npos);
  EXPECT_NE(ErrorOf({"--config", "/nonexistent.toml"}).find("/nonexistent.toml"), std::string::npos);
  SetVariable("ROOST_THREADS", "lots");
  EXPECT_NE(ErrorOf({}).find("ROOST_THREADS"), std::string::npos);
}

TEST_F(ConfigTest, AnUnknownKeyInTheFileIsAnError) {
  const std::string file = WriteFile("modle = \"x\"\n");
  EXPECT_NE(ErrorOf({"--config", file}).find("modle"), std::string::npos) << ErrorOf({"--config", file});
}

TEST_F(ConfigTest, HelpListsEveryOptionWithDefaultAndVariable) {
  testing::internal::CaptureStdout();
  ASSERT_EQ(Parse({"--help"}).value(), ParseOutcome::kExit);
  const std::string help = testing::internal::GetCapturedStdout();
  for (const char* expected : {"--model", "ROOST_MODEL", "--threads", "=2", "--router", "--config", "--version"}) {
    EXPECT_NE(help.find(expected), std::string::npos) << expected << " is not in\n" << help;
  }
}

TEST_F(ConfigTest, PrintConfigCanBeReadBack) {
  testing::internal::CaptureStdout();
  ASSERT_EQ(Parse({"--threads", "7", "--print-config"}).value(), ParseOutcome::kExit);
  const std::string file = WriteFile(testing::internal::GetCapturedStdout());
  options = {};
  ASSERT_TRUE(Parse({"--config", file}).ok());
  EXPECT_EQ(options.threads, 7U);
}

TEST_F(ConfigTest, ASecretComesByVariableOrArgumentAndIsNeverPrinted) {
  SetVariable("ROOST_KEY", "hush");
  ASSERT_TRUE(Parse({}).ok());
  EXPECT_EQ(options.key, "hush");
  for (const char* flag : {"--print-config", "--help"}) {
    testing::internal::CaptureStdout();
    ASSERT_EQ(Parse({flag}).value(), ParseOutcome::kExit);
    EXPECT_EQ(testing::internal::GetCapturedStdout().find("hush"), std::string::npos) << flag;
  }
  ASSERT_TRUE(Parse({"--key", "quiet"}).ok());
  EXPECT_EQ(options.key, "quiet");
}

}  // namespace
}  // namespace roost
