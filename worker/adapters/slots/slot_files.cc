#include "worker/adapters/slots/slot_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <system_error>
#include <tuple>
#include <utility>

#include "common/base/small_file.h"
#include "common/base/thread_name.h"
#include "worker/adapters/engine_error.h"

namespace roost::worker::adapters {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEntryMagic = "RSLE\x02";
constexpr std::string_view kFileEnding = ".slot";
constexpr std::string_view kEntryEnding = ".entry";
constexpr std::string_view kTrialEnding = ".entry.new";
constexpr std::size_t kNameDigits = 32;
// A sequence of 2^24 tokens has no more.
constexpr std::size_t kMaxEntryBytes = (std::size_t{16} << 20U) + 4096;
constexpr std::size_t kReadBytes = std::size_t{1} << 20U;

void AppendNumber(std::string& bytes, std::uint64_t value) {
  for (int shift = 0; shift < 64; shift += 8) bytes += static_cast<char>((value >> shift) & 0xffU);
}

void AppendHash(std::string& bytes, BlockHash hash) {
  AppendNumber(bytes, hash.high);
  AppendNumber(bytes, hash.low);
}

// The caller has checked that there are as many bytes.
std::uint64_t TakeNumber(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(value); ++i)
    value |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  bytes.remove_prefix(sizeof(value));
  return value;
}

BlockHash TakeHash(std::string_view& bytes) {
  const std::uint64_t high = TakeNumber(bytes);
  return {high, TakeNumber(bytes)};
}

Error FileError(const fs::path& path, std::string_view what) {
  const std::string reason = std::system_category().message(errno);
  return Unavailable(fmt::format("{} can not be {}: {}", path.string(), what, reason));
}

// Closes itself.
class OpenFile {
 public:
  OpenFile(const fs::path& path, int flags)
      : descriptor_(open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR)) {}
  ~OpenFile() {
    if (descriptor_ >= 0) (void)close(descriptor_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  [[nodiscard]] int descriptor() const { return descriptor_; }

 private:
  const int descriptor_;
};

struct FileSum {
  std::uint64_t bytes = 0;
  std::uint64_t sum = 0;
};

Result<FileSum> SumOf(const fs::path& path, int descriptor) {
  const std::unique_ptr<XXH3_state_t, void (*)(XXH3_state_t*)> state(XXH3_createState(),
                                                                     [](XXH3_state_t* each) { XXH3_freeState(each); });
  XXH3_64bits_reset(state.get());
  std::vector<char> buffer(kReadBytes);
  FileSum sum;
  for (;;) {
    const ssize_t size = read(descriptor, buffer.data(), buffer.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return FileError(path, "read");
    if (size == 0) break;
    XXH3_64bits_update(state.get(), buffer.data(), static_cast<std::size_t>(size));
    sum.bytes += static_cast<std::uint64_t>(size);
  }
  sum.sum = XXH3_64bits_digest(state.get());
  return sum;
}

std::optional<std::string> NameOf(const std::string& file, std::string_view ending) {
  const bool is_name = file.size() == kNameDigits + ending.size() && file.ends_with(ending) &&
                       file.find_first_not_of("0123456789abcdef") == kNameDigits;
  if (!is_name) return std::nullopt;
  return file.substr(0, kNameDigits);
}

}  // namespace

std::string EncodeEntry(const SavedSlot& saved) {
  std::string bytes(kEntryMagic);
  AppendHash(bytes, saved.origin);
  AppendHash(bytes, saved.root);
  AppendHash(bytes, saved.tenant);
  AppendNumber(bytes, saved.hashes.size());
  for (const BlockHash hash : saved.hashes) AppendHash(bytes, hash);
  AppendNumber(bytes, saved.tokens);
  AppendNumber(bytes, std::bit_cast<std::uint64_t>(saved.compute_seconds));
  AppendNumber(bytes, saved.bytes);
  AppendNumber(bytes, saved.sum);
  AppendNumber(bytes, XXH3_64bits(bytes.data(), bytes.size()));
  return bytes;
}

Result<SavedSlot> DecodeEntry(std::string_view bytes, std::string name) {
  constexpr std::size_t kFixedBytes = kEntryMagic.size() + 3 * sizeof(BlockHash) + 6 * sizeof(std::uint64_t);
  const Error error{ErrorCode::kDataLoss, "it is no entry of a saved slot", ""};
  if (bytes.size() < kFixedBytes || !bytes.starts_with(kEntryMagic)) return error;
  std::string_view end = bytes.substr(bytes.size() - sizeof(std::uint64_t));
  if (TakeNumber(end) != XXH3_64bits(bytes.data(), bytes.size() - sizeof(std::uint64_t))) return error;
  const std::size_t hash_bytes = bytes.size() - kFixedBytes;
  bytes.remove_prefix(kEntryMagic.size());
  SavedSlot saved;
  saved.name = std::move(name);
  saved.origin = TakeHash(bytes);
  saved.root = TakeHash(bytes);
  saved.tenant = TakeHash(bytes);
  if (TakeNumber(bytes) != hash_bytes / sizeof(BlockHash) || hash_bytes % sizeof(BlockHash) != 0) return error;
  while (saved.hashes.size() < hash_bytes / sizeof(BlockHash)) saved.hashes.push_back(TakeHash(bytes));
  saved.tokens = static_cast<std::uint32_t>(TakeNumber(bytes));
  saved.compute_seconds = std::bit_cast<double>(TakeNumber(bytes));
  saved.bytes = TakeNumber(bytes);
  saved.sum = TakeNumber(bytes);
  return saved;
}

SlotFiles::~SlotFiles() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

fs::path SlotFiles::PathOf(const std::string& name, std::string_view ending) const {
  return folder_ / (name + std::string(ending));
}

Result<std::vector<SavedSlot>> SlotFiles::ReadAll() {
  std::error_code failure;
  fs::directory_iterator next(folder_, failure);
  if (failure) return Unavailable(fmt::format("{}: {}", folder_.string(), failure.message()));
  std::vector<std::string> files;
  for (; next != fs::directory_iterator(); next.increment(failure)) files.push_back(next->path().filename().string());
  std::vector<std::pair<fs::file_time_type, SavedSlot>> found;
  for (const std::string& file : files) {
    if (const std::optional<std::string> name = NameOf(file, kTrialEnding)) (void)unlink((folder_ / file).c_str());
    const std::optional<std::string> name = NameOf(file, kEntryEnding);
    if (!name) continue;
    const Result<std::string> bytes = ReadSmallFile(folder_ / file, kMaxEntryBytes);
    if (!bytes.ok()) continue;
    Result<SavedSlot> saved = DecodeEntry(*bytes, *name);
    if (!saved.ok() || fs::file_size(PathOf(*name, kFileEnding), failure) != saved->bytes) continue;
    found.emplace_back(fs::last_write_time(folder_ / file, failure), *std::move(saved));
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return std::tie(a.first, a.second.name) < std::tie(b.first, b.second.name);
  });
  std::vector<SavedSlot> whole;
  whole.reserve(found.size());
  for (auto& [time, saved] : found) whole.push_back(std::move(saved));
  for (const std::string& file : files) {
    std::optional<std::string> name = NameOf(file, kFileEnding);
    if (!name) name = NameOf(file, kEntryEnding);
    const auto is_it = [&name](const SavedSlot& saved) { return saved.name == *name; };
    if (name && std::none_of(whole.begin(), whole.end(), is_it)) DoRemove(*name);
  }
  return whole;
}

void SlotFiles::Start(std::function<void()> on_done) {
  on_done_ = std::move(on_done);
  thread_ = std::thread([this] { Run(); });
}

void SlotFiles::Run() {
  NameThisThread("slot-files");
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return is_stopping_ || !tasks_.empty(); });
      if (is_stopping_) return;
    }
    (void)DoNext();
  }
}

bool SlotFiles::DoNext() {
  std::optional<Task> task;
  {
    const std::lock_guard lock(mutex_);
    if (tasks_.empty()) return false;
    task.emplace(std::move(tasks_.front()));
    tasks_.pop_front();
  }
  if (!task->job) {
    DoRemove(task->saved.name);
    return true;
  }
  const Result<void> result = Do(*task);
  {
    const std::lock_guard lock(mutex_);
    Done& done = done_.emplace_back(Done{*task->job, std::move(task->saved), task->erasure});
    if (!result.ok()) done.error = result.error();
  }
  if (on_done_) on_done_();
  return true;
}

Result<void> SlotFiles::Do(Task& task) {
  switch (*task.job) {
    case Job::kKeep: return DoKeep(task.saved);
    case Job::kCheck: return DoCheck(task.saved);
    case Job::kErase: return DoErase(task.erased);
  }
  return {};
}

void SlotFiles::Push(Task task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_all();
}

void SlotFiles::Remove(std::string name) {
  SavedSlot saved;
  saved.name = std::move(name);
  Push({std::nullopt, std::move(saved)});
}

void SlotFiles::Erase(std::uint64_t number, std::vector<std::string> names) {
  Task task(Job::kErase, {});
  task.erasure = number;
  task.erased = std::move(names);
  Push(std::move(task));
}

std::vector<SlotFiles::Done> SlotFiles::TakeDone() {
  const std::lock_guard lock(mutex_);
  return std::exchange(done_, {});
}

// The entry is renamed to its place last, so that one that is there stands for a whole file.
Result<void> SlotFiles::DoKeep(SavedSlot& saved) const {
  const fs::path path = PathOf(saved.name, kFileEnding);
  const OpenFile file(path, O_RDONLY);
  if (file.descriptor() < 0) return FileError(path, "opened");
  // The server's own choice of who may read it is not asked for; it may be another user, who has to see to it.
  (void)fchmod(file.descriptor(), S_IRUSR | S_IWUSR);
  ROOST_ASSIGN_OR_RETURN(const FileSum sum, SumOf(path, file.descriptor()));
  if (sum.bytes != saved.bytes) {
    return Unavailable(
        fmt::format("{} has {} bytes instead of the {} that the server has told: is it the directory of "
                    "its --slot-save-path?",
                    path.string(), sum.bytes, saved.bytes));
  }
  if (fsync(file.descriptor()) != 0) return FileError(path, "written");
  saved.sum = sum.sum;
  return WriteEntry(saved);
}

Result<void> SlotFiles::WriteEntry(const SavedSlot& saved) const {
  const fs::path trial = PathOf(saved.name, kTrialEnding);
  const fs::path path = PathOf(saved.name, kEntryEnding);
  const std::string bytes = EncodeEntry(saved);
  {
    const OpenFile file(trial, O_WRONLY | O_CREAT | O_TRUNC);
    if (file.descriptor() < 0) return FileError(trial, "opened");
    const ssize_t written = write(file.descriptor(), bytes.data(), bytes.size());
    if (written != static_cast<ssize_t>(bytes.size()) || fsync(file.descriptor()) != 0) {
      return FileError(trial, "written");
    }
  }
  if (rename(trial.c_str(), path.c_str()) != 0) return FileError(path, "written");
  const OpenFile folder(folder_, O_RDONLY | O_DIRECTORY);
  if (folder.descriptor() >= 0) (void)fsync(folder.descriptor());
  return {};
}

Result<void> SlotFiles::DoErase(const std::vector<std::string>& names) {
  left_over_.insert(left_over_.end(), names.begin(), names.end());
  if (left_over_.empty()) return {};
  std::optional<Error> error;
  std::erase_if(left_over_, [&](const std::string& name) {
    for (const std::string_view ending : {kEntryEnding, kFileEnding}) {
      const fs::path path = PathOf(name, ending);
      if (unlink(path.c_str()) == 0 || errno == ENOENT) continue;
      error = FileError(path, "removed");
      return false;
    }
    return true;
  });
  if (error) return *error;
  const OpenFile folder(folder_, O_RDONLY | O_DIRECTORY);
  if (folder.descriptor() < 0 || fsync(folder.descriptor()) != 0) return FileError(folder_, "written");
  return {};
}

// A file that is used counts as new at the next start.
Result<void> SlotFiles::DoCheck(const SavedSlot& saved) const {
  const fs::path path = PathOf(saved.name, kFileEnding);
  const OpenFile file(path, O_RDONLY);
  if (file.descriptor() < 0) return FileError(path, "opened");
  ROOST_ASSIGN_OR_RETURN(const FileSum sum, SumOf(path, file.descriptor()));
  if (sum.bytes != saved.bytes || sum.sum != saved.sum) {
    return Error{ErrorCode::kDataLoss, fmt::format("{} is damaged", path.string()), ""};
  }
  (void)utimensat(AT_FDCWD, PathOf(saved.name, kEntryEnding).c_str(), nullptr, 0);
  return {};
}

void SlotFiles::DoRemove(const std::string& name) const {
  (void)unlink(PathOf(name, kEntryEnding).c_str());
  (void)unlink(PathOf(name, kFileEnding).c_str());
}

}  // namespace roost::worker::adapters
