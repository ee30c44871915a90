#include "worker/cache/structures/number_trie.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/rng.h"

namespace roost::worker {
namespace {

class Nodes {
 public:
  explicit Nodes(std::uint32_t count) : nodes_(count) {}

  void SetNumber(std::uint32_t id, std::uint64_t number) { nodes_[id].number = number; }
  [[nodiscard]] std::uint64_t NumberOf(std::uint32_t id) const {
    ++reads_;
    return nodes_[id].number;
  }
  [[nodiscard]] std::uint32_t& LinkOf(std::uint32_t id, std::uint32_t side) {
    ++reads_;
    return nodes_[id].links[side];
  }
  [[nodiscard]] std::uint32_t BitOf(std::uint32_t id) const { return nodes_[id].bit; }
  void SetBit(std::uint32_t id, std::uint32_t bit) { nodes_[id].bit = bit; }

  // The number of numbers and links that were read since the last call.
  [[nodiscard]] std::uint64_t TakeReads() { return std::exchange(reads_, 0); }

 private:
  struct Node {
    std::uint64_t number = 0;
    std::array<std::uint32_t, 2> links{};
    std::uint32_t bit = 0;
  };
  std::vector<Node> nodes_;
  mutable std::uint64_t reads_ = 0;
};

using Trie = NumberTrie<Nodes>;
constexpr std::uint64_t kNumbers = std::uint64_t{1} << Trie::kNumberBits;

TEST(NumberTrieTest, AgreesWithAMapOnRandomOperations) {
  constexpr std::uint32_t kIds = 200;
  // Numbers from a small range are close together, those from a large range differ in their upper bits.
  for (const std::uint64_t range : {std::uint64_t{300}, std::uint64_t{1} << 20U, kNumbers}) {
    SCOPED_TRACE(testing::Message() << "numbers below " << range);
    Rng rng(range);
    Nodes nodes(kIds);
    Trie trie(nodes);
    // Two sets share the nodes.
    std::array<std::uint32_t, 2> roots = {Trie::kEmpty, Trie::kEmpty};
    std::array<std::map<std::uint64_t, std::uint32_t>, 2> sets;
    std::vector<std::optional<std::size_t>> set_of(kIds);
    for (int operation = 0; operation < 50'000; ++operation) {
      const auto id = static_cast<std::uint32_t>(rng.Below(kIds));
      if (!set_of[id]) {
        const std::size_t set = rng.Below(2);
        const std::uint64_t number = rng.Below(range);
        if (sets[set].contains(number)) continue;
        nodes.SetNumber(id, number);
        trie.Insert(roots[set], id);
        sets[set].emplace(number, id);
        set_of[id] = set;
      } else {
        // Often erases the first one, as an eviction does.
        const std::size_t set = *set_of[id];
        const std::uint32_t gone = rng.Below(2) == 0 ? sets[set].begin()->second : id;
        trie.Erase(roots[set], gone);
        sets[set].erase(nodes.NumberOf(gone));
        set_of[gone].reset();
      }
      for (const std::size_t set : {std::size_t{0}, std::size_t{1}}) {
        ASSERT_EQ(roots[set] == Trie::kEmpty, sets[set].empty());
        if (sets[set].empty()) continue;
        ASSERT_EQ(trie.First(roots[set]), sets[set].begin()->second);
      }
    }
  }
}

// The numbers with the longest path: each differs from the next one in one bit less.
TEST(NumberTrieTest, NoOperationTakesMoreStepsThanANumberHasBits) {
  constexpr std::uint32_t kIds = Trie::kNumberBits;
  Nodes nodes(kIds + 1);
  Trie trie(nodes);
  std::uint32_t root = Trie::kEmpty;
  for (std::uint32_t id = 0; id < kIds; ++id) {
    nodes.SetNumber(id, std::uint64_t{1} << id);
    trie.Insert(root, id);
  }
  nodes.SetNumber(kIds, 0);
  (void)nodes.TakeReads();
  trie.Insert(root, kIds);
  EXPECT_LE(nodes.TakeReads(), 3 * Trie::kNumberBits);
  EXPECT_EQ(trie.First(root), kIds);
  EXPECT_LE(nodes.TakeReads(), Trie::kNumberBits);
  trie.Erase(root, kIds);
  EXPECT_LE(nodes.TakeReads(), 4 * Trie::kNumberBits);
  EXPECT_EQ(trie.First(root), 0U);
}

TEST(NumberTrieDeathTest, StopsOnANumberThatIsTakenAndOnAnIdThatIsNotThere) {
  Nodes nodes(3);
  Trie trie(nodes);
  std::uint32_t root = Trie::kEmpty;
  nodes.SetNumber(0, 7);
  nodes.SetNumber(1, 7);
  nodes.SetNumber(2, 8);
  trie.Insert(root, 0);
  EXPECT_DEATH(trie.Insert(root, 1), "number 7 of 1 is taken");
  EXPECT_DEATH(trie.Erase(root, 2), "2 is not in the set");
}

}  // namespace
}  // namespace roost::worker
