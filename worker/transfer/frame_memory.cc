#include "worker/transfer/frame_memory.h"

#include <utility>
#include <vector>

#include "common/base/thread_name.h"

namespace roost::worker {

FrameMemory::FrameMemory(FrameSizes sizes, std::size_t frame_count, FrameStaging* staging)
    : sizes_(sizes), limit_(frame_count), staging_(staging) {
  if (staging_ != nullptr) unused_ = staging_->Take(frame_count);
}

FrameMemory::~FrameMemory() {
  if (staging_ != nullptr) return;
  for (const std::byte* memory : free_) delete[] memory;
}

// Frames that were used before come first: then few are to be wiped.
std::optional<FrameBuffer> FrameMemory::Take(const std::function<bool()>& wants) {
  std::unique_lock lock(mutex_);
  while (used_ + to_wipe_.size() >= limit_) {
    if (!wants()) return std::nullopt;
    changed_.wait(lock);
  }
  if (!wants()) return std::nullopt;
  ++used_;
  std::byte* memory = nullptr;
  for (std::vector<std::byte*>* const from : {&free_, &unused_}) {
    if (memory != nullptr || from->empty()) continue;
    memory = from->back();
    from->pop_back();
  }
  if (memory == nullptr) memory = new std::byte[sizes_.frame_bytes()];
  return FrameBuffer(sizes_, memory, {shared_from_this(), wipe_count_});
}

void FrameMemory::Wake() {
  { const std::lock_guard lock(mutex_); }  // a waiter has either asked before, or asks after this
  changed_.notify_all();
}

void FrameMemory::BeginWipe() {
  const std::lock_guard lock(mutex_);
  ++wipe_count_;
  used_before_wipe_ = used_;
  to_wipe_.insert(to_wipe_.end(), free_.begin(), free_.end());
  free_.clear();
}

void FrameMemory::Wipe() {
  std::unique_lock lock(mutex_);
  while (true) {
    returned_.wait(lock, [this] { return !to_wipe_.empty() || used_before_wipe_ == 0 || stops_wiping_; });
    if (to_wipe_.empty() || stops_wiping_) return;
    // It stays in the list meanwhile, which counts as taken.
    std::byte* const memory = to_wipe_.back();
    lock.unlock();
    staging_->Clear(memory);
    lock.lock();
    std::erase(to_wipe_, memory);
    unused_.push_back(memory);
    changed_.notify_one();
  }
}

void FrameMemory::StopWiping() {
  {
    const std::lock_guard lock(mutex_);
    stops_wiping_ = true;
  }
  returned_.notify_one();
}

void FrameMemory::TakeBack(std::byte* memory, std::uint64_t wipe) {
  {
    const std::lock_guard lock(mutex_);
    --used_;
    if (wipe < wipe_count_) {
      to_wipe_.push_back(memory);
      --used_before_wipe_;
      returned_.notify_one();
    } else {
      free_.push_back(memory);
    }
  }
  changed_.notify_one();
}

std::size_t FrameMemory::used() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

// ---- FrameWiper ----

FrameWiper::FrameWiper(std::vector<std::shared_ptr<FrameMemory>> memories, std::function<void()> end_sends,
                       std::function<void()> wake)
    : memories_(std::move(memories)), end_sends_(std::move(end_sends)), wake_(std::move(wake)) {
  thread_ = std::thread([this] { Run(); });
}

FrameWiper::~FrameWiper() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  begun_.notify_one();
  for (const auto& memory : memories_) memory->StopWiping();
  thread_.join();
}

std::uint64_t FrameWiper::Begin() {
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& memory : memories_) memory->BeginWipe();
    number = ++begun_number_;
  }
  begun_.notify_one();
  return number;
}

void FrameWiper::Run() {
  NameThisThread("blocks-wipe");
  std::unique_lock lock(mutex_);
  while (true) {
    begun_.wait(lock, [this] { return is_stopping_ || begun_number_ > done_number_; });
    if (is_stopping_) return;
    const std::uint64_t number = begun_number_;
    lock.unlock();
    end_sends_();
    for (const auto& memory : memories_) memory->Wipe();
    done_number_ = number;
    wake_();
    lock.lock();
  }
}

}  // namespace roost::worker
