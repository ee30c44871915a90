#include "deploy/roostctl/files/file_commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/base/rng.h"
#include "router/record/recorder.h"

namespace roost::roostctl {
namespace {

using ::testing::HasSubstr;

constexpr std::uint32_t kBlockTokens = 16;

// A recording that is written request by request; blocks are named by all text up to their ends, as a router does.
class LintTest : public ::testing::Test {
 protected:
  LintTest() : path_(std::filesystem::path(testing::TempDir()) / (Name() + ".jsonl")), file_(path_) {}

  static std::string Name() { return testing::UnitTest::GetInstance()->current_test_info()->name(); }

  // `text`: a number for each block of the prompt and of the answer.
  void Record(const std::string& tenant, const std::vector<std::uint64_t>& text, std::size_t prompt_tokens,
              const std::string& key = "") {
    router::RequestRecord record;
    record.key = key;
    record.arrival_seconds = static_cast<double>(count_++);
    record.model = "demo";
    record.block_tokens = kBlockTokens;
    record.input_token_count = static_cast<std::uint32_t>(prompt_tokens);
    record.output_token_count = static_cast<std::uint32_t>(text.size() * kBlockTokens - prompt_tokens);
    record.tenant_hash = router::RecordedHashOf(tenant);
    std::uint64_t chain = record.tenant_hash;
    for (const std::uint64_t block : text) record.prompt_blocks.push_back(chain = Mix64(chain ^ block));
    file_ << router::LineOf(record) << '\n' << std::flush;
  }
  // A system prompt of 320 blocks with `value` in block 13, a question of one to four blocks, and an answer of two.
  std::vector<std::uint64_t> Prompt(std::uint64_t value) {
    std::vector<std::uint64_t> text;
    for (std::uint64_t block = 0; block < 320; ++block) text.push_back(block == 13 ? 1'000'000 + value : block);
    for (std::uint64_t block = 1 + rng_.Below(4); block > 0; --block) text.push_back(rng_());
    return text;
  }
  void Ask(const std::string& tenant, std::vector<std::uint64_t> text, const std::string& key = "") {
    const std::size_t prompt_tokens = text.size() * kBlockTokens;
    text.push_back(rng_());
    Record(tenant, text, prompt_tokens, key);
  }
  LintResult Found(std::vector<std::string> tenants = {}) {
    options_ = {.recording = path_.string(), .tenants = std::move(tenants), .prefill_tokens_per_second = 1000};
    Result<LintResult> result = Lint(options_);
    EXPECT_TRUE(result.ok()) << result.error().ToString();
    return std::move(result).value();
  }

  Rng rng_{7};
  int count_ = 0;
  LintOptions options_;
  std::filesystem::path path_;
  std::ofstream file_;
};

TEST_F(LintTest, AValueThatChangesInASystemPromptIsFoundWithItsPrice) {
  for (int i = 0; i < 100; ++i) Ask("web", Prompt(i < 97 ? static_cast<std::uint64_t>(i) : 0));
  const LintResult result = Found({"other", "web"});
  ASSERT_EQ(result.partings.size(), 1U);
  const Parting& parting = result.partings.front();
  EXPECT_EQ(parting.tenant, "web");
  EXPECT_EQ(parting.token, 13U * kBlockTokens);
  EXPECT_EQ(parting.requests, 100U);
  EXPECT_EQ(parting.parted, 96U);  // the first began the front, and three had its value
  EXPECT_GE(parting.computed_tokens, 96U * 307 * kBlockTokens);
  EXPECT_GT(static_cast<double>(parting.computed_tokens), 0.95 * static_cast<double>(result.computed_tokens));
  const std::string told = FormatLint(result, options_);
  EXPECT_THAT(told, HasSubstr("demo: tenant web: token 208 of about 51"));
  EXPECT_THAT(told, HasSubstr("differs in 96.0 % of 100 requests"));
}

// Both keys' prompts begin alike, and only one has a date there.
TEST_F(LintTest, KeysOfOneTenantAreToldApartByTheirNames) {
  for (std::uint64_t i = 0; i < 50; ++i) {
    Ask("acme", Prompt(i), "web");
    Ask("acme", Prompt(1'000), "batch");
  }
  const LintResult result = Found();
  ASSERT_EQ(result.partings.size(), 1U);
  const Parting& parting = result.partings.front();
  EXPECT_EQ(parting.key, "web");
  EXPECT_EQ(parting.token, 13U * kBlockTokens);
  EXPECT_EQ(parting.requests, 50U);
  EXPECT_EQ(parting.parted, 49U);
  EXPECT_THAT(FormatLint(result, options_), HasSubstr("demo: key web: token 208 of about 51"));
}

TEST_F(LintTest, WhatAnotherKeyOfTheTenantHasComputedCostsNothing) {
  for (std::uint64_t i = 0; i < 50; ++i) {
    Ask("acme", Prompt(i), "web");
    Ask("acme", Prompt(i), "mirror");
  }
  const LintResult result = Found();
  ASSERT_EQ(result.partings.size(), 1U);
  EXPECT_EQ(result.partings.front().key, "web");
  // The beginning and 50 system prompts once, and a question of one to four blocks for each request.
  EXPECT_LT(result.computed_tokens, (13 + 50 * 307 + 100 * 4) * kBlockTokens);
}

TEST_F(LintTest, ADateAtTheTopIsFoundTooAndBesideAnotherTenantsTraffic) {
  for (std::uint64_t i = 0; i < 20; ++i) {
    std::vector<std::uint64_t> text = Prompt(0);
    text.front() = 5000 + i;
    Ask("web", text);
    Ask("batch", Prompt(0));
  }
  const LintResult result = Found({"web"});
  ASSERT_EQ(result.partings.size(), 1U);
  EXPECT_EQ(result.partings.front().token, 0U);
  EXPECT_EQ(result.partings.front().tenant, "web");
}

// The questions differ, and conversations go on; nothing of it could have been cached.
TEST_F(LintTest, WhatMustDifferIsNoFinding) {
  for (std::uint64_t session = 0; session < 30; ++session) {
    std::vector<std::uint64_t> text = Prompt(0);
    for (int turn = 0; turn < 4; ++turn) {
      for (std::uint64_t block = 1 + rng_.Below(8); block > 0; --block) text.push_back(rng_());
      const std::size_t prompt_tokens = text.size() * kBlockTokens - rng_.Below(kBlockTokens);
      text.push_back(rng_());
      Record("web", text, prompt_tokens);
    }
  }
  EXPECT_TRUE(Found().partings.empty());
}

TEST_F(LintTest, TenantsWithoutANameAreShownByTheirHash) {
  for (std::uint64_t i = 0; i < 12; ++i) Ask("web", Prompt(i));
  EXPECT_EQ(Found().partings.front().tenant, fmt::format("{:x}", router::RecordedHashOf("web")));
}

TEST_F(LintTest, AnErrorNamesTheLine) {
  Ask("web", Prompt(0));
  file_ << "{}\n" << std::flush;
  const auto wrong = Lint({.recording = path_.string()});
  ASSERT_FALSE(wrong.ok());
  EXPECT_THAT(wrong.error().ToString(), HasSubstr(path_.string() + ":2"));
  EXPECT_FALSE(Lint({.recording = "/nonexistent"}).ok());
}

}  // namespace
}  // namespace roost::roostctl
