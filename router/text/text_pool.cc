#include "router/text/text_pool.h"

#include <sys/resource.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/thread_name.h"

namespace roost::router {
namespace {

// If processors are few, threads that serve sockets go before text threads: sending a token is more urgent than reading
// a prompt.
void LowerPriority() {
  constexpr int kNice = 5;
  // On Linux this affects only the calling thread. Lowering the priority is always allowed.
  setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + kNice);
}

// Jobs end their own requests when memory runs out. Any other exception must not end the process.
void RunJob(const std::function<void()>& job) {
  try {
    job();
  } catch (const std::exception& error) {
    LogError("a request's text work failed", {{"error", error.what()}});
  }
}

}  // namespace

TextPool::TextPool(const TextPoolOptions& options)
    : max_jobs_(options.max_jobs), max_large_running_(std::max<std::size_t>(options.thread_count, 2) - 1) {
  ROOST_CHECK(options.thread_count > 0);
  for (std::uint32_t i = 0; i < options.thread_count; ++i) threads_.emplace_back([this] { Run(); });
}

TextPool::~TextPool() { Stop(); }

bool TextPool::TryPost(std::string_view tenant, std::size_t bytes, std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_ || waiting_count_ >= max_jobs_) return false;
    Tenant& owner = Join(tenant);
    Jobs& jobs = bytes > kLargeBytes ? owner.large : owner.small;
    jobs.emplace(owner.begun_tag + bytes + kJobBytes, Job{.bytes = bytes, .run = std::move(job)});
    ++waiting_count_;
  }
  changed_.notify_one();
  return true;
}

// The tenant has a job from now on. One that had none begins anew: what others had meanwhile is not its due.
TextPool::Tenant& TextPool::Join(std::string_view name) {
  const auto [known, is_new] = tenants_.try_emplace(std::string(name));
  Tenant& tenant = known->second;
  if (is_new) {
    tenant.name = name;
    tenant.place = turns_.emplace(turn_tag_, &tenant);
  } else if (tenant.small.empty() && tenant.large.empty()) {
    const std::uint64_t tag = std::max(turn_tag_, tenant.place->first);
    idle_.erase(tenant.place);
    tenant.place = turns_.emplace(tag, &tenant);
  }
  return tenant;
}

void TextPool::Stop() {
  {
    Tenants dropped;  // destroyed without the lock, because a job's destructor may call back
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    dropped.swap(tenants_);
    turns_.clear();
    idle_.clear();
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

TextPool::Turn TextPool::NextTurn() {
  for (const auto& [tag, tenant] : turns_) {
    if (Jobs* const jobs = NextJobs(*tenant)) return {.tenant = tenant, .jobs = jobs};
  }
  return {};
}

// Null when it has none that may begin.
TextPool::Jobs* TextPool::NextJobs(Tenant& tenant) const {
  const bool may_be_large = !tenant.large.empty() && large_running_ < max_large_running_;
  if (tenant.small.empty()) return may_be_large ? &tenant.large : nullptr;
  return may_be_large && tenant.large.begin()->first < tenant.small.begin()->first ? &tenant.large : &tenant.small;
}

TextPool::Job TextPool::Take(const Turn& turn) {
  Tenant& tenant = *turn.tenant;
  const auto first = turn.jobs->begin();
  tenant.begun_tag = std::max(tenant.begun_tag, first->first);
  Job job = std::move(first->second);
  turn.jobs->erase(first);
  --waiting_count_;
  const std::uint64_t tag = tenant.place->first;
  turn_tag_ = std::max(turn_tag_, tag);
  turns_.erase(tenant.place);
  Turns& next = tenant.small.empty() && tenant.large.empty() ? idle_ : turns_;
  tenant.place = next.emplace(tag + job.bytes + kJobBytes, &tenant);
  return job;
}

// The idle ones that would begin anew, and the lowest tags of too many others.
void TextPool::ForgetIdle() {
  while (!idle_.empty() && (idle_.begin()->first <= turn_tag_ || idle_.size() > kMaxIdleTenants)) {
    tenants_.erase(idle_.begin()->second->name);
    idle_.erase(idle_.begin());
  }
}

void TextPool::Run() {
  NameThisThread("text");
  LowerPriority();
  std::unique_lock lock(mutex_);
  while (true) {
    Turn turn;
    changed_.wait(lock, [&] { return stopped_ || (turn = NextTurn()).tenant != nullptr; });
    if (stopped_) return;
    const bool is_large = turn.jobs == &turn.tenant->large;
    Job job = Take(turn);
    ForgetIdle();
    large_running_ += is_large ? 1 : 0;
    lock.unlock();
    RunJob(job.run);
    job.run = nullptr;  // destroyed before the next turn, and without the lock
    lock.lock();
    large_running_ -= is_large ? 1 : 0;
  }
}

}  // namespace roost::router
