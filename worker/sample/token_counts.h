// What the penalties of a request count when its output is drawn from for the first time, and again when the device has
// lost its counts: from then on they grow on the device, token by token.
//
//   token           3           8           17          40
//   in the prompt   yes         no          yes         yes      for the repetition penalty
//   in the output   0           1           1           3        for all three
//
// Source: as vLLM (vllm/model_executor/layers/utils.py, apply_penalties) and Hugging Face transformers do, and OpenAI's
// API for presence and frequency.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "common/base/ids.h"
#include "common/wire/messages.h"
#include "kernels/sample.h"

namespace roost::worker {

// `sampling` is valid; see ValidateSampling.
[[nodiscard]] kernels::OutputPenalties PenaltiesOf(const wire::Sampling& sampling);
// Do they change anything?
[[nodiscard]] bool Penalizes(const kernels::OutputPenalties& penalties);

// Appends the tokens that penalties count in a text whose last `output_count` tokens (all, if it has fewer) are output,
// by token, each once. Tokens of the prompt are left out where they change nothing. O(text · log text).
void AppendCounts(const kernels::OutputPenalties& penalties, std::span<const TokenId> text, std::size_t output_count,
                  std::vector<kernels::CountedToken>& counted);

}  // namespace roost::worker
