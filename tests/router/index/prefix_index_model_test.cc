// The index against a model that is too simple to be wrong: a set of hashes per worker, matched block by block.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>

#include "common/base/rng.h"
#include "router/index/prefix_index.h"

namespace roost::router {
namespace {

using Path = std::vector<BlockHash>;  // root to leaf

class Model {
 public:
  explicit Model(std::size_t worker_count) : held_(worker_count) {}

  std::set<BlockHash>& Held(WorkerSlot worker) { return held_[worker.value()]; }

  [[nodiscard]] std::vector<std::pair<std::uint32_t, std::uint32_t>> Match(const Path& path) const {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> depths;  // depth, slot
    for (std::uint32_t slot = 0; slot < held_.size(); ++slot) {
      std::uint32_t depth = 0;
      while (depth < path.size() && held_[slot].contains(path[depth])) ++depth;
      if (depth > 0) depths.emplace_back(depth, slot);
    }
    std::sort(depths.begin(), depths.end(),
              [](auto a, auto b) { return a.first != b.first ? a.first > b.first : a.second < b.second; });
    return depths;
  }

  [[nodiscard]] std::size_t DistinctCount() const {
    std::set<BlockHash> all;
    for (const auto& held : held_) all.insert(held.begin(), held.end());
    return all.size();
  }

 private:
  std::vector<std::set<BlockHash>> held_;
};

// Chains that branch off each other, so that workers share some of them.
std::vector<Path> MakePaths(Rng& rng, std::size_t path_count, std::size_t max_length) {
  std::vector<Path> paths;
  for (std::size_t i = 0; i < path_count; ++i) {
    Path path;
    if (!paths.empty() && rng.Below(4) != 0) {
      path = paths[rng.Below(paths.size())];
      path.resize(rng.Below(path.size() + 1));
    }
    const std::size_t length = path.size() + 1 + rng.Below(max_length);
    while (path.size() < length) path.push_back({.high = rng(), .low = rng()});
    paths.push_back(std::move(path));
  }
  return paths;
}

class IndexFuzz {
 public:
  explicit IndexFuzz(std::uint64_t seed)
      : rng_(seed),
        worker_count_(1 + rng_.Below(rng_.Below(4) == 0 ? 150 : 6)),
        model_(worker_count_),
        paths_(MakePaths(rng_, 12, 40)) {}

  void Run(int operation_count) {
    for (int i = 0; i < operation_count && !::testing::Test::HasFatalFailure(); ++i) {
      Act();
      Compare();
    }
  }

 private:
  void Act() {
    const WorkerSlot worker(static_cast<std::uint32_t>(rng_.Below(worker_count_)));
    const Path& path = paths_[rng_.Below(paths_.size())];
    switch (rng_.Below(20)) {
      case 0: Clear(worker); break;
      case 1:
      case 2:
      case 3:
      case 4:
      case 5:
      case 6: EvictLeaves(worker, path); break;
      default: StorePrefix(worker, path); break;
    }
  }

  void StorePrefix(WorkerSlot worker, const Path& path) {
    const std::span prefix(path.data(), rng_.Below(path.size() + 1));
    index_.Store(worker, prefix);
    model_.Held(worker).insert(prefix.begin(), prefix.end());
  }

  // Drops the tail of `path`, and all that hangs on it, deepest first.
  void EvictLeaves(WorkerSlot worker, const Path& path) {
    std::set<BlockHash>& held = model_.Held(worker);
    const BlockHash cut = path[rng_.Below(path.size())];
    Path removed;
    for (const Path& other : paths_) {
      const auto at = std::find(other.begin(), other.end(), cut);
      for (auto block = other.end(); at != other.end() && block != at;) {
        if (held.erase(*--block) != 0) removed.push_back(*block);
      }
    }
    index_.Remove(worker, removed);
  }

  void Clear(WorkerSlot worker) {
    index_.Clear(worker);
    model_.Held(worker).clear();
  }

  void Compare() {
    const Path& path = paths_[rng_.Below(paths_.size())];
    const std::span query(path.data(), 1 + rng_.Below(path.size()));
    std::vector<std::pair<std::uint32_t, std::uint32_t>> found;
    for (const WorkerMatch& match : index_.Match(query)) found.emplace_back(match.block_count, match.worker.value());
    ASSERT_EQ(found, model_.Match(Path(query.begin(), query.end())));
    ASSERT_EQ(index_.block_count(), model_.DistinctCount());
    for (std::uint32_t slot = 0; slot < worker_count_; ++slot) {
      BlockHash digest;
      for (const BlockHash hash : model_.Held(WorkerSlot(slot))) digest = digest ^ hash;
      ASSERT_EQ(index_.View(WorkerSlot(slot)).digest, digest);
      ASSERT_EQ(index_.View(WorkerSlot(slot)).block_count, model_.Held(WorkerSlot(slot)).size());
    }
  }

  Rng rng_;
  std::size_t worker_count_;
  Model model_;
  std::vector<Path> paths_;
  PrefixIndex index_;
};

TEST(PrefixIndexModelTest, AnswersAsTheModelDoes) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    IndexFuzz(seed).Run(120);
    if (HasFatalFailure()) return;
  }
}

// One writer stores and removes tails; readers see, at every instant, a depth between what always stays and the whole.
TEST(PrefixIndexModelTest, ReadersBesideTheWriterSeeClosedPrefixes) {
  Rng rng(7);
  Path path(64);
  for (BlockHash& block : path) block = {.high = rng(), .low = rng()};
  const std::size_t kept = path.size() / 2;
  const std::span all(path);
  PrefixIndex index;
  const WorkerSlot steady(0);
  const WorkerSlot moving(1);
  index.Store(steady, all);
  index.Store(moving, all.first(kept));

  std::atomic<bool> done = false;
  std::atomic<int> wrong = 0;
  std::atomic<int> reads = 0;
  const auto read = [&] {
    while (!done.load()) {
      const std::vector<WorkerMatch> matches = index.Match(path);
      const bool good = matches.size() == 2 && matches[0].worker == steady && matches[0].block_count == path.size() &&
                        matches[1].block_count >= kept && index.View(moving).block_count >= kept;
      if (!good) ++wrong;
      ++reads;
    }
  };
  std::thread first(read);
  std::thread second(read);
  for (int round = 0; round < 500 || reads < 500; ++round) {
    index.Store(moving, all.subspan(kept));
    const Path tail(path.rbegin(), path.rend() - static_cast<std::ptrdiff_t>(kept));
    index.Remove(moving, tail);
  }
  done = true;
  first.join();
  second.join();
  EXPECT_EQ(wrong.load(), 0);
}

}  // namespace
}  // namespace roost::router
