#include "worker/model/step_recorder.h"

#include <utility>

#include "common/base/log.h"

namespace roost::worker {

void StepRecorder::Run(const Shape& shape, const std::function<void()>& ops) {
  if (!enabled()) {
    ops();
    return;
  }
  Seen* const seen = Find(shape);
  if (seen == nullptr) {
    ops();
    return;
  }
  if (seen->recording == nullptr && !seen->has_no_memory) {
    Record(*seen, ops);
    // Making the recording may wait for other devices, whose replays may wait for this one's. All ranks replay a shape,
    // or none does: a collective op may take another way in a recording.
    const auto vote = seen->has_no_memory ? kernels::Vote::kNo : kernels::Vote::kYes;
    if (communicator_ != nullptr && !communicator_->AwaitPeers(vote)) {
      seen->recording.reset();
      seen->has_no_memory = true;
    }
    if (seen->has_no_memory && !std::exchange(has_warned_, true)) {
      LogWarning("no memory for recordings of further steps: they run op by op");
    }
  }
  if (seen->recording == nullptr) {
    ops();
    return;
  }
  backend_.ops().replay(backend_.device(), *seen->recording);
}

bool StepRecorder::Record(const Shape& shape, const std::function<void()>& ops) {
  if (!enabled() || Find(shape) != nullptr) return false;
  Record(seen_.front(), ops);
  return !seen_.front().has_no_memory;
}

void StepRecorder::Record(Seen& seen, const std::function<void()>& ops) {
  backend_.ops().begin_recording(backend_.device());
  ops();
  seen.recording = backend_.ops().end_recording(backend_.device());
  seen.has_no_memory = seen.recording == nullptr;
}

StepRecorder::Seen* StepRecorder::Find(const Shape& shape) {
  if (const auto found = by_shape_.find(shape); found != by_shape_.end()) {
    seen_.splice(seen_.begin(), seen_, found->second);
    return &seen_.front();
  }
  if (seen_.size() == kMaxShapes) {
    by_shape_.erase(seen_.back().shape);
    seen_.pop_back();
  }
  seen_.push_front({.shape = shape});
  by_shape_.emplace(shape, seen_.begin());
  return nullptr;
}

}  // namespace roost::worker
