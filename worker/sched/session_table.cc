#include "worker/sched/session_table.h"

#include <algorithm>

namespace roost::worker {

void SessionTable::Expect(std::uint64_t session, const Turn& turn) {
  const std::optional<Instant> end = std::max(turn.retention.prompt.end, turn.retention.decode.end);
  const auto before = turns_.find(session);
  if (before != turns_.end()) Forget(before);
  if (!end || turns_.size() >= kMaxSessions) return;
  turns_.emplace(session, Expected{turn, ends_.emplace(*end, session)});
}

std::optional<SessionTable::Turn> SessionTable::TakeBack(std::uint64_t session) {
  const auto found = turns_.find(session);
  if (found == turns_.end()) return std::nullopt;
  const Turn turn = found->second.turn;
  Forget(found);
  return turn;
}

void SessionTable::AdvanceTo(Instant now) {
  while (!ends_.empty() && ends_.begin()->first <= now) Forget(turns_.find(ends_.begin()->second));
}

void SessionTable::Forget(std::unordered_map<std::uint64_t, Expected>::iterator session) {
  ends_.erase(session->second.end);
  turns_.erase(session);
}

}  // namespace roost::worker
