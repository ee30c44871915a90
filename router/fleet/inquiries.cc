#include "router/fleet/inquiries.h"

#include <algorithm>
#include <utility>

namespace roost::router {

Result<void> Inquiries::CheckRoom() const {
  if (open_.size() < kMaxOpen) return {};
  return Error{ErrorCode::kOverloaded, fmt::format("{} questions to workers are already waiting for answers", kMaxOpen),
               ""};
}

std::uint64_t Inquiries::NextId() {
  if (next_id_ == 0) ++next_id_;
  return next_id_++;
}

void Inquiries::Begin(std::uint64_t id, std::vector<Asked> asked, Instant deadline, AnswersDone done) {
  EndIfComplete(open_.emplace(id, Inquiry{std::move(asked), deadline, std::move(done)}).first);
}

void Inquiries::OnReply(std::uint64_t id, const std::string& worker_id, WorkerReply reply) {
  const auto inquiry = open_.find(id);
  if (inquiry == open_.end()) return;
  std::vector<Asked>& asked = inquiry->second.asked;
  const auto worker =
      std::find_if(asked.begin(), asked.end(), [&worker_id](const Asked& each) { return each.worker_id == worker_id; });
  if (worker == asked.end() || !std::exchange(worker->is_awaited, false)) return;
  worker->known = std::move(reply);
  EndIfComplete(inquiry);
}

void Inquiries::OnWorkerLost(const std::string& worker_id) {
  for (auto inquiry = open_.begin(); inquiry != open_.end();) {
    for (Asked& each : inquiry->second.asked) {
      if (each.worker_id == worker_id) each.is_awaited = false;
    }
    inquiry = EndIfComplete(inquiry);
  }
}

void Inquiries::Expire(Instant now) {
  for (auto inquiry = open_.begin(); inquiry != open_.end();) {
    inquiry = now >= inquiry->second.deadline ? End(inquiry) : std::next(inquiry);
  }
}

void Inquiries::EndAll() {
  while (!open_.empty()) End(open_.begin());
}

Inquiries::Open::iterator Inquiries::EndIfComplete(Open::iterator inquiry) {
  const std::vector<Asked>& asked = inquiry->second.asked;
  const bool awaits = std::any_of(asked.begin(), asked.end(), [](const Asked& each) { return each.is_awaited; });
  return awaits ? std::next(inquiry) : End(inquiry);
}

Inquiries::Open::iterator Inquiries::End(Open::iterator inquiry) {
  std::vector<WorkerAnswer> answers;
  answers.reserve(inquiry->second.asked.size());
  for (Asked& each : inquiry->second.asked) answers.push_back({std::move(each.worker_id), std::move(each.known)});
  effects_.Push(NotifyAnswers{std::move(inquiry->second.done), std::move(answers)});
  return open_.erase(inquiry);
}

}  // namespace roost::router
