// A dispatcher and a responder that record what they are told, and a small model to serve.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/json_writer.h"
#include "common/base/utf8.h"
#include "common/http/responder.h"
#include "common/text/chat_template.h"
#include "common/text/tokenizer.h"
#include "router/api/answers/api_observer.h"
#include "router/fleet/dispatcher.h"
#include "router/fleet/fleet_snapshot.h"
#include "router/text/text_work.h"

namespace roost::router {

// ---- a model whose tokens are bytes ----

inline constexpr TokenId kImStart = 256;  // <|im_start|>
inline constexpr TokenId kImEnd = 257;    // <|im_end|>
inline constexpr TokenId kBos = 258;      // <s>, before every text that is encoded with special tokens
inline constexpr std::uint32_t kByteVocabulary = 259;

// GPT-2's printable stand-in for a byte.
inline std::string ByteCharacter(unsigned byte) {
  const auto printable = [](unsigned b) {
    return (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
  };
  char32_t code = byte;
  if (!printable(byte)) {
    code = 256;
    for (unsigned b = 0; b < byte; ++b) code += printable(b) ? 0 : 1;
  }
  std::string text;
  AppendUtf8(code, text);
  return text;
}

inline std::string ByteTokenizerJson() {
  JsonWriter vocab;
  vocab.BeginObject();
  for (unsigned byte = 0; byte < 256; ++byte) vocab.Key(ByteCharacter(byte)).Number(byte);
  vocab.EndObject();
  JsonWriter added;
  added.BeginArray();
  const std::pair<TokenId, std::string_view> specials[] = {
      {kImStart, "<|im_start|>"}, {kImEnd, "<|im_end|>"}, {kBos, "<s>"}};
  for (const auto& [id, content] : specials) {
    added.BeginObject().Key("id").Number(id).Key("content").String(content);
    for (const char* flag : {"single_word", "lstrip", "rstrip", "normalized"}) added.Key(flag).Bool(false);
    added.Key("special").Bool(true).EndObject();
  }
  added.EndArray();
  return R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":)" + added.Take() +
         R"(,"normalizer":null,"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,)"
         R"("use_regex":true},"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>",)"
         R"("type_id":0}},{"Sequence":{"id":"A","type_id":0}}],"pair":[{"Sequence":{"id":"A","type_id":0}},)"
         R"({"Sequence":{"id":"B","type_id":1}}],"special_tokens":{"<s>":{"id":"<s>","ids":[258],"tokens":["<s>"]}}},)"
         R"("decoder":{"type":"ByteLevel"},"model":{"type":"BPE","dropout":null,"unk_token":null,)"
         R"("continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,"vocab":)" +
         vocab.Take() + R"(,"merges":[]}})";
}

inline std::vector<TokenId> Bytes(std::string_view text) {
  std::vector<TokenId> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

inline constexpr std::string_view kChatMl =
    "{%- for m in messages -%}{{- '<|im_start|>' + m.role + '\\n' -}}"
    "{%- if m.content is string -%}{{- m.content -}}{%- endif -%}"
    "{%- for call in m.tool_calls or [] -%}{{- call.function.name + '(' + call.function.arguments.city + ')' -}}"
    "{%- endfor -%}{{- '<|im_end|>\\n' -}}{%- endfor -%}"
    "{%- if tools -%}{{- 'tools:' + tools[0].function.name + '\\n' -}}{%- endif -%}"
    "{%- if shout is defined -%}{{- shout -}}{%- endif -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}";

inline ServedModel ByteModel() {
  static const std::shared_ptr<const Tokenizer> tokenizer =
      std::move(Tokenizer::FromJson(ByteTokenizerJson(), "byte tokenizer").value());
  ServedModel model;
  model.name = "bytes";
  model.fingerprint = "0123456789abcdef0123456789abcdef";
  model.kv_dtype = "f32";
  model.block_tokens = 4;
  model.max_context_tokens = 200;
  model.sampling = {0.7F, 0.9F, 20};
  model.tokenizer = tokenizer;
  model.chat_template = std::move(ChatTemplate::Parse(kChatMl, "test template").value());
  model.bos_token = "<s>";
  model.eos_token = "<|im_end|>";
  model.created_unix_seconds = 1'700'000'000;
  return model;
}

// ---- the dispatcher ----

class FakeDispatcher final : public Dispatcher {
 public:
  std::shared_ptr<const FleetSnapshot> View() const override {
    ModelDirectory directory;
    directory.has_begun = true;
    directory.models = models;
    for (const auto& model : models) {
      directory.offers[model->name].push_back({.served = model});
      directory.known.emplace(model->name, model->model_name());
    }
    if (expected) directory.joined.insert(*expected);
    if (known) directory.known.emplace(*known, *known);
    auto view = std::make_shared<FleetSnapshot>();
    view->models = std::make_shared<const ModelDirectory>(std::move(directory));
    if (arriving) view->starting.insert(*arriving);
    view->workers = workers;
    view->queues = queues;
    view->transfers = std::make_shared<const std::vector<TransferPair>>(transfers);
    view->requests_pull = requests_pull;
    view->standing = standing;
    view->router_count = router_count;
    view->refusal = no_room;
    return view;
  }
  Result<RequestId> Submit(GenerateSpec spec, std::shared_ptr<GenerationObserver> observer) override {
    if (refusal) return *refusal;
    if (on_submit) on_submit();
    specs.push_back(std::move(spec));
    observers.push_back(std::move(observer));
    return RequestId(specs.size());
  }
  void Cancel(RequestId id) override { cancelled.push_back(id); }
  Result<RequestId> Forward(ForwardSpec spec, std::shared_ptr<ForwardObserver> observer) override {
    if (refusal) return *refusal;
    forwards.push_back(std::move(spec));
    forward_observers.push_back(std::move(observer));
    return RequestId(1000 + forwards.size());
  }
  void Grant(RequestId id, std::size_t bytes) override { granted[id] += bytes; }
  // Workers answer when the test calls `done` with their answers; questions that need no worker are answered at once.
  Result<void> Send(Order order, AnswersDone its_done) override {
    if (auto* const awaited = std::get_if<ModelAwaited>(&order)) return Hold(std::move(its_done));
    if (auto* const question = std::get_if<DecisionsQuestion>(&order)) {
      its_done(Find(*question));
      return {};
    }
    if (refusal) return *refusal;
    if (auto* const query = std::get_if<PromptQuery>(&order)) {
      queries.push_back(std::move(*query));
      its_done(AnswersOf(match));
      return {};
    }
    done = std::move(its_done);
    if (auto* const pin = std::get_if<PinOrder>(&order)) orders.push_back(std::move(*pin));
    if (auto* const warm = std::get_if<WarmOrder>(&order)) warm_orders.push_back(std::move(*warm));
    if (auto* const evict = std::get_if<EvictOrder>(&order)) evict_orders.push_back(std::move(*evict));
    if (auto* const cordon = std::get_if<CordonOrder>(&order)) cordon_orders.push_back(std::move(*cordon));
    if (auto* const question = std::get_if<PrefixesQuestion>(&order)) questions.push_back(std::move(*question));
    return {};
  }

  // A worker takes the request and has `cached` tokens of its prompt.
  void Dispatch(std::uint32_t cached, std::string worker_id = "w1") {
    Decision decision;
    decision.matched_tokens = cached;
    observers.back()->OnDispatched({std::move(worker_id), std::move(decision)});
  }
  void Produce(std::vector<TokenId> tokens, std::optional<std::uint32_t> cached = std::nullopt) {
    observers.back()->OnTokens({std::move(tokens), cached});
  }
  // With what the request added to the worker's cache.
  void ProduceWriting(std::vector<TokenId> tokens, std::uint32_t cached, std::uint32_t written) {
    observers.back()->OnTokens(
        {.tokens = std::move(tokens), .cached_token_count = cached, .written_token_count = written});
  }
  void ProduceFor(std::uint32_t choice, std::vector<TokenId> tokens, std::optional<std::uint32_t> cached = {}) {
    observers.back()->OnTokens({std::move(tokens), cached, choice});
  }
  void FinishChoice(std::uint32_t choice, wire::FinishReason reason) {
    observers.back()->OnChoiceEnd({choice, reason});
  }
  void Finish(wire::FinishReason reason, std::optional<Error> error = std::nullopt) {
    observers.back()->OnEnd({reason, std::move(error)});
  }

  std::vector<std::shared_ptr<const ServedModel>> models;
  std::optional<std::string> expected;  // a model that is expected
  std::optional<std::string> known;     // a model that a worker has served
  std::optional<std::string> arriving;  // a model that a worker is about to bring
  bool refuses_to_hold = false;
  std::vector<std::function<void()>> held;
  FleetStanding standing;
  std::vector<WorkerStatus> workers;
  std::vector<QueueStatus> queues;
  std::vector<TransferPair> transfers;
  bool requests_pull = true;
  std::uint32_t router_count = 1;
  std::optional<Error> refusal;
  std::optional<Error> no_room;
  std::function<void()> on_submit;
  std::vector<GenerateSpec> specs;
  std::vector<std::shared_ptr<GenerationObserver>> observers;
  std::vector<RequestId> cancelled;
  std::vector<ForwardSpec> forwards;
  std::vector<std::shared_ptr<ForwardObserver>> forward_observers;
  std::map<RequestId, std::size_t> granted;
  std::vector<PinOrder> orders;
  std::vector<PrefixesQuestion> questions;
  std::vector<WarmOrder> warm_orders;
  std::vector<EvictOrder> evict_orders;
  std::vector<CordonOrder> cordon_orders;
  std::vector<PromptQuery> queries;
  AnswersDone done;  // of the last order
  PromptMatch match;
  std::vector<DecisionRecord> log;

 private:
  Result<void> Hold(AnswersDone go) {
    if (refuses_to_hold) return Error{ErrorCode::kOverloaded, "too many wait", ""};
    held.emplace_back([go = std::move(go)] { go({}); });
    return {};
  }
  std::vector<WorkerAnswer> Find(const DecisionsQuestion& question) const {
    std::vector<WorkerAnswer> found;
    const auto* const most = std::get_if<std::size_t>(&question.which);
    for (const DecisionRecord& record : log) {
      const bool is_asked =
          most != nullptr ? found.size() < *most : record.answer_id == std::get<std::string>(question.which);
      if (is_asked) found.push_back({record.worker_id, record});
    }
    return found;
  }
};

// ---- the responder ----

class FakeResponder final : public Responder {
 public:
  void Respond(HttpResponse answer) override {
    if (done()) return;
    Finish();
    response = std::move(answer);
  }
  void PrepareStream(std::vector<HttpHeader> headers) override {
    if (!done() && frames.empty()) stream_headers = std::move(headers);
  }
  void Send(std::string more) override {
    if (!done()) frames += more;
  }
  void BeginBytes(BytesHead head) override {
    if (!done() && frames.empty()) bytes_head = std::move(head);
  }
  void End() override { Finish(); }
  FailureShape Fail(HttpResponse answer, std::string more) override {
    if (done()) return FailureShape::kResponse;
    if (bytes_head) return cut_off = true, Finish(), FailureShape::kFrames;
    const bool is_open = frames.empty() && !commented;
    is_open ? Respond(std::move(answer)) : Send(std::move(more));
    Finish();
    return is_open ? FailureShape::kResponse : FailureShape::kFrames;
  }
  void OnClosed(std::function<void()> callback) override {
    if (closed) return callback();
    if (ended) return;
    on_closed_ = std::move(callback);
  }
  void Post(std::function<void()> function) override { function(); }

  // The client disconnects.
  void Close() {
    if (done()) return;
    closed = true;
    if (bytes_head) bytes_head->on_written = nullptr;
    if (const auto callback = std::exchange(on_closed_, nullptr)) callback();
  }

  [[nodiscard]] bool done() const { return ended || closed; }

  std::optional<HttpResponse> response;
  std::vector<HttpHeader> stream_headers;
  std::optional<BytesHead> bytes_head;
  bool cut_off = false;  // bytes that had begun
  std::string frames;
  bool commented = false;  // a keep-alive comment has sent the head
  bool ended = false;
  bool closed = false;

 private:
  void Finish() {
    ended = true;
    on_closed_ = nullptr;
    if (bytes_head) bytes_head->on_written = nullptr;
  }

  std::function<void()> on_closed_;
};

// ---- text work ----

// Runs a job at once, or keeps it until the test runs it.
class FakeTextWork final : public TextWork {
 public:
  bool TryPost(std::string_view tenant, std::size_t bytes, std::function<void()> job) override {
    tenants.emplace_back(tenant);
    sizes.push_back(bytes);
    if (is_full) return false;
    if (!holds) {
      job();
    } else {
      held.push_back(std::move(job));
    }
    return true;
  }
  void DoHeld() {
    for (const auto& job : std::exchange(held, {})) job();
  }

  bool is_full = false;
  bool holds = false;
  std::vector<std::string> tenants;
  std::vector<std::size_t> sizes;
  std::vector<std::function<void()>> held;
};

// ---- the observer ----

class RecordingObserver final : public ApiObserver {
 public:
  void OnUnknownFields(std::uint32_t count) override { unknown_fields += count; }
  void OnDroppedReasoning(std::uint32_t count) override { dropped_reasoning += count; }
  void OnAnswer(std::string_view route, int status) override { answers.push_back(fmt::format("{} {}", route, status)); }
  void OnGenerationStart(std::string_view) override { ++active; }
  void OnGenerationEnd(const GenerationSummary& summary) override {
    --active;
    ends.push_back(fmt::format("{} prompt={} completion={} cached={}", NameOf(summary.outcome), summary.prompt_tokens,
                               summary.completion_tokens, summary.cached_tokens.value_or(0)));
  }
  void OnUnserved(const UnservedGeneration& unserved) override {
    unserveds.push_back(
        fmt::format("{} {}{}", unserved.model, TraitsOf(unserved.error).name, unserved.is_known ? "" : ", not known"));
  }
  void OnFirstToken(std::string_view, double seconds) override { first_token_seconds.push_back(seconds); }
  void OnLaterTokens(std::string_view, std::uint32_t token_count, double seconds) override {
    later_tokens.emplace_back(token_count, seconds);
  }

  std::uint32_t unknown_fields = 0;
  std::uint32_t dropped_reasoning = 0;
  std::vector<std::string> answers;
  std::vector<std::string> ends;
  std::vector<std::string> unserveds;
  int active = 0;
  std::vector<double> first_token_seconds;
  std::vector<std::pair<std::uint32_t, double>> later_tokens;
};

}  // namespace roost::router
