#include "worker/transfer/frame_memory.h"

namespace roost::worker {

FrameMemory::~FrameMemory() {
  for (const std::byte* memory : free_) delete[] memory;
}

std::optional<FrameBuffer> FrameMemory::Take(const std::function<bool()>& wants) {
  std::unique_lock lock(mutex_);
  while (used_ == limit_) {
    if (!wants()) return std::nullopt;
    changed_.wait(lock);
  }
  if (!wants()) return std::nullopt;
  ++used_;
  if (free_.empty()) return FrameBuffer(sizes_, new std::byte[sizes_.frame_bytes()], shared_from_this());
  std::byte* const memory = free_.back();
  free_.pop_back();
  return FrameBuffer(sizes_, memory, shared_from_this());
}

void FrameMemory::Wake() {
  { const std::lock_guard lock(mutex_); }  // a waiter has either asked before, or asks after this
  changed_.notify_all();
}

void FrameMemory::TakeBack(std::byte* memory) {
  {
    const std::lock_guard lock(mutex_);
    free_.push_back(memory);
    --used_;
  }
  changed_.notify_one();
}

std::size_t FrameMemory::used() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

}  // namespace roost::worker
