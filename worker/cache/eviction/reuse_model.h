// Learns per class how soon blocks come back: the hazard of reuse as a function of age. From it follows the hit density
// that ranks idle blocks.
//
// A block's hit density at age a is the most hits per unit of time that keeping it from a on can bring:
//
//     density(a) = max over b > a of  P(reused in [a, b) | not before a) / E[time kept in [a, b) | not before a]
//
// This is the Gittins index of keeping a block (Gittins, Bandit processes and dynamic allocation indices, 1979), and
// what LHD estimates for objects in general (Beckmann, Chen, Cidon, LHD: Improving cache hit rate by maximizing hit
// density, NSDI 2018). Giving the space to the highest densities is best if blocks come back independently.
//
// Time counts in requests. Ages fall into buckets, two per octave. Hazards are counted from a sample of blocks, those
// that come back as well as those at risk, so that blocks that had no time to come back yet do not bias the counts
// (Kaplan, Meier, Nonparametric estimation from incomplete observations, 1958). Counts fade. A class with few counts
// uses the counts of all classes as a prior, with the weight of a few requests only: the blocks of one request come
// back together and are not independent evidence.
//
// Not thread-safe. Every operation is O(1): each request refreshes a few classes of the table.
#pragma once

#include <array>
#include <cstdint>

namespace roost::worker {

class ReuseModel {
 public:
  static constexpr std::uint32_t kClassCount = 64;

  ReuseModel();

  // A sampled block of a class was released.
  void CountRelease(std::uint32_t reuse_class);
  // A sampled block that was released in this class came back at this age.
  void CountReuse(std::uint32_t reuse_class, std::uint32_t age);

  // A request has released its blocks. The counts fade, and the next part of the table is renewed.
  void EndRequest();

  [[nodiscard]] float DensityAt(std::uint32_t reuse_class, std::uint64_t age) const;

 private:
  // Bucket k holds the ages from FirstAge(k) to below FirstAge(k + 1).
  static constexpr std::uint32_t kAgeBuckets = 32;
  using ByAge = std::array<float, kAgeBuckets>;

  struct ClassCounts {
    float released = 0;
    ByAge reused{};
  };

  [[nodiscard]] static std::uint32_t BucketOf(std::uint64_t age);
  [[nodiscard]] ByAge AtRisk(const ClassCounts& counts) const;
  void Fade();
  void RenewAll();
  void RenewClass(std::uint32_t reuse_class);
  [[nodiscard]] ByAge HazardOf(const ClassCounts& counts) const;
  static void SetDensities(const ByAge& hazard, ByAge& densities);

  std::array<ClassCounts, kClassCount> counts_{};
  float request_weight_ = 0;  // requests, faded as the counts are
  std::uint64_t request_count_ = 0;
  std::uint32_t next_class_ = 0;  // to be renewed
  float releases_per_request_ = 1;
  ByAge common_hazard_{};  // of all classes together
  std::array<ByAge, kClassCount> densities_{};
};

}  // namespace roost::worker
