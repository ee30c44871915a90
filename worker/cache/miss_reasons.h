// Why prompt tokens are computed. Each prompt token that a request computes is counted under one reason, so that the
// counts of all reasons and of the cached tokens add up to the prompt tokens. A token that is computed again after a
// preemption counts again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace roost::worker {

// Where several reasons apply, the first of this order counts: disabled, tail, in flight, evicted, other salt, cold.
enum class MissReason : std::uint8_t {
  // None of the others: the block was never here, or so long ago that it is forgotten.
  kCold,
  // The key of the token's block is in the ghost list: a larger pool would have had it.
  kEvicted,
  // After the prompt's last full block, where nothing is cached under a hash; and the one token that has to be computed
  // of a prompt that is cached as a whole, because there would be no logits otherwise.
  kTail,
  // Another request was computing an equal block at that time, and waiting for it was not worth it.
  kInFlight,
  // The prompt begins like one under another root, and is computed apart from it. Sampled: SaltWatch says how the count
  // is to be read.
  kOtherSalt,
  // The request switched the cache off, or wants log probabilities of its prompt.
  kDisabled,
};

// Values of the metric's label, by reason.
inline constexpr std::array<std::string_view, 6> kMissReasonNames{"cold",      "evicted",    "tail",
                                                                  "in_flight", "other_salt", "disabled"};

[[nodiscard]] constexpr std::size_t IndexOf(MissReason reason) { return static_cast<std::size_t>(reason); }

// Tokens by reason.
using MissCounts = std::array<std::uint64_t, kMissReasonNames.size()>;

}  // namespace roost::worker
