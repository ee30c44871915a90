// A FakeWorker behind a real socket, on a thread of its own.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <thread>

#include "common/wire/codec.h"
#include "common/wire/socket.h"
#include "tests/router/fleet/fake_worker.h"

namespace roost::router {

inline constexpr int kUnlimited = std::numeric_limits<int>::max();

// Drives a FakeWorker over a DealerSocket until it is destroyed, which is its death: it says nothing.
class SocketWorker {
 public:
  SocketWorker(const std::string& endpoint, const std::string& id, std::uint64_t seed, int allowed_steps = kUnlimited,
               const std::optional<wire::ClientKeys>& keys = std::nullopt)
      : worker_(id, seed), allowed_steps_(allowed_steps), thread_([this, endpoint, keys] { Run(endpoint, keys); }) {}

  ~SocketWorker() {
    stopping_ = true;
    waker_.Wake();
    thread_.join();
  }

  void AllowSteps(int count) {
    allowed_steps_ = count;
    waker_.Wake();
  }
  [[nodiscard]] int refusal_count() const { return refusal_count_; }
  void SendGarbage() {
    garbage_due_ = true;
    waker_.Wake();
  }

 private:
  void Run(const std::string& endpoint, const std::optional<wire::ClientKeys>& keys) {
    wire::Context context;
    wire::DealerSocket socket = std::move(wire::DealerSocket::Connect(context, endpoint, keys)).value();
    const std::array<const wire::Socket*, 1> sockets{&socket};
    while (!stopping_) {
      if (!worker_.welcomed() && worker_.outbox().empty()) worker_.SayHello();
      Speak();
      Flush(socket);
      if (worker_.running_count() == 0 || allowed_steps_ == 0)
        wire::WaitForMessages(sockets, waker_, std::chrono::milliseconds(20));
      while (const std::optional<wire::Bytes> frame = socket.TryReceive()) {
        worker_.Receive(*wire::DecodeRouterMessage(*frame).value());
      }
      refusal_count_ = static_cast<int>(worker_.refusals().size());
    }
  }

  void Speak() {
    if (allowed_steps_ > 0) {
      if (worker_.running_count() > 0 && allowed_steps_ != kUnlimited) --allowed_steps_;
      worker_.Step();
    } else {
      worker_.Heartbeat();
    }
  }

  void Flush(wire::DealerSocket& socket) {
    if (garbage_due_.exchange(false)) static_cast<void>(socket.Send(wire::Bytes(40, std::byte{0xff})));
    for (auto& outbox = worker_.outbox(); !outbox.empty(); outbox.pop_front()) {
      if (socket.Send(wire::Encode(outbox.front())) != wire::SendOutcome::kSent) return;
    }
  }

  FakeWorker worker_;  // its thread alone, once started
  wire::Waker waker_;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> garbage_due_ = false;
  std::atomic<int> allowed_steps_;
  std::atomic<int> refusal_count_ = 0;
  std::thread thread_;
};

}  // namespace roost::router
