#include "worker/engine/constraint_queue.h"

#include <algorithm>

namespace roost::worker {

Result<void> ConstraintQueue::Push(ConstrainedSubmit submit) {
  const wire::Generate& generate = submit.generate;
  if (constrainer_ == nullptr) {
    return InvalidArgument(generate.constraint->field, "this worker does not support constrained output");
  }
  if (waiting_.size() >= limit_) {
    return Error{ErrorCode::kOverloaded, "too many requests wait for their grammars", ""};
  }
  if (generate.first_output_index > generate.prompt.size()) {
    return InvalidArgument("first_output_index", "the prompt has {} tokens", generate.prompt.size());
  }
  Constrainer::Job job{.id = ++last_job_, .constraint = *generate.constraint, .output = {}};
  job.output.assign(generate.prompt.end() - generate.first_output_index, generate.prompt.end());
  waiting_.emplace(job.id, std::move(submit));
  constrainer_->Begin(std::move(job));
  return {};
}

std::vector<ConstraintQueue::Ready> ConstraintQueue::TakeReady() {
  std::vector<Ready> ready;
  if (waiting_.empty()) return ready;
  for (Constrainer::Done& done : constrainer_->TakeDone()) {
    auto found = waiting_.extract(done.id);
    if (!found.empty()) ready.push_back({std::move(found.mapped()), std::move(done.automaton)});
  }
  return ready;
}

bool ConstraintQueue::IsDue(Instant now) const {
  if (waiting_.empty()) return false;
  return constrainer_->HasDone() ||
         std::any_of(waiting_.begin(), waiting_.end(), [now](const auto& each) { return each.second.IsLate(now); });
}

bool ConstraintQueue::Contains(RequestKey key) const {
  return std::any_of(waiting_.begin(), waiting_.end(), [key](const auto& each) { return each.second.key == key; });
}

bool ConstraintQueue::Wants(BlockHash block, std::uint32_t position) const {
  return std::any_of(waiting_.begin(), waiting_.end(), [&](const auto& each) {
    const std::vector<BlockHash>& hashes = each.second.generate.block_hashes;
    return position < hashes.size() && hashes[position] == block;
  });
}

}  // namespace roost::worker
