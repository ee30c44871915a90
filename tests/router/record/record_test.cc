#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <numeric>
#include <sstream>

#include "deploy/roostctl/workload/source.h"
#include "router/record/recorder.h"

namespace roost::router {
namespace {

constexpr BlockHash kRoot{5, 5};
constexpr std::uint32_t kBlockTokens = 4;

class Client final : public GenerationObserver {
 public:
  void OnDispatched(const Dispatched& /*dispatched*/) override {}
  void OnPromptLogprobs(std::vector<wire::TokenLogprobs> logprobs) override { prompt_logprobs = std::move(logprobs); }
  void OnTokens(ChoiceTokens new_tokens) override { token_count += new_tokens.tokens.size(); }
  void OnChoiceEnd(ChoiceEnd /*end*/) override {}
  void OnEnd(GenerationEnd /*end*/) override { ended = true; }

  std::size_t token_count = 0;
  std::vector<wire::TokenLogprobs> prompt_logprobs;
  bool ended = false;
};

class RecordTest : public testing::Test {
 protected:
  void SetUp() override {
    // Tests of one program run in parallel.
    const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    path_ = std::filesystem::path(testing::TempDir()) / (name + ".jsonl");
    recorder_ = Recorder::Open({.path = path_}).value();
    hook_ = RecordTo(*recorder_, clock_);
  }

  std::shared_ptr<Client> Submit(const std::vector<TokenId>& prompt, std::string tenant = "", std::string key = "") {
    GenerateSpec spec;
    spec.key = std::move(key);
    auto model = std::make_shared<ServedModel>();
    model->name = "demo";
    model->block_tokens = kBlockTokens;
    spec.model = std::move(model);
    spec.generate.prompt = prompt;
    spec.generate.root = kRoot;
    spec.generate.block_hashes = HashBlocks(kRoot, prompt, kBlockTokens);
    spec.generate.tenant = std::move(tenant);
    spec.generate.session_hash = 77;
    auto client = std::make_shared<Client>();
    observers_.push_back(hook_(spec, client));
    return client;
  }

  void Answer(std::size_t request, std::vector<TokenId> tokens) {
    observers_[request]->OnTokens({.tokens = std::move(tokens)});
  }
  void End(std::size_t request) { observers_[request]->OnEnd({}); }

  std::string Written() {
    recorder_.reset();
    std::ostringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }

  ManualClock clock_;
  std::filesystem::path path_;
  std::unique_ptr<Recorder> recorder_;
  SubmitHook hook_;
  std::vector<std::shared_ptr<GenerationObserver>> observers_;
};

std::vector<TokenId> Numbers(TokenId first, std::size_t count) {
  std::vector<TokenId> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

TEST_F(RecordTest, ARecordingIsATraceInWhichTheNextTurnSharesPromptAndAnswer) {
  clock_.Advance(std::chrono::seconds(2));
  const auto client = Submit(Numbers(1, 10), "acme");
  Answer(0, Numbers(11, 3));
  Answer(0, Numbers(14, 4));
  End(0);
  EXPECT_EQ(client->token_count, 7U);
  EXPECT_TRUE(client->ended);
  clock_.Advance(std::chrono::seconds(3));
  (void)Submit(Numbers(1, 20));
  End(1);
  (void)Written();
  const auto trace = workload::LoadRecording(path_);
  ASSERT_TRUE(trace.ok()) << trace.error().ToString();
  EXPECT_EQ(trace->block_tokens, kBlockTokens);
  ASSERT_EQ(trace->requests.size(), 2U);
  const auto& first = trace->requests[0];
  const auto& second = trace->requests[1];
  EXPECT_EQ(first.arrival_seconds, 2);
  EXPECT_EQ(second.arrival_seconds, 5);
  EXPECT_EQ(first.input_token_count, 10U);
  EXPECT_EQ(first.output_token_count, 7U);
  EXPECT_EQ(first.tenant, 1U);
  EXPECT_EQ(second.tenant, 0U);
  EXPECT_EQ(first.session, 77U);
  // 17 tokens: four full blocks, all of them in the next prompt of 20 tokens.
  ASSERT_EQ(first.blocks.size(), 4U);
  ASSERT_EQ(second.blocks.size(), 5U);
  EXPECT_TRUE(std::equal(first.blocks.begin(), first.blocks.end(), second.blocks.begin()));
  EXPECT_EQ(first.blocks[3], HashBlocks(kRoot, Numbers(1, 16), kBlockTokens)[3].low);
}

TEST_F(RecordTest, AKeysNameIsWritten) {
  (void)Submit(Numbers(1, 4), "acme", "web-1");
  End(0);
  (void)Submit(Numbers(1, 4), "acme");
  End(1);
  const std::string text = Written();
  EXPECT_THAT(text.substr(0, text.find('\n')), testing::HasSubstr(R"("key":"web-1","tenant":")"));
  EXPECT_THAT(text.substr(text.find('\n')), testing::Not(testing::HasSubstr("key")));
  EXPECT_TRUE(workload::LoadRecording(path_).ok());
}

TEST_F(RecordTest, NeitherOtherNamesNorTokensAreWritten) {
  (void)Submit(Numbers(123'456'001, 8), "acme");
  Answer(0, Numbers(987'654'001, 8));
  End(0);
  const std::string text = Written();
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("acme")));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("123456")));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("987654")));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
}

TEST_F(RecordTest, OnlyTheFirstChoiceIsTheAnswer) {
  (void)Submit(Numbers(1, 4));
  Answer(0, {5});
  observers_[0]->OnTokens({.tokens = {6, 7}, .choice = 1});
  End(0);
  EXPECT_THAT(Written(), testing::HasSubstr("\"output\":1,"));
}

TEST_F(RecordTest, LogprobsGoThrough) {
  const auto client = Submit(Numbers(1, 4));
  observers_[0]->OnPromptLogprobs({{-1, 1, {}}, {-2, 1, {}}, {-3, 1, {}}});
  EXPECT_EQ(client->prompt_logprobs.size(), 3U);
  End(0);
}

TEST_F(RecordTest, WhatIsRefusedIsNotRecorded) {
  (void)Submit(Numbers(1, 4));
  observers_.clear();  // no observer of a refused request is called
  EXPECT_EQ(Written(), "");
}

// The writer is blocked in its first request's outcome, so that the queue fills.
TEST(RecorderTest, AFullQueueDropsAndCounts) {
  std::promise<void> may_go_on;
  std::shared_future<void> going_on = may_go_on.get_future().share();
  std::promise<void> first_written;
  std::atomic<bool> is_first = true;
  auto recorder = Recorder::Open({.path = std::filesystem::path(testing::TempDir()) / "full.jsonl",
                                  .queue_capacity = 2,
                                  .on_outcome =
                                      [&](RecordOutcome outcome) {
                                        if (outcome != RecordOutcome::kWritten || !is_first.exchange(false)) return;
                                        first_written.set_value();
                                        going_on.wait();
                                      }})
                      .value();
  RequestRecord record;
  record.block_tokens = kBlockTokens;
  recorder->TryRecord(record);
  first_written.get_future().wait();
  for (int i = 0; i < 5; ++i) recorder->TryRecord(record);
  EXPECT_EQ(recorder->dropped_count(), 3U);
  may_go_on.set_value();
  recorder.reset();
}

// The limit of a file's size stands for a full disk.
TEST(RecorderTest, WhenAFullDiskHasRoomAgainItGoesOnWithWholeLines) {
  const auto path = std::filesystem::path(testing::TempDir()) / "room.jsonl";
  std::promise<void> told;
  auto recorder = Recorder::Open({.path = path, .on_outcome = [&](RecordOutcome) { told.set_value(); }}).value();
  const auto record = [&](const std::string& model) {
    told = {};
    RequestRecord next;
    next.model = model;
    next.block_tokens = kBlockTokens;
    recorder->TryRecord(std::move(next));
    told.get_future().wait();
  };
  record("first");
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit full{.rlim_cur = std::filesystem::file_size(path) + 10, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
  record("lost");
  record("lost too");
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  record("last");
  EXPECT_EQ(recorder->written_count(), 2U);
  EXPECT_EQ(recorder->dropped_count(), 2U);
  recorder.reset();
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_THAT(lines[0], testing::HasSubstr("\"first\""));
  EXPECT_THAT(lines[1], testing::AllOf(testing::StartsWith("{"), testing::HasSubstr("\"last\"")));
}

TEST(RecorderTest, TheFileIsForItsUserAlone) {
  const auto path = std::filesystem::path(testing::TempDir()) / "mine.jsonl";
  std::ofstream(path) << "older";
  std::filesystem::permissions(path, std::filesystem::perms(0644));
  ASSERT_TRUE(Recorder::Open({.path = path}).ok());
  EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms(0600));
  EXPECT_EQ(std::filesystem::file_size(path), 0U);
}

TEST(RecorderTest, AFileThatCanNotBeWrittenIsNamed) {
  const auto recorder = Recorder::Open({.path = "/nowhere/recording.jsonl"});
  ASSERT_FALSE(recorder.ok());
  EXPECT_EQ(recorder.error().field, "record");
  EXPECT_THAT(recorder.error().ToString(), testing::HasSubstr("/nowhere/recording.jsonl"));
}

}  // namespace
}  // namespace roost::router
