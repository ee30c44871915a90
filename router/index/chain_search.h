// Finds where the holders of a chain change, by bisection: equal holders at both ends of an interval prove the interval
// uniform (prefix closure), one whose ends differ is cut in five.
//
//   first cut    0 ······ 102 ······ 204 ······ 306 ······ 408 ······ 511
//   holders      A        A          B          B          B          C
//   two more              |··|··|··|··|                    |··|··|··|··|
//
// Where earlier chains with the same beginning had changes, later cuts look first (change_memory.h), on both sides of
// up to two of them: a right guess takes two probes instead of twelve. The first cut does not use the guesses.
//
// The probes of a cut are independent of each other, and so are the cuts, which wait in a queue: while one cut waits
// for memory, the memory of the next ones is already being read, so a round of cuts takes little more than one memory
// read. More probes for fewer rounds gain nothing: cuts in four, six and eight parts were measured to be slower.
//
// Keeps its memory from search to search. Probes: about 4 · (changes) · log5(length), and some 4 · kMaxChanges beside
// if all guesses are wrong; rounds: log5(length), and one for each two wrong guesses.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "router/index/change_memory.h"
#include "router/index/holders.h"

namespace roost::router {

template <typename PendingRead>
class ChainSearch {
 public:
  // Positions next to each other that have equal holders.
  struct Stretch {
    std::uint32_t end = 0;  // one behind the last of them
    Holders holders;
  };

  // What positions 0 … length - 1 fall into, deepest first. length > 0; chains of a family begin with the same block. A
  // probe has
  //   PendingRead Locate(std::uint32_t position): what to read;
  //   void Fetch(const PendingRead& pending): starts to read it, and does not wait;
  //   Holders Finish(const PendingRead& pending);
  //   void Expect(Holders holders): told of holders that will be among the answer, before the search is over.
  template <typename Probe>
  [[nodiscard]] std::span<const Stretch> Run(std::uint32_t length, std::uint64_t family, const Probe& probe) {
    cuts_.clear();
    stretches_.clear();
    const PendingRead first = probe.Locate(0);
    const PendingRead last = probe.Locate(length - 1);
    probe.Fetch(first);
    probe.Fetch(last);
    memory_.Prefetch(family);
    Cut& whole = Begin(EqualParts(0, length - 1), probe);
    whole.before = probe.Finish(first);
    whole.after = probe.Finish(last);
    probe.Expect(whole.after);
    stretches_.push_back({.end = length, .holders = whole.after});
    if (whole.before == whole.after) return stretches_;
    guesses_ = memory_.Recall(family);
    for (std::size_t i = 0; i < cuts_.size(); ++i) Resolve(cuts_[i], probe);
    const auto is_deeper = [](const Stretch& a, const Stretch& b) { return a.end > b.end; };
    std::sort(stretches_.begin(), stretches_.end(), is_deeper);
    Remember(family);
    return stretches_;
  }

 private:
  static constexpr std::uint32_t kParts = 5;

  // Where an interval's parts begin, and where the last one ends. Ascending, and some may be empty.
  using Bounds = std::array<std::uint32_t, kParts + 1>;
  struct Cut {
    Bounds bounds = {};
    Holders before;                                  // at the first of the bounds
    Holders after;                                   // at the last one
    std::array<PendingRead, kParts - 1> reads = {};  // at those between
  };

  // visit(0) … visit(kCount - 1), without a loop: a tenth of a search's time.
  template <std::uint32_t kCount, typename Visit>
  static void Unrolled(Visit visit) {
    [&]<std::uint32_t... kIndex>(std::integer_sequence<std::uint32_t, kIndex...>) { (visit(kIndex), ...); }
    (std::make_integer_sequence<std::uint32_t, kCount>());
  }

  static Bounds EqualParts(std::uint32_t first, std::uint32_t last) {
    Bounds bounds;
    const std::uint64_t width = last - first;
    Unrolled<kParts + 1>([&](std::uint32_t i) { bounds[i] = first + static_cast<std::uint32_t>(width * i / kParts); });
    return bounds;
  }

  // Around the foremost guesses inside of it, if there are any. They are at the ends of parts then, and not inside of
  // one again.
  [[nodiscard]] Bounds PartsOf(std::uint32_t first, std::uint32_t last) const {
    std::size_t passed = 0;
    for (std::size_t i = 0; i < ChangeMemory::kMaxChanges; ++i) passed += guesses_[i] < first ? 1U : 0U;
    const std::uint32_t guess = guesses_[passed];
    const std::uint32_t next = guesses_[passed + 1];
    if (guess >= last) return EqualParts(first, last);
    if (next < last) return {first, guess, guess + 1, next, next + 1, last};
    return {first, std::midpoint(first, guess), guess, guess + 1, std::midpoint(guess + 1, last), last};
  }

  template <typename Probe>
  [[gnu::always_inline]] Cut& Begin(const Bounds& bounds, const Probe& probe) {
    Cut& cut = cuts_.emplace_back();
    cut.bounds = bounds;
    Unrolled<kParts - 1>([&](std::uint32_t i) { cut.reads[i] = probe.Locate(bounds[i + 1]); });
    // Apart from the above, so that the processor has all of them before it at once.
    Unrolled<kParts - 1>([&](std::uint32_t i) { probe.Fetch(cut.reads[i]); });
    return cut;
  }

  // Begins cuts of the parts whose ends differ; `cut` may be gone afterwards.
  template <typename Probe>
  void Resolve(const Cut& cut, const Probe& probe) {
    const Bounds bounds = cut.bounds;
    std::array<Holders, kParts + 1> holders;
    holders[0] = cut.before;
    Unrolled<kParts - 1>([&](std::uint32_t i) { holders[i + 1] = probe.Finish(cut.reads[i]); });
    holders[kParts] = cut.after;
    unsigned changes = 0;  // bit i: part i, without a branch for each, which nobody could predict
    Unrolled<kParts>([&](std::uint32_t i) { changes |= static_cast<unsigned>(holders[i] != holders[i + 1]) << i; });
    for (; changes != 0; changes &= changes - 1) {
      const auto part = static_cast<std::uint32_t>(std::countr_zero(changes));
      const std::uint32_t first = bounds[part];
      const std::uint32_t last = bounds[part + 1];
      probe.Expect(holders[part]);
      if (last - first > 1) {
        Cut& next = Begin(PartsOf(first, last), probe);
        next.before = holders[part];
        next.after = holders[part + 1];
      } else {
        stretches_.push_back({.end = first + 1, .holders = holders[part]});
      }
    }
  }

  void Remember(std::uint64_t family) {
    std::array<std::uint32_t, ChangeMemory::kMaxChanges> changes = {};
    std::size_t count = 0;
    for (std::size_t i = stretches_.size() - 1; i > 0 && count < changes.size(); --i) {
      const std::uint32_t position = stretches_[i].end - 1;
      // One that was read twice may end two stretches: it changed meanwhile.
      if (count == 0 || position > changes[count - 1]) changes[count++] = position;
    }
    memory_.Remember(family, std::span(changes).first(count));
  }

  std::vector<Cut> cuts_;  // a queue, of which nothing is taken out
  std::vector<Stretch> stretches_;
  ChangeMemory memory_;
  ChangeMemory::Changes guesses_ = {};  // of this search
};

}  // namespace roost::router
