// Two workers over loopback: the source, and the engine's side of the one that asks it for blocks.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "common/base/clock.h"
#include "tests/worker/transfer/pool_blocks.h"
#include "worker/transfer/block_server.h"
#include "worker/transfer/frame_memory.h"
#include "worker/transfer/frame_source.h"
#include "worker/transfer/peer_messages.h"
#include "worker/transfer/peers.h"

namespace roost::worker {

inline constexpr PeerLayout kLayout{.layout = 77, .numerics = 88};
inline constexpr std::uint32_t kBlocks = 64;  // of a pool

inline wire::PeerMessage HelloTo(const char* source) {
  return wire::PeerHello{.version = wire::kPeerMessageVersion, .layout = kLayout, .source = source};
}

// The message as it travels.
inline wire::Bytes BytesOf(const wire::PeerMessage& message) {
  wire::Bytes bytes = wire::Encode(message);
  const auto head = EncodeHead(PeerPart::kMessage, bytes.size());
  bytes.insert(bytes.begin(), head.begin(), head.end());
  return bytes;
}

// Stands still until told to move, for all threads.
class SharedClock final : public Clock {
 public:
  [[nodiscard]] Instant Now() const override { return Instant(Duration(now_.load())); }
  void Advance(Duration by) { now_ += by.count(); }

 private:
  std::atomic<Duration::rep> now_{Duration(std::chrono::seconds(1)).count()};
};

// Collects the news of each hold, and checks them.
class Arrived {
 public:
  explicit Arrived(const TestChain& chain) : chain_(chain), inbox([this] { changed_.notify_all(); }) {}

  // Waits until `id` has ended.
  wire::HoldOutcome EndOf(std::uint64_t id) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!ends.contains(id) && std::chrono::steady_clock::now() < end) Collect();
    EXPECT_TRUE(ends.contains(id)) << "hold " << id << " has no end";
    return ends.contains(id) ? ends[id] : wire::HoldOutcome::kRefused;
  }
  // The hold has ended.
  wire::HoldCause CauseOf(std::uint64_t id) { return causes[id]; }
  void AwaitFrames(std::uint64_t id, std::size_t count) {
    while (frames[id] < count && !ends.contains(id)) Collect();
    EXPECT_GE(frames[id], count);
  }

 private:
  const TestChain& chain_;
  std::mutex mutex_;
  std::condition_variable changed_;

  void Collect() {
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, std::chrono::milliseconds(20), [&] { return inbox.has_news(); });
    }
    for (FrameNews& news : inbox.Take()) {
      if (const auto* const frame = std::get_if<ArrivedFrame>(&news)) {
        const std::uint64_t id = frame->id.value();
        EXPECT_EQ(frame->opened.block, chain_.BlockAt(frame->index));
        EXPECT_TRUE(IsRight(frame->buffer, chain_, frame->index));
        EXPECT_FALSE(ends.contains(id));
        EXPECT_EQ(frame->index, frames[id] + firsts[id]);
        ++frames[id];
        if (keeps) kept.push_back(std::get<ArrivedFrame>(std::move(news)));
      } else if (const auto* const ended = std::get_if<FramesEnded>(&news)) {
        EXPECT_TRUE(ends.emplace(ended->id.value(), ended->outcome).second) << "a second end";
        causes[ended->id.value()] = ended->cause;
      } else {
        joins[std::get<FramesJoined>(news).id.value()] = std::get<FramesJoined>(news).first.value();
      }
    }
  }

 public:
  FrameInbox inbox;
  std::map<std::uint64_t, std::size_t> frames;
  std::map<std::uint64_t, std::uint32_t> firsts;  // index of the first frame that is awaited
  std::map<std::uint64_t, wire::HoldOutcome> ends;
  std::map<std::uint64_t, wire::HoldCause> causes;
  std::map<std::uint64_t, std::uint64_t> joins;
  bool keeps = false;
  std::vector<ArrivedFrame> kept;
};

// The source holds the first 40 of the chain's 50 blocks. Tests start the server and the peers. Memory of frames is
// given back in the end.
class TransferTest : public testing::Test {
 protected:
  void SetUp() override {
    for (std::uint32_t i = 0; i < 40; ++i) from_.Put(chain_, i, i);
  }
  // Here, while all that a test's server and peers use is still there.
  void TearDown() override {
    if (peers_ != nullptr) peers_->Stop();
    if (server_ != nullptr) server_->Stop();
    ExpectNothingOnItsWay();
    peers_.reset();
    server_.reset();
    arrived_.kept.clear();
    (void)arrived_.inbox.Take();
    EXPECT_EQ(memory_->used(), 0U) << "memory of a frame was not given back";
  }

  void ExpectNothingOnItsWay() const {
    EXPECT_EQ(peers_ == nullptr ? 0 : peers_->awaited_bytes(), 0U);
    EXPECT_EQ(server_ == nullptr ? 0 : server_->counts().leaving_bytes, 0U);
  }

  SharedClock clock_;
  const TestChain chain_{50};
  PoolBlocks from_{kBlocks};
  PoolBlocks to_{kBlocks};
  Arrived arrived_{chain_};
  std::shared_ptr<FrameMemory> memory_;
  std::unique_ptr<BlockServer> server_;
  std::unique_ptr<Peers> peers_;
};

}  // namespace roost::worker
