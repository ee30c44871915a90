// Runs jobs in processes of their own, with limits of time and memory: work that can not be stopped, in a library, ends
// with its process.
//
//   this process ──fork, early──► server ──fork, for each job──► job
//        │                          ▲  holds what Prepare made of the setup: jobs find it there, at no cost
//        │ setup, then a socket for each job                      │
//        └────────────────── request, answer ◄────────────────────┘
//
// The server is forked while this process is small and has no device, and forks in turn, having one thread. Kernel
// timers end a job, one of the processor time that it used and one of the clock; no thread watches it. The server ends
// with the thread that started it, which is this process's main thread, and jobs end with the server.
//
// Threads: any number of threads may call Run at a time.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "common/base/clock.h"

namespace roost::worker {

struct JobLimits {
  Duration processor_time = std::chrono::seconds(10);
  Duration clock_time = std::chrono::seconds(30);    // longer, because a busy machine gives a job little of its time
  std::size_t bytes = std::size_t{1} << 30U;         // of memory, beyond what the server holds
  std::size_t answer_bytes = std::size_t{1} << 29U;  // of an answer
};

struct JobResult {
  enum class End : std::uint8_t {
    kAnswered,
    kTooLong,    // it used up its processor time
    kFailed,     // it took too much memory, its answer is too long, or it crashed
    kNotInTime,  // the clock ended it, or there is no process: another try may succeed
  };
  End end = End::kFailed;
  std::string answer = {};
};

class JobServer {
 public:
  using Job = std::function<std::string(std::string_view request)>;
  // Called once, in the server, with what Run's caller set up.
  using Prepare = Job (*)(std::string_view setup);

  // Null if the system has no process or socket left.
  [[nodiscard]] static std::unique_ptr<JobServer> Start(Prepare prepare);
  // Ends all jobs.
  ~JobServer();
  JobServer(const JobServer&) = delete;
  JobServer& operator=(const JobServer&) = delete;

  // Once, before the first job. False if the server is gone.
  [[nodiscard]] bool SetUp(std::string_view setup);
  [[nodiscard]] JobResult Run(std::string_view request, const JobLimits& limits);
  // Ends all jobs, now and from here on: none answers.
  void Stop();

 private:
  JobServer(int socket, pid_t server) : socket_(socket), server_(server) {}

  std::mutex mutex_;
  const int socket_;  // guarded by mutex_ while a message is sent
  const pid_t server_;
};

}  // namespace roost::worker
