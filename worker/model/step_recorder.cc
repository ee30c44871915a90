#include "worker/model/step_recorder.h"

namespace roost::worker {

void StepRecorder::Run(const std::vector<std::uint64_t>& shape, const std::function<void()>& ops) {
  if (!enabled()) {
    ops();
    return;
  }
  const auto found = recordings_.find(shape);
  if (found == recordings_.end()) {
    if (recordings_.size() == kMaxShapes) recordings_.clear();
    recordings_.emplace(shape, nullptr);
    ops();
    return;
  }
  std::unique_ptr<kernels::Recording>& recording = found->second;
  if (recording == nullptr) {
    backend_.ops().begin_recording(backend_.device());
    ops();
    recording = backend_.ops().end_recording(backend_.device());
    // Making it may wait for other devices, whose replays may wait for this one's.
    if (communicator_ != nullptr) communicator_->AwaitPeers();
  }
  backend_.ops().replay(backend_.device(), *recording);
}

}  // namespace roost::worker
