// Files that a daemon reads again while it runs: certificates, keys, lists of peers.
//
//   Reloader reloader;                                                       // its thread looks every two seconds
//   ROOST_RETURN_IF_ERROR(reloader.Add({.what = "the API keys",
//                                       .paths = {options.api_keys},
//                                       .reload = [&] { return keys.Reload(); }}));
//   reloader.RequestAll();                                                   // after SIGHUP
//
// A file has changed when its path leads to another file, or to one of another size or time: a Kubernetes secret, which
// is replaced by a switch of symbolic links, is noticed too. A reload that fails keeps the old contents: the failure is
// logged, and the next attempt is at the next change or SIGHUP. So files that belong together, such as a certificate
// and its key, may be replaced one after the other.
//
// Thread-safe. `reload` runs on the thread that calls Add or Look and on the reloader's own, one at a time; it must not
// call the reloader.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/result.h"

namespace roost {

class Reloader {
 public:
  static constexpr std::chrono::milliseconds kInterval{2000};

  struct Entry {
    std::string what;  // for the log
    std::vector<std::string> paths;
    std::function<Result<void>()> reload;
  };

  explicit Reloader(std::chrono::milliseconds interval = kInterval);
  ~Reloader();
  Reloader(const Reloader&) = delete;
  Reloader& operator=(const Reloader&) = delete;

  // Calls `reload` for the first time, after a look at the files, so that no change is missed in between. Its error is
  // returned, and then nothing is watched.
  [[nodiscard]] Result<void> Add(Entry entry);

  enum class Which { kChanged, kAll };
  // Looks at the files and reloads, on this thread.
  void Look(Which which);

  // Has the reloader's thread reload everything, and returns at once.
  void RequestAll();

 private:
  // The state of a file, as far as it tells one version from another; none for a file that is not there.
  struct Stamp {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::int64_t size = 0;
    std::int64_t modified_ns = 0;
    std::int64_t changed_ns = 0;
    bool operator==(const Stamp&) const = default;
  };
  using Stamps = std::vector<std::optional<Stamp>>;
  struct Watched {
    Entry entry;
    Stamps stamps;
  };

  static std::optional<Stamp> StampOf(const std::string& path);
  static Stamps StampsOf(const std::vector<std::string>& paths);
  void Run(std::chrono::milliseconds interval);

  std::mutex entries_mutex_;      // held while files are read
  std::vector<Watched> entries_;  // guarded by entries_mutex_

  std::mutex wake_mutex_;
  std::condition_variable wake_;
  bool all_requested_ = false;  // guarded by wake_mutex_
  bool ending_ = false;         // guarded by wake_mutex_

  std::thread thread_;
};

}  // namespace roost
