// vLLM's `/v1/completions` with token ids both ways. vllm_dialect.cc holds what is sent and the pages, vllm_answer.h
// what comes back. Recorded from 0.32.0: tests/engines/recordings. Needs 0.11 or later, for `return_token_ids`.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "worker/foreign/dialect.h"

namespace roost::worker::foreign::vllm {

class Vllm final : public Dialect {
 public:
  [[nodiscard]] std::string_view name() const override { return "vllm"; }

  [[nodiscard]] std::string_view health_page() const override { return "/health"; }
  [[nodiscard]] Duration health_interval() const override;
  [[nodiscard]] std::span<const std::string_view> fact_pages() const override;
  [[nodiscard]] Result<void> ReadFacts(std::string_view page, std::string_view body, EngineFacts& facts) const override;
  [[nodiscard]] std::string_view adapters_page() const override { return "/v1/models"; }
  [[nodiscard]] std::string_view load_page() const override { return "/metrics"; }
  [[nodiscard]] EngineLoad ReadLoad(std::string_view body) const override;
  [[nodiscard]] EventDecoder event_decoder() const override;

  [[nodiscard]] Result<HttpCall> BuildRequest(const CallPlan& plan) const override;
  [[nodiscard]] std::unique_ptr<AnswerReader> NewReader(const CallPlan& plan) const override;
  // The end of the connection aborts.
  [[nodiscard]] std::optional<HttpCall> BuildAbort(std::string_view) const override { return std::nullopt; }
  [[nodiscard]] std::string_view FieldOf(std::string_view parameter) const override;
};

}  // namespace roost::worker::foreign::vllm
