// Servers that take the client's own requests and no token ids: llama.cpp, Ollama, LM Studio, MLX and others. All that
// is asked of them is OpenAI's `/v1/models` and `/v1/chat/completions`; llama.cpp's `/props` tells more. Requests and
// answers pass through (forward_calls.h).

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "worker/adapters/answer_json.h"
#include "worker/adapters/engine_protocol.h"
#include "worker/adapters/events/cache_change.h"

namespace roost::worker::adapters::openai {
namespace {

constexpr std::string_view kModelsPage = "/v1/models";
constexpr std::string_view kPropsPage = "/props";
constexpr std::array<std::string_view, 2> kFactPages{kModelsPage, kPropsPage};

// A server that does not tell its context checks its requests itself.
constexpr std::uint32_t kAnyContext = 1U << 20U;
// Nor does it tell its room: that of the texts that a router remembers of one worker.
constexpr std::uint32_t kAnyBlockCount = 1U << 18U;

Error TakesNoTokens() { return InvalidArgument("model", "is behind a server that takes no token ids"); }

class NoAnswer final : public AnswerReader {
 private:
  [[nodiscard]] Result<AnswerPiece> ReadDocument(json::Element) override { return TakesNoTokens(); }
};

// Servers list models in no order that lasts, so the first by name stands for the server.
Result<void> ReadModels(std::string_view body, EngineFacts& facts) {
  ROOST_RETURN_IF_ERROR(ReadModelNames(body, facts));
  if (!facts.aliases.empty() && *facts.aliases.begin() < facts.model) {
    facts.aliases.insert(facts.model);
    facts.model = facts.aliases.extract(facts.aliases.begin()).value();
  }
  facts.version = "server";
  facts.block_tokens = kGrainTokens;
  facts.block_count = kAnyBlockCount;
  if (facts.max_context_tokens == 0) facts.max_context_tokens = kAnyContext;
  return {};
}

class OpenAi final : public EngineProtocol {
 public:
  [[nodiscard]] std::string_view name() const override { return "openai"; }
  [[nodiscard]] bool takes_tokens() const override { return false; }

  [[nodiscard]] std::string_view health_page() const override { return kModelsPage; }
  [[nodiscard]] Duration health_interval() const override { return std::chrono::seconds(2); }
  [[nodiscard]] std::span<const std::string_view> fact_pages() const override { return kFactPages; }
  [[nodiscard]] bool MayLack(std::string_view page) const override { return page == kPropsPage; }
  [[nodiscard]] Result<void> ReadFacts(std::string_view page, std::string_view body,
                                       EngineFacts& facts) const override {
    return page == kModelsPage ? ReadModels(body, facts) : ReadLlamaProps(body, facts);
  }
  [[nodiscard]] std::string_view generate_route() const override { return "/v1/chat/completions"; }
  [[nodiscard]] std::string_view adapters_page() const override { return kModelsPage; }
  [[nodiscard]] std::string_view load_page() const override { return ""; }
  [[nodiscard]] HttpMethod route_question() const override { return HttpMethod::kPost; }
  [[nodiscard]] EngineLoad ReadLoad(std::string_view, const EngineFacts&) const override { return {}; }
  [[nodiscard]] EventDecoder event_decoder() const override { return nullptr; }  // it has no events

  [[nodiscard]] Result<HttpCall> BuildRequest(const CallPlan&) const override { return TakesNoTokens(); }
  [[nodiscard]] std::unique_ptr<AnswerReader> NewReader(const CallPlan&) const override {
    return std::make_unique<NoAnswer>();
  }
  [[nodiscard]] std::optional<HttpCall> BuildAbort(std::string_view) const override { return std::nullopt; }
  [[nodiscard]] std::string_view FieldOf(std::string_view) const override { return ""; }

  // Whatever a request has, the server reads it.
  void Claim(const EngineFacts&, wire::Hello& hello) const override { hello.keeps_prefixes = true; }
};

}  // namespace
}  // namespace roost::worker::adapters::openai

namespace roost::worker::adapters {

const EngineProtocol& OpenAiProtocol() {
  static const openai::OpenAi protocol;
  return protocol;
}

}  // namespace roost::worker::adapters
