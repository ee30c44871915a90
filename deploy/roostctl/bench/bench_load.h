// From a benchmark's options to its endpoints and its load.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "deploy/roostctl/bench/load_run.h"
#include "deploy/roostctl/bench/router_bench.h"
#include "deploy/roostctl/bench/sessions.h"

namespace roost::roostctl {

// The times when the sessions of a load begin.

enum class ArrivalKind { kPoisson, kConstant };

// Times of `count` arrivals since the load's start, ascending. `per_second` is their mean rate, above 0. A Poisson
// process stands for many users who know nothing of each other: it has bursts and pauses.
[[nodiscard]] std::vector<double> ArrivalTimes(ArrivalKind kind, std::size_t count, double per_second,
                                               std::uint64_t seed);

// One endpoint, or the two sides of a comparison. Asks each for its first model unless the options name one.
[[nodiscard]] Result<std::vector<LoadTarget>> TargetsOf(const BenchOptions& options);

// The number of tokens that the endpoint makes of a word of generated texts: asks it about two texts of different
// lengths.
[[nodiscard]] Result<double> MeasureTokensPerWord(const LoadTarget& target, std::uint64_t seed);

// The sessions with their start times, those to warm up first. Errors name the option or the file.
[[nodiscard]] Result<std::vector<BenchSession>> MakeLoad(const BenchOptions& options);

// True if sessions have start times.
[[nodiscard]] bool IsOpen(const BenchOptions& options);

// The least number of sessions in a block, unless --blocks is given.
[[nodiscard]] std::size_t SessionsOfBlock(const BenchOptions& options);
// In how many blocks two sides get the load.
[[nodiscard]] std::size_t BlockCount(const BenchOptions& options, const std::vector<BenchSession>& sessions);
// Contiguous parts; each begins at the time 0. Sessions to warm up are in the first.
[[nodiscard]] std::vector<std::vector<BenchSession>> CutIntoBlocks(std::vector<BenchSession> sessions,
                                                                   std::size_t count);

// A line for people.
[[nodiscard]] std::string DescribeLoad(const BenchOptions& options, const std::vector<BenchSession>& sessions);

}  // namespace roost::roostctl
