// The files of slots that llama.cpp's server has saved, as the thread of a worker's engine sees them.
//
//   DIR/<name>.slot     written by the server; a name is 32 hexadecimal digits
//   DIR/<name>.entry    written by this class once the other is on the medium, with its sum
//
// A file without an entry counts for nothing and is removed at the next start: a server or a worker that was killed in
// the middle leaves such. The server does not check what it restores, and a file that ends too early kills it; so every
// file is read here first, and its sum compared. That also brings it to memory, where the server then reads it quickly.
// Other files in DIR are left alone.
//
// Jobs run one after the other on a thread of its own. Without Start a test does them with DoNext.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/prefix/block_hash.h"

namespace roost::worker::adapters {

struct SavedSlot {
  std::string name;
  BlockHash origin;               // what has computed it; files of another origin are never restored
  BlockHash root;                 // of the requests that it may serve
  BlockHash tenant = {};          // SlotTenant of the request that has left it
  std::vector<BlockHash> hashes;  // of its whole blocks
  std::uint32_t tokens = 0;
  double compute_seconds = 0;  // that computing it would take; 0: not known
  std::uint64_t bytes = 0;     // of the file
  std::uint64_t sum = 0;       // XXH3-64 of the file

  bool operator==(const SavedSlot&) const = default;
};

// The content of an entry: magic "RSLE" and a version, the fields in their order, little-endian, and XXH3-64 of all
// that.
[[nodiscard]] std::string EncodeEntry(const SavedSlot& saved);
// kDataLoss: it is none. Its name is that of the file.
[[nodiscard]] Result<SavedSlot> DecodeEntry(std::string_view bytes, std::string name);

class SlotFiles {
 public:
  enum class Job : std::uint8_t {
    kKeep,   // sum the file, sync it, write its entry
    kCheck,  // compare its sum
    kErase,  // remove files, so that no later start finds them
  };
  struct Done {
    Job job = Job::kKeep;
    SavedSlot saved;            // complete after kKeep
    std::uint64_t erasure = 0;  // of kErase: its number
    std::optional<Error> error = {};
  };

  explicit SlotFiles(std::filesystem::path folder) : folder_(std::move(folder)) {}
  ~SlotFiles();
  SlotFiles(const SlotFiles&) = delete;
  SlotFiles& operator=(const SlotFiles&) = delete;

  // The files with whole entries, the one used last at the end. Removes those without. Before Start.
  [[nodiscard]] Result<std::vector<SavedSlot>> ReadAll();
  // `on_done` is called on its thread after each job.
  void Start(std::function<void()> on_done);
  [[nodiscard]] bool DoNext();

  void Keep(SavedSlot saved) { Push({Job::kKeep, std::move(saved)}); }
  void Check(SavedSlot saved) { Push({Job::kCheck, std::move(saved)}); }
  // All of these names, after the jobs before, and what earlier erasures could not remove. An error: one is still
  // there.
  void Erase(std::uint64_t number, std::vector<std::string> names);
  // The file and its entry; the entry goes first.
  void Remove(std::string name);
  // Jobs other than removals that are done.
  [[nodiscard]] std::vector<Done> TakeDone();

  // The name that the server knows the file by.
  [[nodiscard]] static std::string FileName(const std::string& name) { return name + ".slot"; }

 private:
  struct Task {
    std::optional<Job> job;  // none: remove it
    SavedSlot saved;
    std::uint64_t erasure = 0;
    std::vector<std::string> erased = {};

    Task(std::optional<Job> task_job, SavedSlot task_saved) : job(task_job), saved(std::move(task_saved)) {}
  };

  void Run();
  void Push(Task task);
  [[nodiscard]] std::filesystem::path PathOf(const std::string& name, std::string_view ending) const;
  [[nodiscard]] Result<void> WriteEntry(const SavedSlot& saved) const;
  [[nodiscard]] Result<void> DoKeep(SavedSlot& saved) const;
  [[nodiscard]] Result<void> DoCheck(const SavedSlot& saved) const;
  void DoRemove(const std::string& name) const;
  [[nodiscard]] Result<void> DoErase(const std::vector<std::string>& names);
  [[nodiscard]] Result<void> Do(Task& task);

  const std::filesystem::path folder_;
  std::vector<std::string> left_over_;  // names that erasures could not remove; used where the jobs are done
  std::function<void()> on_done_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;    // guarded by mutex_
  std::vector<Done> done_;    // guarded by mutex_
  bool is_stopping_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace roost::worker::adapters
