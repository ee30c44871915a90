// Reads SGLang's answers. `output_ids` and the lists of log probabilities hold all tokens so far, or, with the engine's
// flag incremental-streaming-output, the new ones; `meta_info.completion_tokens` counts all in both cases, so the last
// completion_tokens - (those seen) entries are new.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "worker/adapters/engine_protocol.h"

namespace roost::worker::adapters::sglang {

class SglangAnswer final : public AnswerReader {
 public:
  struct Wanted {
    std::optional<std::uint32_t> output_logprobs = {};
    std::optional<std::uint32_t> prompt_logprobs = {};
  };
  explicit SglangAnswer(Wanted wanted) : wanted_(wanted) {}

 private:
  [[nodiscard]] Result<AnswerPiece> ReadDocument(json::Element document) override;
  [[nodiscard]] Result<void> ReadNewTokens(json::Element document, json::Object meta, ChoicePiece& piece);
  [[nodiscard]] Result<void> ReadPromptOnce(json::Object meta, ChoicePiece& piece);

  const Wanted wanted_;
  std::uint32_t seen_tokens_ = 0;
  bool prompt_told_ = false;
};

}  // namespace roost::worker::adapters::sglang
