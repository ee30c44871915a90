#include "worker/cache/eviction/reuse_model.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace roost::worker {
namespace {

constexpr float kFadingRequests = 1000;          // counts fall to 1/e in this many requests
constexpr std::uint32_t kRenewedPerRequest = 4;  // classes
constexpr float kRateEvidence = 3;               // weight of the common rate in a class, in requests' worth of reuses
constexpr float kShapeEvidence = 20;             // weight of the common shape, in requests' worth of releases
constexpr float kHighestHazard = 0.95F;

// sqrt(2)^k - 1 for k = 0 … 32.
const std::array<float, 33>& FirstAges() {
  static const std::array<float, 33> ages = [] {
    std::array<float, 33> table{};
    for (std::size_t k = 0; k < table.size(); ++k) table[k] = std::exp2(static_cast<float>(k) / 2) - 1;
    return table;
  }();
  return ages;
}

}  // namespace

ReuseModel::ReuseModel() { RenewAll(); }

std::uint32_t ReuseModel::BucketOf(std::uint64_t age) {
  const std::uint64_t x = std::min<std::uint64_t>(age, 0xFFFE) + 1;
  const auto octave = static_cast<std::uint32_t>(std::bit_width(x)) - 1;
  const std::uint32_t upper_half = (x * x) >> (2 * octave + 1U) > 0 ? 1 : 0;  // x is at least sqrt(2) * 2^octave
  return std::min(2 * octave + upper_half, kAgeBuckets - 1);
}

void ReuseModel::CountRelease(std::uint32_t reuse_class) { counts_[reuse_class].released += 1; }

void ReuseModel::CountReuse(std::uint32_t reuse_class, std::uint32_t age) {
  counts_[reuse_class].reused[BucketOf(age)] += 1;
}

void ReuseModel::EndRequest() {
  ++request_count_;
  request_weight_ += 1;
  for (std::uint32_t i = 0; i < kRenewedPerRequest; ++i) {
    if (next_class_ == 0) {
      Fade();
      RenewAll();
    }
    RenewClass(next_class_);
    next_class_ = (next_class_ + 1) % kClassCount;
  }
}

// Called once per round over the classes.
void ReuseModel::Fade() {
  const float factor = std::exp(-static_cast<float>(kClassCount) / kRenewedPerRequest / kFadingRequests);
  request_weight_ *= factor;
  for (ClassCounts& counts : counts_) {
    counts.released *= factor;
    for (float& reused : counts.reused) reused *= factor;
  }
}

// The number of the class's releases that were observed through each age: released that long ago and not reused before
// it.
ReuseModel::ByAge ReuseModel::AtRisk(const ClassCounts& counts) const {
  ByAge at_risk{};
  float left = counts.released;
  const auto elapsed = static_cast<float>(request_count_ + 1);
  for (std::uint32_t k = 0; k < kAgeBuckets; ++k) {
    at_risk[k] = std::max(0.0F, left * (1 - FirstAges()[k] / elapsed));
    left -= counts.reused[k];
  }
  return at_risk;
}

void ReuseModel::RenewAll() {
  ClassCounts all;
  for (const ClassCounts& counts : counts_) {
    all.released += counts.released;
    for (std::uint32_t k = 0; k < kAgeBuckets; ++k) all.reused[k] += counts.reused[k];
  }
  releases_per_request_ = std::max(1.0F, all.released / std::max(1.0F, request_weight_));
  const ByAge at_risk = AtRisk(all);
  for (std::uint32_t k = 0; k < kAgeBuckets; ++k) {
    common_hazard_[k] = std::min(kHighestHazard, all.reused[k] / (at_risk[k] + releases_per_request_));
  }
}

void ReuseModel::RenewClass(std::uint32_t reuse_class) {
  SetDensities(HazardOf(counts_[reuse_class]), densities_[reuse_class]);
}

// The common hazard, scaled to the class's own rate of reuse, is the prior; the class's own counts are added to it.
ReuseModel::ByAge ReuseModel::HazardOf(const ClassCounts& counts) const {
  const ByAge at_risk = AtRisk(counts);
  float reuses = kRateEvidence * releases_per_request_;
  float expected_reuses = reuses;
  for (std::uint32_t k = 0; k < kAgeBuckets; ++k) {
    reuses += counts.reused[k];
    expected_reuses += at_risk[k] * common_hazard_[k];
  }
  const float scale = reuses / expected_reuses;
  const float prior_weight = kShapeEvidence * releases_per_request_;
  ByAge hazard{};
  for (std::uint32_t k = 0; k < kAgeBuckets; ++k) {
    const float prior = std::min(kHighestHazard, common_hazard_[k] * scale);
    hazard[k] = std::min(kHighestHazard, (counts.reused[k] + prior_weight * prior) / (at_risk[k] + prior_weight));
  }
  return hazard;
}

void ReuseModel::SetDensities(const ByAge& hazard, ByAge& densities) {
  ByAge hits{};  // the chance to be reused in the bucket, seen from age 0
  ByAge kept{};  // the expected time kept in it
  float alive = 1;
  for (std::uint32_t k = 0; k < kAgeBuckets; ++k) {
    hits[k] = alive * hazard[k];
    kept[k] = (FirstAges()[k + 1] - FirstAges()[k]) * (alive - hits[k] / 2);
    alive -= hits[k];
  }
  for (std::uint32_t k = 0; k < kAgeBuckets; ++k) {
    float best = 0;
    float hit_sum = 0;
    float kept_sum = 0;
    for (std::uint32_t j = k; j < kAgeBuckets; ++j) {
      hit_sum += hits[j];
      kept_sum += kept[j];
      best = std::max(best, hit_sum / kept_sum);
    }
    densities[k] = best;
  }
}

// Interpolates linearly between the beginnings of two buckets.
float ReuseModel::DensityAt(std::uint32_t reuse_class, std::uint64_t age) const {
  const std::uint32_t k = BucketOf(age);
  const ByAge& densities = densities_[reuse_class];
  if (k + 1 == kAgeBuckets) return densities[k];
  const float first = FirstAges()[k];
  const float share = (static_cast<float>(age) - first) / (FirstAges()[k + 1] - first);
  return densities[k] + share * (densities[k + 1] - densities[k]);
}

}  // namespace roost::worker
