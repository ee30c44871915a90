#include "worker/engine/hit_verifier.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace roost::worker {
namespace {

bool Agree(std::span<const float> left, std::span<const float> right) {
  if (left.size() != right.size()) return false;
  float largest = 0;
  float difference = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    largest = std::max(largest, std::abs(left[i]));
    difference = std::max(difference, std::abs(left[i] - right[i]));
  }
  return difference <= HitVerifier::kTolerance * largest;
}

}  // namespace

HitVerifier::HitVerifier(Scheduler& scheduler, double share) : scheduler_(scheduler), share_(share) {}

void HitVerifier::OnPromptComputed(const Sequence& sequence, const std::function<std::span<const float>()>& logits) {
  if (share_ <= 0 || check_ || sequence.cached_token_count == 0 || rng_.Uniform() >= share_) return;
  const auto prompt_end = sequence.tokens.begin() + sequence.prompt_token_count;
  const Result<SequenceId> submitted = scheduler_.Submit({.root = sequence.root,
                                                          .own = sequence.own,
                                                          .prompt = {sequence.tokens.begin(), prompt_end},
                                                          .priority = 0,
                                                          .cache_mode = wire::CacheMode::kOff});
  // A full queue leaves no room for checks.
  if (!submitted.ok()) return;
  const std::span<const float> expected = logits();
  check_ = Check{*submitted, {expected.begin(), expected.end()}};
}

HitVerifier::Verdict HitVerifier::Judge(std::span<const float> logits) {
  const Check check = std::move(*check_);
  check_.reset();
  scheduler_.Remove(check.sequence);
  return Agree(check.expected, logits) ? Verdict::kRight : Verdict::kWrong;
}

}  // namespace roost::worker
