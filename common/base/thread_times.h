// The time that a thread has computed, and that it could have computed but waited for a processor, as the scheduler
// counts it (/proc/…/schedstat). Sleeping and waiting for locks count as neither. The time that a cgroup's quota holds
// a thread back counts as waiting.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>

#include "common/base/clock.h"

namespace roost {

struct ThreadTimes {
  Duration ran{};
  Duration waited{};

  ThreadTimes& operator+=(const ThreadTimes& other) {
    ran += other.ran;
    waited += other.waited;
    return *this;
  }
  friend ThreadTimes operator-(const ThreadTimes& one, const ThreadTimes& other) {
    return {one.ran - other.ran, one.waited - other.waited};
  }
  friend bool operator==(const ThreadTimes&, const ThreadTimes&) = default;
};

// Since the thread began, of a thread of this process, from /proc under `root`. Empty when it has ended, and where the
// kernel does not count.
[[nodiscard]] std::optional<ThreadTimes> ReadThreadTimes(pid_t thread, const std::filesystem::path& root = "/");

// The calling thread's number in /proc.
[[nodiscard]] pid_t ThisThreadId();

}  // namespace roost
