// SGLang's `/generate` with token ids both ways, as its documentation and source (0.5.23) describe it; not recorded
// from a running engine. sglang_dialect.cc holds what is sent and the pages, sglang_answer.h what comes back.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "worker/foreign/dialect.h"

namespace roost::worker::foreign::sglang {

class Sglang final : public Dialect {
 public:
  [[nodiscard]] std::string_view name() const override { return "sglang"; }

  [[nodiscard]] std::string_view health_page() const override { return "/health"; }
  // Its health page runs a small request while the engine is idle.
  [[nodiscard]] Duration health_interval() const override;
  [[nodiscard]] std::span<const std::string_view> fact_pages() const override;
  [[nodiscard]] Result<void> ReadFacts(std::string_view page, std::string_view body, EngineFacts& facts) const override;
  // Needs the engine's flag enable-metrics; without it the worker knows its own requests only.
  [[nodiscard]] std::string_view adapters_page() const override { return "/v1/models"; }
  [[nodiscard]] std::string_view load_page() const override { return "/metrics"; }
  [[nodiscard]] EngineLoad ReadLoad(std::string_view body) const override;
  [[nodiscard]] EventDecoder event_decoder() const override;

  [[nodiscard]] Result<HttpCall> BuildRequest(const CallPlan& plan) const override;
  [[nodiscard]] std::unique_ptr<AnswerReader> NewReader(const CallPlan& plan) const override;
  [[nodiscard]] std::optional<HttpCall> BuildAbort(std::string_view id) const override;
  [[nodiscard]] std::string_view FieldOf(std::string_view parameter) const override;
};

}  // namespace roost::worker::foreign::sglang
