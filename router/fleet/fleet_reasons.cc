#include "router/fleet/fleet_reasons.h"

namespace roost::router {

std::string_view NameOf(LostReason reason) {
  switch (reason) {
    case LostReason::kSilent: return "silent";
    case LostReason::kRestarted: return "restarted";
    case LostReason::kBrokenLink: return "broken_link";
    case LostReason::kUnreachable: return "unreachable";
    case LostReason::kStalled: return "stalled";
  }
  return "unknown";
}

std::string_view NameOf(RetryReason reason) {
  switch (reason) {
    case RetryReason::kWorkerLost: return "worker_lost";
    case RetryReason::kOverloaded: return "overloaded";
    case RetryReason::kUnavailable: return "unavailable";
    case RetryReason::kNoFirstToken: return "no_first_token";
    case RetryReason::kNoLaterToken: return "no_later_token";
  }
  return "unknown";
}

std::string_view NameOf(QueueRefusal refusal) {
  switch (refusal) {
    case QueueRefusal::kFull: return "full";
    case QueueRefusal::kDeadline: return "deadline";
  }
  return "unknown";
}

std::string_view NameOf(HandoverKind kind) {
  switch (kind) {
    case HandoverKind::kLeave: return "leave";
    case HandoverKind::kJoin: return "join";
  }
  return "unknown";
}

std::string_view NameOf(HandoverEnd end) {
  switch (end) {
    case HandoverEnd::kComplete: return "complete";
    case HandoverEnd::kPartial: return "partial";
    case HandoverEnd::kNothing: return "nothing";
  }
  return "unknown";
}

std::string_view NameOf(ResyncReason reason) {
  switch (reason) {
    case ResyncReason::kHello: return "hello";
    case ResyncReason::kGap: return "gap";
    case ResyncReason::kDigest: return "digest";
  }
  return "unknown";
}

}  // namespace roost::router
