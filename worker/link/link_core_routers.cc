// Handles the messages of routers to the worker.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "common/base/log.h"
#include "common/base/trace_context.h"
#include "worker/link/link_core.h"

namespace roost::worker {
namespace {

// An order for which the inbox has no space gets no answer, and the router can send it again. But an eviction or a Hold
// that is not carried out is refused, so that its sender knows.
std::optional<OrderReply> RefusalWithoutRoom(const EngineOrder& order) {
  if (std::holds_alternative<wire::Evict>(order) || std::holds_alternative<wire::Hold>(order)) return RefusalOf(order);
  return std::nullopt;
}

// The minor versions of the protocol from which on routers know resumable blocks, and say when they have handed over.
constexpr std::uint32_t kHasCheckpoints = 10;
constexpr std::uint32_t kHandsOver = 11;

}  // namespace

void LinkCore::OnMessage(PeerId peer, wire::RouterMessage message) {
  Link* link = FindPeer(peer);
  if (link == nullptr) return;
  link->last_heard = clock_.Now();
  std::visit([this, link](auto& value) { Handle(*link, std::move(value)); }, message);
}

void LinkCore::OnMalformed(PeerId peer) {
  ++counts_.malformed_messages;
  // The message's content is unknown, so the router's view of this worker may be wrong.
  if (Link* link = FindPeer(peer); link != nullptr && link->state == State::kUp) Restart(*link, ResyncReason::kAsked);
}

// With one thread each there are only fewer workers to start.
void LinkCore::WarnOfCrowding(const wire::Crowding& crowding) {
  if (crowding == std::exchange(crowding_told_, crowding) || crowding.threads <= crowding.workers) return;
  const std::uint32_t fitting = std::max(1U, crowding.cores / std::max(1U, crowding.workers));
  LogWarning("workers share processors and compute with more threads than there are: all of them get slower",
             {{"workers", crowding.workers},
              {"threads", crowding.threads},
              {"processors", crowding.cores},
              {"advice", fmt::format("--threads {} for each", fitting)}});
}

void LinkCore::Handle(Link& link, const wire::Welcome& welcome) {
  if (welcome.epoch != link.epoch) return;
  const Result<void> same_major = wire::CheckMajors({.worker = setup_.hello.version, .router = welcome.version});
  if (!same_major.ok()) return NoteRefusal(link, wire::RefusalCause::kVersion, same_major.error().ToString());
  const bool other_process = link.router_instance && *link.router_instance != welcome.router_instance;
  if (link.state == State::kUp) {
    // A second welcome from the same process answers a repeated hello, or tells of the host's new workers. Another
    // process does not know this life of the link.
    if (other_process) {
      Restart(link, ResyncReason::kRouterRestart);
    } else {
      WarnOfCrowding(welcome.crowding);
    }
    return;
  }
  if (other_process) link.resync_reason = ResyncReason::kRouterRestart;
  const std::string_view reason = link.resync_reason ? kResyncReasonNames[IndexOf(*link.resync_reason)] : "first";
  if (link.resync_reason) ++counts_.resyncs[IndexOf(*link.resync_reason)];
  link.resync_reason.reset();
  link.refusal.reset();
  link.refusal_logged = {};
  link.silence_logged.reset();
  status_changed_ = true;
  link.router_instance = welcome.router_instance;
  link.state = State::kUp;
  link.takes_checkpoints = welcome.version.minor >= kHasCheckpoints;
  link.hands_over = welcome.version.minor >= kHandsOver;
  LogInfo("router link up", {{"router", link.name},
                             {"epoch", std::to_string(link.epoch)},
                             {"reason", std::string(reason)},
                             {"protocol", wire::Describe(welcome.version)}});
  WarnOfCrowding(welcome.crowding);
  // Routers decide by the load, and an idle engine reports none.
  SendStep(link, {}, {}, load_);
  if (link.adapters_due && link.state == State::kUp) TellAdapters(link);
}

void LinkCore::Handle(Link& link, wire::Generate generate) {
  // Before the welcome there are two cases. The request belongs to an earlier life, and the router knows that it is
  // lost; or the welcome was lost, and the first ping reveals it.
  if (link.state != State::kUp) return;
  const RequestId id = generate.request_id;
  if (link.in_flight.contains(id)) {
    ++counts_.malformed_messages;
    return;
  }
  link.generate_digest ^= wire::MixedId(id);
  if (load_.draining) {
    return Refuse(link, id, Error{ErrorCode::kUnavailable, WhyNoRequests(), ""});
  }
  if (generate.refusal) return Refuse(link, id, *std::move(generate.refusal));
  if (!setup_.hello.keeps_prefixes) generate.cache_mode = wire::CacheMode::kOff;
  LogDebug("request taken", {{"router", link.name},
                             {"request", fmt::format("{}", id.value())},
                             {"trace_id", std::string(TraceIdOf(generate.trace_parent))},
                             {"prompt_tokens", generate.prompt.size()}});
  InFlight in_flight{.open_choices = generate.sample_count, .prompt = {}};
  in_flight.traced = spans_.Begin(generate, clock_.Now());
  if (links_.size() > 1) in_flight.prompt = PromptOf(generate, link.id.value(), submit_count_ + 1, clock_.Now());
  if (!effects_.Submit(SubmitCommand{link.id, std::move(generate), clock_.Now()})) {
    return Refuse(link, id, Error{ErrorCode::kOverloaded, "the worker's inbox is full", ""});
  }
  ++submit_count_;
  if (in_flight.prompt.prompt.id != 0) {
    peer_prompt_board_.Arrive(in_flight.prompt);
    for (Link& other : links_) other.has_news = other.has_news || other.id != link.id;
  }
  link.in_flight.emplace(id, std::move(in_flight));
}

void LinkCore::Handle(Link& link, wire::Forward forward) {
  if (link.state != State::kUp) return;
  const RequestId id = forward.request_id;
  if (link.in_flight.contains(id) || !link.forwards.insert(id).second) {
    ++counts_.malformed_messages;
    return;
  }
  link.generate_digest ^= wire::MixedId(id);
  const auto refuse = [&](ErrorCode code, std::string message) {
    wire::Forwarded refusal;
    refusal.request_id = id;
    refusal.last = true;
    refusal.error = Error{code, std::move(message), ""};
    Take(LinkForwarded{link.id, std::move(refusal)});
  };
  if (load_.draining) return refuse(ErrorCode::kUnavailable, WhyNoRequests());
  const std::vector<std::string>& routes = setup_.hello.routes;
  if (std::find(routes.begin(), routes.end(), forward.path) == routes.end()) {
    return refuse(ErrorCode::kNotFound, fmt::format("the worker's engine has no {}", forward.path));
  }
  LogDebug("request passed on", {{"router", link.name},
                                 {"request", fmt::format("{}", id.value())},
                                 {"trace_id", std::string(TraceIdOf(forward.trace_parent))},
                                 {"path", forward.path},
                                 {"body_bytes", forward.body_bytes}});
  if (effects_.Submit(ForwardPart{{link.id, id}, std::move(forward), clock_.Now()})) return;
  refuse(ErrorCode::kOverloaded, "the worker's inbox is full");
}

void LinkCore::Handle(Link& link, wire::ForwardBody body) {
  const RequestId id = body.request_id;
  if (link.forwards.contains(id)) effects_.Command(ForwardPart{{link.id, id}, std::move(body), clock_.Now()});
}

void LinkCore::Handle(Link& link, const wire::ForwardCredit& credit) {
  const RequestId id = credit.request_id;
  if (link.forwards.contains(id)) effects_.Command(ForwardPart{{link.id, id}, credit, clock_.Now()});
}

void LinkCore::HandleOrder(Link& link, EngineOrder order) {
  const bool is_pin = std::holds_alternative<wire::Pin>(order);
  if (link.state != State::kUp || (is_pin && !setup_.hello.keeps_prefixes)) return;
  const std::optional<OrderReply> refusal = RefusalWithoutRoom(order);
  const std::string name(NameOf(order));
  if (effects_.Submit(OrderCommand{link.id, std::move(order)})) return;
  LogWarning("an order is not carried out: the inbox is full", {{"order", name}, {"router", link.name}});
  if (refusal && AnswerIdOf(*refusal) != 0) Take(EngineAnswer{link.id, *refusal});
}

// A cordon in force already is told again: the router that asks may not have heard of it.
void LinkCore::Handle(Link& link, const wire::Cordon& cordon) {
  if (link.state != State::kUp) return;
  if (load_.cordoned != cordon.in_force) {
    LogInfo(cordon.in_force ? "cordoned: no new requests" : "uncordoned", {{"router", link.name}});
  }
  load_.cordoned = cordon.in_force && !is_leaving_;
  ApplyDraining();
}

// It may have crossed the report that this worker takes requests again.
void LinkCore::Handle(Link& link, const wire::HandedOver&) {
  link.has_handed_over = link.state == State::kUp && load_.draining;
}

void LinkCore::Handle(Link& link, const wire::Cancel& cancel) {
  const bool was_forwarded = link.forwards.erase(cancel.request_id) > 0;
  if (!was_forwarded && !link.in_flight.contains(cancel.request_id)) return;
  effects_.Command(CancelCommand{{link.id, cancel.request_id}});
}

void LinkCore::Handle(Link& link, const wire::WantHello&) {
  // While greeting, a hello has been sent or is due.
  if (link.state == State::kUp) Restart(link, ResyncReason::kAsked);
}

void LinkCore::Handle(Link& link, const wire::WantSnapshot&) {
  if (link.state != State::kUp || link.snapshot_due || !setup_.hello.sends_cache_events) return;
  ++counts_.resyncs[IndexOf(ResyncReason::kAsked)];
  link.snapshot_due = true;
}

void LinkCore::Handle(Link& link, const wire::WantTokenizer&) {
  if (effects_.Send(link.peer, setup_.tokenizer) != wire::SendOutcome::kSent) Restart(link, ResyncReason::kUnsent);
}

void LinkCore::Handle(Link& link, const wire::Ping& ping) {
  if (link.state != State::kUp) return;
  link.is_sole = ping.sole;
  if (ping.generate_digest.value_or(link.generate_digest) != link.generate_digest) Restart(link, ResyncReason::kGap);
}

void LinkCore::Refuse(Link& link, RequestId request, Error error) {
  ++counts_.finished_requests[IndexOf(wire::FinishReason::kError)];
  wire::TokenEvent event;
  event.request_id = request;
  event.finish = wire::FinishReason::kError;
  event.error = std::move(error);
  SendStep(link, {std::move(event)}, {}, load_);
}

}  // namespace roost::worker
