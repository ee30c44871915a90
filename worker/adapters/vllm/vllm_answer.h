// Reads vLLM's answers: chunks of a streamed completion, whole ones, and those of `/inference/v1/generate`, whose
// tokens and ends have the same names.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "worker/adapters/engine_protocol.h"

namespace roost::worker::adapters::vllm {

class VllmAnswer final : public AnswerReader {
 public:
  struct Wanted {
    std::optional<std::uint32_t> output_logprobs = {};
    std::optional<std::uint32_t> prompt_logprobs = {};
    std::vector<TokenId> prompt = {};  // with prompt_logprobs
  };
  explicit VllmAnswer(Wanted wanted);

 private:
  [[nodiscard]] Result<AnswerPiece> ReadDocument(json::Element document) override;
  [[nodiscard]] Result<ChoicePiece> ReadChoice(json::Element choice) const;

  const Wanted wanted_;
};

}  // namespace roost::worker::adapters::vllm
