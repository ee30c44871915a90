// Every answer that was recorded from vLLM, read whole and cut at random places.
#include "worker/adapters/vllm/vllm_answer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>

#include "tests/worker/adapters/recordings.h"
#include "worker/adapters/host/adapter_engine.h"

namespace roost::worker::adapters::vllm {
namespace {

using adapters::testing_support::ReadAnswer;
using adapters::testing_support::Recording;
using adapters::testing_support::RecordingFolder;

// The content that was read, as text: "0:[268 40]length cached=0 done".
struct Read {
  std::map<std::uint32_t, std::string> tokens;
  std::map<std::uint32_t, std::string> ends;
  std::string rest;

  void Take(const Result<AnswerPiece>& piece) {
    if (!piece.ok()) {
      rest += " unreadable";
      return;
    }
    for (const ChoicePiece& choice : piece->choices) {
      for (const TokenId token : choice.tokens) tokens[choice.index] += fmt::format(" {}", token);
      if (choice.tokens.empty()) tokens[choice.index] += "";
      if (choice.end) ends[choice.index] = EndText(*choice.end);
    }
    if (piece->cached_tokens) rest += fmt::format(" cached={}", *piece->cached_tokens);
    if (piece->complaint) rest += fmt::format(" error={}:{}", piece->complaint->code, piece->complaint->parameter);
    if (piece->is_last) rest += " done";
  }
  static std::string EndText(const ChoiceEnd& end) {
    if (end.error) return "error";
    if (end.reason == wire::FinishReason::kLength) return "length";
    return end.stop_token ? fmt::format("stop({})", *end.stop_token) : "stop";
  }
  [[nodiscard]] std::string Text() const {
    std::string text;
    for (const auto& [index, list] : tokens) {
      const auto end = ends.find(index);
      text +=
          fmt::format("{}:[{}]{} ", index, list.empty() ? "" : list.substr(1), end == ends.end() ? "" : end->second);
    }
    if (!rest.empty()) text += rest.substr(1);
    while (text.ends_with(' ')) text.pop_back();
    return text;
  }
};

// The data are cut where `next_cut` says, in bytes from the last cut.
std::string ReadStream(const Recording& recording, const std::function<std::size_t()>& next_cut) {
  VllmAnswer answer({});
  SseReader events;
  simdjson::dom::parser parser;
  Read read;
  for (std::string_view rest = recording.body; !rest.empty();) {
    const std::string_view piece = rest.substr(0, next_cut());
    rest.remove_prefix(piece.size());
    const auto taken = events.Read(piece, [&](std::string_view data) -> Result<void> {
      read.Take(answer.ReadEvent(parser, data));
      return {};
    });
    EXPECT_TRUE(taken.ok());
  }
  return read.Text();
}

std::string ReadDocument(const Recording& recording) {
  simdjson::dom::parser parser;
  Read read;
  if (recording.status != 200) {
    const Complaint complaint = ReadRefusal(parser, recording.status, recording.body);
    return fmt::format("error={}:{}", complaint.code, complaint.parameter);
  }
  read.Take(VllmAnswer({}).ReadWhole(parser, recording.body));
  return read.Text();
}

const std::map<std::string, std::string>& Expected() {
  static const std::map<std::string, std::string> expected{
      {"adapter", "0:[268 46]length cached=0 done"},
      {"all-killed", "0:[288 614 751 268]"},
      {"bad-field", "error=400:temperature"},
      {"cache-salt", "0:[268 40]length cached=0 done"},
      {"choice", "0:[82 78 84 407]stop(2045) cached=32 done"},
      {"core-killed", "0:[288 614 751 268] error=500: done"},
      {"empty-prompt", "error=400:"},
      {"end-of-text", "0:[]stop(2047) cached=32 done"},
      {"generate-aborted", "0:[268 40 485]error done"},
      {"generate-bad-field", "error=400:temperature"},
      {"generate-choice", "0:[82 78 84 407]stop(2045) cached=32 done"},
      {"generate-invalid-token", "error=400:"},
      {"generate-logprobs", "0:[268 40]length cached=0 done"},
      {"generate-logprobs-whole", "0:[268 40]length cached=0 done"},
      {"generate-off", "error=403:"},
      {"generate-salted", "0:[268 40 485 258]length cached=0 done"},
      {"generate-stream", "0:[268 40 485 258]length cached=32 done"},
      {"generate-stream-plain", "0:[268 40 485 258]length done"},
      {"generate-too-long", "error=400:"},
      {"generate-two", "0:[268 738 11]length 1:[268 44 1769]length cached=32 done"},
      {"generate-unknown-model", "error=404:model"},
      {"generate-whole", "0:[268 40 485 258]length cached=32 done"},
      {"grammar-bad", "error=400: done"},
      {"greedy", "0:[268 40 485 258 1626 11]length cached=0 done"},
      {"greedy-again", "0:[268 40 485 258 1626 11]length cached=32 done"},
      {"greedy-usage-at-end", "0:[268 40 485 258 1626 11]length cached=32 done"},
      {"ignore-eos", "0:[2047 2047 2047 2047]length cached=32 done"},
      {"interval", "0:[268 40 485 258 1626 11 302 311 662 323 681]length cached=32 done"},
      {"invalid-token", "error=400: done"},
      {"json-schema", "0:[90 1 65 1165 82 1 268 83 1051 68 92]stop(2047) cached=32 done"},
      {"logit-bias", "0:[100 100]length cached=32 done"},
      {"logprobs", "0:[268 40 485]length cached=32 done"},
      {"logprobs-20", "0:[268]length cached=32 done"},
      {"logprobs-21", "error=400:logprobs done"},
      {"logprobs-as-ids", "0:[268 40 485]length cached=32 done"},
      {"logprobs-zero", "0:[268 40]length cached=32 done"},
      {"min-tokens", "0:[268 40 485 258 1626 11]length cached=32 done"},
      {"min-tokens-before-end", "0:[268 40]stop(2047) cached=32 done"},
      {"negative-token", "error=400:body.prompt.1"},
      {"not-json", "error=400:body"},
      {"not-streamed", "0:[268 40 485 258 1626 11]length cached=32 done"},
      {"penalties", "0:[268 477 0 261 1231 1014]length cached=32 done"},
      {"priority", "0:[268 40]length cached=32 done"},
      {"priority-scheduled", "0:[268 40]length cached=0 done"},
      {"prompt-logprobs", "error=400:prompt_logprobs"},
      {"prompt-logprobs-not-streamed", "0:[443 46]length cached=0 done"},
      {"rank-0", "0:[268]length cached=32 done"},
      {"rank-9", "error=400: done"},
      {"regex", "0:[77 78 0]stop(2047) cached=32 done"},
      {"request-id", "0:[268]length cached=32 done"},
      {"request-id-header", "0:[268]length cached=0 done"},
      {"response-format", "0:[90 198 198]length cached=32 done"},
      {"sampled", "0:[268 738 11 308 1606 11]length cached=32 done"},
      {"sampled-logprobs", "0:[268 738]length cached=32 done"},
      {"sampled-next-seed", "0:[268 44 912 11 541 11]length cached=32 done"},
      {"several-prompts", "0:[268 40]length 1:[409 279]length cached=32 done"},
      // A text that stops is never asked for; its tokens are all told.
      {"stop-string", "0:[268 40 485 258 1626 11 302 311 662]stop cached=32 done"},
      {"stop-token", "0:[268 40]stop(485) cached=32 done"},
      {"stop-token-in-text", "0:[268 40]stop(485) cached=32 done"},
      {"terminated", "0:[288 614 751 268]"},
      {"too-long", "error=400:max_tokens"},
      {"too-long-with-output", "0:[268 40 364 258]length cached=0 done"},
      {"two", "0:[268 738 11 308 1606 11]length 1:[268 44 912 11 541 11]length cached=32 done"},
      {"two-greedy", "error=400:"},
      {"unknown-model", "error=404:model"},
  };
  return expected;
}

TEST(VllmAnswerTest, ReadsEveryRecordedAnswerInOnePiece) {
  for (const auto& [name, text] : Expected()) {
    const Recording recording = ReadAnswer(name);
    const std::string read =
        recording.is_stream ? ReadStream(recording, [] { return std::string::npos; }) : ReadDocument(recording);
    EXPECT_EQ(read, text) << name;
  }
}

TEST(VllmAnswerTest, ReadsEveryRecordedStreamHoweverItIsCut) {
  std::mt19937 random(20261125);
  std::uniform_int_distribution<std::size_t> cut(1, 97);
  for (const auto& [name, text] : Expected()) {
    const Recording recording = ReadAnswer(name);
    if (!recording.is_stream) continue;
    EXPECT_EQ(ReadStream(recording, [&] { return cut(random); }), text) << name;
    EXPECT_EQ(ReadStream(recording, [] { return std::size_t{1}; }), text) << name;
  }
}

TEST(VllmAnswerTest, NoRecordingIsForgotten) {
  const std::set<std::string> others{"abort", "greedy-plain", "terminated-with-time"};  // in tests of their own
  for (const char* const folder : {"http", "death"}) {
    for (const auto& entry : std::filesystem::directory_iterator(RecordingFolder() / folder)) {
      const std::string name = entry.path().stem().string();
      if (entry.path().extension() != ".response" || name.starts_with("page-") || others.contains(name)) continue;
      EXPECT_TRUE(Expected().contains(name)) << name;
    }
  }
}

TEST(VllmAnswerTest, AnAnswerWithoutTokenIdsCanNotBeRead) {
  const std::string read = ReadStream(ReadAnswer("greedy-plain"), [] { return std::string::npos; });
  EXPECT_TRUE(read.starts_with("unreadable")) << read;
}

TEST(VllmAnswerTest, AnEngineThatIsGivenTimeToEndFinishesItsStreams) {
  const std::string read = ReadStream(ReadAnswer("terminated-with-time"), [] { return std::string::npos; });
  EXPECT_TRUE(read.ends_with("]length cached=0 done")) << read;
}

// ---- log probabilities ----

std::vector<wire::TokenLogprobs> LogprobsOf(const std::string& name, std::uint32_t wanted) {
  VllmAnswer answer({.output_logprobs = wanted});
  SseReader events;
  simdjson::dom::parser parser;
  std::vector<wire::TokenLogprobs> all;
  const auto read = events.Read(ReadAnswer(name).body, [&](std::string_view data) -> Result<void> {
    ROOST_ASSIGN_OR_RETURN(const AnswerPiece piece, answer.ReadEvent(parser, data));
    for (const ChoicePiece& choice : piece.choices) {
      all.insert(all.end(), choice.logprobs.begin(), choice.logprobs.end());
    }
    return {};
  });
  EXPECT_TRUE(read.ok()) << read.error().message;
  return all;
}

TEST(VllmAnswerTest, OfEqualLogprobsTheLowerIdComesFirst) {
  const std::vector<wire::TokenLogprobs> logprobs = LogprobsOf("logprobs-as-ids", 3);
  ASSERT_EQ(logprobs.size(), 3U);
  const wire::TokenLogprobs& second = logprobs[1];  // of token 40, which token 46 equals
  EXPECT_FLOAT_EQ(second.logprob, -2.670715F);
  EXPECT_EQ(second.rank, 1U);
  ASSERT_EQ(second.top.size(), 3U);
  EXPECT_EQ(second.top[0].token, 40U);
  EXPECT_EQ(second.top[1].token, 46U);
  EXPECT_EQ(second.top[2].token, 477U);
}

TEST(VllmAnswerTest, NoMoreLikeliestTokensAreToldThanWereWanted) {
  EXPECT_EQ(LogprobsOf("logprobs-20", 20).at(0).top.size(), 20U);
  EXPECT_TRUE(LogprobsOf("logprobs-as-ids", 0).at(0).top.empty());
}

TEST(VllmAnswerTest, LogprobsByTextCanNotBeRead) {
  VllmAnswer answer({.output_logprobs = 3});
  simdjson::dom::parser parser;
  SseReader events;
  const auto read = events.Read(ReadAnswer("logprobs").body, [&](std::string_view data) -> Result<void> {
    ROOST_RETURN_IF_ERROR(answer.ReadEvent(parser, data));
    return {};
  });
  EXPECT_FALSE(read.ok());
}

TEST(VllmAnswerTest, TheStopTokensLogprobIsLeftOutWithIt) {
  VllmAnswer answer({.output_logprobs = 1});
  simdjson::dom::parser parser;
  const auto piece = answer.ReadEvent(parser, R"({"choices":[{"index":0,"finish_reason":"stop","stop_reason":9,
      "token_ids":[7,9],"logprobs":{"token_logprobs":[-1.0,-0.5],
      "top_logprobs":[{"token_id:7":-1.0,"token_id:8":-0.25},{"token_id:9":-0.5}]}}]})");
  ASSERT_TRUE(piece.ok()) << piece.error().message;
  const ChoicePiece& choice = piece->choices.at(0);
  EXPECT_EQ(choice.tokens, std::vector<TokenId>{7});
  ASSERT_EQ(choice.logprobs.size(), 1U);
  EXPECT_EQ(choice.logprobs[0].rank, 2U);
  EXPECT_EQ(choice.logprobs[0].top, (std::vector<wire::TokenLogprob>{{8, -0.25F}}));
  EXPECT_EQ(choice.end->stop_token, 9U);
}

TEST(VllmAnswerTest, ThePromptsLogprobsComeWithItsWholeAnswer) {
  const std::vector<TokenId> prompt{1854, 1480, 1405, 1611, 1569, 1802};
  VllmAnswer answer({.output_logprobs = {}, .prompt_logprobs = 1, .prompt = prompt});
  simdjson::dom::parser parser;
  const auto piece = answer.ReadWhole(parser, ReadAnswer("prompt-logprobs-not-streamed").body);
  ASSERT_TRUE(piece.ok()) << piece.error().message;
  const std::vector<wire::TokenLogprobs>& logprobs = piece->choices.at(0).prompt_logprobs;
  ASSERT_EQ(logprobs.size(), prompt.size() - 1);
  EXPECT_FLOAT_EQ(logprobs[0].logprob, -13.443302F);
  EXPECT_EQ(logprobs[0].rank, 1156U);
  EXPECT_EQ(logprobs[0].top, (std::vector<wire::TokenLogprob>{{268, -1.4433026F}}));
}

TEST(VllmAnswerTest, HostileAnswersAreErrors) {
  simdjson::dom::parser parser;
  for (const char* const data :
       {"", "[", "[]", "1", "{}", R"({"choices":1})", R"({"choices":[{}]})", R"({"choices":[{"token_ids":[-1]}]})",
        R"({"choices":[{"token_ids":[4294967296]}]})", R"({"choices":[{"token_ids":["a"]}]})", R"({"choices":[[]]})"}) {
    EXPECT_FALSE(VllmAnswer({}).ReadEvent(parser, data).ok()) << data;
  }
}

}  // namespace
}  // namespace roost::worker::adapters::vllm
