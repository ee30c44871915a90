// The memory that answers hold: what is refused before it is sent, what is charged as it grows, and until when.
#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <vector>

#include "router/api/answers/text_memory.h"
#include "tests/router/api/api_fixture.h"

namespace roost::router {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;

class AnswerMemoryTest : public ApiTest {
 protected:
  AnswerMemoryTest() {
    ServedModel model = ByteModel();
    model.max_context_tokens = 200'000;
    Serve(std::move(model));
  }

  std::shared_ptr<FakeResponder> Send(std::string path, std::string_view body) {
    HttpRequest request;
    request.method = "POST";
    request.path = std::move(path);
    request.headers = {{"content-type", "application/json"}};
    request.body = HttpBody(budget_);
    EXPECT_TRUE(request.body.TryAppend(body));
    return Handle(std::move(request));
  }
  std::shared_ptr<FakeResponder> CompleteWith(const std::string& fields) {
    return Send("/v1/completions", R"({"model":"bytes","prompt":"hens",)" + fields + "}");
  }
  // Tokens with log probabilities of 20 alternatives each, for one choice.
  void ProduceScored(std::size_t count) {
    wire::TokenLogprobs scored{.logprob = -1.0F, .rank = 1, .top = {}};
    for (TokenId token = 'a'; token < 'a' + 20; ++token) scored.top.push_back({token, -2.5F});
    dispatcher_.observers.back()->OnTokens({.tokens = std::vector<TokenId>(count, 'x'),
                                            .cached_token_count = 0,
                                            .logprobs = std::vector<wire::TokenLogprobs>(count, scored)});
  }

  const std::shared_ptr<ByteBudget> budget_ = std::make_shared<ByteBudget>(8 * kMiB);
};

// One body of 13 KB with 128 prompts could make a router gather gigabytes.
TEST_F(AnswerMemoryTest, AnAnswerThatCanNeverFitIsRefusedBeforeItIsSent) {
  std::string prompts = R"("p")";
  for (int i = 1; i < 128; ++i) prompts += R"(,"p")";
  const std::string body = R"({"model":"bytes","prompt":[)" + prompts + R"(],"n":16,"max_tokens":650,"logprobs":20)";
  const auto answer = Send("/v1/completions", body + "}");
  EXPECT_EQ(answer->response->status, 413);
  EXPECT_THAT(At(answer->response->body, "/error/message"),
              AllOf(HasSubstr("2048 x 650 tokens"), HasSubstr("21 tokens each"), HasSubstr("GiB"), HasSubstr("8 MiB")));
  EXPECT_EQ(At(answer->response->body, "/error/param"), "\"max_tokens\"");
  EXPECT_TRUE(dispatcher_.specs.empty());
  EXPECT_EQ(budget_->used(), 0U);
}

TEST_F(AnswerMemoryTest, TheErrorNamesTheFieldThatBoundsTheAnswer) {
  const std::string chat = R"({"model":"bytes","messages":[{"role":"user","content":"hi"}],"n":16,"logprobs":true,)"
                           R"("top_logprobs":20,"max_completion_tokens":100000})";
  EXPECT_EQ(At(Send("/v1/chat/completions", chat)->response->body, "/error/param"), "\"max_completion_tokens\"");
  budget_->SetLimit(kMiB);
  const auto messages = Send("/v1/messages", R"({"model":"bytes","max_tokens":150000,)"
                                             R"("messages":[{"role":"user","content":"hi"}]})");
  EXPECT_EQ(messages->response->status, 413);
  EXPECT_EQ(At(messages->response->body, "/error/type"), "\"request_too_large\"");
  const auto responses = Send("/v1/responses", R"({"model":"bytes","max_output_tokens":150000,"input":"hi"})");
  EXPECT_EQ(At(responses->response->body, "/error/param"), "\"max_output_tokens\"");
}

TEST_F(AnswerMemoryTest, AStreamOrAnAnswerWithoutAStatedLengthIsNotRefused) {
  EXPECT_FALSE(CompleteWith(R"("n":16,"max_tokens":100000,"logprobs":20,"stream":true)")->done());
  EXPECT_FALSE(CompleteWith(R"("n":16,"logprobs":20)")->done());
  EXPECT_EQ(dispatcher_.specs.size(), 2U);
}

TEST_F(AnswerMemoryTest, ALongPromptThatNoAnswerRepeatsIsChargedOnce) {
  GenerateSpec spec;
  const std::uint64_t without = AnswerStartBytes(spec, {});
  spec.generate.prompt.resize(100'000);
  EXPECT_EQ(AnswerStartBytes(spec, {}), without);
  EXPECT_GE(AnswerStartBytes(spec, {.token_ids = TokenIdReport::kTell}), without + 400'000);
}

// The budget of a router with 2 GiB for its clients.
TEST_F(AnswerMemoryTest, ManyLongAnswersThatAreWaitedForDoNotKeepEachOtherOut) {
  budget_->SetLimit(352 * kMiB);
  for (int i = 0; i < 48; ++i) {
    const auto answer = Send("/v1/chat/completions", R"({"model":"bytes","max_tokens":128000,)"
                                                     R"("messages":[{"role":"user","content":"hi"}]})");
    EXPECT_FALSE(answer->done()) << i;
  }
  EXPECT_LT(budget_->used(), 2 * kMiB);
}

TEST_F(AnswerMemoryTest, AGatheredAnswerIsChargedAsItGrowsUntilItIsRead) {
  const auto answer = CompleteWith(R"("max_tokens":1000,"logprobs":20)");
  dispatcher_.specs.clear();  // it can not be sent again
  const std::uint64_t before = budget_->used();
  ProduceScored(500);
  EXPECT_GE(budget_->used(), before + 500 * 21 * sizeof(wire::TokenLogprob));
  const std::uint64_t gathered = budget_->used();
  dispatcher_.Finish(wire::FinishReason::kLength);
  dispatcher_.observers.clear();
  ASSERT_TRUE(answer->response);
  EXPECT_EQ(answer->response->status, 200);
  // The charge covers the body while it is written, beside the values from which it is made.
  EXPECT_GE(gathered, answer->response->body.capacity() + 500 * 21 * sizeof(wire::TokenLogprob));
  EXPECT_EQ(budget_->used(), answer->response->body.capacity());
  answer->response->memory.reset();  // the client has it
  EXPECT_EQ(budget_->used(), 0U);
}

// Other connections of its thread do not wait while the JSON is made. What comes meanwhile changes nothing.
TEST_F(AnswerMemoryTest, ALargeAnswersBodyIsWrittenByATextThread) {
  const auto answer = CompleteWith(R"("max_tokens":1000,"logprobs":20)");
  dispatcher_.specs.clear();
  ProduceScored(1000);
  const std::uint64_t gathered = budget_->used();
  text_.holds = true;
  text_.sizes.clear();
  dispatcher_.Finish(wire::FinishReason::kLength);
  EXPECT_FALSE(answer->done());
  ASSERT_EQ(text_.sizes.size(), 1U);
  EXPECT_GE(text_.sizes.front(), 1000 * 20 * sizeof(wire::TokenLogprob));
  EXPECT_EQ(budget_->used(), gathered);
  ProduceScored(1);
  text_.DoHeld();
  ASSERT_TRUE(answer->response);
  EXPECT_EQ(answer->response->status, 200);
  EXPECT_EQ(At(answer->response->body, "/usage/completion_tokens"), "1000");
  EXPECT_EQ(observer_.ends.size(), 1U);
  dispatcher_.observers.clear();
  answer->response.reset();
  EXPECT_EQ(budget_->used(), 0U);
}

TEST_F(AnswerMemoryTest, AClientThatLeavesWhileItsBodyIsWrittenFreesIt) {
  const auto answer = CompleteWith(R"("max_tokens":1000,"logprobs":20)");
  dispatcher_.specs.clear();
  ProduceScored(1000);
  text_.holds = true;
  dispatcher_.Finish(wire::FinishReason::kLength);
  answer->Close();
  EXPECT_EQ(observer_.active, 0);
  text_.DoHeld();
  EXPECT_FALSE(answer->response);
  EXPECT_EQ(observer_.ends.size(), 1U);
  dispatcher_.observers.clear();
  EXPECT_EQ(budget_->used(), 0U);
}

// A body that finds no text thread is written all the same.
TEST_F(AnswerMemoryTest, WhereTooManyJobsWaitTheConnectionsThreadWritesTheBody) {
  const auto answer = CompleteWith(R"("max_tokens":1000,"logprobs":20)");
  ProduceScored(1000);
  text_.is_full = true;
  dispatcher_.Finish(wire::FinishReason::kLength);
  ASSERT_TRUE(answer->response);
  EXPECT_EQ(answer->response->status, 200);
}

TEST_F(AnswerMemoryTest, ForEachKindOfAnswerTheChargeCoversItsBody) {
  const std::vector<std::pair<std::string, std::string>> requests{
      {"/v1/completions",
       R"({"model":"bytes","prompt":"hens","max_tokens":1000,"logprobs":20,"return_token_ids":true})"},
      {"/v1/chat/completions", R"({"model":"bytes","max_tokens":1000,"messages":[{"role":"user","content":"hi"}],)"
                               R"("logprobs":true,"top_logprobs":20})"},
      {"/v1/responses", R"({"model":"bytes","max_output_tokens":1000,"input":"hi"})"},
      {"/v1/messages", R"({"model":"bytes","max_tokens":1000,"messages":[{"role":"user","content":"hi"}]})"}};
  for (const auto& [path, body] : requests) {
    const auto answer = Send(path, body);
    dispatcher_.specs.clear();
    const bool is_scored = body.find("logprobs") != std::string::npos;
    is_scored ? ProduceScored(1000) : dispatcher_.Produce(std::vector<TokenId>(1000, '"'), 0);
    const std::uint64_t gathered = budget_->used();
    dispatcher_.Finish(wire::FinishReason::kLength);
    ASSERT_TRUE(answer->response) << path;
    EXPECT_EQ(answer->response->status, 200) << path;
    EXPECT_GE(gathered, answer->response->body.capacity()) << path;
    EXPECT_LT(gathered, 16 * answer->response->body.size() + kMiB / 16) << path;  // and is near to it
    answer->response.reset();
    dispatcher_.observers.clear();
    EXPECT_EQ(budget_->used(), 0U) << path;
  }
}

TEST_F(AnswerMemoryTest, APromptsLogprobsAreChargedForEachChoiceThatRepeatsThem) {
  const std::string fields = R"("max_tokens":1,"prompt_logprobs":20,"n":)";
  const auto one = CompleteWith(fields + "1");
  const std::uint64_t of_one = budget_->used();
  one->Close();
  dispatcher_.specs.clear();
  dispatcher_.observers.clear();
  EXPECT_EQ(budget_->used(), 0U);
  const auto many = CompleteWith(fields + "16");
  EXPECT_GT(budget_->used(), 8 * (of_one - 2 * 8192));
}

TEST_F(AnswerMemoryTest, AnAnswerThatFindsNoMemoryEndsAndFreesWhatItHad) {
  const auto answer = CompleteWith(R"("max_tokens":1000,"logprobs":20)");
  ProduceScored(10);
  ByteBudget::Guard others(budget_);
  ASSERT_TRUE(others.TryGrow(budget_->room()));
  ProduceScored(10);
  ASSERT_TRUE(answer->response);
  EXPECT_EQ(answer->response->status, 429);
  EXPECT_EQ(HeaderOf(answer->response->headers, "Retry-After"), "1");
  EXPECT_EQ(dispatcher_.cancelled, std::vector<RequestId>{RequestId(1)});
  dispatcher_.Finish(wire::FinishReason::kCancelled);
  EXPECT_EQ(observer_.active, 0);
  EXPECT_EQ(observer_.answers, std::vector<std::string>{"completions 429"});
  dispatcher_.specs.clear();
  EXPECT_EQ(budget_->used(), others.bytes());  // though the dispatcher may still know the request
}

TEST_F(AnswerMemoryTest, AnAnswerThatOutgrowsTheWholeBudgetIsTooLarge) {
  const auto answer = CompleteWith(R"("logprobs":20)");
  for (int i = 0; i < 10'000 && !answer->done(); ++i) ProduceScored(1);  // it ends beside its prompt's charge
  ASSERT_TRUE(answer->response);
  EXPECT_EQ(answer->response->status, 413);
  EXPECT_THAT(At(answer->response->body, "/error/message"), AllOf(HasSubstr("8 MiB"), HasSubstr("stream")));
}

TEST_F(AnswerMemoryTest, WhatEndsAChoiceMayBeWhatDoesNotFit) {
  const auto answer = CompleteWith(R"("max_tokens":10,"stop":["never"])");
  dispatcher_.Produce(Bytes("neve"), 0);  // held back: it may become the stop string
  ByteBudget::Guard others(budget_);
  ASSERT_TRUE(others.TryGrow(budget_->room()));
  dispatcher_.Finish(wire::FinishReason::kLength);
  ASSERT_TRUE(answer->response);
  EXPECT_EQ(answer->response->status, 429);
  EXPECT_EQ(observer_.active, 0);
  EXPECT_EQ(observer_.ends.size(), 1U);
}

TEST_F(AnswerMemoryTest, AStreamIsNotChargedForWhatItHasSent) {
  const auto answer = CompleteWith(R"("max_tokens":100000,"logprobs":20,"stream":true)");
  const std::uint64_t before = budget_->used();
  ProduceScored(5000);
  EXPECT_FALSE(answer->done());
  EXPECT_EQ(budget_->used(), before);
}

// Tools, instructions and other fields come back in each of several events.
TEST_F(AnswerMemoryTest, WhatAnAnswerRepeatsOfItsRequestIsCharged) {
  const std::string text(100'000, 'x');
  const auto answer =
      Send("/v1/responses", R"({"model":"bytes","input":"hi","stream":true,"metadata":{"a":")" + text + R"("}})");
  ASSERT_FALSE(answer->done());
  EXPECT_GE(budget_->used(), text.size());
}

TEST_F(AnswerMemoryTest, AConstraintIsChargedWithItsRequest) {
  GenerateSpec spec;
  const std::uint64_t without = SpecBytes(spec);
  spec.generate.constraint =
      wire::Constraint{.kind = wire::ConstraintKind::kRegex, .text = std::string(1000, 'a'), .field = {}};
  EXPECT_GE(SpecBytes(spec), without + 2000);
}

}  // namespace
}  // namespace roost::router
