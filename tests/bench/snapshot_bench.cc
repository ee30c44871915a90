#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "tests/bench/bench.h"
#include "worker/link/snapshot_mirror.h"

namespace roost::bench {
namespace {

using wire::CacheEvent;
using worker::SnapshotMirror;

// A stream of events that replaces the blocks of a pool many times: runs of `run_blocks`, each removed back to front at
// some later time.
class EventStream {
 public:
  EventStream(std::uint32_t block_count, std::uint32_t run_blocks)
      : runs_(block_count / run_blocks), run_blocks_(run_blocks) {}

  // Replaces a run, chosen at random, by a new one.
  std::vector<CacheEvent> Replace() {
    std::vector<BlockHash>& run = runs_[rng_.Below(runs_.size())];
    std::vector<CacheEvent> events;
    if (!run.empty()) {
      events.push_back({.kind = CacheEvent::Kind::kRemoved, .stored = {}, .removed = {run.rbegin(), run.rend()}});
    }
    events.push_back(Store(run));
    return events;
  }

  // Fills a pool with runs.
  std::vector<CacheEvent> Fill() {
    std::vector<CacheEvent> events;
    for (std::vector<BlockHash>& run : runs_) events.push_back(Store(run));
    return events;
  }

 private:
  CacheEvent Store(std::vector<BlockHash>& run) {
    run.clear();
    for (std::uint32_t i = 0; i < run_blocks_; ++i) run.push_back({rng_(), rng_()});
    return {.kind = CacheEvent::Kind::kStored, .stored = {0, run}, .removed = {}};
  }

  Rng rng_{1};
  std::vector<std::vector<BlockHash>> runs_;
  std::uint32_t run_blocks_;
};

struct Figures {
  std::string_view snapshot;
  std::string_view apply;
};

void Snapshot(Effort effort, std::uint32_t run_blocks, const Figures& figures) {
  const std::uint32_t block_count = effort == Effort::kQuick ? 10'000 : 1'000'000;
  EventStream stream(block_count, run_blocks);
  SnapshotMirror mirror(block_count);
  mirror.Apply(stream.Fill());
  std::vector<std::vector<CacheEvent>> events;
  for (std::uint32_t blocks = 0; blocks < block_count; blocks += run_blocks) events.push_back(stream.Replace());
  std::size_t next = 0;
  const double apply_seconds = MedianSeconds(Effort::kQuick, [&] {
    for (; next < events.size(); ++next) mirror.Apply(events[next]);
  });
  // Each block was replaced once, on average.
  Figure(figures.apply, apply_seconds * 1e9 / block_count, "ns");

  std::size_t run_count = 0;
  const double seconds = MedianSeconds(effort, [&] { run_count = mirror.Snapshot().size(); });
  ROOST_CHECK(run_count == block_count / run_blocks, "{} runs", run_count);
  Figure(figures.snapshot, seconds * 1e3, "ms");
}

}  // namespace

// The time of a snapshot of a pool of a million ready blocks, of freeing it, and of keeping the mirror: one block
// stored and one removed. Prompts come in runs of a prefill chunk; blocks that decoding fills come one by one in the
// worst case.
void BenchSnapshot(Effort effort) {
  Snapshot(effort, 32, {.snapshot = "cache_snapshot_ms_1m", .apply = "cache_mirror_ns_per_block"});
  Snapshot(effort, 1, {.snapshot = "cache_snapshot_single_blocks_ms_1m", .apply = "cache_mirror_ns_per_single_block"});
}

}  // namespace roost::bench
