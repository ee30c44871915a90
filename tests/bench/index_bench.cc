#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/big_vector.h"
#include "common/base/check.h"
#include "common/base/rng.h"
#include "router/index/prefix_index.h"
#include "tests/bench/bench.h"

namespace roost::bench {
namespace {

using router::MatchBuffer;
using router::PrefixIndex;

// Prompts as a fleet sees them. A trunk (a system prompt, a document) is held by many workers, by some of them only its
// front. A branch (a conversation) is held by one worker; for one branch in four another worker holds its front. The
// end of a front differs from trunk to trunk and from branch to branch.
struct Shape {
  std::uint32_t workers = 256;
  std::uint32_t trunks = 4096;
  std::uint32_t trunk_blocks = 128;
  std::uint32_t trunk_holders = 64;
  std::uint32_t trunk_depths = 4;  // different depths among the holders
  std::uint32_t branches_per_trunk = 10;
  std::uint32_t branch_blocks = 384;

  [[nodiscard]] std::uint32_t branches() const { return trunks * branches_per_trunk; }
  [[nodiscard]] std::uint32_t prompt_blocks() const { return trunk_blocks + branch_blocks; }
};

// The truth, computed and not stored. A branch has versions: a new one replaces the old one.
class Fleet {
 public:
  explicit Fleet(Shape shape) : shape_(shape), versions_(shape.branches()) {}

  [[nodiscard]] const Shape& shape() const { return shape_; }

  [[nodiscard]] std::vector<BlockHash> Trunk(std::uint32_t trunk) const { return Hashes(trunk, shape_.trunk_blocks); }
  [[nodiscard]] std::vector<BlockHash> Branch(std::uint32_t branch) const {
    return Hashes((std::uint64_t{branch} + 1) << 32U | versions_[branch], shape_.branch_blocks);
  }
  void Renew(std::uint32_t branch) { ++versions_[branch]; }

  void Prompt(std::uint32_t branch, std::vector<BlockHash>& prompt) const {
    prompt = Trunk(branch / shape_.branches_per_trunk);
    const std::vector<BlockHash> rest = Branch(branch);
    prompt.insert(prompt.end(), rest.begin(), rest.end());
  }

  [[nodiscard]] WorkerSlot Holder(std::uint32_t trunk, std::uint32_t i) const {
    return WorkerSlot((trunk * 31 + i * 3) % shape_.workers);
  }
  // The first holder of a trunk holds all of it.
  [[nodiscard]] std::uint32_t DepthOf(std::uint32_t trunk, std::uint32_t i) const {
    const std::uint32_t kind = i % shape_.trunk_depths;
    if (kind == 0) return shape_.trunk_blocks;
    return AnyDepth(std::uint64_t{trunk} << 32U | kind, shape_.trunk_blocks);
  }
  [[nodiscard]] WorkerSlot Owner(std::uint32_t branch) const {
    return Holder(branch / shape_.branches_per_trunk, shape_.trunk_depths * (branch % 8));
  }
  // The second worker holds only the front of the branch.
  [[nodiscard]] bool HasSecond(std::uint32_t branch) const { return branch % 4 == 0; }
  [[nodiscard]] WorkerSlot Second(std::uint32_t branch) const {
    return Holder(branch / shape_.branches_per_trunk, shape_.trunk_depths * (branch % 8 + 1));
  }

  [[nodiscard]] std::uint32_t SecondDepth(std::uint32_t branch) const { return AnyDepth(branch, shape_.branch_blocks); }

  // By worker.
  [[nodiscard]] std::map<WorkerSlot, std::uint32_t> Truth(std::uint32_t branch) const {
    std::map<WorkerSlot, std::uint32_t> depths;
    const std::uint32_t trunk = branch / shape_.branches_per_trunk;
    for (std::uint32_t i = 0; i < shape_.trunk_holders; ++i) depths[Holder(trunk, i)] = DepthOf(trunk, i);
    if (HasSecond(branch)) depths[Second(branch)] = shape_.trunk_blocks + SecondDepth(branch);
    depths[Owner(branch)] = shape_.prompt_blocks();
    return depths;
  }

 private:
  // 1 … count - 1
  static std::uint32_t AnyDepth(std::uint64_t seed, std::uint32_t count) {
    return 1 + static_cast<std::uint32_t>(Mix64(seed) % (count - 1));
  }
  static std::vector<BlockHash> Hashes(std::uint64_t chain, std::uint32_t count) {
    std::vector<BlockHash> hashes;
    hashes.reserve(count);
    Rng rng(Mix64(chain + 1));
    for (std::uint32_t i = 0; i < count; ++i) hashes.push_back({.high = rng(), .low = rng()});
    return hashes;
  }

  Shape shape_;
  std::vector<std::uint32_t> versions_;
};

void Fill(const Fleet& fleet, PrefixIndex& index) {
  const Shape& shape = fleet.shape();
  for (std::uint32_t trunk = 0; trunk < shape.trunks; ++trunk) {
    const std::vector<BlockHash> hashes = fleet.Trunk(trunk);
    for (std::uint32_t i = 0; i < shape.trunk_holders; ++i) {
      index.Store(fleet.Holder(trunk, i), 0, std::span(hashes).first(fleet.DepthOf(trunk, i)));
    }
  }
  for (std::uint32_t branch = 0; branch < shape.branches(); ++branch) {
    const std::vector<BlockHash> hashes = fleet.Branch(branch);
    index.Store(fleet.Owner(branch), shape.trunk_blocks, hashes);
    if (fleet.HasSecond(branch)) {
      index.Store(fleet.Second(branch), shape.trunk_blocks, std::span(hashes).first(fleet.SecondDepth(branch)));
    }
  }
}

void CheckExact(const Fleet& fleet, std::uint32_t branch, std::span<const WorkerMatch> matches) {
  std::map<WorkerSlot, std::uint32_t> found;
  for (const WorkerMatch& match : matches) found[match.worker] = match.block_count;
  ROOST_CHECK(found.size() == matches.size() && found == fleet.Truth(branch), "branch {}: {} matches", branch,
              matches.size());
}

struct Latencies {
  std::vector<double> seconds;

  [[nodiscard]] double Microseconds(double quantile) {
    const auto rank = static_cast<std::ptrdiff_t>(quantile * static_cast<double>(seconds.size() - 1));
    std::nth_element(seconds.begin(), seconds.begin() + rank, seconds.end());
    return seconds[static_cast<std::size_t>(rank)] * 1e6;
  }
};

// Looks up random prompts, so that their table entries have left the CPU's caches, and checks every answer against the
// truth, in batches outside of the measured time.
class TimedLookups {
 public:
  TimedLookups(const Fleet& fleet, const PrefixIndex& index, std::uint64_t seed)
      : fleet_(fleet), index_(index), rng_(seed) {}
  ~TimedLookups() { CheckAnswers(); }
  TimedLookups(const TimedLookups&) = delete;
  TimedLookups& operator=(const TimedLookups&) = delete;

  [[nodiscard]] std::uint32_t ChooseBranch() {
    return static_cast<std::uint32_t>(rng_.Below(fleet_.shape().branches()));
  }
  void LookUp(std::uint32_t branch) {
    fleet_.Prompt(branch, prompt_);
    const Instant start = clock_.Now();
    index_.Match(prompt_, buffer_);
    latencies_.seconds.push_back(ToSeconds(clock_.Now() - start));
    Answer& answer = answers_[answer_count_++];
    answer.branch = branch;
    answer.matches.assign(buffer_.matches().begin(), buffer_.matches().end());
    if (answer_count_ == answers_.size()) CheckAnswers();
  }
  [[nodiscard]] Latencies& latencies() { return latencies_; }

 private:
  struct Answer {
    std::uint32_t branch = 0;
    std::vector<WorkerMatch> matches;
  };

  void CheckAnswers() {
    for (const Answer& answer : std::span(answers_).first(answer_count_)) {
      CheckExact(fleet_, answer.branch, answer.matches);
    }
    answer_count_ = 0;
  }

  const Fleet& fleet_;
  const PrefixIndex& index_;
  const SteadyClock clock_;
  Rng rng_;
  MatchBuffer buffer_;
  std::vector<BlockHash> prompt_;
  Latencies latencies_;
  std::array<Answer, 64> answers_;
  std::size_t answer_count_ = 0;
};

// After some lookups that do not count, as in a router's first seconds: a reader remembers where the holders of trunks
// change. A prompt's table entries have left the caches nevertheless.
Latencies TimeLookups(const Fleet& fleet, const PrefixIndex& index, std::size_t count) {
  TimedLookups lookups(fleet, index, 7);
  for (std::size_t i = 0; i < count / 4; ++i) lookups.LookUp(lookups.ChooseBranch());
  lookups.latencies() = {};
  for (std::size_t i = 0; i < count; ++i) lookups.LookUp(lookups.ChooseBranch());
  return std::move(lookups.latencies());
}

// The same with threads that remember nothing yet.
Latencies TimeFreshLookups(const Fleet& fleet, const PrefixIndex& index, std::size_t count) {
  constexpr std::size_t kLookupsOfThread = 400;  // one in twenty meets a trunk again
  Latencies latencies;
  while (latencies.seconds.size() < count) {
    TimedLookups lookups(fleet, index, latencies.seconds.size());
    for (std::size_t i = 0; i < kLookupsOfThread; ++i) lookups.LookUp(lookups.ChooseBranch());
    const std::vector<double>& seconds = lookups.latencies().seconds;
    latencies.seconds.insert(latencies.seconds.end(), seconds.begin(), seconds.end());
  }
  return latencies;
}

// The lower limit of a lookup, which differs between machines and hours: the time of its memory reads alone. It reads
// about this many random places, in rounds; each round waits for the previous one.
Latencies TimeMemoryReads(std::size_t bytes, std::size_t count) {
  constexpr std::size_t kRounds = 4;
  constexpr std::size_t kReadsOfRound = 12;
  const BigVector<std::uint64_t> memory(std::max<std::size_t>(bytes / sizeof(std::uint64_t), 1), 1);
  const SteadyClock clock;
  Rng rng(17);
  Latencies latencies;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t next = rng();
    const Instant start = clock.Now();
    for (std::size_t round = 0; round < kRounds; ++round) {
      std::uint64_t sum = 0;
      for (std::size_t read = 0; read < kReadsOfRound; ++read) sum += memory[Mix64(next + read) % memory.size()];
      next += sum * kReadsOfRound;
    }
    latencies.seconds.push_back(ToSeconds(clock.Now() - start));
    ROOST_CHECK(next != 0);
  }
  return latencies;
}

// One change of the fleet: the owner of a branch drops it from its end, and takes a new one in runs of a prefill chunk;
// then a prompt is looked up.
struct Turn {
  std::uint32_t branch = 0;
  std::vector<BlockHash> removed;
  std::vector<BlockHash> stored;
  std::vector<BlockHash> prompt;
};

std::vector<Turn> MakeTurns(Fleet& fleet, std::size_t count) {
  Rng rng(11);
  std::vector<Turn> turns(count);
  for (Turn& turn : turns) {
    do {
      turn.branch = static_cast<std::uint32_t>(rng.Below(fleet.shape().branches()));
    } while (fleet.HasSecond(turn.branch));
    turn.removed = fleet.Branch(turn.branch);
    std::reverse(turn.removed.begin(), turn.removed.end());
    fleet.Renew(turn.branch);
    turn.stored = fleet.Branch(turn.branch);
    fleet.Prompt(turn.branch, turn.prompt);
  }
  return turns;
}

// Returns the number of blocks stored and removed.
std::uint64_t Apply(const Fleet& fleet, std::span<const Turn> turns, PrefixIndex& index) {
  constexpr std::size_t kRunBlocks = 32;
  MatchBuffer buffer;
  std::uint64_t blocks = 0;
  for (const Turn& turn : turns) {
    const WorkerSlot owner = fleet.Owner(turn.branch);
    index.Remove(owner, turn.removed);
    for (std::size_t begin = 0; begin < turn.stored.size(); begin += kRunBlocks) {
      const std::size_t count = std::min(kRunBlocks, turn.stored.size() - begin);
      index.Store(owner, fleet.shape().trunk_blocks + static_cast<std::uint32_t>(begin),
                  std::span(turn.stored).subspan(begin, count));
    }
    index.Match(turn.prompt, buffer);
    blocks += turn.removed.size() + turn.stored.size();
    ROOST_CHECK(buffer.matches().front().block_count == turn.prompt.size());
  }
  return blocks;
}

// Lookups of branches that do not change, concurrent with a writer at full speed.
Latencies TimeLookupsBesideWriter(const Fleet& fleet, PrefixIndex& index, std::span<const Turn> turns) {
  std::vector<char> changing(fleet.shape().branches());
  for (const Turn& turn : turns) changing[turn.branch] = 1;
  std::atomic<bool> done = false;
  Latencies latencies;
  std::thread reader([&] {
    TimedLookups lookups(fleet, index, 13);
    while (!done.load()) {
      const std::uint32_t branch = lookups.ChooseBranch();
      if (changing[branch] == 0) lookups.LookUp(branch);
    }
    latencies = std::move(lookups.latencies());
  });
  Apply(fleet, turns, index);
  done = true;
  reader.join();
  return latencies;
}

// 16 million distinct blocks of 256 workers; prompts of 512 blocks with 64 holders.
void Wide(Effort effort, std::size_t lookups) {
  const bool quick = effort == Effort::kQuick;
  Fleet fleet({.trunks = quick ? 8U : 4096U});
  PrefixIndex index;
  Fill(fleet, index);
  const auto blocks = static_cast<double>(index.block_count());
  Figure("index_blocks", blocks, "blocks");
  Figure("index_bytes_per_block", static_cast<double>(index.memory_bytes()) / blocks, "bytes");
  Latencies latencies = TimeLookups(fleet, index, lookups);
  Figure("index_lookup_p50_us", latencies.Microseconds(0.5), "us");
  Figure("index_lookup_p99_us", latencies.Microseconds(0.99), "us");
  latencies = TimeFreshLookups(fleet, index, lookups / 2);
  Figure("index_lookup_fresh_p50_us", latencies.Microseconds(0.5), "us");
  Figure("index_lookup_fresh_p99_us", latencies.Microseconds(0.99), "us");
  latencies = TimeMemoryReads(index.memory_bytes(), lookups);
  Figure("index_memory_reads_p50_us", latencies.Microseconds(0.5), "us");
  Figure("index_memory_reads_p99_us", latencies.Microseconds(0.99), "us");

  const std::size_t turn_count = quick ? 20 : 20'000;
  {
    const std::vector<Turn> turns = MakeTurns(fleet, turn_count);
    const SteadyClock clock;
    const Instant start = clock.Now();
    const std::uint64_t applied = Apply(fleet, turns, index);
    Figure("index_apply_mops", static_cast<double>(applied) / ToSeconds(clock.Now() - start) / 1e6, "million/s");
    (void)TimeLookups(fleet, index, lookups / 10);  // still exact
  }
  const std::vector<Turn> turns = MakeTurns(fleet, turn_count);
  latencies = TimeLookupsBesideWriter(fleet, index, turns);
  if (latencies.seconds.empty()) return;
  Figure("index_lookup_beside_writer_p50_us", latencies.Microseconds(0.5), "us");
  Figure("index_lookup_beside_writer_p99_us", latencies.Microseconds(0.99), "us");
}

// 14 million blocks of 64 workers; prompts of 6,250 blocks: 100,000 tokens.
void Long(Effort effort, std::size_t lookups) {
  const Fleet fleet(
      {.workers = 64, .trunks = effort == Effort::kQuick ? 4U : 256U, .trunk_blocks = 1250, .branch_blocks = 5000});
  PrefixIndex index;
  Fill(fleet, index);
  Latencies latencies = TimeLookups(fleet, index, lookups);
  Figure("index_lookup_p50_us_6250", latencies.Microseconds(0.5), "us");
  Figure("index_lookup_p99_us_6250", latencies.Microseconds(0.99), "us");
}

}  // namespace

// The router's index: lookups from cold memory, and the rate at which one writer applies events, each a stored or
// removed block, with a lookup after each 768 events. The memory figure includes everything in the index, sets too.
void BenchIndex(Effort effort) {
  const bool quick = effort == Effort::kQuick;
  Wide(effort, quick ? 100 : 200'000);
  Long(effort, quick ? 100 : 20'000);
}

}  // namespace roost::bench
