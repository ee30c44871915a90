#include "deploy/roostctl/files/ledger_sum.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>

#include "common/json/json_read.h"

namespace roost::roostctl {
namespace {

using router::LedgerCounts;
using router::LedgerRow;

// The last line of a row in a file has all that the file counts of it, and so has the longest of several copies of the
// file.
using RowName = std::tuple<std::string, std::int64_t, std::string, std::string, std::string>;
using LastRows = std::map<RowName, LedgerCounts>;

Error Unreadable(const std::filesystem::path& path, const std::string& reason) {
  return Error{ErrorCode::kNotFound, fmt::format("can not be read: {}", reason), path.string()};
}

Result<void> ReadFile(const std::filesystem::path& path, std::int64_t first_hour, LastRows& rows, LedgerSum& sum) {
  std::ifstream file(path);
  if (!file) return Unreadable(path, std::strerror(errno));
  json::Document document;
  std::string line;
  for (std::size_t number = 1; std::getline(file, line); ++number) {
    if (file.eof()) break;  // without its line feed: it was being written
    document.Parse(line);
    const std::optional<LedgerRow> row = document.ok() ? router::LedgerRowIn(document.root()) : std::nullopt;
    if (!row) {
      sum.damaged.push_back(fmt::format("{}:{}", path.string(), number));
    } else if (row->hour >= first_hour) {
      LedgerCounts& counts = rows[{path.filename().string(), row->hour, row->tenant, row->key, row->model}];
      if (row->counts.requests >= counts.requests) counts = row->counts;
    }
  }
  return {};
}

}  // namespace

Result<LedgerSum> AddUpLedgers(const std::vector<std::string>& folders, std::int64_t first_hour) {
  LedgerSum sum;
  LastRows rows;
  for (const std::string& folder : folders) {
    std::error_code error;
    std::filesystem::directory_iterator files(folder, error);
    for (; !error && files != std::filesystem::directory_iterator(); files.increment(error)) {
      if (files->path().extension() != ".jsonl" || !files->is_regular_file(error)) continue;
      ROOST_RETURN_IF_ERROR(ReadFile(files->path(), first_hour, rows, sum));
      ++sum.file_count;
    }
    if (error) return Unreadable(folder, error.message());
  }
  for (const auto& [name, counts] : rows) {
    const auto& [file, hour, tenant, key, model] = name;
    sum.totals[{tenant, key, model}] += counts;
  }
  return sum;
}

}  // namespace roost::roostctl
