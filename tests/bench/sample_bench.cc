#include <cmath>
#include <cstdint>
#include <string_view>
#include <thread>
#include <vector>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "kernels/device_memory.h"
#include "kernels/ops.h"
#include "tests/bench/bench.h"

namespace roost::bench {
namespace {

constexpr std::uint32_t kRows = 16;
constexpr std::uint32_t kVocab = 151'936;  // the size of Qwen's

// As widely spread as real models' logits, nearly normal.
std::vector<float> Logits() {
  constexpr double kDeviation = 3;
  Rng rng(1);
  std::vector<float> logits(std::size_t{kRows} * kVocab);
  for (float& logit : logits) {
    double sum = 0;
    for (int i = 0; i < 4; ++i) sum += rng.Uniform() - 0.5;
    logit = static_cast<float>(sum * std::sqrt(3.0) * kDeviation);
  }
  return logits;
}

// Measures the time that a step takes in addition when all of 16 requests want log probabilities and the 20 likeliest
// tokens.
void BenchLogprobs(Effort effort, const kernels::Backend& backend, const std::vector<float>& logits) {
  constexpr std::uint32_t kTop = 20;
  const std::vector<kernels::SampledToken> sampled(kRows, {.token = 77});
  std::vector<kernels::LogprobsRow> rows(kRows);
  for (std::uint32_t row = 0; row < kRows; ++row) {
    rows[row] = {.row = row, .is_drawn = true, .draw = row, .first_top = row * kTop, .top_count = kTop};
  }
  std::vector<kernels::ScoredToken> scored(kRows);
  std::vector<kernels::TopToken> top(std::size_t{kRows} * kTop);
  const kernels::LogprobsArgs args{.logits = logits.data(),
                                   .vocab_size = kVocab,
                                   .rows = rows.data(),
                                   .row_count = kRows,
                                   .sampled = sampled.data(),
                                   .out = scored.data(),
                                   .top = top.data()};
  const double seconds = MedianSeconds(effort, [&] { backend.ops().logprobs(backend.device(), args); });
  for (const auto& token : scored) ROOST_CHECK(token.logprob < 0);
  Figure("logprobs_us_16x152k", seconds * 1e6, "us");
}

}  // namespace

// A batch of draws on all cores of the machine: a mix as in chats, and each kind alone. With two cores the mix takes at
// most 6 ms.
void BenchSample(Effort effort) {
  const auto backend =
      kernels::Backend::Open(kernels::CpuOps(), {.thread_count = std::thread::hardware_concurrency()}).value();
  std::vector<float> logits = Logits();
  std::vector<kernels::SampledToken> sampled(kRows);
  const auto measure = [&](std::string_view name, const kernels::SampleRow& draw) {
    std::vector<kernels::SampleRow> draws(kRows, draw);
    for (std::uint32_t row = 0; row < kRows; ++row) draws[row].seed = draws[row].row = row;
    const kernels::SampleArgs args{
        .logits = logits.data(), .vocab_size = kVocab, .rows = draws.data(), .row_count = kRows, .out = sampled.data()};
    const double seconds = MedianSeconds(effort, [&] { backend.ops().sample(backend.device(), args); });
    for (const auto& token : sampled) ROOST_CHECK(token.status == kernels::SampleStatus::kSampled);
    Figure(name, seconds * 1e3, "ms");
  };
  measure("sample_ms_16x152k", {.temperature = 0.7F, .top_p = 0.9F});
  measure("sample_top_k_ms_16x152k", {.temperature = 0.7F, .top_k = 50, .top_p = 0.9F});
  measure("sample_flat_ms_16x152k", {.temperature = 5, .top_p = 0.95F});
  measure("sample_by_id_ms_16x152k", {.temperature = 1});
  measure("sample_greedy_ms_16x152k", {.temperature = 0});
  BenchLogprobs(effort, backend, logits);
}

}  // namespace roost::bench
