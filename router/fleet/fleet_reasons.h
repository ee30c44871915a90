// Reasons for events in the fleet, used as labels of its counters and in its log lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "common/wire/messages.h"

namespace roost::router {

// The reason why a worker was lost. One that said bye has left, and is not lost.
enum class LostReason : std::uint8_t {
  kSilent,       // nothing heard for the worker timeout
  kRestarted,    // it said hello under a new epoch
  kBrokenLink,   // messages were lost, or were malformed
  kUnreachable,  // its connection is gone, or accepts no more messages
  kStalled,      // its engine has work and makes no progress
};
[[nodiscard]] std::string_view NameOf(LostReason reason);

// The reason why a generation was sent again.
enum class RetryReason : std::uint8_t {
  kWorkerLost,
  kOverloaded,
  kUnavailable,
  kNoFirstToken,  // the worker sent no token for far longer than it should need: see FirstTokens
  kNoLaterToken,  // it let a request wait that had begun: see LaterTokens
};
[[nodiscard]] std::string_view NameOf(RetryReason reason);

// The reason why a worker's part of the index is filled from a snapshot.
enum class ResyncReason : std::uint8_t { kHello, kGap, kDigest };
[[nodiscard]] std::string_view NameOf(ResyncReason reason);

// The reason why a request that had to wait at the router was refused.
enum class QueueRefusal : std::uint8_t { kFull, kDeadline };
[[nodiscard]] std::string_view NameOf(QueueRefusal refusal);

// The reason why prefixes are handed over: a worker leaves, or joins.
enum class HandoverKind : std::uint8_t { kLeave, kJoin };
[[nodiscard]] std::string_view NameOf(HandoverKind kind);

// The end of a handover.
enum class HandoverEnd : std::uint8_t {
  kComplete,
  kPartial,  // some found no room, did not come, or were left when the worker went
  kNothing,  // there was nothing to hand over, or no worker to take it
};
[[nodiscard]] std::string_view NameOf(HandoverEnd end);

// The end of a Hold: as its worker says, or, when empty, without an answer.
using PullOutcome = std::optional<wire::HoldOutcome>;
inline constexpr std::string_view kUnanswered = "unanswered";
[[nodiscard]] inline std::string_view NameOf(PullOutcome outcome) {
  return outcome ? wire::kHoldOutcomeNames[static_cast<std::size_t>(*outcome)] : kUnanswered;
}

}  // namespace roost::router
