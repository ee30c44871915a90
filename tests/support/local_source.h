// A source of blocks in this process: it reads another engine's blocks when a test tells it to. And an engine's side of
// blocks that travel, put together.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "common/base/clock.h"
#include "worker/model/model.h"
#include "worker/transfer/frame_memory.h"
#include "worker/transfer/frame_source.h"
#include "worker/transfer/readable_blocks.h"

namespace roost::testing_support {

class LocalSource final : public worker::FrameSource {
 public:
  std::set<std::string> distrusted;                                              // workers
  std::function<void(BlockHash hash, std::span<const std::byte> data)> on_sent;  // of each block; may be empty

  // Both outlive it. `inbox` is the asking engine's.
  LocalSource(worker::FrameInbox& inbox, const Clock& clock) : inbox_(inbox), clock_(clock) {}

  // `from` has the blocks of the engine that is asked, and outlives it.
  // `of_source` and `own` are the two models'.
  void Connect(worker::ReadableBlocks* from, std::size_t frame_limit, worker::FrameStaging* of_source = nullptr,
               worker::FrameStaging* own = nullptr) {
    from_ = from;
    sent_ = *std::make_shared<worker::FrameMemory>(from->sizes(), 1, of_source)->Take([] { return true; });
    memory_ = std::make_shared<worker::FrameMemory>(from->sizes(), frame_limit, own);
  }

  void Ask(worker::FrameRequest request) override { asked_.push_back({std::move(request)}); }
  void Cancel(worker::HoldId id) override { cancelled_.insert(id); }
  void Distrust(const std::string& worker_id) override { distrusted.insert(worker_id); }

  // Tells the next block of the oldest request, or its end. False when there is no request, or no memory.
  bool Tell() {
    if (asked_.empty()) return false;
    Asked& asked = asked_.front();
    const worker::FrameRequest& request = asked.request;
    if (cancelled_.contains(request.id)) return End(wire::HoldOutcome::kCancelled);
    if (asked.next == request.chain.size()) return End(wire::HoldOutcome::kComplete);
    if (memory_->used() == memory_->limit()) return false;
    worker::FrameBuffer frame = *memory_->Take([] { return true; });
    if (!from_->Read(request.chain.hashes[asked.next], request.chain.tenant, sent_)) {
      return End(wire::HoldOutcome::kMissing);
    }
    if (on_sent) on_sent(request.chain.hashes[asked.next], sent_.data());
    std::copy(sent_.bytes().begin(), sent_.bytes().end(), frame.bytes().begin());
    Result<worker::OpenedFrame> opened = OpenFrame(frame, request.chain, asked.next);
    if (!opened.ok()) return End(wire::HoldOutcome::kWrong);
    memory_->Stage(frame);
    inbox_.Push(
        worker::ArrivedFrame{request.id, asked.next++, std::move(frame), std::move(opened).value(), clock_.Now()});
    return true;
  }
  // The oldest request ends like this. False when there is none.
  bool End(wire::HoldOutcome outcome) {
    if (asked_.empty()) return false;
    inbox_.Push(worker::FramesEnded{asked_.front().request.id, outcome});
    asked_.pop_front();
    return true;
  }
  void TellAll() {
    while (Tell()) {
    }
  }

  [[nodiscard]] bool is_asked() const { return !asked_.empty(); }
  [[nodiscard]] const std::set<worker::HoldId>& cancelled() const { return cancelled_; }
  [[nodiscard]] std::size_t used_frames() const { return memory_->used(); }

 private:
  struct Asked {
    worker::FrameRequest request;
    std::uint32_t next = 0;
  };

  worker::FrameInbox& inbox_;
  const Clock& clock_;
  worker::ReadableBlocks* from_ = nullptr;
  worker::FrameBuffer sent_;
  std::shared_ptr<worker::FrameMemory> memory_;
  std::deque<Asked> asked_;
  std::set<worker::HoldId> cancelled_;
};

}  // namespace roost::testing_support
