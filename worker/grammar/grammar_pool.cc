#include "worker/grammar/grammar_pool.h"

#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "common/base/thread_name.h"

namespace roost::worker {
namespace {

// Up to this many output tokens are accepted at once, on the engine's thread.
constexpr std::size_t kQuickOutput = 64;
constexpr std::size_t kLargestShare = 4;               // one grammar takes at most 1/4 of the cache
constexpr std::size_t kMaxRemembered = 64;             // bad constraints, of 256 KiB at most …
constexpr Duration kCostly = std::chrono::seconds(1);  // … that took this long to compile

std::string KeyOf(const wire::Constraint& constraint) {
  return static_cast<char>('a' + static_cast<int>(constraint.kind)) + constraint.text;
}

Error WithField(Error error, const std::string& field) {
  error.field = field;
  return error;
}

Result<std::unique_ptr<Automaton>> StartAfter(const CompiledGrammar& grammar, const Constrainer::Job& job) {
  std::unique_ptr<Automaton> automaton = grammar.Start();
  for (const TokenId token : job.output) {
    if (!automaton->Accept(token)) return InvalidArgument(job.constraint.field, "does not allow the output so far");
  }
  return automaton;
}

}  // namespace

GrammarPool::GrammarPool(std::unique_ptr<const GrammarLibrary> library, GrammarPoolOptions options, const Clock& clock,
                         std::function<void()> wake)
    : library_(std::move(library)),
      options_(options),
      clock_(clock),
      wake_(std::move(wake)),
      threads_count_(std::max<std::size_t>(2, options.thread_count)),
      cache_(options.cache_bytes) {
  for (std::size_t i = 0; i < threads_count_; ++i) threads_.emplace_back([this] { Run(); });
}

GrammarPool::~GrammarPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  queued_.notify_all();
  library_->Stop();
  for (std::thread& thread : threads_) thread.join();
}

void GrammarPool::Begin(Job job) {
  const Instant deadline = clock_.Now() + options_.wait_limit;
  Task task{std::move(job), "", deadline};
  task.key = KeyOf(task.job.constraint);
  const std::uint64_t id = task.job.id;
  Grammar cached;
  {
    const std::lock_guard lock(mutex_);
    wanted_.emplace(id, Wanted{deadline, task.key, task.job.constraint.field});
    if (const Error* const known = FindCostly(task.key)) {
      return Finish(id, WithField(*known, task.job.constraint.field));
    }
    if (task.job.output.size() <= kQuickOutput) cached = cache_.Find(task.key);
    if (cached == nullptr) {
      queue_.push_back(std::move(task));
      queued_.notify_one();
      return;
    }
  }
  Result<std::unique_ptr<Automaton>> automaton = StartAfter(*cached, task.job);
  const std::lock_guard lock(mutex_);
  Finish(id, std::move(automaton));
}

void GrammarPool::Drop(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  wanted_.erase(id);
}

bool GrammarPool::HasDone() const {
  const std::lock_guard lock(mutex_);
  return !done_.empty() || HasLate(clock_.Now());
}

std::vector<Constrainer::Done> GrammarPool::TakeDone() {
  const std::lock_guard lock(mutex_);
  EndLate(clock_.Now());
  return std::exchange(done_, {});
}

const Error* GrammarPool::FindCostly(const std::string& key) const {
  const auto found =
      std::find_if(costly_.begin(), costly_.end(), [&key](const auto& each) { return each.first == key; });
  return found == costly_.end() ? nullptr : &found->second;
}

bool GrammarPool::HasLate(Instant now) const {
  return std::any_of(wanted_.begin(), wanted_.end(), [now](const auto& each) { return each.second.deadline <= now; });
}

void GrammarPool::EndLate(Instant now) {
  std::vector<std::uint64_t> late;
  for (const auto& [id, wanted] : wanted_) {
    if (wanted.deadline <= now) late.push_back(id);
  }
  std::sort(late.begin(), late.end());
  for (const std::uint64_t id : late) {
    const Wanted wanted = wanted_.at(id);
    if (compiling_.contains(wanted.key)) {
      Finish(id, Error{ErrorCode::kUnavailable, "was not compiled in time; try again", wanted.field});
    } else {
      Finish(id, Error{ErrorCode::kOverloaded, "too many grammars wait to be compiled", wanted.field});
    }
  }
}

void GrammarPool::Finish(std::uint64_t id, Result<std::unique_ptr<Automaton>> automaton) {
  if (wanted_.erase(id) > 0) done_.push_back({id, std::move(automaton)});
}

void GrammarPool::Run() {
  NameThisThread("grammar");
  constexpr int kNiceness = 10;
  (void)setpriority(PRIO_PROCESS, 0, kNiceness);  // sets this thread only
  std::unique_lock lock(mutex_);
  while (true) {
    queued_.wait(lock, [this] { return stopping_ || !queue_.empty() || (!long_queue_.empty() && MayBeginLong()); });
    if (stopping_) return;
    std::optional<Task> task = Next();
    if (!task || !wanted_.contains(task->job.id)) continue;
    if (task->length == CompileLength::kShort) {
      // A thread of its own says what is long: the engine's thread does not read constraints.
      lock.unlock();
      task->length = library_->LengthOf(task->job.constraint);
      lock.lock();
      if (task->length == CompileLength::kLong && !MayBeginLong()) {
        long_queue_.push_back(*std::move(task));
        continue;
      }
    }
    Serve(*std::move(task), lock);
  }
}

std::optional<GrammarPool::Task> GrammarPool::Next() {
  std::deque<Task>& from = !long_queue_.empty() && MayBeginLong() ? long_queue_ : queue_;
  if (from.empty()) return std::nullopt;
  Task task = std::move(from.front());
  from.pop_front();
  return task;
}

void GrammarPool::Serve(Task task, std::unique_lock<std::mutex>& lock) {
  const Grammar cached = cache_.Find(task.key);
  if (cached == nullptr) {
    const auto compiling = compiling_.find(task.key);
    if (compiling != compiling_.end()) return compiling->second.push_back(std::move(task));
    const Error* const known = FindCostly(task.key);
    if (known == nullptr) return Compile(task, lock);
    Finish(task.job.id, WithField(*known, task.job.constraint.field));
  } else {
    lock.unlock();
    Result<std::unique_ptr<Automaton>> automaton = StartAfter(*cached, task.job);
    lock.lock();
    Finish(task.job.id, std::move(automaton));
  }
  lock.unlock();
  wake_();
  lock.lock();
}

void GrammarPool::Compile(const Task& task, std::unique_lock<std::mutex>& lock) {
  compiling_.emplace(task.key, std::vector<Task>());
  const bool is_long = task.length == CompileLength::kLong;
  if (is_long) ++long_count_;
  const Instant begin = clock_.Now();
  lock.unlock();
  Result<Grammar> compiled = library_->Compile(task.job.constraint);
  if (compiled.ok() && (*compiled)->bytes() > options_.cache_bytes / kLargestShare) {
    compiled = InvalidArgument(task.job.constraint.field, "compiles to a grammar of {} bytes, at most {} are allowed",
                               (*compiled)->bytes(), options_.cache_bytes / kLargestShare);
  }
  Result<std::unique_ptr<Automaton>> automaton =
      compiled.ok() ? StartAfter(**compiled, task.job) : Result<std::unique_ptr<Automaton>>(compiled.error());
  lock.lock();
  if (is_long) {
    --long_count_;
    queued_.notify_one();
  }
  if (compiled.ok()) {
    cache_.Put(task.key, *compiled);
  } else if (compiled.error().code == ErrorCode::kInvalidArgument && clock_.Now() - begin >= kCostly) {
    costly_.emplace_back(task.key, compiled.error());
    if (costly_.size() > kMaxRemembered) costly_.pop_front();
  }
  Finish(task.job.id, std::move(automaton));
  for (Task& waiting : compiling_.at(task.key)) {
    if (compiled.ok()) {
      queue_.push_front(std::move(waiting));
      queued_.notify_one();
    } else {
      Finish(waiting.job.id, WithField(compiled.error(), waiting.job.constraint.field));
    }
  }
  compiling_.erase(task.key);
  lock.unlock();
  wake_();
  lock.lock();
}

}  // namespace roost::worker
