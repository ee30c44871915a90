#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <set>

#include "deploy/roostctl/workload/generators.h"
#include "deploy/roostctl/workload/replay.h"
#include "deploy/roostctl/workload/source.h"
#include "tests/support/shared_data.h"

namespace roost::workload {
namespace {

using testing_support::SharedDir;

std::filesystem::path WriteFile(std::string_view name, std::string_view text) {
  std::filesystem::path path = std::filesystem::path(testing::TempDir()) / name;
  std::ofstream(path) << text;
  return path;
}

// The expected numbers are from the traces' own README.
TEST(MooncakeTest, TheConversationTraceIsAsItsReadmeSays) {
  const auto path = SharedDir() / "traces/mooncake_conv_first20min.jsonl";
  ROOST_SKIP_WITHOUT(path);
  const auto trace = LoadMooncakeTrace(path);
  ASSERT_TRUE(trace.ok()) << trace.error().ToString();
  const TraceSummary summary = Summarise(*trace);
  EXPECT_EQ(summary.request_count, 3658U);
  EXPECT_EQ(summary.unique_prompt_block_count, 62'874U);
  EXPECT_NEAR(summary.ideal_hit_ratio, 0.3234, 0.00005);
}

TEST(MooncakeTest, TheSyntheticTraceIsAsItsReadmeSays) {
  const auto path = SharedDir() / "traces/mooncake_synth_family_q0.jsonl";
  ROOST_SKIP_WITHOUT(path);
  const auto trace = LoadMooncakeTrace(path);
  ASSERT_TRUE(trace.ok()) << trace.error().ToString();
  const TraceSummary summary = Summarise(*trace);
  EXPECT_EQ(summary.request_count, 1017U);
  EXPECT_EQ(summary.unique_prompt_block_count, 11'279U);
  EXPECT_NEAR(summary.ideal_hit_ratio, 0.6598, 0.00005);
}

TEST(MooncakeTest, AnswersFillBlocksOfTheirOwn) {
  const auto path = WriteFile("mooncake_two.jsonl",
                              R"({"timestamp": 3000, "input_length": 1000, "output_length": 600, "hash_ids": [7, 9]}
{"timestamp": 0, "input_length": 1024, "output_length": 0, "hash_ids": [7, 8]}
)");
  const auto trace = LoadMooncakeTrace(path);
  ASSERT_TRUE(trace.ok()) << trace.error().ToString();
  ASSERT_EQ(trace->requests.size(), 2U);
  EXPECT_EQ(trace->requests[0].blocks, (std::vector<ContentId>{7, 8}));
  ASSERT_EQ(trace->requests[1].blocks.size(), 3U);
  EXPECT_EQ(trace->requests[1].blocks[0], 7U);
  EXPECT_EQ(trace->requests[1].arrival_seconds, 3);
  EXPECT_EQ(PromptBlockCount(*trace, trace->requests[1]), 1U);
}

TEST(MooncakeTest, ABadLineIsNamed) {
  const auto path =
      WriteFile("mooncake_bad.jsonl", R"({"timestamp": 0, "input_length": 512, "output_length": 1, "hash_ids": [1]}
{"timestamp": 0, "input_length": 1024, "output_length": 1, "hash_ids": [1]}
)");
  const auto trace = LoadMooncakeTrace(path);
  ASSERT_FALSE(trace.ok());
  EXPECT_EQ(trace.error().field, path.string() + ":2");
  EXPECT_FALSE(LoadMooncakeTrace("/nowhere").ok());
}

TEST(AgentSessionsTest, TheSessionsAreAsTheirReadmeSays) {
  const auto path = SharedDir() / "traces/weka_sessions_q0.jsonl";
  ROOST_SKIP_WITHOUT(path);
  const auto sessions = LoadAgentSessions(path);
  ASSERT_TRUE(sessions.ok()) << sessions.error().ToString();
  EXPECT_EQ(sessions->size(), 168U);
  std::uint64_t requests = 0;
  double shared = 0;
  double all = 0;
  for (const AgentSession& session : *sessions) {
    for (const AgentRequest& request : session.requests) {
      ++requests;
      shared += request.shared_block_count;
      all += request.shared_block_count + request.new_block_count;
    }
  }
  EXPECT_EQ(requests, 10'916U);
  EXPECT_NEAR(shared / all, 0.9632, 0.00005);
}

TEST(AgentSessionsTest, ARequestSharesBlocksWithItsParentAndToolsWithOtherSessions) {
  const auto path = WriteFile("sessions.jsonl",
                              R"({"session": "a", "block": 64, "tool_tokens": 130, "system_tokens": 0}
[0, 256, 64, 1, 0, -1, 0, 4]
[900, 320, 64, 1, 0, 0, 3, 2]
{"session": "b", "block": 64, "tool_tokens": 130, "system_tokens": 0}
[0, 256, 64, null, 0, -1, 0, 4]
)");
  const auto sessions = LoadAgentSessions(path);
  ASSERT_TRUE(sessions.ok()) << sessions.error().ToString();
  const Trace trace = ComposeAgentTrace(*sessions, {.block_tokens = 64, .start_span_seconds = 0});
  ASSERT_EQ(trace.requests.size(), 3U);
  const auto& first = trace.requests[0].blocks;
  const auto& other = trace.requests[1].blocks;
  const auto& second = trace.requests[2].blocks;
  EXPECT_EQ(first.size(), 5U);
  EXPECT_TRUE(std::equal(first.begin(), first.begin() + 3, second.begin()));
  EXPECT_NE(first[3], second[3]);
  EXPECT_TRUE(std::equal(first.begin(), first.begin() + 2, other.begin()));
  EXPECT_NE(first[2], other[2]);
  EXPECT_EQ(trace.requests[2].arrival_seconds, 300);  // the gap is cut
}

TEST(AgentSessionsTest, BlocksThatCanNotBeAreRefused) {
  const std::string header = R"({"session": "a", "block": 64, "tool_tokens": 0, "system_tokens": 0})";
  for (const std::string_view request :
       {"[0, 256, 64, 1, 0, 0, 0, 4]", "[0, 256, 64, 1, 0, -1, 1, 3]", "[0, 256, 64, 1, 0, -1, 0, 9]", "[0, 256]"}) {
    EXPECT_FALSE(LoadAgentSessions(WriteFile("bad_sessions.jsonl", header + "\n" + std::string(request) + "\n")).ok())
        << request;
  }
}

std::size_t SessionCount(const Trace& trace) {
  std::set<std::uint64_t> sessions;
  for (const TraceRequest& request : trace.requests) sessions.insert(request.session);
  return sessions.size();
}

// The published figure is for all tasks, of which the file has every second one: 93.7 % of 3,100 tokens on average.
TEST(TextSessionsTest, TheTauBenchTrajectoriesAreAsTheirReadmeSays) {
  const auto path = SharedDir() / "traces/taubench_airline_even_tasks.jsonl";
  ROOST_SKIP_WITHOUT(path);
  const auto trace = LoadTauBench(path, {});
  ASSERT_TRUE(trace.ok()) << trace.error().ToString();
  EXPECT_EQ(SessionCount(*trace), 100U);
  EXPECT_EQ(trace->requests.size(), 1163U);  // assistant messages
  const TraceSummary summary = Summarise(*trace);
  EXPECT_NEAR(static_cast<double>(summary.input_token_count) / 1163, 3100, 400);
  EXPECT_NEAR(summary.ideal_hit_ratio, 0.937, 0.03);
}

TEST(TextSessionsTest, TheMiniSweSessionsAreAsTheirReadmeSays) {
  const auto path = SharedDir() / "traces/miniswe_8_sessions.jsonl";
  ROOST_SKIP_WITHOUT(path);
  const auto trace = LoadMiniSwe(path, {});
  ASSERT_TRUE(trace.ok()) << trace.error().ToString();
  EXPECT_EQ(SessionCount(*trace), 8U);
  EXPECT_EQ(trace->requests.size(), 99U);
  EXPECT_NEAR(Summarise(*trace).ideal_hit_ratio, 0.936, 0.03);
}

TEST(TextSessionsTest, ANextPromptSharesWhatItSharesAsText) {
  const std::string system(200, 's');
  const std::string question(100, 'q');
  const auto path =
      WriteFile("chat.jsonl",
                R"({"messages": [{"role": "system", "content": ")" + system + R"("}, {"role": "user", "content": ")" +
                    question + R"("}, {"role": "assistant", "content": "An answer of some length, so that it fills )" +
                    R"(a block"}, {"role": "user", "content": "And?"}, {"role": "assistant", "content": )" +
                    R"(null, "tool_calls": [{"function": "f"}]}]})" + "\n");
  const auto trace = LoadTauBench(path, {.turn_seconds = 7});
  ASSERT_TRUE(trace.ok()) << trace.error().ToString();
  ASSERT_EQ(trace->requests.size(), 2U);
  EXPECT_EQ(trace->pacing, Pacing::kTurnByTurn);
  const TraceRequest& first = trace->requests[0];
  const TraceRequest& second = trace->requests[1];
  EXPECT_EQ(second.arrival_seconds - first.arrival_seconds, 7);
  ASSERT_GT(first.blocks.size(), PromptBlockCount(*trace, first));
  EXPECT_TRUE(std::equal(first.blocks.begin(), first.blocks.end(), second.blocks.begin()));
  // 200, 100 and a few characters of roles; four characters count as a token.
  EXPECT_NEAR(first.input_token_count, 80, 5);
}

TEST(TextSessionsTest, TurnsAreInTheOrderOfTheirTimes) {
  const auto path = WriteFile("turns.jsonl",
                              R"({"timestamp": 5000000, "session_id": "a", "input": "xxxxxxxx", "output": "y"}
{"timestamp": 2000000, "session_id": "a", "input": "xxxx", "output": "y"}
)");
  const auto trace = LoadMiniSwe(path, {});
  ASSERT_TRUE(trace.ok()) << trace.error().ToString();
  ASSERT_EQ(trace->requests.size(), 2U);
  EXPECT_EQ(trace->requests[0].input_token_count, 1U);
  EXPECT_DOUBLE_EQ(trace->requests[1].arrival_seconds - trace->requests[0].arrival_seconds, 3);
}

TEST(RecordingTest, ABadLineIsNamed) {
  const std::string good =
      R"({"arrival": 1, "model": "m", "block_tokens": 16, "input": 20, "output": 1, "tenant": "0", "session": "0", )"
      R"("blocks": ["ff"]})";
  const auto line = [&good](std::string_view from, std::string_view to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  ASSERT_TRUE(LoadRecording(WriteFile("good.jsonl", good)).ok());
  const std::string good_line = good + "\n";
  for (const std::string& bad : {line("\"ff\"", "\"xy\""), line("\"ff\"", ""), line("16", "17"),
                                 line("\"m\"", "\"other\""), line("20", "-1"), line("\"0\"", "0")}) {
    const auto path = WriteFile("bad.jsonl", good_line + bad);
    const auto trace = LoadRecording(path);
    ASSERT_FALSE(trace.ok()) << bad;
    EXPECT_EQ(trace.error().field, path.string() + ":2");
  }
}

TEST(TraceTest, SessionsAreGuessedFromMoreThanTheFirstBlock) {
  Trace trace{.block_tokens = 16, .requests = {}};
  for (const std::vector<ContentId>& blocks :
       {std::vector<ContentId>{1, 2, 3}, {1, 4}, {1, 2, 3, 5}, {1}, {1, 4, 6}, {}}) {
    trace.requests.push_back({.output_token_count = 0, .blocks = blocks});
  }
  GuessSessions(trace);
  std::vector<std::uint64_t> sessions;
  for (const TraceRequest& request : trace.requests) sessions.push_back(request.session);
  EXPECT_EQ(sessions, (std::vector<std::uint64_t>{1, 2, 1, 3, 2, 4}));
}

TEST(TraceSourceTest, EveryGeneratorMakesATrace) {
  for (const std::string_view name : kGenerators) {
    const auto trace = LoadTrace({.path = "", .format = "", .generator = std::string(name)});
    ASSERT_TRUE(trace.ok()) << name;
    EXPECT_FALSE(trace->requests.empty()) << name;
  }
}

TEST(TraceSourceTest, WhatIsNotThereIsNamed) {
  EXPECT_EQ(LoadTrace({.path = "", .format = "weka", .generator = ""}).error().field, "trace");
  EXPECT_EQ(LoadTrace({.path = "x", .format = "weka", .generator = "chat"}).error().field, "trace");
  EXPECT_EQ(LoadTrace({.path = "x", .format = "vllm", .generator = ""}).error().field, "format");
  EXPECT_EQ(LoadTrace({.path = "", .format = "", .generator = "burst"}).error().field, "generate");
}

TEST(TraceSourceTest, AFileOfAnotherFormatNamesIt) {
  const std::vector<std::pair<std::string, std::string>> files = {{"weka", "weka_sessions_q0.jsonl"},
                                                                  {"taubench", "taubench_airline_even_tasks.jsonl"},
                                                                  {"mooncake", "mooncake_synth_family_q0.jsonl"}};
  for (const auto& [format, name] : files) {
    const auto path = SharedDir() / "traces" / name;
    ROOST_SKIP_WITHOUT(path);
    const std::string wrong = format == "mooncake" ? "weka" : "mooncake";
    const auto trace = LoadTrace({.path = path, .format = wrong, .generator = ""});
    ASSERT_FALSE(trace.ok()) << name;
    EXPECT_NE(trace.error().message.find("not of format " + wrong + ": give --format " + format), std::string::npos)
        << trace.error().ToString();
  }
}

TEST(TraceSourceTest, AgentSessionsEndAfterNinetyMinutes) {
  const auto path = SharedDir() / "traces/weka_sessions_q0.jsonl";
  ROOST_SKIP_WITHOUT(path);
  const auto trace = LoadTrace({.path = path, .format = "weka", .generator = ""});
  ASSERT_TRUE(trace.ok()) << trace.error().ToString();
  EXPECT_LE(trace->requests.back().arrival_seconds, 5400);
  EXPECT_GT(trace->requests.size(), 7000U);
  EXPECT_NEAR(Summarise(*trace).ideal_hit_ratio, 0.955, 0.01);
}

TEST(GeneratorsTest, ReachThePublishedIdealHits) {
  EXPECT_NEAR(Summarise(SharedPrefix({})).ideal_hit_ratio, 0.882, 0.0005);
  TenantUsersOptions users;
  users.request_count = 17'064;
  users.block_tokens = 80;
  EXPECT_NEAR(Summarise(TenantUsers(users)).ideal_hit_ratio, 0.985, 0.001);
  EXPECT_EQ(Summarise(NoReuse({})).ideal_hit_ratio, 0);
  EXPECT_GT(Summarise(MultiTurnChat({})).ideal_hit_ratio, 0.8);
}

TEST(GeneratorsTest, TheSeedIsTheTrace) {
  const Trace a = MultiTurnChat({});
  const Trace b = MultiTurnChat({});
  MultiTurnChatOptions other;
  other.seed = 2;
  const Trace c = MultiTurnChat(other);
  ASSERT_EQ(a.requests.size(), b.requests.size());
  for (std::size_t i = 0; i < a.requests.size(); ++i) ASSERT_EQ(a.requests[i].blocks, b.requests[i].blocks);
  EXPECT_NE(a.requests.size(), c.requests.size());
}

TEST(ReplayTest, APoolThatHoldsAllReachesTheIdeal) {
  const Trace trace = MultiTurnChat({});
  const ReplayResult result = Replay(trace, 100'000, std::make_unique<worker::LruEviction>(100'000));
  EXPECT_DOUBLE_EQ(result.hit_ratio(), Summarise(trace).ideal_hit_ratio);
  EXPECT_EQ(result.evicted_block_count, 0U);
}

TEST(ReplayTest, ARequestLargerThanThePoolKeepsWhatFits) {
  const Trace trace{
      .block_tokens = 16,
      .requests = {{.input_token_count = 64, .output_token_count = 0, .blocks = {1, 2, 3, 4}},
                   {.arrival_seconds = 1, .input_token_count = 64, .output_token_count = 0, .blocks = {1, 2, 3, 4}}}};
  const ReplayResult result = Replay(trace, 3, std::make_unique<worker::LruEviction>(3));
  EXPECT_EQ(result.hit_token_count, 48U);
}

// A block takes half of the first block's time longer for each block before it: the prompt takes the time of 128 tokens
// at its beginning, its first three blocks that of 84.
TEST(ReplayTest, HitsSaveMoreTimeTheDeeperTheyAre) {
  const TraceRequest request{.input_token_count = 64, .output_token_count = 0, .blocks = {1, 2, 3, 4}};
  const Trace trace{.block_tokens = 16, .requests = {request, request}};
  const ReplayResult result = Replay(trace, 3, std::make_unique<worker::LruEviction>(3), {}, {.growth = 0.5F});
  EXPECT_DOUBLE_EQ(result.saved_ratio(), 84.0 / 256);
  EXPECT_EQ(result.hit_token_count, 48U);
}

// A tenant comes back after another one has filled the pool with new blocks, for which it borrows unused shares.
TEST(ReplayTest, ATenantKeepsItsShareAndIsCountedAlone) {
  Trace trace{.block_tokens = 16, .requests = {}};
  const auto ask = [&trace](std::uint32_t tenant, std::vector<ContentId> blocks) {
    const auto token_count = static_cast<std::uint32_t>(blocks.size()) * 16;
    trace.requests.push_back(
        {.input_token_count = token_count, .output_token_count = 0, .blocks = std::move(blocks), .tenant = tenant});
  };
  ask(1, {1, 2});
  for (ContentId id = 10; id < 20; ++id) ask(2, {id});
  ask(1, {1, 2});
  const ReplayResult alone =
      Replay(trace, 4, std::make_unique<worker::LruEviction>(4, 3), std::vector<double>{0.5, 0.5});
  EXPECT_DOUBLE_EQ(alone.tenants[1].hit_ratio(), 0.5);
  EXPECT_EQ(alone.tenants[2].hit_token_count, 0U);
  EXPECT_EQ(alone.hit_token_count, 32U);
  EXPECT_EQ(Replay(trace, 4, std::make_unique<worker::LruEviction>(4)).hit_token_count, 0U);
}

TEST(ReplayTest, ForesightBeatsLruInALoop) {
  Trace trace{.block_tokens = 16, .requests = {}};
  for (std::uint32_t i = 0; i < 100; ++i) {
    trace.requests.push_back({.arrival_seconds = static_cast<double>(i),
                              .input_token_count = 16,
                              .output_token_count = 0,
                              .blocks = {i % 5}});
  }
  EXPECT_EQ(Replay(trace, 4, std::make_unique<worker::LruEviction>(4)).hit_token_count, 0U);
  EXPECT_GT(ReplayWithForesight(trace, 4).hit_ratio(), 0.7);
}

TEST(GeneratorsTest, QuestionsBehindOneSystemPromptShareIt) {
  const Trace trace = SystemPrompts({.request_count = 400});
  ASSERT_EQ(trace.requests.size(), 400U);
  std::uint64_t answer_tokens = 0;
  for (const TraceRequest& request : trace.requests) {
    EXPECT_GE(request.input_token_count, 2050U);
    EXPECT_LE(request.input_token_count, 2300U);
    EXPECT_GE(request.output_token_count, 200U);
    EXPECT_LE(request.output_token_count, 1000U);
    EXPECT_EQ(request.blocks[2000 / 16 - 1], trace.requests[0].blocks[2000 / 16 - 1]);
    answer_tokens += request.output_token_count;
  }
  EXPECT_NE(trace.requests[1].blocks[2000 / 16], trace.requests[0].blocks[2000 / 16]);
  EXPECT_NEAR(static_cast<double>(answer_tokens) / 400, 600, 40);
}

// Zipf's law over ten: the first has 1 / (1 + 1/2 + … + 1/10) = 0.341 of all, the tenth a tenth of that.
TEST(GeneratorsTest, SystemPromptsAreAskedByZipfsLaw) {
  const Trace trace = SystemPrompts({.system_count = kZipfSystemPrompts, .request_count = 20'000});
  std::map<ContentId, int> counts;
  for (const TraceRequest& request : trace.requests) ++counts[request.blocks[0]];
  ASSERT_EQ(counts.size(), 10U);
  std::vector<int> sorted;
  for (const auto& [block, count] : counts) sorted.push_back(count);
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  EXPECT_NEAR(sorted.front(), 6828, 250);
  EXPECT_NEAR(sorted.back(), 683, 90);
}

}  // namespace
}  // namespace roost::workload
