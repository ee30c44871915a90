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
  std::uint64_t memory = std::uint64_t{1} << 30U;
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
        .AddBytes("memory", options.memory, "Memory", {.low = 1024, .high = 1e12})
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

TEST_F(ConfigTest, AnAliasStandsForAnOptionUnlessItIsOneItself) {
  const auto parse = [](bool has_fleet, std::vector<const char*> arguments) {
    std::pair<std::string, std::string> values;
    ConfigParser parser("test", "For tests.");
    parser.Add("router", values.first, "Router").Alias("fleet", "router");
    if (has_fleet) parser.Add("fleet", values.second, "Fleet");
    arguments.insert(arguments.begin(), "test");
    EXPECT_TRUE(parser.Parse(static_cast<int>(arguments.size()), arguments.data()).ok());
    return values;
  };
  EXPECT_EQ(parse(false, {"--fleet", "x"}).first, "x");
  EXPECT_EQ(parse(false, {"--fleet=x=y"}).first, "x=y");
  EXPECT_EQ(parse(true, {"--fleet", "x", "--router=z"}), std::make_pair(std::string("z"), std::string("x")));
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
  EXPECT_EQ(Parse({"--config", "/nonexistent.toml"}).error().field, "/nonexistent.toml");
  SetVariable("ROOST_THREADS", "lots");
  EXPECT_NE(ErrorOf({}).find("ROOST_THREADS"), std::string::npos);
}

TEST_F(ConfigTest, AMisspeltNameIsToldWithTheNearestOne) {
  EXPECT_EQ(ErrorOf({"--modle", "x"}), "unknown option --modle; did you mean --model?");
  EXPECT_EQ(ErrorOf({"--gpu=1", "--thread", "3"}),
            "unknown option --gpu; unknown option --thread; did you mean --threads?");
  EXPECT_EQ(ErrorOf({"stray"}), "unexpected argument 'stray'");
}

TEST_F(ConfigTest, AnUnknownOptionIsToldBeforeOneThatIsMissing) {
  std::string model;
  ConfigParser parser("test", "For tests.");
  parser.Add("model", model, "Model").Require("model");
  const char* misspelt[] = {"test", "--modle", "x"};
  EXPECT_EQ(parser.Parse(3, misspelt).error().message, "unknown option --modle; did you mean --model?");
  const char* nothing[] = {"test"};
  EXPECT_EQ(parser.Parse(1, nothing).error().message, "--model is required");
}

TEST_F(ConfigTest, ErrorsOfTheFileHaveFileLineAndKey) {
  const std::string file = WriteFile("threads = 2\nmodle = \"x\"\n");
  EXPECT_EQ(Parse({"--config", file}).error().ToString(), file + ":2: unknown key 'modle'; did you mean model?");
  EXPECT_EQ(Parse({"--config=" + WriteFile("[a]\nthreads = 2\n")}).error().field, file + ":1");
  const std::string value = ErrorOf({"--config", WriteFile("\nthreads = many\n")});
  EXPECT_NE(value.find("--threads"), std::string::npos) << value;
  EXPECT_NE(value.find("(from " + file + ":2)"), std::string::npos) << value;
  EXPECT_EQ(ErrorOf({"--config", file, "--threads", "0"}).find(file), std::string::npos);  // the argument is wrong
  EXPECT_EQ(Parse({"--config", WriteFile("key = hush\n")}).error().field, file + ":1");
}

TEST_F(ConfigTest, SizesTakeUnits) {
  ASSERT_TRUE(Parse({"--memory", "8GiB"}).ok());
  EXPECT_EQ(options.memory, 8ULL << 30U);
  ASSERT_TRUE(Parse({"--memory=4096"}).ok());
  EXPECT_EQ(options.memory, 4096U);
  ASSERT_TRUE(Parse({"--config", WriteFile("memory = 2MB\n")}).ok());
  EXPECT_EQ(options.memory, 2'000'000U);
  EXPECT_EQ(ErrorOf({"--memory", "8G"}),
            "--memory: '8G' could be 8GB (powers of 1000) or 8GiB (powers of 1024): write one of them");
  EXPECT_EQ(ErrorOf({"--memory", "1000"}), "--memory: '1000' is not from 1 KiB to 931 GiB");
  EXPECT_NE(ErrorOf({"--memory", "much"}).find("512MiB"), std::string::npos);
  SetVariable("ROOST_MEMORY", "3MiB");
  ASSERT_TRUE(Parse({}).ok());
  EXPECT_EQ(options.memory, 3ULL << 20U);
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
  ASSERT_EQ(Parse({"--threads", "7", "--memory", "3GiB", "--print-config"}).value(), ParseOutcome::kExit);
  const std::string file = WriteFile(testing::internal::GetCapturedStdout());
  options = {};
  ASSERT_TRUE(Parse({"--config", file}).ok());
  EXPECT_EQ(options.threads, 7U);
  EXPECT_EQ(options.memory, 3ULL << 30U);
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
