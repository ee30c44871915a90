#include "router/fleet/cordons.h"

#include <algorithm>
#include <utility>

namespace roost::router {
namespace {

bool WantsCordon(const CordonOrder& order) { return order.service == Service::kCordoned; }

ServiceState StateOf(const Worker& worker) {
  return {.is_cordoned = worker.load.cordoned,
          .running_requests = worker.load.running_requests,
          .waiting_requests = worker.load.waiting_requests,
          .in_flight_requests = worker.ledger->request_count()};
}

}  // namespace

Result<void> Cordons::Order(const CordonOrder& order, Instant now, AnswersDone done) {
  if (open_.size() >= kMaxOpen) {
    return Error{ErrorCode::kOverloaded, fmt::format("{} such orders are already waiting for workers", kMaxOpen), ""};
  }
  Worker* const worker = roster_.Find(order.worker_id);
  if (worker == nullptr) {
    return Error{ErrorCode::kNotFound, fmt::format("there is no worker '{}'", order.worker_id), "worker"};
  }
  Open open{order, now + kAnswerPatience, now + order.patience, std::move(done)};
  if (!worker->hello.features.contains(wire::Feature::kCordons)) {
    End(open, NotSupported{});
    return {};
  }
  effects_.Send(worker->identity, wire::Cordon{.in_force = WantsCordon(order)});
  if (WantsCordon(order)) {
    // It would refuse what is sent from here on. Its next report says so itself.
    worker->is_leaving = true;
    roster_.Refresh(*worker);
  }
  open_.push_back(std::move(open));
  return {};
}

bool Cordons::IsOver(const Open& open, const Worker& worker, Instant now) {
  if (worker.load.cordoned != WantsCordon(open.order)) return false;
  return !WantsCordon(open.order) || StateOf(worker).IsIdle() || now >= open.wait_until;
}

void Cordons::OnReport(const Worker& worker, Instant now) {
  std::erase_if(open_, [&](Open& open) {
    if (open.order.worker_id != worker.hello.worker_id || !IsOver(open, worker, now)) return false;
    End(open, StateOf(worker));
    return true;
  });
}

void Cordons::OnWorkerLost(const std::string& worker_id) {
  std::erase_if(open_, [&](Open& open) {
    if (open.order.worker_id != worker_id) return false;
    End(open, {});
    return true;
  });
}

// An order that the worker has confirmed ends with a report: they come several times a second.
void Cordons::Expire(Instant now) {
  std::erase_if(open_, [&](Open& open) {
    if (now < open.confirm_until) return false;
    const Worker* const worker = roster_.Find(open.order.worker_id);
    if (worker != nullptr && worker->load.cordoned == WantsCordon(open.order)) return false;
    End(open, {});
    return true;
  });
}

void Cordons::EndAll() {
  for (Open& open : open_) End(open, {});
  open_.clear();
}

void Cordons::End(Open& open, WorkerReply reply) {
  effects_.Push(NotifyAnswers{std::move(open.done), {{open.order.worker_id, std::move(reply)}}});
}

}  // namespace roost::router
