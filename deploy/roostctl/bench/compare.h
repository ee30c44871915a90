// Decides which differences between two endpoints are more than noise.
//
// Both get the same load in blocks, the one or the other first by chance. Requests of one block wait for each other and
// share the state of the machine, so they do not count as independent; blocks do. For each figure, each block gives the
// logarithm of B's value divided by A's. Over the blocks, Student's t gives an interval of their mean: a paired
// interval, because a block's own peculiarities are in both values. Each of the eight intervals has a confidence of
// 99.4 %, so that any of them is wrong in at most 5 % of comparisons (Bonferroni). A figure differs if its interval
// does not include "equal".
//
// Source: R. Jain, The Art of Computer Systems Performance Analysis, 1991, chapters 13 and 25 (paired observations,
// batch means).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "deploy/roostctl/bench/summary.h"

namespace roost::roostctl {

// Student's t distribution, for intervals of the mean of few values.

// The share of the distribution with `freedom` degrees of freedom (above 0) that lies below `t`.
[[nodiscard]] double StudentShareBelow(double t, double freedom);

// The t that `share` (inside (0, 1)) of the distribution lies below. By bisection; exact to about 1e-9.
[[nodiscard]] double StudentQuantile(double share, double freedom);

// With fewer, the interval says nothing.
inline constexpr std::size_t kFewestBlocks = 5;

enum class Verdict : std::uint8_t {
  kNoise,   // the interval includes "equal"
  kBetter,  // B is better than A
  kWorse,
  kUnknown,  // fewer than kFewestBlocks blocks have the figure on both sides
};
[[nodiscard]] std::string_view NameOf(Verdict verdict);

struct Difference {
  std::string_view figure;
  std::string_view unit;
  double a = 0;  // of all blocks together
  double b = 0;
  double ratio = 0;  // geometric mean over the blocks of B / A; 0 if unknown
  double low = 0;    // of its interval
  double high = 0;
  std::size_t block_count = 0;  // that have the figure on both sides
  Verdict verdict = Verdict::kUnknown;
};

// A block's two sides.
struct BlockPair {
  BenchSummary a;
  BenchSummary b;
};
[[nodiscard]] std::vector<Difference> Compare(const BenchSummary& a, const BenchSummary& b,
                                              std::span<const BlockPair> blocks);

// An interval of the mean that covers it with this probability.
struct Interval {
  double mean = 0;
  double low = 0;
  double high = 0;
};
[[nodiscard]] std::optional<Interval> MeanInterval(std::span<const double> values, double confidence);

}  // namespace roost::roostctl
