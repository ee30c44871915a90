// Routers that do not take this worker: what is counted, logged and shown of them.
#include "common/base/log.h"
#include "worker/link/link_core.h"

namespace roost::worker {

// A refusal of an earlier hello says nothing of this one.
void LinkCore::Handle(Link& link, const wire::Refused& refused) {
  if (refused.epoch == link.epoch && link.state == State::kGreeting) NoteRefusal(link, refused.cause, refused.reason);
}

void LinkCore::NoteRefusal(Link& link, wire::RefusalCause cause, const std::string& reason) {
  RememberRefusal(link, IndexOf(cause), reason);
  std::optional<Instant>& logged = link.refusal_logged[IndexOf(cause)];
  const Instant now = clock_.Now();
  if (logged && now < *logged + setup_.times.refusal_reminder) return;
  logged = now;
  LogError("a router refuses this worker", {{"router", link.name},
                                            {"worker", setup_.hello.worker_id},
                                            {"cause", std::string(wire::kRefusalCauseNames[IndexOf(cause)])},
                                            {"reason", reason}});
}

void LinkCore::NoteSilence(Link& link) {
  const Instant now = clock_.Now();
  if (link.refusal || (link.silence_logged && now < *link.silence_logged + setup_.times.refusal_reminder)) return;
  link.silence_logged = now;
  LogWarning("no answer from a router",
             {{"router", link.name}, {"hint", "it must be the --link-address of a running router"}});
}

void LinkCore::OnHandshakeFailure(PeerId peer, const std::string& reason) {
  if (Link* link = FindPeer(peer); link != nullptr) RememberRefusal(*link, kHandshakeRefusal, reason);
}

void LinkCore::RememberRefusal(Link& link, std::size_t cause, const std::string& reason) {
  ++counts_.refusals[cause];
  link.refusal = reason;
  link.refused_at = clock_.Now();
  status_changed_ = true;
}

void LinkCore::ForgetRefusal(Link& link) {
  if (!link.refusal || clock_.Now() < link.refused_at + setup_.times.refusal_memory) return;
  link.refusal.reset();
  status_changed_ = true;
}

std::vector<RouterStatus> LinkCore::statuses() const {
  std::vector<RouterStatus> statuses;
  statuses.reserve(links_.size());
  for (const Link& link : links_) {
    RouterStatus& status = statuses.emplace_back();
    status.router = link.name;
    if (link.state == State::kUp) {
      status.standing = LinkStanding::kUp;
    } else if (link.refusal) {
      status.standing = LinkStanding::kRefused;
      status.reason = *link.refusal;
    }
  }
  return statuses;
}

}  // namespace roost::worker
