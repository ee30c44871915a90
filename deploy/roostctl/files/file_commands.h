// The commands that read what routers have written to files: `roostctl savings` their ledgers, `roostctl lint` their
// recordings.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "deploy/roostctl/command.h"
#include "deploy/roostctl/files/ledger_sum.h"

namespace roost::roostctl {

// ---- savings (savings.cc) ----

struct SavingsOptions {
  std::vector<std::string> folders;
  std::string since;                 // such as 24h; empty: all there is
  double price_per_worker_hour = 0;  // 0: none is printed
  bool json = false;
  // A recording of the same traffic (roost-router --record), to simulate round robin with caches of its own; empty: not
  // done.
  std::string recording;
  std::uint32_t worker_count = 0;
  std::uint64_t cache_tokens = 0;  // of each worker
};

// The seconds of "90m", "24h" or "30d". kInvalidArgument names `since`.
[[nodiscard]] Result<std::int64_t> SecondsOf(const std::string& since);

[[nodiscard]] std::string FormatSavings(const LedgerTotals& totals, double price_per_worker_hour);

// Returns the exit code.
int RunSavings(const SavingsOptions& options, std::int64_t unix_seconds, std::ostream& out, std::ostream& err);

extern const Command kSavingsCommand;

// ---- lint (lint.cc) ----
//
// The places where prompts of recorded traffic part (roost-router --record), and what that costs:
//
//                      +-- [ 18 ][ 19 ][ 20 ]
//   [ 17 ] -- [ 40 ] --+-- [ 21 ][ 22 ]
//                      +-- [ 23 ][ 24 ][ 25 ]
//
// A request parts behind the last block that a request before it had too, and computes what follows. So each computed
// token belongs to one place, and none to an eviction.
//
// A recording has hashes of blocks, each of all text up to its end, so it does not tell whether the text behind a place
// is equal again. Lengths do: behind a date in a system prompt all prompts have about the rest of the system prompt.

struct LintOptions {
  std::string recording;
  std::vector<std::string> tenants = {};        // whose names are shown where no key is known: there are hashes alone
  std::uint64_t prefill_tokens_per_second = 0;  // 0: shares alone are printed
  std::uint64_t most = 10;                      // places that are printed
};

// A place where prompts part.
struct Parting {
  std::string key;     // the API key's name; empty: none is recorded
  std::string tenant;  // its name, or the hash of it; empty: none
  std::string model;
  std::uint64_t token = 0;            // the front's length: the first that differs is in the block that begins here
  std::uint64_t requests = 0;         // that have the front
  std::uint64_t parted = 0;           // of these, that went on as no request before
  std::uint64_t computed_tokens = 0;  // by these, behind the front
  // By one of them: a tenth compute less than the first, and a tenth more than the last.
  std::uint64_t short_tokens = 0;
  std::uint64_t median_tokens = 0;
  std::uint64_t long_tokens = 0;

  // Most prompts part here, with a long and nearly equal rest: a value that changes stands in a text that does not.
  [[nodiscard]] bool IsSuspicious() const;
};

struct LintResult {
  std::uint64_t requests = 0;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t computed_tokens = 0;  // with a cache that never evicts
  std::vector<Parting> partings;      // those that are suspicious, and cost most first
};

// Errors name the file and the line.
[[nodiscard]] Result<LintResult> Lint(const LintOptions& options);
[[nodiscard]] std::string FormatLint(const LintResult& result, const LintOptions& options);

// Returns the exit code: 0, also where places are found.
int RunLint(const LintOptions& options, std::ostream& out, std::ostream& err);

extern const Command kLintCommand;

}  // namespace roost::roostctl
