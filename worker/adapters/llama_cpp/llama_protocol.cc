// llama.cpp's `/completion` with token ids both ways, each request in the slot that slot_table.h has chosen. This file
// holds what is sent, what comes back, and the pages.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/json_writer.h"
#include "common/grammar/constraint_rules.h"
#include "common/json/json_read.h"
#include "common/text/byte_level.h"
#include "common/text/tokenizer.h"
#include "common/wire/messages.h"
#include "worker/adapters/answer_json.h"
#include "worker/adapters/engine_error.h"
#include "worker/adapters/engine_protocol.h"
#include "worker/adapters/engine_sampling.h"
#include "worker/adapters/events/cache_change.h"
#include "worker/adapters/slots/slot_table.h"

namespace roost::worker::adapters {
namespace {

constexpr std::uint32_t kMaxSlots = 4096;
// llama.cpp's slots where it was not told how many.
constexpr std::uint32_t kDefaultSlots = 4;

// Flags of llama.cpp that would let it find more prompts again.
std::string AdviceOf(json::Element props, std::uint32_t slots, bool shares_context) {
  std::string advice;
  const auto add = [&advice](std::string_view text) {
    advice += fmt::format("{}{}", advice.empty() ? "" : "; ", text);
  };
  if (slots == 1) {
    add("it has one slot, which holds one chat: give it -np N for N chats at a time, with N times the context in -c");
  } else if (shares_context) {
    add("its slots may share one context, as they do without -np, and then idle ones are cleared: start it with -np 4 "
        "and "
        "-c, and with --cache-ram MIB for chats that do not fit");
  }
  if (!json::At<bool>(props, "endpoint_slots").value_or(true)) {
    add("start it with --slots, so that its slots can be looked at");
  }
  return advice;
}

}  // namespace

Result<void> ReadLlamaProps(std::string_view body, EngineFacts& facts) {
  simdjson::dom::parser parser;
  json::Element props;
  if (parser.parse(body.data(), body.size()).get(props) != simdjson::SUCCESS) return {};
  const std::uint32_t slots = json::At<std::uint32_t>(props, "total_slots").value_or(0);
  if (slots == 0 || slots > kMaxSlots) return {};
  facts.max_running_requests = slots;
  const std::uint32_t context = json::At<std::uint32_t>(props, "/default_generation_settings/n_ctx").value_or(0);
  // The model's own, as the list tells it: slots of their own would have a part of it each.
  const bool shares_context = slots == kDefaultSlots && context >= facts.max_context_tokens;
  if (context > 0) facts.max_context_tokens = context;
  facts.version = fmt::format("llama.cpp {}", json::At<std::string_view>(props, "build_info").value_or("unknown"));
  facts.advice = AdviceOf(props, slots, shares_context);
  facts.slot_count = shares_context ? 0 : slots;
  facts.model_file = json::At<std::string_view>(props, "model_path").value_or("");
  return {};
}

namespace llama_cpp {
namespace {

constexpr std::string_view kModelsPage = "/v1/models";
constexpr std::string_view kPropsPage = "/props";
constexpr std::string_view kSlotsPage = "/slots";
constexpr std::array<std::string_view, 2> kFactPages{kModelsPage, kPropsPage};
constexpr std::size_t kMaxAnswerBytes = std::size_t{64} << 20U;

constexpr SamplingFieldName kOtherNames[] = {{"max_tokens", "n_predict"}, {"repetition_penalty", "repeat_penalty"}};
constexpr SamplingFieldNames kFieldNames{.other_names = kOtherNames, .seed_bits = 31};

// `--chat-template` and `--chat-template-file` replace those of the model's file.
void ReadTemplates(std::string_view body, EngineFacts& facts) {
  simdjson::dom::parser parser;
  json::Element props;
  if (parser.parse(body.data(), body.size()).get(props) != simdjson::SUCCESS) return;
  facts.chat_template = json::At<std::string_view>(props, "chat_template").value_or("");
  facts.tool_template = json::At<std::string_view>(props, "chat_template_tool_use").value_or("");
}

Result<void> ReadProps(std::string_view body, EngineFacts& facts) {
  ROOST_RETURN_IF_ERROR(ReadLlamaProps(body, facts));
  if (!facts.max_running_requests || facts.max_context_tokens == 0) {
    return Unreadable("/props tells no total_slots and n_ctx: it is no llama.cpp server, or one of several models");
  }
  ReadTemplates(body, facts);
  facts.version.erase(0, facts.version.find(' ') + 1);  // the protocol has the name
  facts.block_tokens = kGrainTokens;
  constexpr std::uint64_t kMost = std::uint64_t{1} << 28U;
  const std::uint64_t blocks = std::uint64_t{SlotTable::kRoomFactor} * *facts.max_running_requests *
                               (facts.max_context_tokens / kGrainTokens + 1);
  facts.block_count = static_cast<std::uint32_t>(std::min(blocks, kMost));
  return {};
}

Error CanNot(const wire::Constraint& constraint, std::string_view what) {
  return InvalidArgument(constraint.field, "llama.cpp's server can not constrain output to {}", what);
}

Result<void> WriteConstraint(JsonWriter& writer, const wire::Constraint& constraint) {
  if (constraint.kind == wire::ConstraintKind::kJson) {
    writer.Key("json_schema").BeginObject().Key("type").String("object").EndObject();
    return {};
  }
  if (constraint.kind == wire::ConstraintKind::kJsonSchema) {
    if (!json::Document(constraint.text, json::Document::KeepNumbers()).ok()) {
      return InvalidArgument(constraint.field, "it is no JSON");
    }
    writer.Key("json_schema").Raw(constraint.text);
    return {};
  }
  ROOST_ASSIGN_OR_RETURN(const grammar::LibraryInput input, grammar::LibraryInputOf(constraint));
  if (input.form == grammar::LibraryForm::kRegex) return CanNot(constraint, "a regular expression");
  if (input.form != grammar::LibraryForm::kGrammar) return CanNot(constraint, "a structural tag");
  writer.Key("grammar").String(input.text);
  return {};
}

// Reads the answers of llama.cpp's `/completion`: one token an event, the end with what was found of the prompt.
//
// A character may be several tokens. The server tells only the last of them, with the text of all and with how many
// there are by now. The others are found by their bytes: which tokens of the model, so many, make this text?
class LlamaAnswer final : public AnswerReader {
 public:
  struct Wanted {
    std::optional<std::uint32_t> output_logprobs = {};
    std::vector<TokenId> stop_tokens = {};
    const Tokenizer* tokenizer = nullptr;  // null: tokens that are not told are left out
  };
  explicit LlamaAnswer(Wanted wanted);

 private:
  [[nodiscard]] Result<AnswerPiece> ReadDocument(json::Element document) override;
  [[nodiscard]] Result<ChoicePiece> ReadTold(json::Element document);
  void AddUntold(json::Element document, ChoicePiece& piece) const;
  [[nodiscard]] bool IsStop(TokenId token) const;
  // The pieces that were held back, before the new one.
  [[nodiscard]] ChoicePiece TakeHeld(ChoicePiece piece);

  const Wanted wanted_;
  std::uint32_t told_ = 0;                // tokens so far
  std::optional<ChoicePiece> held_ = {};  // may end in a stop token
};

// A character has at most four bytes; tokens that end inside one may go on for a few.
constexpr std::size_t kMaxUntoldBytes = 64;

// As the vocabulary of either kind of BPE writes it: in the byte-level alphabet, as <0xE2>, or as it is.
std::optional<TokenId> TokenOfBytes(const Tokenizer& tokenizer, std::string_view bytes) {
  std::string byte_level;
  text::AppendByteLevel(bytes, byte_level);
  std::vector<std::string> names{byte_level, std::string(bytes)};
  if (bytes.size() == 1) names.push_back(fmt::format("<0x{:02X}>", static_cast<unsigned char>(bytes.front())));
  for (const std::string& name : names) {
    const std::optional<TokenId> token = tokenizer.IdOf(name);
    if (token && tokenizer.BytesOf(*token) == bytes) return token;
  }
  return std::nullopt;
}

// {"id", "logprob", …}
Result<wire::TokenLogprob> ReadLogprob(json::Element entry) {
  const std::optional<std::uint32_t> token = json::At<std::uint32_t>(entry, "id");
  const std::optional<double> logprob = json::At<double>(entry, "logprob");
  if (!token || !logprob) return Unreadable("a log probability has no id and logprob");
  return wire::TokenLogprob{*token, static_cast<float>(*logprob)};
}

// [{"id", "logprob", "top_logprobs": […]}, …], one for each of `tokens`, or for the last of them: none is told of the
// others of a character that is several tokens, which get the least.
Result<std::vector<wire::TokenLogprobs>> ReadLogprobs(json::Element document, const std::vector<TokenId>& tokens,
                                                      std::uint32_t wanted) {
  const std::vector<json::Element> told = json::ElementsAt(document, "completion_probabilities");
  if (told.size() > tokens.size()) return Unreadable("it has more log probabilities than tokens");
  std::vector<wire::TokenLogprobs> positions(tokens.size() - told.size(),
                                             {.logprob = wire::kMinLogprob, .rank = wanted + 1, .top = {}});
  for (const json::Element entry : told) {
    ROOST_ASSIGN_OR_RETURN(const wire::TokenLogprob own, ReadLogprob(entry));
    std::vector<wire::TokenLogprob> likeliest;
    for (const json::Element other : json::ElementsAt(entry, "top_logprobs")) {
      ROOST_ASSIGN_OR_RETURN(const wire::TokenLogprob read, ReadLogprob(other));
      likeliest.push_back(read);
    }
    positions.push_back(Ranked(own, std::move(likeliest), wanted, std::nullopt));
  }
  return positions;
}

ChoiceEnd EndOf(std::string_view type) {
  if (type == "limit") return {.reason = wire::FinishReason::kLength};
  if (type == "eos" || type == "word") return {.reason = wire::FinishReason::kStop};
  return {.reason = wire::FinishReason::kError,
          .error = Unavailable(fmt::format("the engine ended the request with '{}'", type))};
}

// `count` tokens that make the text, the first way that is found; none if there is none.
std::vector<TokenId> TokensOfBytes(const Tokenizer& tokenizer, std::string_view text, std::uint32_t count) {
  const std::size_t size = text.size();
  if (count == 0 || count > size || size > kMaxUntoldBytes) return {};
  // ways[n][i]: the size of the first of n tokens that make the text from i on; 0: there is none
  std::vector<std::vector<std::size_t>> ways(count + 1, std::vector<std::size_t>(size + 1));
  ways[0][size] = 1;
  for (std::uint32_t n = 1; n <= count; ++n) {
    for (std::size_t i = 0; i < size; ++i) {
      for (std::size_t part = size - i; part > 0 && ways[n][i] == 0; --part) {
        if (ways[n - 1][i + part] > 0 && TokenOfBytes(tokenizer, text.substr(i, part))) ways[n][i] = part;
      }
    }
  }
  std::vector<TokenId> tokens;
  for (std::size_t at = 0; tokens.size() < count;) {
    const std::size_t part = ways[count - tokens.size()][at];
    if (part == 0) return {};
    tokens.push_back(*TokenOfBytes(tokenizer, text.substr(at, part)));
    at += part;
  }
  return tokens;
}

LlamaAnswer::LlamaAnswer(Wanted wanted) : wanted_(std::move(wanted)) {}

bool LlamaAnswer::IsStop(TokenId token) const {
  return std::find(wanted_.stop_tokens.begin(), wanted_.stop_tokens.end(), token) != wanted_.stop_tokens.end();
}

// {"prompt_progress": {"cache", …}} before the first token; {"tokens", "tokens_predicted", …}; {"stop": true,
// "stop_type", "timings": {"cache_n", …}} at the end.
Result<AnswerPiece> LlamaAnswer::ReadDocument(json::Element document) {
  AnswerPiece answer;
  answer.complaint = ReadComplaint(document, 500);
  if (answer.complaint) return answer;
  if (json::At<json::Object>(document, "prompt_progress")) {
    answer.cached_tokens = json::At<std::uint32_t>(document, "/prompt_progress/cache");
    return answer;
  }
  ROOST_ASSIGN_OR_RETURN(ChoicePiece piece, ReadTold(document));
  const bool is_end = json::At<bool>(document, "stop").value_or(false);
  const bool had_stop = held_ && IsStop(held_->tokens.back());
  if (had_stop && !is_end && !piece.tokens.empty()) {  // the engine takes it for one of the text
    piece = *std::exchange(held_, std::nullopt);
    answer.is_cut = true;
  } else if (held_) {
    piece = TakeHeld(std::move(piece));
  }
  answer.is_last = is_end || answer.is_cut;
  if (is_end) {
    answer.cached_tokens = json::At<std::uint32_t>(document, "/timings/cache_n");
    piece.end = EndOf(json::At<std::string_view>(document, "stop_type").value_or(""));
  }
  if (had_stop && answer.is_last) piece.end = ChoiceEnd{.reason = wire::FinishReason::kStop};
  const bool has_text = !json::At<std::string_view>(document, "content").value_or("").empty();
  if (!answer.is_last && !piece.tokens.empty() && (!has_text || IsStop(piece.tokens.back()))) {
    held_ = std::move(piece);  // the next event tells whether it ends the answer
    return answer;
  }
  if (piece.end && piece.end->reason == wire::FinishReason::kStop && !piece.tokens.empty()) {
    piece.end->stop_token = piece.tokens.back();
    piece.tokens.pop_back();
    if (!piece.logprobs.empty()) piece.logprobs.pop_back();
  }
  answer.choices.push_back(std::move(piece));
  return answer;
}

Result<ChoicePiece> LlamaAnswer::ReadTold(json::Element document) {
  ChoicePiece piece;
  const auto tokens = json::At<json::Array>(document, "tokens");
  if (!tokens) return Unreadable("it has no tokens");
  ROOST_ASSIGN_OR_RETURN(piece.tokens, ReadTokens(*tokens));
  AddUntold(document, piece);
  told_ = std::max<std::uint32_t>(json::At<std::uint32_t>(document, "tokens_predicted").value_or(0),
                                  told_ + static_cast<std::uint32_t>(piece.tokens.size()));
  if (wanted_.output_logprobs && !piece.tokens.empty()) {
    ROOST_ASSIGN_OR_RETURN(piece.logprobs, ReadLogprobs(document, piece.tokens, *wanted_.output_logprobs));
  }
  return piece;
}

void LlamaAnswer::AddUntold(json::Element document, ChoicePiece& piece) const {
  const std::uint64_t known = std::uint64_t{told_} + piece.tokens.size();
  const std::uint32_t all = json::At<std::uint32_t>(document, "tokens_predicted").value_or(0);
  piece.has_untold = all > known;
  if (!piece.has_untold || piece.tokens.empty() || wanted_.tokenizer == nullptr) return;
  const std::string_view text = json::At<std::string_view>(document, "content").value_or("");
  const std::string last = wanted_.tokenizer->BytesOf(piece.tokens.back());
  if (!text.ends_with(last)) return;
  const std::string_view rest = text.substr(0, text.size() - last.size());
  const std::vector<TokenId> untold = TokensOfBytes(
      *wanted_.tokenizer, rest, static_cast<std::uint32_t>(std::min<std::uint64_t>(all - known, rest.size())));
  piece.tokens.insert(piece.tokens.begin(), untold.begin(), untold.end());
}

ChoicePiece LlamaAnswer::TakeHeld(ChoicePiece piece) {
  ChoicePiece held = *std::exchange(held_, std::nullopt);
  held.tokens.insert(held.tokens.end(), piece.tokens.begin(), piece.tokens.end());
  std::move(piece.logprobs.begin(), piece.logprobs.end(), std::back_inserter(held.logprobs));
  held.has_untold = held.has_untold || piece.has_untold;
  return held;
}

class LlamaCpp final : public EngineProtocol {
 public:
  [[nodiscard]] std::string_view name() const override { return "llama.cpp"; }
  [[nodiscard]] bool tells_template() const override { return true; }

  [[nodiscard]] std::string_view health_page() const override { return "/health"; }
  [[nodiscard]] Duration health_interval() const override { return std::chrono::seconds(1); }
  [[nodiscard]] std::span<const std::string_view> fact_pages() const override { return kFactPages; }
  [[nodiscard]] Result<void> ReadFacts(std::string_view page, std::string_view body,
                                       EngineFacts& facts) const override {
    return page == kModelsPage ? ReadModelNames(body, facts) : ReadProps(body, facts);
  }
  [[nodiscard]] std::string_view generate_route() const override { return "/v1/chat/completions"; }
  [[nodiscard]] std::string_view adapters_page() const override { return kModelsPage; }
  [[nodiscard]] std::string_view load_page() const override { return kSlotsPage; }
  [[nodiscard]] HttpMethod route_question() const override { return HttpMethod::kPost; }
  [[nodiscard]] EngineLoad ReadLoad(std::string_view body, const EngineFacts& facts) const override;
  [[nodiscard]] EventDecoder event_decoder() const override { return nullptr; }  // it has no events

  [[nodiscard]] Result<HttpCall> BuildRequest(const CallPlan& plan) const override;
  [[nodiscard]] std::unique_ptr<AnswerReader> NewReader(const CallPlan& plan) const override;
  // The end of the connection aborts.
  [[nodiscard]] std::optional<HttpCall> BuildAbort(std::string_view) const override { return std::nullopt; }
  [[nodiscard]] std::string_view FieldOf(std::string_view parameter) const override {
    return RequestNameOf(kFieldNames, parameter);
  }

  void Claim(const EngineFacts& facts, wire::Hello& hello) const override;
};

EngineLoad LlamaCpp::ReadLoad(std::string_view body, const EngineFacts& facts) const {
  EngineLoad load;
  simdjson::dom::parser parser;
  json::Array slots;
  if (parser.parse(body.data(), body.size()).get(slots) != simdjson::SUCCESS) return load;
  std::uint32_t busy = 0;
  double held = 0;
  for (const json::Element slot : slots) {
    if (load.slots.size() == kMaxSlots) break;
    SlotState& state = load.slots.emplace_back();
    state.is_busy = json::At<bool>(slot, "is_processing").value_or(false);
    state.task = json::At<std::uint32_t>(slot, "id_task");
    state.kept_tokens = json::At<std::uint32_t>(slot, "n_prompt_tokens_cache").value_or(0);
    state.held_tokens = json::At<std::uint32_t>(slot, "n_prompt_tokens").value_or(0);
    if (!state.is_busy) continue;
    ++busy;
    held += state.held_tokens;
  }
  load.running_requests = busy;
  const double room = static_cast<double>(facts.max_context_tokens) * static_cast<double>(load.slots.size());
  if (room > 0) load.used_share = std::min(held / room, 1.0);
  return load;
}

Result<HttpCall> LlamaCpp::BuildRequest(const CallPlan& plan) const {
  const wire::Generate& generate = plan.generate;
  if (plan.scores_prompt) {
    return InvalidArgument("prompt_logprobs", "llama.cpp's server does not tell log probabilities of the prompt");
  }
  JsonWriter json;
  json.BeginObject().Key("prompt").BeginArray();
  for (const TokenId token : generate.prompt) json.Number(token);
  json.EndArray();
  json.Key("stream").Bool(plan.is_streamed).Key("return_tokens").Bool(true);
  if (plan.is_streamed) json.Key("return_progress").Bool(true);
  json.Key("cache_prompt").Bool(plan.finds_prefix);
  if (plan.slot) json.Key("id_slot").Number(*plan.slot);
  // In the order of other engines, and without those that Roost has not.
  json.Key("samplers").BeginArray();
  for (const char* const sampler : {"penalties", "temperature", "top_k", "top_p", "min_p"}) json.String(sampler);
  json.EndArray();
  json.Key("repeat_last_n").Number(plan.facts.max_context_tokens);
  WriteSamplingFields(json, plan, kFieldNames);
  if (generate.output_logprobs) json.Key("n_probs").Number(std::max(*generate.output_logprobs, 1U));
  if (generate.constraint) ROOST_RETURN_IF_ERROR(WriteConstraint(json, *generate.constraint));
  json.EndObject();
  return HttpCall{.method = HttpMethod::kPost,
                  .path = "/completion",
                  .body = json.Take(),
                  .max_body_bytes = plan.is_streamed ? kUnlimitedBody : kMaxAnswerBytes};
}

std::unique_ptr<AnswerReader> LlamaCpp::NewReader(const CallPlan& plan) const {
  const wire::Generate& generate = plan.generate;
  return std::make_unique<LlamaAnswer>(
      LlamaAnswer::Wanted{.output_logprobs = generate.output_logprobs,
                          .stop_tokens = {generate.stop_tokens.begin(), generate.stop_tokens.end()},
                          .tokenizer = plan.tokenizer});
}

// It has no least number of tokens.
void LlamaCpp::Claim(const EngineFacts& facts, wire::Hello& hello) const {
  EngineProtocol::Claim(facts, hello);
  hello.features.erase(wire::Feature::kMinOutputTokens);
}

}  // namespace
}  // namespace llama_cpp

const EngineProtocol& LlamaCppProtocol() {
  static const llama_cpp::LlamaCpp protocol;
  return protocol;
}

}  // namespace roost::worker::adapters
