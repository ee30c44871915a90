// A folder for a disk of blocks.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "common/base/check.h"

namespace roost::bench {

// A folder on a file system in memory, where a sync costs nothing.
class MemoryFolder {
 public:
  MemoryFolder() {
    const std::filesystem::path memory = "/dev/shm";
    const bool has_memory = access(memory.c_str(), W_OK) == 0;
    std::string name = ((has_memory ? memory : std::filesystem::temp_directory_path()) / "roost-bench-XXXXXX").string();
    ROOST_CHECK(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~MemoryFolder() { std::filesystem::remove_all(path_); }
  MemoryFolder(const MemoryFolder&) = delete;
  MemoryFolder& operator=(const MemoryFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace roost::bench
