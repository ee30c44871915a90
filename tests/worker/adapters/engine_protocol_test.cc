// The requests that are sent to engines, and the facts that their pages tell.
#include "worker/adapters/engine_protocol.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <utility>

#include "tests/worker/adapters/recordings.h"

namespace roost::worker::adapters {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing_support::ReadAnswer;
using testing_support::ReadRecording;
using testing_support::RecordingFolder;

wire::Generate GreedyRequest() {
  wire::Generate generate;
  generate.prompt = {5, 6, 7};
  generate.sampling.temperature = 0;
  generate.max_output_tokens = 4;
  return generate;
}

// A request that says something in every field.
wire::Generate FullRequest() {
  wire::Generate generate = GreedyRequest();
  generate.sampling = {.temperature = 0.8F,
                       .top_p = 0.9F,
                       .top_k = 40,
                       .seed = 7,
                       .min_p = 0.05F,
                       .repetition_penalty = 1.1F,
                       .presence_penalty = 0.5F,
                       .frequency_penalty = -0.5F,
                       .logit_bias = {{100, 100.0F}}};
  generate.first_output_index = 2;
  generate.min_output_tokens = 5;
  generate.stop_tokens = {485, 9};
  generate.ignore_eos = true;
  generate.priority = 60;
  generate.output_logprobs = 3;
  return generate;
}

class Sent {
 public:
  Sent(const EngineProtocol& protocol, const wire::Generate& generate, std::string_view salt = {},
       bool scores_prompt = false, const EngineFacts& facts = {.model = "demo-model"}) {
    const CallPlan plan{.generate = generate,
                        .facts = facts,
                        .id = "roost-1",
                        .salt = salt,
                        .choice = 1,
                        .max_tokens = generate.max_output_tokens,
                        .scores_prompt = scores_prompt,
                        .is_streamed = !scores_prompt};
    call = protocol.BuildRequest(plan).value();
  }
  HttpCall call;
};

std::set<std::string> KeysOf(const std::string& body) {
  simdjson::dom::parser parser;
  std::set<std::string> keys;
  for (const auto& field : simdjson::dom::object(parser.parse(body))) keys.emplace(field.key);
  return keys;
}

// The fields of all recorded requests that vLLM accepted under these names.
std::set<std::string> RecordedKeys() {
  std::set<std::string> keys;
  for (const auto& entry : std::filesystem::directory_iterator(RecordingFolder() / "http")) {
    const std::string text = ReadRecording("http/" + entry.path().filename().string());
    if (entry.path().extension() != ".request" || !text.starts_with("POST /v1/completions")) continue;
    const std::string body = text.substr(text.find("\r\n\r\n") + 4);
    if (body.starts_with("{")) keys.merge(KeysOf(body));
  }
  return keys;
}

TEST(VllmEngineProtocolTest, EveryFieldHasBeenSentToARealEngine) {
  const std::set<std::string> recorded = RecordedKeys();
  ASSERT_TRUE(recorded.contains("return_token_ids"));
  wire::Generate generate = FullRequest();
  generate.prompt_logprobs = 2;
  generate.constraint = wire::Constraint{.kind = wire::ConstraintKind::kRegex, .text = "a+", .field = "f"};
  for (const bool scores_prompt : {false, true}) {
    for (const std::string& key : KeysOf(Sent(VllmProtocol(), generate, "salt", scores_prompt).call.body)) {
      EXPECT_TRUE(recorded.contains(key)) << key;
    }
  }
}

TEST(VllmEngineProtocolTest, EverySamplingFieldIsSaid) {
  const HttpCall call = Sent(VllmProtocol(), FullRequest(), "grain").call;
  EXPECT_EQ(call.method, HttpMethod::kPost);
  EXPECT_EQ(call.path, "/v1/completions");
  EXPECT_THAT(call.headers, ::testing::Contains("X-Request-Id: roost-1"));
  EXPECT_EQ(call.body,
            R"({"model":"demo-model","prompt":[5,6,7],"stream":true,"return_token_ids":true,)"
            R"("stream_options":{"include_usage":true},"max_tokens":4,"min_tokens":3,"temperature":0.8,"top_p":0.9,)"
            R"("top_k":40,"min_p":0.05,"seed":8,"repetition_penalty":1.1,"presence_penalty":0.5,)"
            R"("frequency_penalty":-0.5,"logit_bias":{"100":100},"stop_token_ids":[485,9],"ignore_eos":true,)"
            R"("logprobs":3,"return_tokens_as_token_ids":true,"cache_salt":"grain","priority":-10})");
}

TEST(VllmEngineProtocolTest, DefaultsThatTheModelMayChangeAreSaidAndOthersAreNot) {
  const std::string body = Sent(VllmProtocol(), GreedyRequest()).call.body;
  for (const char* const said :
       {R"("temperature":0,)", R"("top_p":1,)", R"("top_k":0,)", R"("min_p":0,)", R"("repetition_penalty":1,)"}) {
    EXPECT_THAT(body, HasSubstr(said));
  }
  for (const char* const key : {"priority", "cache_salt", "logprobs", "min_tokens", "ignore_eos", "stop_token_ids",
                                "logit_bias", "structured_outputs"}) {
    EXPECT_THAT(body, Not(HasSubstr(key)));
  }
}

TEST(VllmEngineProtocolTest, ASessionIsNamedWhereTheEngineTakesOne) {
  wire::Generate generate = GreedyRequest();
  generate.session_hash = 0xabc;
  const EngineFacts takes{.model = "demo-model", .takes_sessions = true};
  EXPECT_THAT(Sent(VllmProtocol(), generate).call.body, Not(HasSubstr("session_id")));
  EXPECT_THAT(Sent(VllmProtocol(), generate, {}, false, takes).call.body,
              HasSubstr(R"("session_id":"0000000000000abc")"));
  generate.session_hash = 0;
  EXPECT_THAT(Sent(VllmProtocol(), generate, {}, false, takes).call.body, Not(HasSubstr("session_id")));
  for (const auto& [version, expected] :
       {std::pair{"0.29.1", false}, {"0.30.0", true}, {"0.32.0+cpu", true}, {"1.0.0", true}, {"nightly", false}}) {
    EngineFacts facts;
    ASSERT_TRUE(VllmProtocol().ReadFacts("/version", fmt::format(R"({{"version":"{}"}})", version), facts).ok());
    EXPECT_EQ(facts.takes_sessions, expected) << version;
  }
}

TEST(VllmEngineProtocolTest, NoSeedMeansNone) {
  wire::Generate generate = GreedyRequest();
  generate.sampling.seed = ~std::uint64_t{0} - 1;  // with the choice -1, which the engine takes for no seed
  EXPECT_THAT(Sent(VllmProtocol(), generate).call.body, HasSubstr(R"("seed":9223372036854775807)"));
}

TEST(VllmEngineProtocolTest, ConstraintsAreSaidInTheEnginesTerms) {
  wire::Generate generate = GreedyRequest();
  const auto body_of = [&generate](wire::ConstraintKind kind, std::string text) {
    generate.constraint = wire::Constraint{.kind = kind, .text = std::move(text), .field = "f"};
    return Sent(VllmProtocol(), generate).call.body;
  };
  EXPECT_THAT(body_of(wire::ConstraintKind::kJson, ""), HasSubstr(R"("structured_outputs":{"json_object":true})"));
  EXPECT_THAT(body_of(wire::ConstraintKind::kJsonSchema, R"({"type":"object"})"),
              HasSubstr(R"("structured_outputs":{"json":{"type":"object"}})"));
  EXPECT_THAT(body_of(wire::ConstraintKind::kChoice, R"(["a","b"])"),
              HasSubstr(R"("structured_outputs":{"choice":["a","b"]})"));
  EXPECT_THAT(body_of(wire::ConstraintKind::kRegex, "\"a"), HasSubstr(R"("structured_outputs":{"regex":"\"a"})"));
}

TEST(VllmEngineProtocolTest, AConstraintThatIsNoJsonNeverLeaves) {
  wire::Generate generate = GreedyRequest();
  generate.constraint =
      wire::Constraint{.kind = wire::ConstraintKind::kJsonSchema, .text = R"({}, "model": "x")", .field = "schema"};
  const EngineFacts facts{.model = "m"};
  const CallPlan plan{.generate = generate, .facts = facts, .id = "1", .max_tokens = 1};
  const Result<HttpCall> built = VllmProtocol().BuildRequest(plan);
  ASSERT_FALSE(built.ok());
  EXPECT_EQ(built.error().field, "schema");
}

// ---- pages ----

EngineFacts VllmFacts(const std::string& metrics) {
  EngineFacts facts;
  EXPECT_TRUE(VllmProtocol().ReadFacts("/version", ReadAnswer("page-version").body, facts).ok());
  EXPECT_TRUE(VllmProtocol().ReadFacts("/v1/models", ReadAnswer("page-v1-models").body, facts).ok());
  EXPECT_TRUE(VllmProtocol().ReadFacts("/metrics", metrics, facts).ok());
  return facts;
}

TEST(VllmEngineProtocolTest, PagesTellTheFacts) {
  const EngineFacts facts = VllmFacts(ReadRecording("metrics-idle.txt") + "process_start_time_seconds 1.5e9\n");
  EXPECT_EQ(facts.version, "0.32.0");
  EXPECT_EQ(facts.model, "demo-model");
  EXPECT_EQ(facts.max_context_tokens, 2048U);
  EXPECT_EQ(facts.block_tokens, 32U);
  EXPECT_EQ(facts.block_count, 71U);  // one is the engine's own
  EXPECT_TRUE(facts.keeps_prefixes);
  EXPECT_EQ(facts.started_at, 1.5e9);
}

TEST(VllmEngineProtocolTest, FactsThatAreNotToldYetAreAskedForAgain) {
  EngineFacts facts;
  const Result<void> read = VllmProtocol().ReadFacts("/metrics", "", facts);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, ErrorCode::kUnavailable);
}

// Each rank has a row; the number of blocks in it is that of all ranks together.
std::string RankRows(std::uint32_t first, std::uint32_t count, std::uint32_t blocks) {
  std::string rows;
  for (std::uint32_t rank = first; rank < first + count; ++rank) {
    rows += fmt::format(R"(vllm:cache_config_info{{block_size="32",engine="{}",num_gpu_blocks="{}"}} 1)", rank, blocks);
    rows += fmt::format("\nvllm:num_requests_running{{engine=\"{}\"}} {}\n", rank, 10 + rank);
  }
  return rows + "process_start_time_seconds 5\n";
}

TEST(VllmEngineProtocolTest, RanksAreToldApart) {
  EngineFacts facts = VllmFacts(RankRows(0, 8, 8 * 72));
  ASSERT_EQ(facts.ranks.size(), 8U);
  EXPECT_EQ(facts.ranks[7], (EngineRank{.number = 7, .index = 7}));
  EXPECT_EQ(facts.block_count, 71U);
  EXPECT_TRUE(VllmFacts(RankRows(3, 1, 72)).ranks.empty()) << "one rank behind a URL of its own";
  // A host's four ranks may be the second four of the engine.
  facts = VllmFacts(RankRows(4, 4, 4 * 72));
  EXPECT_EQ(facts.ranks[1], (EngineRank{.number = 5, .index = 1}));
  facts.rank = facts.ranks[1];
  const EngineLoad load = VllmProtocol().ReadLoad(RankRows(4, 4, 4 * 72), facts);
  EXPECT_EQ(load.running_requests, 15U);
  EXPECT_EQ(load.started_at, 5) << "the process has no rank";
}

TEST(VllmEngineProtocolTest, GroupsThatShareBlocksHaveRoomForMoreTokens) {
  for (const auto& [tokens, blocks] : {std::pair{"64000", 1999U}, {"320", 71U}, {"None", 71U}}) {
    EngineFacts facts;
    const std::string row = fmt::format(
        "vllm:cache_config_info{{block_size=\"32\",kv_cache_size_tokens=\"{}\",num_gpu_blocks=\"72\"}} 1\n", tokens);
    ASSERT_TRUE(VllmProtocol().ReadFacts("/metrics", row, facts).ok());
    EXPECT_EQ(facts.block_count, blocks) << tokens;
  }
}

TEST(VllmEngineProtocolTest, MoreRanksThanAnyEngineHasAreRefused) {
  EngineFacts facts;
  const Result<void> read = VllmProtocol().ReadFacts("/metrics", RankRows(0, kMaxEngineRanks + 1, 7000), facts);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument);
}

TEST(VllmEngineProtocolTest, TheBusyPageTellsTheLoad) {
  const EngineLoad load = VllmProtocol().ReadLoad(ReadRecording("metrics-busy.txt"), {});
  EXPECT_EQ(load.running_requests, 4U);
  EXPECT_EQ(load.waiting_requests, 2U);
  EXPECT_NEAR(load.used_share.value(), 8.0 / 71, 1e-6);
  EXPECT_GT(load.computed_tokens.value(), 7000);
}

TEST(EngineProtocolTest, NamesLeadToProtocols) {
  for (const std::string_view name : kEngineProtocolNames) EXPECT_EQ(EngineProtocolOf(name)->name(), name);
  EXPECT_EQ(EngineProtocolOf("other"), nullptr);
}

TEST(EngineProtocolTest, AnotherEngineThanBeforeIsNoticed) {
  const EngineFacts before = VllmFacts(ReadRecording("metrics-idle.txt"));
  EXPECT_TRUE(CheckSameEngine(before, before).ok());
  const auto is_same = [&before](auto change) {
    EngineFacts now = before;
    change(now);
    return CheckSameEngine(before, now).ok();
  };
  EXPECT_TRUE(is_same([](EngineFacts& now) { now.block_count += 1; }));
  EXPECT_FALSE(is_same([](EngineFacts& now) { now.block_count -= 1; }));
  EXPECT_FALSE(is_same([](EngineFacts& now) { now.block_tokens = 16; }));
  EXPECT_FALSE(is_same([](EngineFacts& now) { now.max_context_tokens -= 1; }));
  EXPECT_FALSE(is_same([](EngineFacts& now) { now.model = "other"; }));
  EXPECT_TRUE(is_same([](EngineFacts& now) { now.aliases.insert(std::exchange(now.model, "other")); }))
      << "it serves one more model, and names that first";
  EXPECT_FALSE(is_same([](EngineFacts& now) { now.ranks = {{0, 0}, {1, 1}}; }));
}

// ---- servers that take no tokens ----

EngineFacts OpenAiFacts(std::string_view models, std::string_view props = "") {
  EngineFacts facts;
  EXPECT_TRUE(OpenAiProtocol().ReadFacts("/v1/models", models, facts).ok());
  if (!props.empty()) {
    EXPECT_TRUE(OpenAiProtocol().ReadFacts("/props", props, facts).ok());
  }
  return facts;
}

TEST(OpenAiEngineProtocolTest, ListsOfModelsNeedNothingButNames) {
  EngineFacts facts = OpenAiFacts(R"({"data":[{"id":"qwen3:8b"},{"id":"gemma3:4b"},{"id":"nomic-embed-text"}]})");
  EXPECT_EQ(facts.model, "gemma3:4b") << "the first by name, in whatever order they come";
  EXPECT_EQ(facts.aliases, (std::set<std::string>{"nomic-embed-text", "qwen3:8b"}));
  EXPECT_GT(facts.max_context_tokens, 100'000U);
  EXPECT_GT(facts.grain_count(), 1000U);
  EXPECT_FALSE(facts.max_running_requests);
  EXPECT_EQ(OpenAiFacts(R"({"data":[{"id":"only"}]})").model, "only");
  EXPECT_FALSE(OpenAiProtocol().ReadFacts("/v1/models", R"({"data":[]})", facts = {}).ok());
  EXPECT_FALSE(OpenAiProtocol().ReadFacts("/v1/models", "<html>", facts = {}).ok());
}

TEST(OpenAiEngineProtocolTest, PropsTellSlotsContextAndBuild) {
  const EngineFacts facts = OpenAiFacts(
      R"({"data":[{"id":"m"}]})",
      R"({"total_slots":2,"default_generation_settings":{"n_ctx":8192},"endpoint_slots":true,"build_info":"b7-abc"})");
  EXPECT_EQ(facts.max_running_requests, 2U);
  EXPECT_EQ(facts.max_context_tokens, 8192U);
  EXPECT_EQ(facts.version, "llama.cpp b7-abc");
  EXPECT_EQ(facts.advice, "");
  for (const char* const other : {"<html>", "[]", "{}", R"({"total_slots":0})", R"({"total_slots":4294967295})"}) {
    EXPECT_EQ(OpenAiFacts(R"({"data":[{"id":"m"}]})", other).version, "server") << other;
  }
}

TEST(OpenAiEngineProtocolTest, WhatCostsHitsIsToldWithTheFlagThatMendsIt) {
  const auto advice = [](std::string_view props) {
    return OpenAiFacts(R"({"data":[{"id":"m","meta":{"n_ctx_train":4096}}]})", props).advice;
  };
  EXPECT_THAT(advice(R"({"total_slots":1})"), HasSubstr("-np N"));
  EXPECT_THAT(advice(R"({"total_slots":4,"default_generation_settings":{"n_ctx":4096}})"), HasSubstr("-np 4"));
  EXPECT_EQ(advice(R"({"total_slots":4,"default_generation_settings":{"n_ctx":1024}})"), "");
  EXPECT_THAT(advice(R"({"total_slots":2,"endpoint_slots":false})"), HasSubstr("--slots"));
  EXPECT_EQ(advice(R"({"total_slots":8,"default_generation_settings":{"n_ctx":4096}})"), "");
}

TEST(OpenAiEngineProtocolTest, TokensAreRefused) {
  EXPECT_FALSE(OpenAiProtocol().takes_tokens());
  const wire::Generate generate = GreedyRequest();
  const EngineFacts facts;
  const CallPlan plan{.generate = generate, .facts = facts, .id = "x"};
  EXPECT_FALSE(OpenAiProtocol().BuildRequest(plan).ok());
}

// ---- SGLang: after its documentation, not recorded ----

// ---- adapters ----

constexpr const char* kModelsWithAdapters =
    R"({"data":[{"id":"m","max_model_len":4096,"parent":null},{"id":"m2","max_model_len":4096,"parent":null},)"
    R"({"id":"poet","parent":"m","max_model_len":null},{"id":"a\u0001b","parent":"m"},{"id":"","parent":"m"}]})";

TEST(EngineProtocolTest, TheListOfModelsTellsTheAdapters) {
  for (const EngineProtocol* const protocol : {&VllmProtocol(), &SglangProtocol()}) {
    EngineFacts facts;
    ASSERT_TRUE(protocol->ReadFacts(protocol->adapters_page(), kModelsWithAdapters, facts).ok());
    EXPECT_EQ(facts.model, "m");
    EXPECT_EQ(facts.adapters, std::set<std::string>{"poet"}) << "names that no hello can hold are left out";
  }
}

TEST(VllmEngineProtocolTest, ARecordedListTellsTheAdapters) {
  EngineFacts facts;
  ASSERT_TRUE(VllmProtocol().ReadFacts("/v1/models", ReadAnswer("page-v1-models-adapters").body, facts).ok());
  EXPECT_EQ(facts.model, "demo-model");
  EXPECT_EQ(facts.max_context_tokens, 2048U);
  EXPECT_EQ(facts.adapters, (std::set<std::string>{"clerk", "poet"}));
}

TEST(EngineProtocolTest, NoMoreAdaptersThanAHelloHolds) {
  std::string list = R"({"data":[{"id":"m","max_model_len":4096})";
  for (std::size_t i = 0; i <= wire::kMaxAdapters; ++i) list += fmt::format(R"(,{{"id":"a{}","parent":"m"}})", i);
  EngineFacts facts;
  ASSERT_TRUE(ReadModelList(list + "]}", facts).ok());
  EXPECT_EQ(facts.adapters.size(), wire::kMaxAdapters);
}

TEST(EngineProtocolTest, ARequestNamesItsAdapterInTheEnginesWay) {
  wire::Generate generate = GreedyRequest();
  EXPECT_THAT(Sent(VllmProtocol(), generate).call.body, HasSubstr(R"("model":"demo-model")"));
  EXPECT_THAT(Sent(SglangProtocol(), generate).call.body, Not(HasSubstr("lora_path")));
  generate.adapter = "poet";
  EXPECT_THAT(Sent(VllmProtocol(), generate).call.body, HasSubstr(R"("model":"poet")"));
  EXPECT_THAT(Sent(SglangProtocol(), generate).call.body, HasSubstr(R"("lora_path":"poet")"));
}

TEST(SglangEngineProtocolTest, EverySamplingFieldIsSaid) {
  const HttpCall call = Sent(SglangProtocol(), FullRequest(), "grain").call;
  EXPECT_EQ(call.path, "/generate");
  EXPECT_EQ(call.body,
            R"({"rid":"roost-1","input_ids":[5,6,7],"stream":true,"sampling_params":{"max_new_tokens":4,)"
            R"("min_new_tokens":3,"temperature":0.8,"top_p":0.9,"top_k":40,"min_p":0.05,"sampling_seed":8,)"
            R"("repetition_penalty":1.1,"presence_penalty":0.5,"frequency_penalty":-0.5,"logit_bias":{"100":100},)"
            R"("stop_token_ids":[485,9],"ignore_eos":true},"return_logprob":true,"top_logprobs_num":3,)"
            R"("logprob_start_len":-1,"extra_key":"grain","priority":10})");
  EXPECT_THAT(Sent(SglangProtocol(), GreedyRequest()).call.body, HasSubstr(R"("top_k":-1)"));
}

TEST(SglangEngineProtocolTest, ChoicesBecomeARegex) {
  wire::Generate generate = GreedyRequest();
  generate.constraint =
      wire::Constraint{.kind = wire::ConstraintKind::kChoice, .text = R"(["a.b","c|d"])", .field = ""};
  EXPECT_THAT(Sent(SglangProtocol(), generate).call.body, HasSubstr(R"x("regex":"(a\\.b|c\\|d)")x"));
}

TEST(SglangEngineProtocolTest, AnAbortNamesTheRequest) {
  const HttpCall abort = SglangProtocol().BuildAbort("roost-1").value();
  EXPECT_EQ(abort.path, "/abort_request");
  EXPECT_EQ(abort.body, R"({"rid":"roost-1"})");
}

TEST(SglangEngineProtocolTest, PagesTellTheFacts) {
  EngineFacts facts;
  const char* const server = R"({"model_path":"/m","page_size":16,"max_total_num_tokens":1000,"version":"0.5.23",
      "max_running_requests":48,"disable_radix_cache":false,"enable_priority_scheduling":false,"dp_size":1})";
  ASSERT_TRUE(SglangProtocol().ReadFacts("/server_info", server, facts).ok());
  ASSERT_TRUE(SglangProtocol().ReadFacts("/v1/models", R"({"data":[{"id":"m","max_model_len":4096}]})", facts).ok());
  EXPECT_EQ(facts.block_count, 62U);
  EXPECT_EQ(facts.block_tokens, 16U);
  EXPECT_EQ(facts.max_running_requests, 48U);
  EXPECT_EQ(facts.max_context_tokens, 4096U);
  EXPECT_FALSE(facts.takes_priority);
}

TEST(SglangEngineProtocolTest, ARequestNamesItsRank) {
  EngineFacts facts;
  const char* const server = R"({"page_size":16,"max_total_num_tokens":1000,"max_running_requests":48,"dp_size":4})";
  ASSERT_TRUE(SglangProtocol().ReadFacts("/server_info", server, facts).ok());
  ASSERT_EQ(facts.ranks.size(), 4U);
  EXPECT_EQ(facts.max_running_requests, 12U) << "of all ranks together";
  EXPECT_EQ(facts.block_count, 62U);
  facts.rank = facts.ranks[2];
  const wire::Generate generate = GreedyRequest();
  const CallPlan plan{.generate = generate, .facts = facts, .id = "1", .max_tokens = 1};
  EXPECT_THAT(SglangProtocol().BuildRequest(plan)->body, HasSubstr(R"("data_parallel_rank":2)"));
  const char* const page = "sglang:num_running_reqs{dp_rank=\"1\"} 1\nsglang:num_running_reqs{dp_rank=\"2\"} 5\n";
  EXPECT_EQ(SglangProtocol().ReadLoad(page, facts).running_requests, 5U);
  EXPECT_FALSE(SglangProtocol()
                   .ReadFacts("/server_info", R"({"page_size":1,"max_total_num_tokens":9,"dp_size":4000000000})", facts)
                   .ok());
}

}  // namespace
}  // namespace roost::worker::adapters
