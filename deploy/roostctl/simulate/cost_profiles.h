// Service models by name, for `roostctl simulate --costs`. The source of each one's numbers stands beside them.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

#include "deploy/roostctl/simulate/service_model.h"

namespace roost::simulate {

struct CostProfile {
  std::string_view name;
  ServiceModel service;
};

// Llama-3.1-8B in bf16 on one H100 under vLLM. The time between tokens is 6.44 ms + 43.7 ns per context token ("The
// state of FP8 KV-cache and attention quantization in vLLM", vllm.ai, 2026). The terms of prompts are the least squares
// of relative errors over published times to the first token (10k tokens 260 ms, 20k 640, 40k 1,650, 50k 2,300, 100k
// 6,850) and 43,500 tokens/s of short prompts ("KV offloading connector", vllm.ai, 2026), in steps of 8,192 tokens; no
// point is more than 5 % off.
inline constexpr ServiceModel kLlama8bOnH100{.step_base_seconds = 6.44e-3,
                                             .prefill_tokens_per_second = 46'700,
                                             .attention_seconds = 0.93e-9,
                                             .decode_base_seconds = 0,
                                             .decode_seconds_per_context_token = 43.7e-9};

// Llama-3.1-70B in bf16 over eight H100 with tensor parallelism, scaled from the 8B above, not measured: 8.8 times the
// weights, 2.5 times the KV of a context token and 5 times the attention, on eight devices of which all-reduces cost a
// fifth.
inline constexpr ServiceModel kLlama70bOnEightH100{.step_base_seconds = 8.9e-3,
                                                   .prefill_tokens_per_second = 34'000,
                                                   .attention_seconds = 0.73e-9,
                                                   .decode_base_seconds = 0,
                                                   .decode_seconds_per_context_token = 17.1e-9};

// vLLM's mock of NVIDIA Dynamo (ai-dynamo-runtime 1.6.1, the polynomial timing of lib/mocker), with a KV memory of
// 1,953 blocks of 512 tokens, of which its decode curve takes the used share.
inline constexpr double kDynamoKvTokens = 1953.0 * 512;
inline constexpr ServiceModel kDynamoMocker{
    .prefill_base_seconds = 16.50142e-3,
    .prefill_tokens_per_second = 1e3 / 1.518344e-2,
    .prefill_square_seconds = 4.209989e-10,
    .decode_base_seconds = 5.74e-3,
    .decode_seconds_per_context_token = 54.01e-3 / kDynamoKvTokens,
    .decode_context_square_seconds = -25.74e-3 / kDynamoKvTokens / kDynamoKvTokens};

// The demo model on one thread of this project's CPU backend: model_prefill_demo_1t of tests/results/figures.tsv, and a
// fit to roostctl bench with 1 to 16 answers at a time behind prompts of 80 and 1,500 tokens, on a machine that others
// used: it is rough.
inline constexpr ServiceModel kRoostCpu{.step_base_seconds = 0.6e-3,
                                        .prefill_tokens_per_second = 11'300,
                                        .attention_seconds = 150e-9,
                                        .decode_base_seconds = 0,
                                        .decode_seconds_per_request = 0.05e-3,
                                        .decode_seconds_per_context_token = 0.8e-6};

// Decodes cost nothing: every request draws 50 tokens per second beside one prefill after the other. The model of
// published trace simulations, in which only first tokens can be compared.
inline constexpr ServiceModel kFreeDecode{.batching = Batching::kSeparate};

inline constexpr std::array<CostProfile, 5> kCostProfiles = {{{"llama-8b-h100", kLlama8bOnH100},
                                                              {"llama-70b-8xh100", kLlama70bOnEightH100},
                                                              {"roost-cpu", kRoostCpu},
                                                              {"dynamo-mocker", kDynamoMocker},
                                                              {"free-decode", kFreeDecode}}};

// `costs`: the name of a profile, then changes of single terms, as "step-base-ms=8". Errors name the field `costs`.
[[nodiscard]] Result<ServiceModel> ParseCosts(std::span<const std::string> costs);
[[nodiscard]] std::vector<std::string_view> CostProfileNames();
// The names of the terms, for a help text.
[[nodiscard]] std::string CostTermNames();

}  // namespace roost::simulate
