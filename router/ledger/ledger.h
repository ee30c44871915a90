// The savings ledger (--ledger DIR): what each tenant, key and model used in each hour, and what the cache saved of it,
// in files that survive restarts and crashes and add up over routers.
//
//   end of a request ── Add ─► row of (hour, tenant, key, model)
//                                │ each second, on the writer's thread: the rows that changed
//                                ▼
//   DIR/2026-11-29-5b1f…c0-0.jsonl     a line has all that its row counts in this file, so the last line of a row is
//   the row
//
// So a line that is lost, torn or written twice changes no sum: the next one has all of it. A crash loses what one
// second has not written. No file is ever continued by another process: a run has a random number of its own, and a
// file ends with the day (UTC), or when it has max_rows rows; then its rows begin from 0 in the next one. A file that
// has grown is written anew, a line for each row, beside the old one and takes its place.
//
// No request waits for the disk. While it takes nothing the rows go on counting, and are written once it does. What
// does not fit into twice max_rows rows meanwhile counts together as `other`.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/base/result.h"
#include "router/api/answers/api_observer.h"
#include "router/ledger/ledger_row.h"

namespace roost::router {

enum class LedgerWrite : std::uint8_t { kWritten, kFailed };

struct LedgerOptions {
  std::filesystem::path folder;
  std::function<std::int64_t()> unix_seconds;      // the wall time
  std::function<void(LedgerWrite)> on_write = {};  // called by the writer's thread
  bool has_writer = true;                          // false: only Flush writes
  std::size_t max_rows = 4096;                     // of a file
  // A file is written anew when it is larger by this and by four times what it then was.
  std::size_t growth_bytes = std::size_t{1} << 20U;
};

// Thread-safe, but for Flush.
class Ledger final : public PassingApiObserver {
 public:
  // Makes the folder, for its user alone. kInvalidArgument names it when no file can be made there. `next` outlives the
  // ledger.
  [[nodiscard]] static Result<std::unique_ptr<Ledger>> Open(LedgerOptions options, ApiObserver& next);
  // Writes what has changed.
  ~Ledger() override;

  // Counts what was computed: not what failed before its first token.
  void OnGenerationEnd(const GenerationSummary& summary) override;
  void OnForwardEnd(const ForwardSummary& summary) override;

  // Writes what has changed. The writer's thread calls it.
  void Flush();

 private:
  // Views of a row's names.
  struct Name {
    std::int64_t hour = 0;
    std::string_view tenant;
    std::string_view key;
    std::string_view model;

    auto operator<=>(const Name&) const = default;
  };
  struct Row {
    LedgerRow row;
    bool has_changed = false;
  };
  using Rows = std::map<Name, std::unique_ptr<Row>>;
  struct Batch {
    std::string lines;
    bool is_whole = false;   // all rows of the file, which it replaces
    bool ends_file = false;  // with is_whole: the next batch goes to another file
  };

  Ledger(LedgerOptions options, ApiObserver& next, std::uint64_t run);
  void Run();
  void Add(Name name, const LedgerCounts& counts);
  [[nodiscard]] Row& RowOf(Name name);  // needs mutex_
  void TakeBatch();
  // Each returns 0, or the error.
  [[nodiscard]] int WriteBatch();
  [[nodiscard]] int Append(const std::string& lines);
  [[nodiscard]] int Replace(const std::string& lines);
  [[nodiscard]] std::filesystem::path PathOf(std::string_view suffix) const;
  void CloseFile();
  void Tell(int error);

  const LedgerOptions options_;
  const std::uint64_t run_;

  std::mutex mutex_;
  Rows rows_;                  // guarded by mutex_
  std::vector<Row*> changed_;  // of these; guarded by mutex_
  bool closing_ = false;       // guarded by mutex_
  std::condition_variable woken_;

  // Used by the writer's thread.
  Batch batch_;  // that is to be written
  std::string day_;
  std::uint64_t file_number_ = 0;
  int file_ = -1;
  std::size_t bytes_ = 0;        // of the file
  std::size_t whole_bytes_ = 0;  // of it, when it was last written anew
  bool is_damaged_ = false;      // it may lack rows, or end with a part of a line
  bool fails_ = false;
  std::thread writer_;
};

}  // namespace roost::router
