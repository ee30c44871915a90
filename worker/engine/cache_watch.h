// Measures what the cache is worth: why prompt tokens were computed, how many hits another pool size would have given,
// how long blocks stay. It feeds the estimators and turns the cache's totals into increments for reports.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "common/base/clock.h"
#include "common/base/rng.h"
#include "worker/cache/observe/reuse_distance.h"
#include "worker/cache/observe/salt_watch.h"
#include "worker/cache/prefix_cache.h"
#include "worker/engine/engine.h"
#include "worker/engine/request_table.h"
#include "worker/sched/scheduler.h"

namespace roost::worker {

// The workers that these blocks came from, each once.
[[nodiscard]] std::vector<SourceId> SourcesOf(const PrefixCache& cache, std::span<const BlockId> blocks);

// Checks a sample of cache hits: it computes the prompt of some requests again without the cache and compares the
// logits of the last token. Off by default; each check costs a whole prefill.
//
// The same model computes both from the same tokens. They are equal bit for bit if the model computes each token
// independently of its batch (the CPU), and otherwise equal up to rounding: `tolerance` of the largest logit.
//
// One check at a time: while one waits, no other begins. Not thread-safe.
class HitVerifier {
 public:
  // Checks this share of the requests with hits. `cache` and `scheduler` outlive it.
  HitVerifier(PrefixCache& cache, Scheduler& scheduler, double share, float tolerance)
      : cache_(cache), scheduler_(scheduler), share_(share), tolerance_(tolerance) {}

  // `sequence` has been computed up to the end of its prompt. May begin a check; calls `logits` only then.
  void OnPromptComputed(const Sequence& sequence, const std::function<std::span<const float>()>& logits);

  // True if this sequence belongs to the check.
  [[nodiscard]] bool Owns(SequenceId sequence) const { return check_ && check_->sequence == sequence; }
  [[nodiscard]] bool busy() const { return check_.has_value(); }

  struct Judgement {
    SequenceId sequence;  // the check's; remove it
    bool is_right = false;
    std::vector<SourceId> sources = {};  // the workers that blocks of the hit came from
  };
  // Compares the logits of the check's sequence. The check is over.
  [[nodiscard]] Judgement Judge(std::span<const float> logits);

 private:
  struct Check {
    SequenceId sequence;
    std::vector<float> expected;
    std::vector<SourceId> sources;
  };

  PrefixCache& cache_;
  Scheduler& scheduler_;
  const double share_;
  const float tolerance_;
  Rng rng_{1};
  std::optional<Check> check_;
};

class CacheWatch {
 public:
  // Both outlive it.
  CacheWatch(PrefixCache& cache, const Scheduler& scheduler);

  void OnSubmitted(Request& request, const Sequence& sequence);
  // Call it right before the request's first tokens are computed.
  void OnStarted(const Request& request, const Sequence& sequence);
  // Call it when the sequence ends.
  void OnEnd(const Sequence& sequence);

  // Adds the increments since the last call.
  void Fill(Instant now, StepReport& report);

 private:
  void FillReasons(StepCounts& counts);

  PrefixCache& cache_;
  const Scheduler& scheduler_;
  ReuseDistance reuse_;
  SaltWatch salts_;
  CacheCounters reported_cache_;
  SchedulerCounters reported_scheduler_;
  bool prompts_came_ = false;
  Instant next_curve_;
};

}  // namespace roost::worker
