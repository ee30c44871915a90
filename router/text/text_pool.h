// A few threads that process the text of requests, in fair turns.
//
//   tenant A    small   S ─ S ─ S       its jobs in the order of their finish tags
//               large   L ─ L           more than kLargeBytes: never on all threads at once
//   tenant B    small   S
//   threads     [A: S] [A: L] [B: S]
//
// Tenants take turns by start-time fair queueing (Goyal, Vin, Cheng, Start-Time Fair Queueing: A Scheduling Algorithm
// for Integrated Services Packet Switching Networks, SIGCOMM 1996). A tenant's tag is the bytes of its jobs that have
// begun, but one that comes anew begins at the tag of the tenant that had its turn last; the lowest tag goes next. So
// all tenants that wait get equal shares of the bytes, and one that has asked little goes before all that another one
// has sent.
//
// Within a tenant, turns follow self-clocked fair queueing (Golestani, A Self-Clocked Fair Queueing Scheme for
// Broadband Applications, INFOCOM 1994). A job's tag is its size in bytes plus the tag of the tenant's job that had
// begun last when it came; the lowest tag goes next. A connection has one job at a time, so all waiting connections of
// a tenant get equal shares of its bytes: a short request overtakes a long one that came shortly before it, and a long
// one runs once others have had as many bytes.
//
// A running job is not interrupted. Large jobs never take all threads, so a small job never waits for the end of a
// large one.
//
// Threads: TryPost from any; Stop and the destructor from one. A turn costs O(log jobs), and O(tenants that only large
// jobs wait for) while these may not begin.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "router/text/text_work.h"

namespace roost::router {

struct TextPoolOptions {
  std::uint32_t thread_count = 2;  // with one, small jobs wait for large ones
  std::size_t max_jobs = 10'000;   // waiting jobs, at most
};

class TextPool final : public TextWork {
 public:
  static constexpr std::size_t kLargeBytes = 256 * 1024;
  // Added to each job's bytes, so that empty jobs take turns too.
  static constexpr std::size_t kJobBytes = 1024;
  // Tenants without a waiting job whose tags are kept. Beyond these, the lowest tag is forgotten.
  static constexpr std::size_t kMaxIdleTenants = 1024;

  explicit TextPool(const TextPoolOptions& options);
  TextPool(const TextPool&) = delete;
  TextPool& operator=(const TextPool&) = delete;
  ~TextPool() override;

  [[nodiscard]] bool TryPost(std::string_view tenant, std::size_t bytes, std::function<void()> job) override;

  // Drops the waiting jobs, and returns when no job runs. From then on no job is accepted. A second call does nothing.
  void Stop();

 private:
  struct Job {
    std::size_t bytes = 0;
    std::function<void()> run;
  };
  using Jobs = std::multimap<std::uint64_t, Job>;  // by finish tag; equal ones in order of arrival

  struct Tenant;
  using Turns = std::multimap<std::uint64_t, Tenant*>;  // by the tenants' tags; equal ones in order of arrival
  struct Tenant {
    std::string name;
    Jobs small;
    Jobs large;
    std::uint64_t begun_tag = 0;  // of its job that began last
    Turns::iterator place;        // in idle_ while it has no job, else in turns_
  };
  using Tenants = std::map<std::string, Tenant, std::less<>>;

  // The tenant whose turn it is, and the list whose first job is next.
  struct Turn {
    Tenant* tenant = nullptr;  // null: this thread may begin none
    Jobs* jobs = nullptr;
  };

  void Run();
  // These need mutex_.
  [[nodiscard]] Tenant& Join(std::string_view name);
  [[nodiscard]] Turn NextTurn();
  [[nodiscard]] Jobs* NextJobs(Tenant& tenant) const;
  [[nodiscard]] Job Take(const Turn& turn);
  void ForgetIdle();

  const std::size_t max_jobs_;
  const std::size_t max_large_running_;

  std::mutex mutex_;
  std::condition_variable changed_;
  Tenants tenants_;  // guarded by mutex_, as all below
  Turns turns_;
  Turns idle_;
  std::size_t waiting_count_ = 0;
  std::uint64_t turn_tag_ = 0;  // the highest of tenants that had a turn
  std::size_t large_running_ = 0;
  bool stopped_ = false;

  std::vector<std::thread> threads_;
};

}  // namespace roost::router
