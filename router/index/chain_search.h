// Finds where the holders of a chain change, by bisection: equal holders at both ends of an interval prove the interval
// uniform (prefix closure), one whose ends differ is cut in six. All the probes of a round are independent, so their
// memory reads overlap; a round costs little more than one of them.
//
//   round 1     0 ······ 85 ······ 170 ······ 255 ······ 340 ······ 425 ······ 511
//   holders     A        A         B          B          B          B          B
//   round 2              |·|·|·|·|·|   85 … 170 is cut again
//
// Keeps its memory from search to search. Probes: about 5 · (changes) · log6(length); rounds: log6(length).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "router/index/holders.h"

namespace roost::router {

template <typename PendingRead>
class ChainSearch {
 public:
  struct Sample {
    std::uint32_t position = 0;
    bool read = false;
    Holders holders;
    PendingRead pending;
  };

  // Samples of positions 0 … length - 1, ascending, the first and the last one among them: those next to each other
  // have equal holders, or neighbouring positions. length > 0. A probe has
  //   PendingRead Begin(std::uint32_t position): starts to read memory, and does not wait for it;
  //   Holders Finish(const PendingRead& pending).
  template <typename Probe>
  [[nodiscard]] std::span<const Sample> Run(std::uint32_t length, const Probe& probe) {
    samples_.clear();
    Add(0, probe);
    Cut(0, length - 1, probe);
    if (length > 1) Add(length - 1, probe);
    do {
      for (Sample& sample : samples_) {
        if (!sample.read) sample.holders = probe.Finish(sample.pending);
        sample.read = true;
      }
    } while (Refine(probe));
    return samples_;
  }

 private:
  static constexpr std::uint32_t kParts = 6;

  template <typename Probe>
  void Add(std::uint32_t position, const Probe& probe) {
    samples_.push_back({.position = position, .read = false, .holders = {}, .pending = probe.Begin(position)});
  }

  // Adds probes inside of (first, last).
  template <typename Probe>
  void Cut(std::uint32_t first, std::uint32_t last, const Probe& probe) {
    std::uint32_t previous = first;
    for (std::uint32_t part = 1; part < kParts; ++part) {
      const auto position = first + static_cast<std::uint32_t>(std::uint64_t{last - first} * part / kParts);
      if (position > previous) Add(position, probe);
      previous = position;
    }
  }

  // Cuts the intervals whose ends differ, and drops samples inside of uniform ones. False when there was nothing to
  // cut.
  template <typename Probe>
  bool Refine(const Probe& probe) {
    samples_.swap(previous_);
    samples_.clear();
    bool cut = false;
    for (std::size_t i = 0; i < previous_.size(); ++i) {
      const Sample& sample = previous_[i];
      const bool last = i + 1 == previous_.size();
      const bool like_next = !last && previous_[i + 1].holders == sample.holders;
      if (i > 0 && like_next && previous_[i - 1].holders == sample.holders) continue;
      samples_.push_back(sample);
      if (last || like_next || previous_[i + 1].position - sample.position == 1) continue;
      Cut(sample.position, previous_[i + 1].position, probe);
      cut = true;
    }
    return cut;
  }

  std::vector<Sample> samples_;
  std::vector<Sample> previous_;
};

}  // namespace roost::router
