// Requests at an engine that the test plays.
#include "worker/adapters/host/adapter_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "common/wire/codec.h"
#include "tests/worker/adapters/adapter_fixture.h"

namespace roost::worker::adapters {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using AdapterEngineTest = testing_support::AdapterEngineFixture;
using TokenIds = std::vector<TokenId>;

// ---- answers ----

TEST_F(AdapterEngineTest, ARecordedStreamBecomesTokenEvents) {
  Submit(Request(5));
  AnswerRecorded(CallAt(0), "greedy-again");
  const auto events = Events();
  ASSERT_EQ(events.size(), 6U);
  EXPECT_EQ(Tokens(events), (TokenIds{268, 40, 485, 258, 1626, 11}));
  EXPECT_EQ(events.front().request_id, RequestId(5));
  EXPECT_FALSE(events.front().finish.has_value());
  EXPECT_EQ(events.back().finish, wire::FinishReason::kLength);
  EXPECT_EQ(events.back().cached_token_count, 32U);  // told last by the engine
  EXPECT_EQ(engine().open_call_count(), 0U);
}

TEST_F(AdapterEngineTest, TheStopTokenIsToldButNotAmongTheTokens) {
  Submit(Request(5));
  AnswerRecorded(CallAt(0), "choice");
  const auto events = Events();
  EXPECT_EQ(Tokens(events), (TokenIds{82, 78, 84, 407}));
  EXPECT_EQ(events.back().finish, wire::FinishReason::kStop);
  EXPECT_EQ(events.back().stop_token, 2045U);
  EXPECT_EQ(events.back().cached_token_count, 32U);
}

TEST_F(AdapterEngineTest, TokensAreToldAsTheyComeAndTheEndWithTheUsage) {
  Submit(Request(5));
  const CallId call = CallAt(0);
  Status(call, 200);
  Chunk(call, 1);
  EXPECT_EQ(Tokens(Events()), (TokenIds{1}));
  Chunk(call, 2, R"("length")");
  EXPECT_TRUE(Events().empty());
  Usage(call, 16);
  const auto events = Events();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].finish, wire::FinishReason::kLength);
  EXPECT_EQ(events[0].cached_token_count, 16U);
}

TEST_F(AdapterEngineTest, WhatItFindsAndComputesIsWritten) {
  constexpr std::uint32_t kPrompt = 80;  // two blocks and a half of the engine's
  const auto written = [this](std::uint64_t id, std::uint32_t cached, wire::CacheMode mode) {
    wire::Generate request = Request(id);
    request.prompt.assign(kPrompt, 7);
    request.cache_mode = mode;
    Submit(request);
    const CallId call = CallAt(0);
    Status(call, 200);
    Chunk(call, 1, R"("length")");
    Usage(call, static_cast<int>(cached));
    End(call);
    return Events().back().written_token_count;
  };
  ASSERT_EQ(facts_.block_tokens, 32U);
  EXPECT_EQ(written(1, 0, wire::CacheMode::kOn), 64U);
  EXPECT_EQ(written(2, 32, wire::CacheMode::kOn), 32U);
  EXPECT_EQ(written(3, 79, wire::CacheMode::kOn), 0U) << "from somewhere else, in parts of blocks";
  EXPECT_EQ(written(4, 0, wire::CacheMode::kOff), 0U);
}

TEST_F(AdapterEngineTest, AnEndWithoutUsageIsAnEnd) {
  Submit(Request(5));
  AnswerRecorded(CallAt(0), "generate-stream-plain");
  const auto events = Events();
  EXPECT_EQ(events.back().finish, wire::FinishReason::kLength);
  EXPECT_FALSE(events.back().cached_token_count.has_value());
}

TEST_F(AdapterEngineTest, LogprobsComeWithTheirTokens) {
  wire::Generate request = Request(5);
  request.output_logprobs = 3;
  Submit(request);
  AnswerRecorded(CallAt(0), "logprobs-as-ids");
  for (const wire::TokenEvent& event : Events()) {
    ASSERT_EQ(event.logprobs.size(), event.tokens.size());
    EXPECT_EQ(event.logprobs.at(0).top.size(), 3U);
  }
}

// ---- engines with a KV connector ----

TEST_F(AdapterEngineTest, TheEngineOfAPromptSaysWhereItsBlocksAre) {
  options_.has_connector = true;
  wire::Generate request = Request(5);
  request.part = wire::RequestPart::kPrompt;
  request.max_output_tokens = 1;
  Submit(request);
  EXPECT_THAT(Calls()[0].call.body, HasSubstr(R"("stream":false)"));
  EXPECT_THAT(Calls()[0].call.body, HasSubstr(R"("kv_transfer_params":{"do_remote_decode":true)"));
  Answer(CallAt(0), 200,
         R"({"choices":[{"index":0,"finish_reason":"length","stop_reason":null,"token_ids":[9]}],"usage":)"
         R"({"prompt_tokens_details":{"cached_tokens":16}},)"
         R"("kv_transfer_params":{"do_remote_prefill":true,"remote_block_ids":[3, 4],"remote_host":"10.0.0.1"}})");
  const auto events = Events();
  EXPECT_EQ(Tokens(events), (TokenIds{9}));
  EXPECT_EQ(events.back().finish, wire::FinishReason::kLength);
  EXPECT_EQ(events.back().cached_token_count, 16U);
  EXPECT_EQ(events.back().kv_transfer,
            R"({"do_remote_prefill":true,"remote_block_ids":[3,4],"remote_host":"10.0.0.1"})");
}

TEST_F(AdapterEngineTest, TheEngineOfAnAnswerIsToldWhereTheBlocksAre) {
  options_.has_connector = true;
  wire::Generate request = Request(5);
  request.part = wire::RequestPart::kAnswer;
  request.kv_transfer = R"({"remote_block_ids":[3,4],"big":12345678901234567890123})";
  Submit(request);
  EXPECT_THAT(Calls()[0].call.body,
              HasSubstr(R"("kv_transfer_params":{"remote_block_ids":[3,4],"big":12345678901234567890123}})"));
  Status(CallAt(0), 200);
  Chunk(CallAt(0), 1, R"("length")");
  Usage(CallAt(0), 39);
  const StepReport report = Report();
  EXPECT_EQ(report.tokens.size(), 1U);
  EXPECT_EQ(report.counts.prompt_tokens, 0U) << "the other engine's worker has counted it";
  EXPECT_TRUE(report.counts.prefill_seconds.empty());
  EXPECT_EQ(report.load.step_prefill_tokens, 0U) << "what the connector brought is no measure of the engine's speed";
}

TEST_F(AdapterEngineTest, WithoutAConnectorNoBlocksComeFromElsewhere) {
  wire::Generate request = Request(5);
  request.kv_transfer = "{}";
  EXPECT_EQ(Refusal(request).field, "kv_transfer");
}

TEST_F(AdapterEngineTest, WhatIsNoPlaceOfBlocksIsRefused) {
  options_.has_connector = true;
  wire::Generate request = Request(5);
  for (const char* text : {"[]", "{", R"({},"model":"another")", "7"}) {
    request.kv_transfer = text;
    EXPECT_EQ(Refusal(request).field, "kv_transfer") << text;
  }
  EXPECT_TRUE(Calls().empty());
}

TEST_F(AdapterEngineTest, MorePlacesThanAMessageHoldsAreLeftOut) {
  options_.has_connector = true;
  wire::Generate request = Request(5);
  request.part = wire::RequestPart::kPrompt;
  Submit(request);
  Answer(CallAt(0), 200,
         R"({"choices":[{"index":0,"finish_reason":"length","stop_reason":null,"token_ids":[9]}],)"
         R"("kv_transfer_params":{"remote_host":")" +
             std::string(wire::kMaxKvTransferBytes, 'a') + R"("}})");
  const auto events = Events();
  EXPECT_EQ(events.back().finish, wire::FinishReason::kLength);
  EXPECT_TRUE(events.back().kv_transfer.empty());
}

TEST_F(AdapterEngineTest, PromptLogprobsComeInOnePieceBeforeTheTokens) {
  wire::Generate request = Request(5);
  request.prompt = {1854, 1480, 1405, 1611, 1569, 1802};
  request.prompt_logprobs = 1;
  request.sample_count = 2;
  Submit(request);
  ASSERT_EQ(Calls().size(), 1U);  // the other choice waits
  EXPECT_THAT(Calls()[0].call.body, HasSubstr(R"("stream":false)"));
  AnswerRecorded(CallAt(0), "prompt-logprobs-not-streamed");
  const auto events = Events();
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].prompt_logprobs.size(), 5U);
  EXPECT_TRUE(events[0].tokens.empty());
  EXPECT_EQ(Tokens(events), (TokenIds{443, 46}));
  ASSERT_EQ(Calls().size(), 1U);
  EXPECT_THAT(Calls()[0].call.body, HasSubstr(R"("stream":true)"));
  AnswerRecorded(CallAt(0), "cache-salt");
  EXPECT_EQ(Tokens(Events(), 1), (TokenIds{268, 40}));
}

// A message holds a limited number of tokens in each of its events; a whole answer may have more.
TEST_F(AdapterEngineTest, ManyTokensAtOnceComeInSeveralEvents) {
  constexpr std::size_t kCount = 2 * wire::WireLimits::kMaxTokensPerEvent + 5;
  facts_.max_context_tokens = 1 << 20;
  wire::Generate request = Request(5);
  request.max_output_tokens = kCount;
  request.output_logprobs = 0;
  Submit(request);
  std::string ids;
  std::string logprobs;
  std::string top;
  for (std::size_t i = 0; i < kCount; ++i) {
    ids += (i == 0 ? "" : ",") + std::to_string(i);
    logprobs += i == 0 ? "-1" : ",-1";
    top += (i == 0 ? R"({"token_id:)" : R"(,{"token_id:)") + std::to_string(i) + R"(":-1})";
  }
  Status(CallAt(0), 200);
  Bytes(CallAt(0), R"(data: {"choices":[{"index":0,"finish_reason":"length","stop_reason":null,"token_ids":[)" + ids +
                       R"(],"logprobs":{"token_logprobs":[)" + logprobs + R"(],"top_logprobs":[)" + top + "]}}]}\n\n");
  Usage(CallAt(0), 16);
  const auto events = Events();
  for (const wire::TokenEvent& event : events) {
    EXPECT_LE(event.tokens.size(), wire::WireLimits::kMaxTokensPerEvent);
    EXPECT_EQ(event.logprobs.size(), event.tokens.size());
  }
  const std::vector<TokenId> tokens = Tokens(events);
  ASSERT_EQ(tokens.size(), kCount);
  EXPECT_TRUE(std::is_sorted(tokens.begin(), tokens.end()));
  EXPECT_FALSE(events.front().finish.has_value());
  EXPECT_EQ(events.back().finish, wire::FinishReason::kLength);
}

// The worker would end at a message that is too large.
TEST_F(AdapterEngineTest, LongAnswersThatComeTogetherAreToldInReportsThatFitAMessage) {
  constexpr std::size_t kPrompt = 400'000;
  facts_.max_context_tokens = 1 << 20;
  std::string body = R"({"choices":[{"index":0,"finish_reason":"length","token_ids":[1],"prompt_logprobs":[null)";
  for (std::size_t i = 1; i < kPrompt; ++i) body += R"(,{"7":{"logprob":-1}})";
  body += "]}]}";
  wire::Generate request = Request(1);
  request.prompt.assign(kPrompt, 7);
  request.prompt_logprobs = 0;
  for (const std::uint64_t id : {1U, 2U}) {
    request.request_id = RequestId(id);
    Submit(request);
    Answer(CallAt(0), 200, body);
  }
  std::size_t positions = 0;
  int ends = 0;
  while (ends < 2 && engine().HasReport()) {
    StepReport report = Report();
    wire::Step step;
    for (const RequestEvent& event : report.tokens) {
      step.tokens.push_back(event.event);
      positions += event.event.prompt_logprobs.size();
      if (event.event.finish) ++ends;
    }
    EXPECT_LE(wire::Encode(step).size(), wire::WireLimits::kMaxPlainFrameBytes);
  }
  EXPECT_EQ(ends, 2);
  EXPECT_EQ(positions, 2 * (kPrompt - 1));
}

// vLLM refuses several choices with temperature 0 in one call.
TEST_F(AdapterEngineTest, EachChoiceHasACallWithTheNextSeed) {
  wire::Generate request = Request(5);
  request.sample_count = 2;
  request.sampling.seed = 7;
  Submit(request);
  ASSERT_EQ(Calls().size(), 2U);
  EXPECT_THAT(Calls()[0].call.body, HasSubstr(R"("seed":7)"));
  EXPECT_THAT(Calls()[1].call.body, HasSubstr(R"("seed":8)"));
  const CallId first = CallAt(0);
  const CallId second = CallAt(1);
  AnswerRecorded(second, "sampled-next-seed");
  auto events = Events();
  EXPECT_EQ(Tokens(events, 1), (TokenIds{268, 44, 912, 11, 541, 11}));
  EXPECT_FALSE(events.back().cached_token_count.has_value());  // of the first choice alone
  AnswerRecorded(first, "sampled");
  events = Events();
  EXPECT_EQ(Tokens(events), (TokenIds{268, 738, 11, 308, 1606, 11}));
  EXPECT_EQ(events.back().cached_token_count, 32U);
  EXPECT_EQ(Refusal([] {
              wire::Generate none = Request(6);
              none.sample_count = 0;
              return none;
            }())
                .code,
            ErrorCode::kInvalidArgument);
}

TEST_F(AdapterEngineTest, ManyPromptLogprobsAreCutForTheWire) {
  facts_.max_context_tokens = 20000;
  wire::Generate request = Request(5);
  request.prompt.assign(10'000, 7);
  request.prompt_logprobs = 0;
  Submit(request);
  std::string body = R"({"choices":[{"index":0,"finish_reason":"length","token_ids":[1],"prompt_logprobs":[null)";
  for (int i = 1; i < 10'000; ++i) body += R"(,{"7":{"logprob":-0.5,"rank":2}})";
  Answer(CallAt(0), 200, body + "]}]}");
  std::size_t count = 0;
  for (const wire::TokenEvent& event : Events()) {
    EXPECT_LE(event.prompt_logprobs.size(), 4096U);
    count += event.prompt_logprobs.size();
  }
  EXPECT_EQ(count, 9'999U);
}

// ---- errors ----

TEST_F(AdapterEngineTest, AnErrorInsideAGoodStatusIsOne) {
  Submit(Request(5));
  AnswerRecorded(CallAt(0), "invalid-token");
  const auto events = Events();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].finish, wire::FinishReason::kError);
  EXPECT_EQ(events[0].error->code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(events[0].error->message, "Token id 999999 is out of vocabulary");
}

TEST_F(AdapterEngineTest, ARefusalNamesTheField) {
  Submit(Request(5));
  AnswerRecorded(CallAt(0), "bad-field");
  const auto events = Events();
  EXPECT_EQ(events.at(0).error->code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(events.at(0).error->field, "temperature");
}

TEST_F(AdapterEngineTest, ABadGrammarNamesTheConstraint) {
  wire::Generate request = Request(5);
  request.constraint = wire::Constraint{.kind = wire::ConstraintKind::kRegex, .text = "(", .field = "regex"};
  Submit(request);
  AnswerRecorded(CallAt(0), "grammar-bad");
  EXPECT_EQ(Events().at(0).error->field, "regex");
}

TEST_F(AdapterEngineTest, ACoreThatDiesMovesTheRequestElsewhere) {
  Submit(Request(5));
  AnswerRecorded(CallAt(0), "core-killed");
  const auto events = Events();
  EXPECT_EQ(Tokens(events), (TokenIds{288, 614, 751, 268}));
  EXPECT_EQ(events.back().error->code, ErrorCode::kUnavailable);
  engine().Tick();
  EXPECT_FALSE(http_.Open("/health").empty());  // is the engine dying?
}

TEST_F(AdapterEngineTest, AConnectionThatEndsInTheMiddleMovesTheRequestElsewhere) {
  for (const CallEnd how : {CallEnd::kBroken, CallEnd::kComplete}) {
    Submit(Request(5));
    const CallId call = CallAt(0);
    Status(call, 200);
    Bytes(call, testing_support::ReadAnswer("all-killed").body);
    End(call, how);
    const auto events = Events();
    EXPECT_EQ(Tokens(events), (TokenIds{288, 614, 751, 268}));
    EXPECT_EQ(events.back().finish, wire::FinishReason::kError);
    EXPECT_EQ(events.back().error->code, ErrorCode::kUnavailable);
  }
}

TEST_F(AdapterEngineTest, AnEngineThatGivesARequestUpMovesItElsewhere) {
  Submit(Request(5));
  AnswerRecorded(CallAt(0), "generate-aborted");
  EXPECT_EQ(Events().back().error->code, ErrorCode::kUnavailable);
}

TEST_F(AdapterEngineTest, AFullEngineIsOverloaded) {
  Submit(Request(5));
  Answer(CallAt(0), 429, R"({"error":{"message":"queue","code":429}})");
  EXPECT_EQ(Events().at(0).error->code, ErrorCode::kOverloaded);
}

TEST_F(AdapterEngineTest, GarbageIsAnErrorAndClosesTheConnection) {
  for (const char* const garbage : {"data: {\n\n", "data: {\"choices\":[{}]}\n\n"}) {
    Submit(Request(5));
    const CallId call = CallAt(0);
    Status(call, 200);
    Bytes(call, garbage);
    EXPECT_EQ(Events().at(0).error->code, ErrorCode::kUnavailable);
    EXPECT_TRUE(http_.IsClosed(call));
  }
}

TEST_F(AdapterEngineTest, NothingFollowsAnError) {
  Submit(Request(5));
  const CallId call = CallAt(0);
  Status(call, 200);
  Bytes(call, "data: {\"error\":{\"code\":400}}\n\ndata: {\"error\":{\"code\":400}}\n\ndata: [DONE]\n\n");
  Chunk(call, 5);
  End(call);
  EXPECT_EQ(Events().size(), 1U);
}

// ---- refusals ----

TEST_F(AdapterEngineTest, APromptMustLeaveRoomForAToken) {
  wire::Generate request = Request(5);
  request.prompt.assign(2048, 7);
  EXPECT_EQ(Refusal(request).code, ErrorCode::kContextTooLong);
  request.prompt.pop_back();
  Submit(request);
  EXPECT_THAT(Calls().at(0).call.body, HasSubstr(R"("max_tokens":1,)"));  // not 6
}

TEST_F(AdapterEngineTest, AConstrainedOutputIsContinuedElsewhere) {
  wire::Generate request = Request(5);
  request.constraint = wire::Constraint{};
  request.first_output_index = 3;
  EXPECT_EQ(Refusal(request).code, ErrorCode::kUnavailable);
}

TEST_F(AdapterEngineTest, OverTheLimitOfCallsIsOverloaded) {
  options_.max_running_requests = 2;
  options_.max_waiting_requests = 1;
  Submit(Request(1));
  wire::Generate two = Request(2);
  two.sample_count = 2;
  Submit(two);
  EXPECT_EQ(Refusal(Request(3)).code, ErrorCode::kOverloaded);
  engine().Cancel(Key(2));
  Submit(Request(3));
}

TEST_F(AdapterEngineTest, AConstraintThatIsNoJsonIsRefusedAtOnce) {
  wire::Generate request = Request(5);
  request.sample_count = 2;
  request.constraint = wire::Constraint{.kind = wire::ConstraintKind::kJsonSchema, .text = "{", .field = "schema"};
  EXPECT_EQ(Refusal(request).field, "schema");
  EXPECT_EQ(engine().open_call_count(), 0U);
  request.constraint.reset();
  Submit(request);
}

// ---- ends ----

TEST_F(AdapterEngineTest, ACancelClosesTheConnection) {
  Submit(Request(5));
  const CallId call = CallAt(0);
  Status(call, 200);
  Chunk(call, 1);
  engine().Cancel(Key(5));
  engine().Cancel(Key(5));
  engine().Cancel(Key(6));
  EXPECT_TRUE(http_.IsClosed(call));
  const auto events = Events();
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[1].finish, wire::FinishReason::kCancelled);
}

TEST_F(AdapterEngineTest, ALinkThatEndsTakesItsRequestsWithoutAWord) {
  Submit(Request(5));
  const CallId call = CallAt(0);
  Status(call, 200);
  Chunk(call, 1);
  ASSERT_TRUE(engine().Submit(LinkId(2), Request(5)).ok());
  engine().CancelLink(kLink);
  EXPECT_TRUE(http_.IsClosed(call));
  EXPECT_TRUE(Events().empty());
  EXPECT_EQ(engine().open_call_count(), 1U);
}

TEST_F(AdapterEngineTest, ADeadlineEndsARequest) {
  wire::Generate request = Request(5);
  request.deadline_ms = 100;
  Submit(request);
  const CallId call = CallAt(0);
  clock_.Advance(milliseconds(99));
  engine().Tick();
  EXPECT_TRUE(Events().empty());
  EXPECT_LE(engine().TimeToNextTick(), milliseconds(1));
  clock_.Advance(milliseconds(1));
  engine().Tick();
  EXPECT_EQ(Events().at(0).error->code, ErrorCode::kDeadlineExceeded);
  EXPECT_TRUE(http_.IsClosed(call));
}

TEST_F(AdapterEngineTest, AnAnsweredCallKeepsItsConnectionUnlessItLingers) {
  Submit(Request(5));
  const CallId call = CallAt(0);
  Status(call, 200);
  Bytes(call, testing_support::ReadAnswer("greedy").body);
  EXPECT_EQ(Events().back().finish, wire::FinishReason::kLength);
  EXPECT_FALSE(http_.IsClosed(call));
  clock_.Advance(seconds(6));
  engine().Tick();
  EXPECT_TRUE(http_.IsClosed(call));
}

TEST_F(AdapterEngineTest, SglangIsToldOfAnAbort) {
  protocol_ = &SglangProtocol();
  Submit(Request(5));
  engine().Cancel(Key(5));
  const auto aborts = http_.Open("/abort_request");
  ASSERT_EQ(aborts.size(), 1U);
  const std::string rid = aborts[0].call.body;
  EXPECT_THAT(http_.sent.at(0).call.body, HasSubstr(rid.substr(1, rid.size() - 2)));
  Answer(aborts[0].id, 200, "");  // belongs to no request
}

TEST_F(AdapterEngineTest, SglangTellsWhatWasCachedWithItsFirstToken) {
  protocol_ = &SglangProtocol();
  Submit(Request(5));
  const CallId call = http_.Open("/generate").at(0).id;
  Status(call, 200);
  Bytes(call,
        "data: {\"output_ids\":[3],\"meta_info\":{\"completion_tokens\":1,\"cached_tokens\":16,"
        "\"finish_reason\":null}}\n\n");
  EXPECT_EQ(Events().at(0).cached_token_count, 16U);
  Bytes(call,
        "data: {\"output_ids\":[3,4],\"meta_info\":{\"completion_tokens\":2,\"cached_tokens\":16,"
        "\"finish_reason\":{\"type\":\"length\"}}}\n\ndata: [DONE]\n\n");
  const auto events = Events();
  EXPECT_EQ(Tokens(events), (TokenIds{4}));
  EXPECT_FALSE(events.back().cached_token_count.has_value());
}

// ---- salts ----

TEST_F(AdapterEngineTest, HitsThatAreOneBlockShortTellWhatTheEngineComputesAgain) {
  std::uint64_t id = 0;
  const auto find = [&](std::uint32_t expected, int found) {
    wire::Generate request = Request(++id);
    request.prompt.assign(200, 7);
    request.expected_cached_tokens = expected;
    Submit(request);
    const CallId call = Calls().back().id;
    Status(call, 200);
    Chunk(call, 1, R"("length")");
    Usage(call, found);
    End(call);
    return Report().load.dropped_tokens;
  };
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(find(160, i % 3 == 0 ? 160 : 128), 0U) << "blocks that go";
    EXPECT_EQ(find(32, 0), 0U) << "a miss";
    EXPECT_EQ(find(160, 64), 0U);
  }
  EXPECT_EQ(find(160, 160), 0U);
  for (int i = 0; i < 7; ++i) EXPECT_EQ(find(160, 128), 0U);
  EXPECT_EQ(find(160, 128), 32U);
  EXPECT_EQ(find(128, 128), 32U) << "as it promises then";
  for (int i = 0; i < 7; ++i) EXPECT_EQ(find(128, 160), 32U);
  EXPECT_EQ(find(128, 160), 0U) << "another engine at the same address";
}

// The cache of an engine whose events began in the middle.
class PartialSource final : public BlockSource {
 public:
  [[nodiscard]] std::vector<int> fds() override { return {}; }
  [[nodiscard]] std::optional<Instant> deadline() const override { return {}; }
  [[nodiscard]] bool Poll(Instant) override { return false; }
  [[nodiscard]] std::vector<wire::CacheEvent> TakeEvents() override { return {}; }
  [[nodiscard]] bool exact() const override { return false; }
  [[nodiscard]] std::vector<wire::StoredRun> Snapshot() const override { return {}; }
  [[nodiscard]] BlockHash digest() const override { return {}; }
  [[nodiscard]] std::size_t block_count() const override { return 0; }
  [[nodiscard]] bool wants_found_runs() const override { return wants; }
  void NoteHit(const HitGuess&, std::uint32_t found_tokens) override { found += found_tokens; }
  void OnEngineRestart(Instant) override {}

  bool wants = true;
  std::uint32_t found = 0;
};

TEST_F(AdapterEngineTest, AnEngineThatCanIsAskedToTellOfWhatItFinds) {
  constexpr const char* kAsked = R"("vllm_xargs":{"kv_cache_report_mode":"full"})";
  PartialSource source;
  for (const bool can : {false, true}) {
    for (const bool wants : {false, true}) {
      facts_.tells_found_runs = can;
      source.wants = wants;
      AdapterEngine engine(*protocol_, facts_, options_, clock_, http_, &source);
      ASSERT_TRUE(engine.Submit(kLink, Request(1)).ok());
      EXPECT_EQ(http_.sent.back().call.body.find(kAsked) != std::string::npos, can && wants);
    }
  }
}

TEST_F(AdapterEngineTest, ASaltComesFromTheRequestsScope) {
  options_.salt_of = [](const wire::Generate& generate) { return "scope of " + generate.tenant; };
  wire::Generate request = Request(5);
  request.tenant = "birds";
  Submit(request);
  EXPECT_THAT(Calls()[0].call.body, HasSubstr(R"("cache_salt":"scope of birds")"));
}

TEST_F(AdapterEngineTest, ARequestWithoutCachingHasASaltOfItsOwn) {
  wire::Generate request = Request(5);
  request.cache_mode = wire::CacheMode::kOff;
  Submit(request);
  request.request_id = RequestId(6);
  Submit(request);
  const auto salt_of = [](const std::string& body) { return body.substr(body.find("cache_salt")); };
  EXPECT_NE(salt_of(Calls()[0].call.body), salt_of(Calls()[1].call.body));
  EXPECT_EQ(Report().counts.uncached_requests, 2U);
}

}  // namespace
}  // namespace roost::worker::adapters
