// The reasons why prompt tokens are computed. Each prompt token that a request computes is counted under one reason, so
// that the counts of all reasons and of the cached tokens add up to the prompt tokens. A token that is computed again
// after a preemption counts again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace roost::worker {

// If several reasons apply, the first of this order counts: disabled, tail, not arrived, in flight, evicted, other
// salt, cold.
enum class MissReason : std::uint8_t {
  // No other reason: the block was never here, or so long ago that it is forgotten.
  kCold,
  // The key of the token's block is in the ghost list: a larger pool would have kept it.
  kEvicted,
  // Tokens after the prompt's last full block, which have no block hash to be cached under. Also the one token that
  // must be computed of a prompt that is cached completely, because there would be no logits otherwise.
  kTail,
  // Another request was computing an equal block at that time, and it was not worth waiting for it.
  kInFlight,
  // The prompt begins like a prompt under another root, which has its own copy. Sampled: SaltWatch says how to read the
  // count.
  kOtherSalt,
  // The request switched the cache off, or asks for log probabilities of its prompt.
  kDisabled,
  // The token's block was to come from another worker, by a Hold for this request or one that it waited for, and did
  // not
  // come, or came too slowly to wait for.
  kNotArrived,
};

// Values of the metric's label, by reason.
inline constexpr std::array<std::string_view, 7> kMissReasonNames{"cold",       "evicted",  "tail",       "in_flight",
                                                                  "other_salt", "disabled", "not_arrived"};

[[nodiscard]] constexpr std::size_t IndexOf(MissReason reason) { return static_cast<std::size_t>(reason); }

// Tokens by reason.
using MissCounts = std::array<std::uint64_t, kMissReasonNames.size()>;

}  // namespace roost::worker
