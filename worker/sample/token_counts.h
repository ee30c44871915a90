// The tokens that a request's penalties count. The device needs these counts before the first draw of an output, and
// again when it has lost them; after that it counts each drawn token itself.
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
// True if any penalty changes a logit.
[[nodiscard]] bool Penalizes(const kernels::OutputPenalties& penalties);

// Appends one count for each token of a text, ordered by token. The last `output_count` tokens (all, if there are
// fewer) are output, those before them the prompt. Prompt tokens that change nothing are left out. O(text · log text).
void AppendCounts(const kernels::OutputPenalties& penalties, std::span<const TokenId> text, std::size_t output_count,
                  std::vector<kernels::CountedToken>& counted);

}  // namespace roost::worker
