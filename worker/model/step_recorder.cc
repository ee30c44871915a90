#include "worker/model/step_recorder.h"

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
  if (seen->recording == nullptr) {
    seen->recording = RecordingOf(ops);
    // Making the recording may wait for other devices, whose replays may wait for this one's.
    if (communicator_ != nullptr) communicator_->AwaitPeers();
  }
  backend_.ops().replay(backend_.device(), *seen->recording);
}

bool StepRecorder::Record(const Shape& shape, const std::function<void()>& ops) {
  if (!enabled() || Find(shape) != nullptr) return false;
  seen_.front().recording = RecordingOf(ops);
  return true;
}

std::unique_ptr<kernels::Recording> StepRecorder::RecordingOf(const std::function<void()>& ops) {
  backend_.ops().begin_recording(backend_.device());
  ops();
  return backend_.ops().end_recording(backend_.device());
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
  seen_.push_front({shape, nullptr});
  by_shape_.emplace(shape, seen_.begin());
  return nullptr;
}

}  // namespace roost::worker
