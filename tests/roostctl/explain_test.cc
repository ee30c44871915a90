#include "deploy/roostctl/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace roost::roostctl {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::string_view kDecision =
    R"({"id":"chatcmpl-1","request_id":"req-9","model":"demo","prompt_tokens":1600,"retries":1,"seconds_ago":2.5,)"
    R"("policy":"cache-aware","worker":"w2","reason":"deepest_match","rates_known":true,)"
    R"("predicted":{"cached_tokens":1440,"ttft_seconds":0.1},"actual":{"cached_tokens":1424,"ttft_seconds":0.125},)"
    R"("regret":{"cached_tokens":0,"ttft_seconds":0.0},"round_robin":{"cached_tokens":16,"ttft_seconds":0.8},)"
    R"("candidates":[{"worker":"w2","matched_tokens":1440,"pending_tokens":0,"queue_seconds":0.01,)"
    R"("prefill_seconds":0.08,"decode_seconds":0.01,"ttft_seconds":0.1,)"
    R"("congestion":2.5,"delay_seconds":0.004,"answer_seconds":3.5,"stall_seconds":0.25,"cost_seconds":0.239},)"
    R"({"worker":"w1","matched_tokens":16,"pending_tokens":16,"queue_seconds":0,)"
    R"("prefill_seconds":0.79,"decode_seconds":0.01,"ttft_seconds":0.8,"congestion":2.5,)"
    R"("delay_seconds":0,"cost_seconds":2.0}]})";

std::string Formatted(std::string_view decision, ExplainColumns columns = ExplainColumns::kBrief) {
  return FormatDecisions(R"({"decisions":[)" + std::string(decision) + "]}", columns).value();
}

std::string With(std::string text, std::string_view what, std::string_view instead) {
  return text.replace(text.find(what), what.size(), instead);
}

TEST(FormatDecisionsTest, SaysWhereWhyAndWhatCameOfIt) {
  const std::string text = Formatted(kDecision);
  EXPECT_THAT(text, HasSubstr("chatcmpl-1 (req-9), model demo, 1600 prompt tokens, 2.5 s ago"));
  EXPECT_THAT(text, HasSubstr("went to      w2, retry 1, by cache-aware: deepest_match (it holds the most"));
  EXPECT_THAT(text, HasSubstr("predicted    1440 cached tokens, first token after 100.0 ms"));
  EXPECT_THAT(text, HasSubstr("actual       1424 cached tokens, first token after 125.0 ms"));
  EXPECT_THAT(text, HasSubstr("round robin  16 cached tokens, first token after 800.0 ms"));
  EXPECT_THAT(text, Not(HasSubstr("no worker's speed")));
  EXPECT_THAT(text, Not(HasSubstr("copy")));
}

TEST(FormatDecisionsTest, PrintsOneRowPerCandidateAndMarksTheChosenOne) {
  std::istringstream lines(Formatted(kDecision, ExplainColumns::kAll));
  std::vector<std::string> rows;
  for (std::string line; std::getline(lines, line);) rows.push_back(line);
  ASSERT_GE(rows.size(), 3U);
  const std::string& header = rows[rows.size() - 3];
  const std::string& chosen = rows[rows.size() - 2];
  const std::string& other = rows[rows.size() - 1];
  EXPECT_THAT(chosen, testing::StartsWith("* w2"));
  EXPECT_THAT(other, testing::StartsWith("  w1"));
  EXPECT_EQ(header.size(), chosen.size());
  EXPECT_EQ(header.size(), other.size());
  EXPECT_THAT(chosen, HasSubstr("239.0"));
  EXPECT_THAT(chosen, HasSubstr("2.50"));
  EXPECT_THAT(chosen, testing::EndsWith("      4.0     250.0          0.0      1.00    3500.0      1.00     239.0"));
  EXPECT_THAT(other, HasSubstr("2000.0"));
}

TEST(FormatDecisionsTest, IsBriefUnlessAllIsAskedFor) {
  const std::string text = Formatted(kDecision);
  EXPECT_THAT(
      text,
      HasSubstr("candidate            way            matched tokens  queue ms first token ms answer ms   cost ms\n"));
  EXPECT_THAT(text, HasSubstr("          100.0    3500.0     239.0\n"));
}

TEST(FormatDecisionsTest, DrawsTheHitAndWhoHoldsThePrompt) {
  const std::string text =
      Formatted(With(std::string(kDecision), R"("predicted")",
                     R"("block_tokens":16,"hit":"prompt 1600 tokens: 1424 cached in 89 blocks, 176 to prefill",)"
                     R"("predicted")"));
  EXPECT_THAT(text, HasSubstr("  hit          prompt 1600 tokens: 1424 cached in 89 blocks, 176 to prefill\n"
                              "  known then   block 1: w2; being computed by w1\n"
                              "               └─ blocks 2-90: w2\n"
                              "                  └─ blocks 91-100: no worker\n"));
  EXPECT_THAT(Formatted(kDecision), Not(HasSubstr("  hit ")));  // from a router that does not report it
}

TEST(FormatDecisionsTest, SaysHowNearATieIsAndWhatDecidedIt) {
  EXPECT_THAT(Formatted(With(std::string(kDecision), "deepest_match", "near_tie")),
              HasSubstr("near_tie (of those within 20 ms and 10 % of the cheapest it holds the most, "
                        "then the shortest queue)"));
}

TEST(FormatDecisionsTest, SaysWhatThereIsToSayOfTheWholeAnswer) {
  std::string decision = With(std::string(kDecision), R"("ttft_seconds":0.1})",
                              R"("ttft_seconds":0.1,"itl_seconds":0.008,"whole_seconds":2.0})");
  decision = With(decision, R"("ttft_seconds":0.125})",
                  R"("ttft_seconds":0.125,"output_tokens":201,"itl_seconds":0.01,"whole_seconds":2.125})");
  decision = With(decision, R"("ttft_seconds":0.0})", R"("ttft_seconds":0.0,"whole_seconds":0.5})");
  const std::string text = Formatted(decision);
  EXPECT_THAT(text, HasSubstr("first token after 100.0 ms, 8.0 ms between tokens, whole answer after 2000.0 ms\n"));
  EXPECT_THAT(text, HasSubstr("10.0 ms between tokens, whole answer after 2125.0 ms with 201 tokens\n"));
  EXPECT_THAT(text, HasSubstr("0 cached tokens fewer, first token 0.0 ms and whole answer 500.0 ms later"));
}

TEST(FormatDecisionsTest, SaysWhoGetsACopy) {
  EXPECT_THAT(
      Formatted(With(std::string(kDecision), R"("predicted")", R"("copy":{"worker":"w1","blocks":90},"predicted")")),
      HasSubstr("copy         of its first 90 blocks, by w1; no request waits for it\n"));
  EXPECT_THAT(Formatted(With(std::string(kDecision), R"("predicted")", R"("copy":null,"predicted")")),
              Not(HasSubstr("no request waits")));
}

TEST(FormatDecisionsTest, SaysWhatComesFromTheWorkersDisk) {
  std::string decision =
      With(std::string(kDecision), R"("predicted")",
           R"("restore":{"blocks":80,"bytes":1000,"predicted_seconds":0.012},"pull":null,"predicted")");
  decision = With(decision, R"("pending_tokens":0,)",
                  R"("pending_tokens":0,"way":"restore","source":null,)"
                  R"("pulled_tokens":1280,"disk_tokens":1280,)");
  decision = With(decision, R"("prompt_tokens":1600,)", R"("prompt_tokens":1600,"block_tokens":16,"hit":"a hit",)");
  decision = With(decision, "deepest_match", "restore");
  const std::string text = Formatted(decision, ExplainColumns::kAll);
  EXPECT_THAT(text, HasSubstr("  restore      of 80 blocks from its disk, predicted 12.0 ms\n"));
  EXPECT_THAT(text, HasSubstr("restore (it costs least, because it takes blocks from its disk)"));
  EXPECT_THAT(text, HasSubstr("* w2                   restore "));
  EXPECT_THAT(text, HasSubstr("w2 on disk"));
  EXPECT_THAT(Formatted(With(std::string(kDecision), R"("predicted")", R"("restore":null,"predicted")")),
              Not(HasSubstr("  restore  ")));
}

TEST(FormatDecisionsTest, SaysWhatIsFetchedFromWhereAndWhatCame) {
  constexpr std::string_view kPull =
      R"("pull":{"source":"w3","blocks":80,"bytes":1000,"predicted_seconds":0.012,"actual":null},"predicted")";
  std::string decision = With(std::string(kDecision), R"("predicted")", kPull);
  EXPECT_THAT(Formatted(decision),
              HasSubstr("  pull         of 80 blocks from w3, predicted 12.0 ms: not ended yet\n"));
  decision =
      With(decision, R"("actual":null)", R"("actual":{"outcome":"missing","blocks":7,"bytes":9,"seconds":0.025})");
  decision = With(decision, R"("pending_tokens":0,)",
                  R"("pending_tokens":0,"way":"pull","source":"w3","pulled_tokens":1280,"transfer_seconds":0.0123,)"
                  R"("displaced_seconds":0.0456,)");
  decision = With(decision, "deepest_match", "pull");
  const std::string text = Formatted(decision, ExplainColumns::kAll);
  EXPECT_THAT(text, HasSubstr("  pull         of 80 blocks from w3, predicted 12.0 ms: 7 came in 25.0 ms (missing)\n"));
  EXPECT_THAT(text, HasSubstr("pull (it costs least, because it fetches blocks from another worker)"));
  EXPECT_THAT(text, HasSubstr("* w2                   pull w3"));
  EXPECT_THAT(text, HasSubstr(" 12.3 "));
  EXPECT_THAT(text, HasSubstr(" 45.6 "));
  EXPECT_THAT(Formatted(With(std::string(kDecision), R"("predicted")", R"("pull":null,"predicted")")),
              Not(HasSubstr("  pull  ")));
}

TEST(FormatDecisionsTest, SaysWhatIsNotKnown) {
  std::string decision = With(std::string(kDecision), R"({"cached_tokens":1424,"ttft_seconds":0.125})", "null");
  decision =
      With(decision, R"("cached_tokens":1440,"ttft_seconds":0.1)", R"("cached_tokens":1440,"ttft_seconds":null)");
  decision = With(decision, R"("rates_known":true)", R"("rates_known":false)");
  const std::string text = Formatted(decision);
  EXPECT_THAT(text, HasSubstr("actual       no token yet"));
  EXPECT_THAT(text, HasSubstr("predicted    1440 cached tokens, first token after unknown"));
  EXPECT_THAT(text, HasSubstr("no worker's speed is known yet"));
}

TEST(FormatDecisionsTest, SaysWhyNothingIsKnownOfAnAttempt) {
  const std::string decision =
      With(std::string(kDecision), R"({"cached_tokens":1424,"ttft_seconds":0.125})",
           R"(null,"no_actual":"worker_lost","block_tokens":16,"hit":"prompt 1600 tokens: 0")");
  const std::string text = Formatted(decision);
  EXPECT_THAT(text, HasSubstr("actual       unknown: the worker went away, and the request continued elsewhere\n"));
  EXPECT_THAT(text, HasSubstr("hit          prompt 1600 tokens: 0, as predicted\n"));
  EXPECT_THAT(Formatted(With(decision, "worker_lost", "request_ended")), HasSubstr("ended before its first token\n"));
  EXPECT_THAT(Formatted(With(decision, R"("worker_lost")", "null")), HasSubstr("actual       no token yet\n"));
}

TEST(FormatDecisionsTest, AnotherAnswerIsAnErrorAndNoneIsSaid) {
  EXPECT_FALSE(FormatDecisions("<html>").ok());
  EXPECT_FALSE(FormatDecisions(R"({"error":{}})").ok());
  EXPECT_THAT(FormatDecisions(R"({"decisions":[]})").value(), HasSubstr("no decisions"));
}

TEST(ExplainPathTest, EscapesTheId) {
  ExplainOptions options;
  options.request_id = "chatcmpl-0a&limit=3";
  EXPECT_EQ(ExplainPath(options), "/admin/v1/decisions?request_id=chatcmpl-0a%26limit%3D3");
  EXPECT_EQ(ExplainPath({}), "/admin/v1/decisions?limit=1");
}

TEST(RunExplainTest, SaysWhyItFails) {
  std::ostringstream out;
  std::ostringstream err;
  ExplainOptions options;
  options.admin.url = "http://127.0.0.1:1";
  EXPECT_EQ(RunExplain(options, out, err), 1);
  EXPECT_THAT(err.str(), HasSubstr("roostctl explain: "));
  EXPECT_EQ(out.str(), "");
}

}  // namespace
}  // namespace roost::roostctl
