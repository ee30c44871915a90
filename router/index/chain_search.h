// Finds where the holders of a chain change, by bisection: equal holders at both ends of an interval prove the interval
// uniform (prefix closure), one whose ends differ is cut in five.
//
//   first cut    0 ······ 102 ······ 204 ······ 306 ······ 408 ······ 511
//   holders      A        A          B          B          B          C
//   two more              |··|··|··|··|                    |··|··|··|··|
//
// The probes of a cut are independent of each other, and so are cuts, which wait in a queue: while the memory of one is
// read, so is that of those behind it, and a round of cuts takes little more than one read. Probes cost enough that
// more of them for fewer rounds are no gain: cuts in four, six and eight were measured to be slower.
//
// Keeps its memory from search to search. Probes: about 4 · (changes) · log5(length); rounds: log5(length).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

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

  // What positions 0 … length - 1 fall into, deepest first. length > 0. A probe has
  //   PendingRead Locate(std::uint32_t position): what to read;
  //   void Fetch(const PendingRead& pending): starts to read it, and does not wait;
  //   Holders Finish(const PendingRead& pending);
  //   void Expect(Holders holders): told of holders that will be among the answer, before the search is over.
  template <typename Probe>
  [[nodiscard]] std::span<const Stretch> Run(std::uint32_t length, const Probe& probe) {
    cuts_.clear();
    stretches_.clear();
    const PendingRead first = probe.Locate(0);
    const PendingRead last = probe.Locate(length - 1);
    probe.Fetch(first);
    probe.Fetch(last);
    Cut& whole = Begin({.first = 0, .width = length - 1}, probe);
    whole.before = probe.Finish(first);
    whole.after = probe.Finish(last);
    probe.Expect(whole.after);
    stretches_.push_back({.end = length, .holders = whole.after});
    if (whole.before != whole.after) {
      for (std::size_t i = 0; i < cuts_.size(); ++i) Resolve(cuts_[i], probe);
    }
    const auto is_deeper = [](const Stretch& a, const Stretch& b) { return a.end > b.end; };
    std::sort(stretches_.begin(), stretches_.end(), is_deeper);
    return stretches_;
  }

 private:
  static constexpr std::uint32_t kParts = 5;

  struct Interval {
    std::uint32_t first = 0;
    std::uint32_t width = 0;

    [[nodiscard]] std::uint32_t PositionOf(std::uint32_t part) const {
      return first + static_cast<std::uint32_t>(std::uint64_t{width} * part / kParts);
    }
  };
  struct Cut {
    Interval interval;
    Holders before;  // of `first`
    Holders after;   // of first + width
    std::array<PendingRead, kParts - 1> reads = {};
  };

  // visit(0) … visit(kCount - 1), without a loop: a tenth of a search's time.
  template <std::uint32_t kCount, typename Visit>
  static void Unrolled(Visit visit) {
    [&]<std::uint32_t... kIndex>(std::integer_sequence<std::uint32_t, kIndex...>) { (visit(kIndex), ...); }
    (std::make_integer_sequence<std::uint32_t, kCount>());
  }

  template <typename Probe>
  [[gnu::always_inline]] Cut& Begin(const Interval& interval, const Probe& probe) {
    Cut& cut = cuts_.emplace_back();
    cut.interval = interval;
    Unrolled<kParts - 1>([&](std::uint32_t i) { cut.reads[i] = probe.Locate(interval.PositionOf(i + 1)); });
    // Apart from the above, so that the processor has all of them before it at once.
    Unrolled<kParts - 1>([&](std::uint32_t i) { probe.Fetch(cut.reads[i]); });
    return cut;
  }

  // Begins cuts of the parts whose ends differ; `cut` may be gone afterwards.
  template <typename Probe>
  void Resolve(const Cut& cut, const Probe& probe) {
    const Interval interval = cut.interval;
    std::array<Holders, kParts + 1> holders;
    holders[0] = cut.before;
    Unrolled<kParts - 1>([&](std::uint32_t i) { holders[i + 1] = probe.Finish(cut.reads[i]); });
    holders[kParts] = cut.after;
    unsigned changes = 0;  // bit i: part i, without a branch for each, which nobody could predict
    Unrolled<kParts>([&](std::uint32_t i) { changes |= static_cast<unsigned>(holders[i] != holders[i + 1]) << i; });
    for (; changes != 0; changes &= changes - 1) {
      const auto part = static_cast<std::uint32_t>(std::countr_zero(changes));
      const std::uint32_t first = interval.PositionOf(part);
      const std::uint32_t width = interval.PositionOf(part + 1) - first;
      probe.Expect(holders[part]);
      if (width > 1) {
        Cut& next = Begin({.first = first, .width = width}, probe);
        next.before = holders[part];
        next.after = holders[part + 1];
      } else {
        stretches_.push_back({.end = first + 1, .holders = holders[part]});
      }
    }
  }

  std::vector<Cut> cuts_;  // a queue, of which nothing is taken out
  std::vector<Stretch> stretches_;
};

}  // namespace roost::router
