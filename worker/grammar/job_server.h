// Runs jobs in processes of their own, with limits of time and memory: work that can not be stopped, in a library, ends
// with its process.
//
//   this process ──fork, early──► server ──fork, for each job──► job
//        │                          ▲  holds what Prepare made of the setup: jobs find it there, at no cost
//        │ setup, then a socket for each job                      │
//        └────────────────── request, answer ◄────────────────────┘
//
// The server is forked while this process is small and has no device, and forks in turn, having one thread. Kernel
// timers end a job; no thread watches it. The server ends with the thread that started it, which is this process's main
// thread, and jobs end with the server.
//
// Threads: any number of threads may call Run at a time.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/clock.h"

namespace roost::worker {

struct JobLimits {
  Duration time = std::chrono::seconds(10);
  std::size_t bytes = std::size_t{1} << 30U;         // of memory, beyond what the server holds
  std::size_t answer_bytes = std::size_t{1} << 29U;  // of an answer
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
  // The job's answer; nothing if the job ended without one, or the server is gone.
  [[nodiscard]] std::optional<std::string> Run(std::string_view request, const JobLimits& limits);
  // Ends all jobs, now and from here on: Run answers nothing.
  void Stop();

 private:
  JobServer(int socket, pid_t server) : socket_(socket), server_(server) {}

  std::mutex mutex_;
  const int socket_;  // guarded by mutex_ while a message is sent
  const pid_t server_;
};

}  // namespace roost::worker
