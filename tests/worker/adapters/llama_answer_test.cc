// Answers of llama.cpp's server become tokens and ends, and a Generate its request.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/text/tokenizer.h"
#include "tests/support/source_dir.h"
#include "tests/worker/adapters/adapter_fixture.h"
#include "worker/adapters/engine_protocol.h"
#include "worker/adapters/slots/slot_table.h"

namespace roost::worker::adapters {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using TokenIds = std::vector<TokenId>;

std::string Read(const std::string& path) {
  std::ifstream file(std::filesystem::path(testing_support::RecordingFolder()).parent_path() / "llama.cpp" / path,
                     std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::shared_ptr<const Tokenizer> DemoTokenizer() {
  const auto path = std::filesystem::path(roost::testing_support::SourceDir()) / "deploy/demo-model/tokenizer.json";
  return *Tokenizer::FromFile(path);
}

// The pieces of an answer as one.
struct Answer {
  TokenIds tokens;
  std::size_t logprobs = 0;
  std::optional<ChoiceEnd> end;
  std::optional<std::uint32_t> cached;
  bool is_cut = false;
};

class LlamaAnswerTest : public ::testing::Test {
 protected:
  Result<AnswerPiece> Next(const std::string& document) { return reader().ReadEvent(parser_, document); }
  void Take(const std::string& document) {
    Result<AnswerPiece> piece = Next(document);
    ASSERT_TRUE(piece.ok()) << piece.error().ToString();
    if (piece->cached_tokens) answer_.cached = piece->cached_tokens;
    answer_.is_cut = piece->is_cut;
    for (const ChoicePiece& choice : piece->choices) {
      answer_.tokens.insert(answer_.tokens.end(), choice.tokens.begin(), choice.tokens.end());
      answer_.logprobs += choice.logprobs.size();
      if (choice.end) answer_.end = choice.end;
      EXPECT_EQ(piece->is_last, choice.end.has_value());
    }
  }
  // An event with one token, the `count`th.
  void Token(TokenId token, std::uint32_t count, const std::string& text = "x") {
    Take(fmt::format(R"({{"content":"{}","tokens":[{}],"stop":false,"tokens_predicted":{}}})", text, token, count));
  }
  void End(const std::string& type, std::uint32_t count) {
    Take(fmt::format(
        R"({{"content":"","tokens":[],"stop":true,"stop_type":"{}","tokens_predicted":{},"timings":{{"cache_n":9}}}})",
        type, count));
  }
  AnswerReader& reader() {
    if (reader_ == nullptr) {
      reader_ = LlamaCppProtocol().NewReader(
          {.generate = wanted_, .facts = facts_, .id = "x", .tokenizer = tokenizer_.get()});
    }
    return *reader_;
  }

  wire::Generate wanted_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  Answer answer_;

 private:
  simdjson::dom::parser parser_;
  EngineFacts facts_;
  std::unique_ptr<AnswerReader> reader_;
};

TEST_F(LlamaAnswerTest, ARecordedStreamBecomesTokens) {
  wanted_.output_logprobs = 2;
  SseReader events;
  ASSERT_TRUE(events.Read(Read("tokens-stream.txt") + "\n", [this](std::string_view data) -> Result<void> {
    Take(std::string(data));
    return {};
  }));
  EXPECT_EQ(answer_.tokens.size(), 4U);
  EXPECT_EQ(answer_.logprobs, 4U);
  ASSERT_TRUE(answer_.end);
  EXPECT_EQ(answer_.end->reason, wire::FinishReason::kLength);
  EXPECT_EQ(answer_.cached, 39U);  // asked before, of 40
}

TEST_F(LlamaAnswerTest, ARefusalIsOne) {
  const Result<AnswerPiece> piece = Next(Read("no-slot.json"));
  ASSERT_TRUE(piece.ok());
  ASSERT_TRUE(piece->complaint);
  EXPECT_EQ(piece->complaint->code, 400);
}

TEST_F(LlamaAnswerTest, TheEndTokenIsToldApart) {
  Token(5, 1);
  Token(2047, 2, "");  // may be the end, or a token without a text
  EXPECT_EQ(answer_.tokens, (TokenIds{5}));
  End("eos", 2);
  EXPECT_EQ(answer_.tokens, (TokenIds{5}));
  ASSERT_TRUE(answer_.end);
  EXPECT_EQ(answer_.end->reason, wire::FinishReason::kStop);
  EXPECT_EQ(answer_.end->stop_token, 2047U);
  EXPECT_EQ(answer_.cached, 9U);
}

TEST_F(LlamaAnswerTest, ATokenWithoutATextIsOfTheOutputIfOthersFollow) {
  Token(5, 1, "");
  Token(6, 2, "");
  Token(7, 3);
  End("limit", 3);
  EXPECT_EQ(answer_.tokens, (TokenIds{5, 6, 7}));
  EXPECT_EQ(answer_.end->reason, wire::FinishReason::kLength);
  EXPECT_FALSE(answer_.end->stop_token);
}

TEST_F(LlamaAnswerTest, AStopTokenThatTheServerDoesNotKnowCutsTheAnswer) {
  wanted_.stop_tokens = {6};
  Token(5, 1);
  Token(6, 2);
  Token(7, 3);
  EXPECT_EQ(answer_.tokens, (TokenIds{5}));
  ASSERT_TRUE(answer_.end);
  EXPECT_EQ(answer_.end->reason, wire::FinishReason::kStop);
  EXPECT_EQ(answer_.end->stop_token, 6U);
  EXPECT_TRUE(answer_.is_cut);
}

TEST_F(LlamaAnswerTest, AStopTokenAtTheLimitIsAStop) {
  wanted_.stop_tokens = {6};
  Token(6, 1);
  End("limit", 1);
  EXPECT_TRUE(answer_.tokens.empty());
  EXPECT_EQ(answer_.end->reason, wire::FinishReason::kStop);
  EXPECT_EQ(answer_.end->stop_token, 6U);
  EXPECT_FALSE(answer_.is_cut);
}

// The server tells only the last token of a character that is several.
TEST_F(LlamaAnswerTest, TokensThatAreNotToldAreFoundByTheirBytes) {
  tokenizer_ = DemoTokenizer();
  std::uint32_t count = 0;
  TokenIds all;
  for (const std::string text : {"x", "\xF0\x9F\xA6\x89", "y", "\xE2\x82\xAC", "\xC3\xA9"}) {
    const TokenIds tokens = *tokenizer_->Encode(std::string_view(text), SpecialTokens::kOmit);
    count += static_cast<std::uint32_t>(tokens.size());
    all.insert(all.end(), tokens.begin(), tokens.end());
    Token(tokens.back(), count, text);
  }
  EXPECT_GT(all.size(), 5U);
  EXPECT_EQ(answer_.tokens, all);
}

// Any tokens of these bytes do where there are several ways.
TEST_F(LlamaAnswerTest, ATextHasAsManyTokensAsAreSaid) {
  tokenizer_ = DemoTokenizer();
  const std::string text = "the \xF0\x9F\xA6\x89";
  const TokenId last = tokenizer_->Encode(std::string_view(text), SpecialTokens::kOmit)->back();
  Token(last, 8, text);  // a token for each byte
  ASSERT_EQ(answer_.tokens.size(), 8U);
  std::string bytes;
  for (const TokenId token : answer_.tokens) bytes += tokenizer_->BytesOf(token);
  EXPECT_EQ(bytes, text);
}

TEST_F(LlamaAnswerTest, WhatNoTokensMakeIsLeftOut) {
  tokenizer_ = DemoTokenizer();
  Token(5, 9, tokenizer_->BytesOf(5));  // no bytes for so many
  Token(5, 20, std::string(500, 'a') + tokenizer_->BytesOf(5));
  Token(6, 22, "no such end");
  EXPECT_EQ(answer_.tokens, (TokenIds{5, 5, 6}));
}

TEST_F(LlamaAnswerTest, WhatIsNoAnswerIsAnError) {
  for (const char* const text : {"[]", "{", R"({"tokens":[-1]})", R"({"content":"x"})"}) EXPECT_FALSE(Next(text).ok());
}

TEST_F(LlamaAnswerTest, ALogProbabilityWithoutANumberIsAnError) {
  wanted_.output_logprobs = 1;
  EXPECT_FALSE(Next(R"({"tokens":[1],"completion_probabilities":[{"id":1}]})").ok());
}

// ---- what is sent ----

class LlamaRequestTest : public testing_support::AdapterEngineFixture {
 protected:
  LlamaRequestTest() {
    protocol_ = &LlamaCppProtocol();
    facts_ = {.model = "demo-model", .block_tokens = 16, .block_count = 512, .max_context_tokens = 4096};
  }
  Result<HttpCall> Build(const wire::Generate& generate) {
    const CallPlan plan{.generate = generate, .facts = facts_, .id = "x", .max_tokens = 6, .slot = 1};
    return protocol_->BuildRequest(plan);
  }
};

TEST_F(LlamaRequestTest, FieldsHaveTheirNames) {
  wire::Generate request = Request(5);
  request.sampling.temperature = 0.5F;
  request.sampling.seed = ~std::uint64_t{0};
  request.sampling.repetition_penalty = 1.5F;
  request.sampling.logit_bias = {{.token = 3, .bias = -2}};
  request.output_logprobs = 0;
  const Result<HttpCall> call = Build(request);
  ASSERT_TRUE(call.ok());
  EXPECT_EQ(call->path, "/completion");
  for (const char* const part :
       {R"("id_slot":1)", R"("n_predict":6)", R"("temperature":0.5)", R"("seed":2147483647)", R"("repeat_penalty":1.5)",
        R"("logit_bias":{"3":-2})", R"("n_probs":1)", R"("return_tokens":true)", R"("cache_prompt":true)"}) {
    EXPECT_THAT(call->body, HasSubstr(part));
  }
}

TEST_F(LlamaRequestTest, WhatItCanNotIsRefusedByName) {
  const auto error_of = [this](wire::ConstraintKind kind, const std::string& text) {
    wire::Generate request = Request(5);
    request.constraint = wire::Constraint{.kind = kind, .text = text, .field = "response_format"};
    const Result<HttpCall> call = Build(request);
    return call.ok() ? Error() : call.error();
  };
  EXPECT_EQ(error_of(wire::ConstraintKind::kRegex, "a+").field, "response_format");
  EXPECT_THAT(error_of(wire::ConstraintKind::kRegex, "a+").message, HasSubstr("a regular expression"));
  EXPECT_EQ(error_of(wire::ConstraintKind::kJsonSchema, R"({"type":"object"})"), Error());
  EXPECT_EQ(error_of(wire::ConstraintKind::kChoice, R"(["a","b"])"), Error());
  EXPECT_EQ(error_of(wire::ConstraintKind::kGrammar, "root ::= \"a\"\n"), Error());
  wire::Generate scored = Request(5);
  const CallPlan plan{.generate = scored, .facts = facts_, .id = "x", .max_tokens = 6, .scores_prompt = true};
  const Result<HttpCall> call = protocol_->BuildRequest(plan);
  ASSERT_FALSE(call.ok());
  EXPECT_EQ(call.error().field, "prompt_logprobs");
}

TEST_F(LlamaRequestTest, FactsComeFromItsPages) {
  EngineFacts facts;
  ASSERT_TRUE(protocol_->ReadFacts("/v1/models", Read("models.json"), facts).ok());
  ASSERT_TRUE(protocol_->ReadFacts("/props", Read("props.json"), facts).ok());
  EXPECT_EQ(facts.model, "demo-model");
  EXPECT_EQ(facts.slot_count, 2U);
  EXPECT_EQ(facts.max_context_tokens, 4096U);
  EXPECT_EQ(facts.block_count, 4U * 2 * 257);
  EXPECT_TRUE(facts.model_file.ends_with("demo-model.gguf"));
  EXPECT_FALSE(protocol_->ReadFacts("/props", "{}", facts = {}).ok());
  const EngineLoad load = protocol_->ReadLoad(Read("slots.json"), facts);
  EXPECT_EQ(load.slots.size(), 2U);
  EXPECT_EQ(load.running_requests, 0U);
}

TEST_F(LlamaRequestTest, SlotsThatShareAContextAreLeftToTheServer) {
  EngineFacts facts{.max_context_tokens = 4096};
  ASSERT_TRUE(ReadLlamaProps(R"({"total_slots":4,"default_generation_settings":{"n_ctx":4096}})", facts).ok());
  EXPECT_EQ(facts.slot_count, 0U);
  EXPECT_THAT(facts.advice, HasSubstr("-np 4"));
}

// ---- in slots ----

class SlotEngineTest : public ::testing::Test {
 protected:
  static wire::Generate Request(std::uint64_t id, TokenId token) {
    wire::Generate generate;
    generate.request_id = RequestId(id);
    generate.prompt.assign(64, token);
    generate.max_output_tokens = 6;
    return generate;
  }
  void Submit(std::uint64_t id, TokenId token = 7) { ASSERT_TRUE(engine_.Submit(LinkId(1), Request(id, token)).ok()); }
  [[nodiscard]] std::vector<testing_support::FakeHttp::Sent> Calls() const { return http_.Open("/completion"); }
  void Bytes(CallId call, const std::string& document) {
    engine_.OnHttp({call, HttpStatus{200}});
    engine_.OnHttp({call, HttpBytes{"data: " + document + "\n\n"}});
  }
  void Slots(bool is_busy) {
    clock_.Advance(std::chrono::seconds(1));
    engine_.Tick();
    const auto open = http_.Open("/slots");
    ASSERT_FALSE(open.empty());
    const CallId call = open.front().id;
    engine_.OnHttp({call, HttpStatus{200}});
    engine_.OnHttp({call, HttpBytes{fmt::format(R"([{{"id":0,"is_processing":{}}}])", is_busy)}});
    http_.ended.insert(call);
    engine_.OnHttp({call, HttpEnd{CallEnd::kComplete, ""}});
  }

  ManualClock clock_;
  testing_support::FakeHttp http_;
  SlotTable slots_{{.slot_count = 1, .context_tokens = 4096}};
  AdapterEngine engine_{
      LlamaCppProtocol(),
      {.model = "m", .block_tokens = 16, .block_count = 256, .max_context_tokens = 4096, .max_running_requests = 1},
      {},
      clock_,
      http_,
      &slots_};
};

TEST_F(SlotEngineTest, RequestsWaitForASlot) {
  Submit(1);
  Submit(2, 8);
  ASSERT_EQ(Calls().size(), 1U);
  EXPECT_THAT(Calls()[0].call.body, HasSubstr(R"("id_slot":0)"));
  StepReport report = engine_.TakeReport();
  EXPECT_EQ(report.load.waiting_requests, 1U);
  EXPECT_EQ(report.load.running_requests, 1U);
  const CallId first = Calls()[0].id;
  Bytes(first, R"({"tokens":[0],"prompt_progress":{"total":64,"cache":0,"processed":0}})");
  Bytes(first, R"({"content":"a","tokens":[3],"stop":false,"tokens_predicted":1})");
  EXPECT_EQ(Calls().size(), 1U);
  Bytes(first,
        R"({"content":"","tokens":[],"stop":true,"stop_type":"limit","tokens_predicted":1,"timings":{"cache_n":0}})");
  http_.ended.insert(first);
  ASSERT_EQ(Calls().size(), 1U);
  EXPECT_NE(Calls()[0].id, first);
  EXPECT_EQ(slots_.block_count(), 4U);
}

TEST_F(SlotEngineTest, ACancelledRequestsSlotIsFreeOnceTheServerSaysSo) {
  Submit(1);
  Submit(2, 8);
  const CallId first = Calls()[0].id;
  engine_.Cancel({LinkId(1), RequestId(1)});
  EXPECT_TRUE(Calls().empty()) << "its connection is closed, and nothing is sent to its slot";
  Slots(true);
  EXPECT_TRUE(Calls().empty());
  Slots(false);
  Slots(false);
  ASSERT_EQ(Calls().size(), 1U);
  EXPECT_NE(Calls()[0].id, first);
}

TEST_F(SlotEngineTest, ARequestThatCanNotBeSentLeavesItsSlotFree) {
  wire::Generate request = Request(1, 7);
  request.prompt_logprobs = 1;
  ASSERT_TRUE(engine_.Submit(LinkId(1), request).ok());
  StepReport report = engine_.TakeReport();
  ASSERT_EQ(report.tokens.size(), 1U);
  ASSERT_TRUE(report.tokens[0].event.error);
  EXPECT_EQ(report.tokens[0].event.error->field, "prompt_logprobs");
  Submit(2);
  EXPECT_EQ(Calls().size(), 1U);
}

}  // namespace
}  // namespace roost::worker::adapters
