// Adds up the ledgers that routers have written: what `roostctl savings` shows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "common/base/result.h"
#include "router/ledger/ledger_row.h"

namespace roost::roostctl {

// By tenant, key and model.
using LedgerTotals = std::map<std::tuple<std::string, std::string, std::string>, router::LedgerCounts>;

struct LedgerSum {
  LedgerTotals totals;
  std::size_t file_count = 0;
  std::vector<std::string> damaged;  // "FILE:LINE" of lines that are none, but for a last one that was being written
};

// Adds up all that the folders have from this hour on (since 1970). A file that is in several of them, as a copy,
// counts once. An error names the folder or file that can not be read.
[[nodiscard]] Result<LedgerSum> AddUpLedgers(const std::vector<std::string>& folders, std::int64_t first_hour);

}  // namespace roost::roostctl
