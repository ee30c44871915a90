#include "common/base/reload.h"

#include <sys/stat.h>

#include <utility>

#include "common/base/log.h"
#include "common/base/thread_name.h"

namespace roost {
namespace {

std::int64_t Nanoseconds(const timespec& time) { return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; }

}  // namespace

Reloader::Reloader(std::chrono::milliseconds interval) : thread_([this, interval] { Run(interval); }) {}

Reloader::~Reloader() {
  {
    const std::lock_guard lock(wake_mutex_);
    ending_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

Result<void> Reloader::Add(Entry entry) {
  const std::lock_guard lock(entries_mutex_);
  Stamps stamps = StampsOf(entry.paths);
  ROOST_RETURN_IF_ERROR(entry.reload());
  entries_.push_back({std::move(entry), std::move(stamps)});
  return {};
}

void Reloader::Look(Which which) {
  const std::lock_guard lock(entries_mutex_);
  for (Watched& watched : entries_) {
    // Before the files are read, so that a change while they are read is seen by the next look.
    Stamps stamps = StampsOf(watched.entry.paths);
    if (which == Which::kChanged && stamps == watched.stamps) continue;
    watched.stamps = std::move(stamps);
    const Result<void> reloaded = watched.entry.reload();
    if (reloaded.ok()) {
      LogInfo("reloaded", {{"what", watched.entry.what}});
    } else {
      LogError("could not reload, the old contents stay in use",
               {{"what", watched.entry.what}, {"error", reloaded.error().ToString()}});
    }
  }
}

void Reloader::RequestAll() {
  {
    const std::lock_guard lock(wake_mutex_);
    all_requested_ = true;
  }
  wake_.notify_all();
}

std::optional<Reloader::Stamp> Reloader::StampOf(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return Stamp{.device = status.st_dev,
               .inode = status.st_ino,
               .size = status.st_size,
               .modified_ns = Nanoseconds(status.st_mtim),
               .changed_ns = Nanoseconds(status.st_ctim)};
}

Reloader::Stamps Reloader::StampsOf(const std::vector<std::string>& paths) {
  Stamps stamps;
  stamps.reserve(paths.size());
  for (const std::string& path : paths) stamps.push_back(StampOf(path));
  return stamps;
}

void Reloader::Run(std::chrono::milliseconds interval) {
  NameThisThread("reload");
  std::unique_lock lock(wake_mutex_);
  while (!ending_) {
    wake_.wait_for(lock, interval, [this] { return ending_ || all_requested_; });
    if (ending_) return;
    const Which which = std::exchange(all_requested_, false) ? Which::kAll : Which::kChanged;
    lock.unlock();
    Look(which);
    lock.lock();
  }
}

}  // namespace roost
