#include "router/ledger/ledger.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "common/base/log.h"
#include "common/base/random_seed.h"
#include "common/base/thread_name.h"
#include "common/metrics/catalog.h"

namespace roost::router {
namespace {

constexpr std::int64_t kDayHours = 24;
constexpr std::chrono::seconds kFlushInterval{1};
constexpr std::size_t kGrowth = 4;

int WriteAll(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(file, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) return errno;
    if (written > 0) bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return fdatasync(file) == 0 ? 0 : errno;
}

int SyncFolder(const std::filesystem::path& folder) {
  const int file = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return errno;
  const int error = fsync(file) == 0 ? 0 : errno;
  close(file);
  return error;
}

int Create(const std::filesystem::path& path, int flags) {
  return open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | flags, S_IRUSR | S_IWUSR);
}

}  // namespace

Result<std::unique_ptr<Ledger>> Ledger::Open(LedgerOptions options, ApiObserver& next) {
  const std::filesystem::path folder = options.folder;
  const auto refuse = [&folder](int error) {
    return InvalidArgument("ledger", "{}: no file can be made there: {}", folder.string(), std::strerror(error));
  };
  if (mkdir(folder.c_str(), S_IRWXU) != 0 && errno != EEXIST) return refuse(errno);
  std::unique_ptr<Ledger> ledger(new Ledger(std::move(options), next, RandomSeed()));
  const std::filesystem::path trial = ledger->PathOf("tmp");
  const int file = Create(trial, O_EXCL);
  if (file < 0) return refuse(errno);
  close(file);
  unlink(trial.c_str());
  if (ledger->options_.has_writer) ledger->writer_ = std::thread([raw = ledger.get()] { raw->Run(); });
  return ledger;
}

Ledger::Ledger(LedgerOptions options, ApiObserver& next, std::uint64_t run)
    : PassingApiObserver(next), options_(std::move(options)), run_(run) {}

Ledger::~Ledger() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  woken_.notify_one();
  if (writer_.joinable()) writer_.join();
  Flush();
  Flush();  // the first may have ended a file
  CloseFile();
}

void Ledger::Run() {
  NameThisThread("ledger");
  std::unique_lock lock(mutex_);
  while (!woken_.wait_for(lock, kFlushInterval, [this] { return closing_; })) {
    lock.unlock();
    Flush();
    lock.lock();
  }
}

// ---- rows ----

void Ledger::OnGenerationEnd(const GenerationSummary& summary) {
  if (summary.cached_tokens) {
    Add({.tenant = summary.tenant, .key = summary.key, .model = summary.model},
        {.requests = 1,
         .prompt_tokens = summary.prompt_tokens,
         .cached_tokens = *summary.cached_tokens,
         .best_worker_tokens = summary.savings.best_tokens,
         .round_robin_tokens = summary.savings.rotation_tokens,
         .written_tokens = summary.written_tokens,
         .output_tokens = summary.completion_tokens,
         .saved_seconds = summary.savings.seconds,
         .round_robin_saved_seconds = summary.savings.rotation_seconds});
  }
  PassingApiObserver::OnGenerationEnd(summary);
}

// Nothing is known of what its tokens cost, and of what others held.
void Ledger::OnForwardEnd(const ForwardSummary& summary) {
  if (summary.has_begun) {
    Add({.tenant = summary.tenant, .key = summary.key, .model = summary.model},
        {.requests = 1,
         .prompt_tokens = summary.prompt_tokens,
         .cached_tokens = summary.cached_tokens,
         .best_worker_tokens = summary.cached_tokens,
         .round_robin_tokens = summary.cached_tokens,
         .output_tokens = summary.output_tokens});
  }
  PassingApiObserver::OnForwardEnd(summary);
}

void Ledger::Add(Name name, const LedgerCounts& counts) {
  name.hour = options_.unix_seconds() / kHourSeconds;
  const std::lock_guard lock(mutex_);
  Row& row = RowOf(name);
  row.row.counts += counts;
  if (!std::exchange(row.has_changed, true)) changed_.push_back(&row);
}

Ledger::Row& Ledger::RowOf(Name name) {
  auto found = rows_.find(name);
  if (found == rows_.end() && rows_.size() >= 2 * options_.max_rows) {
    name = {.hour = name.hour, .tenant = metrics::kOtherValue, .key = metrics::kOtherValue, .model = name.model};
    found = rows_.find(name);
  }
  if (found != rows_.end()) return *found->second;
  auto made = std::make_unique<Row>(Row{.row = {.hour = name.hour,
                                                .tenant = std::string(name.tenant),
                                                .key = std::string(name.key),
                                                .model = std::string(name.model),
                                                .counts = {}}});
  const LedgerRow& row = made->row;
  return *rows_.emplace(Name{row.hour, row.tenant, row.key, row.model}, std::move(made)).first->second;
}

// ---- the files ----

void Ledger::Flush() {
  if (batch_.lines.empty()) TakeBatch();
  if (batch_.lines.empty()) return;
  const int error = WriteBatch();
  Tell(error);
  is_damaged_ = error != 0;
  // Rows whose file ends are nowhere else. All others are still counted, and are written again as a whole.
  if (error != 0 && batch_.ends_file) return;
  if (error == 0 && batch_.ends_file) CloseFile();
  batch_ = {};
}

void Ledger::TakeBatch() {
  const std::int64_t today = options_.unix_seconds() / kHourSeconds / kDayHours;
  const std::lock_guard lock(mutex_);
  if (rows_.empty()) return;
  const std::int64_t first_hour = rows_.begin()->first.hour;
  if (day_.empty()) day_ = HourText(first_hour).substr(0, sizeof("2026-11-29") - 1);
  batch_.ends_file = rows_.size() >= options_.max_rows || first_hour / kDayHours < today;
  batch_.is_whole = batch_.ends_file || is_damaged_ || bytes_ > kGrowth * whole_bytes_ + options_.growth_bytes;
  if (batch_.is_whole) {
    for (const auto& [name, row] : rows_) batch_.lines += LineOf(row->row) + '\n';
  } else {
    for (const Row* const row : changed_) batch_.lines += LineOf(row->row) + '\n';
  }
  for (Row* const row : changed_) row->has_changed = false;
  changed_.clear();
  if (batch_.ends_file) rows_.clear();
}

int Ledger::WriteBatch() { return batch_.is_whole ? Replace(batch_.lines) : Append(batch_.lines); }

std::filesystem::path Ledger::PathOf(std::string_view suffix) const {
  return options_.folder / fmt::format("{}-{:016x}-{}.{}", day_.empty() ? "new" : day_, run_, file_number_, suffix);
}

int Ledger::Append(const std::string& lines) {
  if (file_ < 0) {
    file_ = Create(PathOf("jsonl"), O_EXCL);
    if (file_ < 0) return errno;
    if (const int error = SyncFolder(options_.folder); error != 0) return error;
  }
  struct stat found {};
  if (fstat(file_, &found) != 0 || found.st_nlink == 0) return ENOENT;  // it was removed
  const int error = WriteAll(file_, lines);
  if (error == 0) bytes_ += lines.size();
  return error;
}

int Ledger::Replace(const std::string& lines) {
  const std::filesystem::path trial = PathOf("tmp");
  const int file = Create(trial, O_TRUNC);
  if (file < 0) return errno;
  int error = WriteAll(file, lines);
  if (error == 0 && rename(trial.c_str(), PathOf("jsonl").c_str()) != 0) error = errno;
  if (error != 0) {
    close(file);
    unlink(trial.c_str());
    return error;
  }
  if (file_ >= 0) close(file_);
  file_ = file;
  bytes_ = whole_bytes_ = lines.size();
  return SyncFolder(options_.folder);
}

void Ledger::CloseFile() {
  if (file_ < 0) return;
  close(std::exchange(file_, -1));
  ++file_number_;
  day_.clear();
  bytes_ = whole_bytes_ = 0;
}

void Ledger::Tell(int error) {
  if (std::exchange(fails_, error != 0) != fails_) {
    LogWarning(fails_ ? "the ledger can not be written now" : "the ledger is written again",
               {{"folder", options_.folder.string()}, {"reason", fails_ ? std::strerror(error) : "there is room"}});
  }
  if (options_.on_write) options_.on_write(fails_ ? LedgerWrite::kFailed : LedgerWrite::kWritten);
}

}  // namespace roost::router
