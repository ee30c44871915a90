// Random rows to score, and an op's results for them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/device_memory.h"
#include "kernels/logprobs.h"
#include "tests/kernels/kernels_testing.h"

namespace roost::kernels {

struct LogprobsCase {
  std::uint32_t vocab_size = 0;
  std::vector<float> logits;
  std::vector<SampledToken> sampled;
  std::vector<LogprobsRow> rows;
};

struct LogprobsShape {
  std::uint32_t vocab_size = 0;
  std::uint32_t rows = 0;  // of logits
  std::uint32_t scored = 0;
  float scale = 1;
};

inline LogprobsCase RandomLogprobs(const LogprobsShape& shape, Rng& rng) {
  LogprobsCase wanted{.vocab_size = shape.vocab_size,
                      .logits = RandomFloats(rng, std::size_t{shape.rows} * shape.vocab_size, shape.scale),
                      .sampled = {},
                      .rows = {}};
  const auto below = [&rng](std::uint32_t bound) { return static_cast<std::uint32_t>(rng.Below(bound)); };
  std::uint32_t first_top = 0;
  for (std::uint32_t i = 0; i < shape.scored; ++i) {
    LogprobsRow row{.row = below(shape.rows), .is_drawn = below(2) == 0, .token = below(shape.vocab_size)};
    row.first_top = first_top;
    row.top_count = std::min(shape.vocab_size, below(3) == 0 ? 0 : below(21));
    first_top += row.top_count;
    if (row.is_drawn) {
      row.draw = static_cast<std::uint32_t>(wanted.sampled.size());
      wanted.sampled.push_back({.token = below(shape.vocab_size)});
    }
    wanted.rows.push_back(row);
  }
  return wanted;
}

struct LogprobsResult {
  std::vector<ScoredToken> scored;
  std::vector<TopToken> top;
};

inline LogprobsResult Logprobs(const Backend& backend, const LogprobsCase& wanted) {
  DeviceBuffer logits(backend);
  DeviceBuffer sampled(backend);
  DeviceBuffer rows(backend);
  DeviceBuffer out(backend);
  DeviceBuffer top(backend);
  std::uint32_t top_count = 0;
  for (const LogprobsRow& row : wanted.rows) top_count = std::max(top_count, row.first_top + row.top_count);
  logits.Upload(std::span<const float>(wanted.logits));
  sampled.Upload(std::span<const SampledToken>(wanted.sampled));
  rows.Upload(std::span<const LogprobsRow>(wanted.rows));
  LogprobsResult result{std::vector<ScoredToken>(wanted.rows.size()), std::vector<TopToken>(top_count)};
  out.Reserve(result.scored.size() * sizeof(ScoredToken));
  top.Reserve(std::max<std::size_t>(1, result.top.size()) * sizeof(TopToken));
  backend.ops().logprobs(backend.device(), {.logits = logits.as<float>(),
                                            .vocab_size = wanted.vocab_size,
                                            .rows = rows.as<LogprobsRow>(),
                                            .row_count = static_cast<std::uint32_t>(wanted.rows.size()),
                                            .sampled = sampled.as<SampledToken>(),
                                            .out = out.as<ScoredToken>(),
                                            .top = top.as<TopToken>()});
  backend.ops().copy_to_host(backend.device(), result.scored.data(), out.data(),
                             result.scored.size() * sizeof(ScoredToken));
  backend.ops().copy_to_host(backend.device(), result.top.data(), top.data(), result.top.size() * sizeof(TopToken));
  return result;
}

inline LogprobsResult Logprobs(const OpTable& ops, const LogprobsCase& wanted, std::uint32_t thread_count = 2) {
  return Logprobs(Backend::Open(ops, {.thread_count = thread_count}).value(), wanted);
}

// Compares within the contract's tolerance; ranks and tokens must be equal.
inline void ExpectLogprobs(const LogprobsResult& result, const LogprobsResult& wanted) {
  constexpr float kRounding = 0x1p-23F;
  const auto expect_near = [](float value, float of_definition) {
    EXPECT_LE(value, 0);
    if (std::isinf(of_definition)) {
      EXPECT_EQ(value, of_definition);
    } else {
      EXPECT_NEAR(value, of_definition, 2e-6F - of_definition * kRounding);
    }
  };
  ASSERT_EQ(result.scored.size(), wanted.scored.size());
  ASSERT_EQ(result.top.size(), wanted.top.size());
  for (std::size_t i = 0; i < wanted.scored.size(); ++i) {
    expect_near(result.scored[i].logprob, wanted.scored[i].logprob);
    EXPECT_EQ(result.scored[i].rank, wanted.scored[i].rank);
  }
  for (std::size_t i = 0; i < wanted.top.size(); ++i) {
    expect_near(result.top[i].logprob, wanted.top[i].logprob);
    EXPECT_EQ(result.top[i].token, wanted.top[i].token);
  }
}

}  // namespace roost::kernels
