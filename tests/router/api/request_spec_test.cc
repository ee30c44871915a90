// Requests that the API accepts, and the specs that it gives the dispatcher.
#include <gtest/gtest.h>

#include "tests/router/api/api_fixture.h"
#include "tests/router/api/request_bodies.h"

namespace roost::router {
namespace {

struct FormCase {
  std::string members;
  wire::Constraint wanted;
};

TEST_F(ApiTest, FormsOfOutputBecomeConstraints) {
  using Kind = wire::ConstraintKind;
  const std::vector<FormCase> cases{
      {R"("response_format":{"type":"json_object"})", {Kind::kJson, "", "response_format"}},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"type":"null"}}})",
       {Kind::kJsonSchema, R"({"type":"null"})", "response_format.json_schema.schema"}},
      {R"("response_format":{"type":"json_schema","schema":{"type":"null"}})",
       {Kind::kJsonSchema, R"({"type":"null"})", "response_format.schema"}},
      {R"("response_format":{"type":"json_object","schema":{"type":"null"}})",
       {Kind::kJsonSchema, R"({"type":"null"})", "response_format.schema"}},
      {R"("format":"json")", {Kind::kJson, "", "format"}},
      {R"("format":{ "type" : "null" })", {Kind::kJsonSchema, R"({"type":"null"})", "format"}},
      {R"("json_schema":{"type":"null"})", {Kind::kJsonSchema, R"({"type":"null"})", "json_schema"}},
      {R"("regex":"a")", {Kind::kRegex, "a", "regex"}},
      {R"("ebnf":"root ::= \"a\"")", {Kind::kGrammar, R"(root ::= "a")", "ebnf"}},
      {R"("grammar":"root ::= \"a\"")", {Kind::kGrammar, R"(root ::= "a")", "grammar"}},
      {R"("guided_json":{ "type" : "null" })", {Kind::kJsonSchema, R"({"type":"null"})", "guided_json"}},
      {R"("guided_json":"{\"type\": \"null\"}")", {Kind::kJsonSchema, R"({"type": "null"})", "guided_json"}},
      {R"("guided_regex":"[a-z]+")", {Kind::kRegex, "[a-z]+", "guided_regex"}},
      {R"("guided_choice":["yes", "no"])", {Kind::kChoice, R"(["yes","no"])", "guided_choice"}},
      {R"("guided_grammar":"root ::= \"a\"")", {Kind::kGrammar, R"(root ::= "a")", "guided_grammar"}},
      {R"("structured_outputs":{"regex":"a|b"})", {Kind::kRegex, "a|b", "structured_outputs.regex"}},
      {R"("structured_outputs":{"json_object":true})", {Kind::kJson, "", "structured_outputs.json_object"}},
  };
  for (const FormCase& each : cases) {
    Chat(ChatWith(each.members));
    ASSERT_FALSE(dispatcher_.specs.empty()) << each.members;
    EXPECT_EQ(dispatcher_.specs.back().generate.constraint, each.wanted) << each.members;
    Complete(CompletionWith(each.members));
    EXPECT_EQ(dispatcher_.specs.back().generate.constraint, each.wanted) << each.members;
  }
  for (const char* const any : {R"("response_format":{"type":"text"})", R"("format":"")", R"("format":null)"}) {
    const std::size_t taken = dispatcher_.specs.size();
    Chat(ChatWith(any));
    ASSERT_EQ(dispatcher_.specs.size(), taken + 1) << any;
    EXPECT_EQ(dispatcher_.specs.back().generate.constraint, std::nullopt) << any;
  }
}

TEST_F(ApiTest, AcceptsNullsNeutralValuesAndUnknownFields) {
  Chat(ChatWith(R"("stop":null,"max_tokens":null,"temperature":null,"top_p":1,"n":1,"frequency_penalty":0,)"
                R"("presence_penalty":0.0,"repetition_penalty":1.0,"min_p":0,"min_tokens":0,"logit_bias":{},)"
                R"("logprobs":false,"top_logprobs":null,"response_format":{"type":"text"},"tool_choice":"none",)"
                R"("user":"u","metadata":{"a":[1]},"store":true,"service_tier":"auto","parallel_tool_calls":true,)"
                R"("prompt_cache_key":"k","reasoning_effort":"low","stream_options":null,"priority":3,)"
                R"("some_new_field":{"x":[{"y":null}]},"seed":-1,"top_k":-1,"use_beam_search":false)"));
  ASSERT_EQ(dispatcher_.specs.size(), 1U);
  EXPECT_EQ(dispatcher_.specs[0].generate.sampling.seed, ~std::uint64_t{0});
  EXPECT_EQ(dispatcher_.specs[0].generate.sampling.top_k, 0U);
  Complete(CompletionWith(R"("echo":false,"best_of":1,"logprobs":null,"suffix":null,"repetition_penalty":1.0)"));
  EXPECT_EQ(dispatcher_.specs.size(), 2U);
}

TEST_F(ApiTest, TheBoundsOfMaxTokensAreThoseOfAnAnswer) {
  const auto message = [&](const char* fields) { return At(Chat(ChatWith(fields))->response->body, "/error/message"); };
  EXPECT_EQ(message(R"("max_tokens":-3)"), R"("max_tokens: must be between 1 and 2147483647, not -3")");
  EXPECT_NE(message(R"("max_tokens":0)").find("must be at least 1"), std::string::npos);
  Complete(CompletionWith(R"("echo":true,"max_tokens":0)"));
  EXPECT_EQ(dispatcher_.specs.size(), 1U);
}

TEST_F(ApiTest, LastOfRepeatedFieldsCounts) {
  Complete(CompletionWith(R"("max_tokens":-1,"max_tokens":7)"));
  ASSERT_EQ(dispatcher_.specs.size(), 1U);
  EXPECT_EQ(dispatcher_.specs[0].generate.max_output_tokens, 7U);
}

TEST_F(ApiTest, DefaultsAreTheModels) {
  Complete(R"({"model":"bytes","prompt":"hi"})");
  Complete(R"({"model":"bytes","prompt":"hi"})");
  ASSERT_EQ(dispatcher_.specs.size(), 2U);
  const GenerateSpec& spec = dispatcher_.specs[0];
  EXPECT_EQ(spec.generate.max_output_tokens, 197U);  // 200 less <s>, h and i
  EXPECT_FLOAT_EQ(spec.generate.sampling.temperature, 0.7F);
  EXPECT_FLOAT_EQ(spec.generate.sampling.top_p, 0.9F);
  EXPECT_EQ(spec.generate.sampling.top_k, 20U);
  EXPECT_FALSE(spec.generate.ignore_eos);
  EXPECT_NE(spec.generate.sampling.seed, dispatcher_.specs[1].generate.sampling.seed);
}

TEST_F(ApiTest, TakesTheRequestsOwnSettings) {
  Complete(
      CompletionWith(R"("max_tokens":50,"max_completion_tokens":5.0,"temperature":0,"top_p":0.5,"top_k":3,"seed":42,)"
                     R"("stop_token_ids":[10,13],"ignore_eos":true,"min_tokens":5)"));
  ASSERT_EQ(dispatcher_.specs.size(), 1U);
  const GenerateSpec& spec = dispatcher_.specs[0];
  EXPECT_EQ(spec.generate.max_output_tokens, 5U);
  EXPECT_FLOAT_EQ(spec.generate.sampling.temperature, 0);
  EXPECT_FLOAT_EQ(spec.generate.sampling.top_p, 0.5F);
  EXPECT_EQ(spec.generate.sampling.top_k, 3U);
  EXPECT_EQ(spec.generate.sampling.seed, 42U);
  EXPECT_EQ(spec.generate.stop_tokens, (std::vector<TokenId>{10, 13}));
  EXPECT_TRUE(spec.generate.ignore_eos);
  EXPECT_EQ(spec.generate.min_output_tokens, 5U);
}

TEST_F(ApiTest, PenaltiesAndBiasGoAlong) {
  Complete(CompletionWith(R"("min_p":0.05,"repetition_penalty":1.2,"presence_penalty":-2,"frequency_penalty":0.5,)"
                          R"("logit_bias":{"100":5,"20":-100,"3":null})"));
  Complete(CompletionWith(R"("repetition_penalty":0.01)"));
  ASSERT_EQ(dispatcher_.specs.size(), 2U);
  const wire::Sampling& sampling = dispatcher_.specs[0].generate.sampling;
  EXPECT_EQ(sampling.min_p, 0.05F);
  EXPECT_EQ(sampling.repetition_penalty, 1.2F);
  EXPECT_EQ(sampling.presence_penalty, -2);
  EXPECT_EQ(sampling.frequency_penalty, 0.5F);
  EXPECT_EQ(sampling.logit_bias, (std::vector<wire::LogitBias>{{20, -100}, {100, 5}}));
  EXPECT_EQ(dispatcher_.specs[1].generate.sampling.repetition_penalty, wire::kMinRepetitionPenalty);
}

TEST_F(ApiTest, PenaltiesDefaultToTheModels) {
  ServedModel model = ByteModel();
  model.sampling.min_p = 0.1F;
  model.sampling.repetition_penalty = 1.05F;
  Serve(std::move(model));
  Complete(R"({"model":"bytes","prompt":"hi"})");
  Complete(CompletionWith(R"("min_p":0,"repetition_penalty":1)"));
  ASSERT_EQ(dispatcher_.specs.size(), 2U);
  EXPECT_EQ(dispatcher_.specs[0].generate.sampling.min_p, 0.1F);
  EXPECT_EQ(dispatcher_.specs[0].generate.sampling.repetition_penalty, 1.05F);
  EXPECT_FALSE(wire::NeedsOf(dispatcher_.specs[1].generate).contains(wire::Feature::kFullSampling));
}

TEST_F(ApiTest, CacheAndQueueAreToldNothingByDefault) {
  Complete(CompletionWith(R"("cache":null,"session_id":null,"expect_return_ms":null,"priority":null)"));
  ASSERT_EQ(dispatcher_.specs.size(), 1U);
  const GenerateSpec& spec = dispatcher_.specs[0];
  EXPECT_EQ(spec.generate.cache_mode, wire::CacheMode::kOn);
  EXPECT_EQ(spec.generate.priority, 50U);
  EXPECT_FALSE(spec.generate.retention.has_value());
  EXPECT_EQ(spec.generate.session_hash, 0U);
  EXPECT_EQ(spec.generate.expect_return_ms, 0U);
  EXPECT_EQ(spec.generate.sample_count, 1U);
}

TEST_F(ApiTest, CacheAndQueueAreToldWhatTheRequestSays) {
  Chat(ChatWith(R"("cache":{"mode":"off","salt":"s","retention":{"priority":80,"duration_ms":60000,)"
                R"("decode_priority":20,"decode_duration_ms":5000}},"session_id":"c-17","expect_return_ms":30000,)"
                R"("priority":70,"n":4)"));
  Complete(CompletionWith(R"("cache":"off","cache_salt":"s","session_id":"c-17")"));
  Complete(
      CompletionWith(R"("cache":{"salt":"s","retention":{"duration_ms":7}},"cache_salt":"s","session_id":"c-18")"));
  ASSERT_EQ(dispatcher_.specs.size(), 3U);
  const GenerateSpec& spec = dispatcher_.specs[0];
  EXPECT_EQ(spec.generate.cache_mode, wire::CacheMode::kOff);
  EXPECT_EQ(spec.generate.priority, 70U);
  EXPECT_EQ(spec.generate.retention, (wire::Retention{80, 60'000, 20, 5'000}));
  EXPECT_EQ(spec.generate.expect_return_ms, 30'000U);
  EXPECT_EQ(spec.generate.sample_count, 4U);
  EXPECT_EQ(dispatcher_.specs[1].generate.cache_mode, wire::CacheMode::kOff);
  EXPECT_EQ(dispatcher_.specs[1].generate.root, spec.generate.root);
  EXPECT_EQ(dispatcher_.specs[2].generate.retention, (wire::Retention{35, 7, 35, 0}));
  EXPECT_EQ(dispatcher_.specs[2].generate.root, spec.generate.root);
  EXPECT_NE(spec.generate.session_hash, 0U);
  EXPECT_EQ(dispatcher_.specs[1].generate.session_hash, spec.generate.session_hash);
  EXPECT_NE(dispatcher_.specs[2].generate.session_hash, spec.generate.session_hash);
}

TEST_F(ApiTest, BestOfMayBeN) {
  Complete(CompletionWith(R"("n":3,"best_of":3)"));
  ASSERT_EQ(dispatcher_.specs.size(), 1U);
  EXPECT_EQ(dispatcher_.specs[0].generate.sample_count, 3U);
}

TEST_F(ApiTest, EveryFormOfOnePromptIsTheSame) {
  Complete(R"({"model":"bytes","prompt":"hi"})");
  Complete(R"({"model":"bytes","prompt":["hi"]})");
  Complete(R"({"model":"bytes","prompt":[258,104,105]})");
  Complete(R"({"model":"bytes","prompt":[[258,104,105]]})");
  ASSERT_EQ(dispatcher_.specs.size(), 4U);
  for (const GenerateSpec& spec : dispatcher_.specs)
    EXPECT_EQ(spec.generate.prompt, (std::vector<TokenId>{kBos, 'h', 'i'}));
}

std::vector<TokenId> Concatenate(std::initializer_list<std::vector<TokenId>> parts) {
  std::vector<TokenId> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

TEST_F(ApiTest, ChatIsRenderedOnceWithItsOwnSpecialTokens) {
  Chat(ChatOf(R"([{"role":"system","content":"S"},{"role":"user","content":[{"type":"text","text":"a"},)"
              R"({"type":"text","text":"b"}]}])"));
  ASSERT_EQ(dispatcher_.specs.size(), 1U);
  EXPECT_EQ(dispatcher_.specs[0].generate.prompt, Concatenate({{kImStart},
                                                               Bytes("system\nS"),
                                                               {kImEnd},
                                                               Bytes("\n"),
                                                               {kImStart},
                                                               Bytes("user\na\nb"),
                                                               {kImEnd},
                                                               Bytes("\n"),
                                                               {kImStart},
                                                               Bytes("assistant\n")}));
}

TEST_F(ApiTest, ToolsCallsAndVariablesReachTheTemplate) {
  const std::string messages = R"([{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function",)"
                               R"("function":{"name":"weather","arguments":"{\"city\":\"Rome\"}"}}]},)"
                               R"({"role":"tool","tool_call_id":"1","content":"sun"}])";
  const std::string tools = R"("tools":[{"type":"function","function":{"name":"weather"}}])";
  Chat(fmt::format(R"({{"model":"bytes","messages":{},{},"chat_template_kwargs":{{"shout":"HEY","tools":5}},)"
                   R"("add_generation_prompt":false}})",
                   messages, tools));
  ASSERT_EQ(dispatcher_.specs.size(), 1U);
  EXPECT_EQ(dispatcher_.specs[0].generate.prompt, Concatenate({{kImStart},
                                                               Bytes("assistant\nweather(Rome)"),
                                                               {kImEnd},
                                                               Bytes("\n"),
                                                               {kImStart},
                                                               Bytes("tool\nsun"),
                                                               {kImEnd},
                                                               Bytes("\ntools:weather\nHEY")}));
  Chat(
      fmt::format(R"({{"model":"bytes","messages":[{{"role":"user","content":""}}],{},"tool_choice":"none"}})", tools));
  ASSERT_EQ(dispatcher_.specs.size(), 2U);
  EXPECT_EQ(dispatcher_.specs[1].generate.prompt,
            Concatenate({{kImStart}, Bytes("user\n"), {kImEnd}, Bytes("\n"), {kImStart}, Bytes("assistant\n")}));
}

TEST_F(ApiTest, HashesTheWholeBlocksUnderTheScopeOfTheRequest) {
  Complete(R"({"model":"bytes","prompt":[1,2,3,4,5,6,7,8,9],"cache_salt":"s"})");
  Complete(R"({"model":"bytes","prompt":[1,2,3,4,5,6,7,8,9]})");
  ASSERT_EQ(dispatcher_.specs.size(), 2U);
  const PrefixScope scope{"0123456789abcdef0123456789abcdef", "", "", "s", 4, "f32"};
  const GenerateSpec& salted = dispatcher_.specs[0];
  EXPECT_EQ(salted.generate.root, RootHash(scope));
  ASSERT_EQ(salted.generate.block_hashes.size(), 2U);
  EXPECT_EQ(salted.generate.block_hashes[0], ChainHash(salted.generate.root, std::vector<TokenId>{1, 2, 3, 4}));
  EXPECT_EQ(salted.generate.block_hashes[1],
            ChainHash(salted.generate.block_hashes[0], std::vector<TokenId>{5, 6, 7, 8}));
  EXPECT_NE(dispatcher_.specs[1].generate.root, salted.generate.root);
}

}  // namespace
}  // namespace roost::router
