// The router's end of the wire, for tests of workers: it records what each worker sends, in order, and sends what a
// test says. Every wait ends with the test's patience.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/wire/codec.h"
#include "common/wire/socket.h"

namespace roost::testing_support {

class TestRouter {
 public:
  static constexpr std::chrono::seconds kPatience{20};

  explicit TestRouter(std::uint64_t instance, const std::string& endpoint = "tcp://127.0.0.1:0") : instance_(instance) {
    // The port of a router that has just gone may be busy for a moment.
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    Result<wire::RouterSocket> bound = wire::RouterSocket::Bind(context_, endpoint, wire::InsecureBind::kRefuse);
    while (!bound.ok() && std::chrono::steady_clock::now() < deadline) {
      wire::WaitForMessages({}, waker_, std::chrono::milliseconds(10));
      bound = wire::RouterSocket::Bind(context_, endpoint, wire::InsecureBind::kRefuse);
    }
    EXPECT_TRUE(bound.ok());
    socket_.emplace(std::move(bound).value());
  }

  [[nodiscard]] const std::string& endpoint() const { return socket_->endpoint(); }

  void Send(const std::string& worker, const wire::RouterMessage& message) { SendFrame(worker, wire::Encode(message)); }
  void SendFrame(const std::string& worker, const wire::Bytes& frame) {
    EXPECT_EQ(socket_->Send(identities_[worker], frame), wire::SendOutcome::kSent);
  }

  // The next message of type T from `worker`; all others before it are dropped. Fails the test if there is none.
  template <typename T>
  T Next(const std::string& worker) {
    return NextWhere<T>(worker, [](const T&) { return true; });
  }
  template <typename T>
  T NextWhere(const std::string& worker, const std::function<bool(const T&)>& wanted) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < deadline) {
      while (std::optional<wire::WorkerMessage> message = Receive(worker)) {
        if (T* value = std::get_if<T>(&*message); value != nullptr && wanted(*value)) return std::move(*value);
      }
    }
    ADD_FAILURE() << "no such message from " << worker;
    return T{};
  }

  // Hello, Welcome, Snapshot: brings the worker up. Returns its hello. A worker that sends something before a hello is
  // asked for one.
  wire::Hello BringUp(const std::string& worker) {
    wire::Hello hello = NextHello(worker);
    Send(worker, wire::Welcome{instance_, hello.epoch});
    snapshot = NextWhere<wire::Snapshot>(worker, [](const wire::Snapshot& chunk) { return chunk.last; });
    EXPECT_EQ(snapshot.epoch, hello.epoch);
    next_sequence = snapshot.sequence + 1;
    return hello;
  }

  // A request's whole answer: its tokens and its end; `steps` gets every step on the way.
  struct Answer {
    std::vector<TokenId> tokens;
    std::optional<std::uint32_t> cached_token_count;
    std::optional<wire::FinishReason> finish;
    std::optional<Error> error;
  };
  Answer Finish(const std::string& worker, RequestId request) {
    Answer answer;
    while (!answer.finish && !::testing::Test::HasFailure()) {
      Send(worker, wire::Ping{});
      const wire::Step step = Next<wire::Step>(worker);
      EXPECT_EQ(step.sequence, next_sequence++);
      steps.push_back(step);
      for (const wire::TokenEvent& event : step.tokens) {
        if (event.request_id != request) continue;
        answer.tokens.insert(answer.tokens.end(), event.tokens.begin(), event.tokens.end());
        if (event.cached_token_count) answer.cached_token_count = event.cached_token_count;
        answer.finish = event.finish;
        answer.error = event.error;
      }
    }
    return answer;
  }

  wire::Snapshot snapshot;  // the last chunk of the latest one
  std::uint64_t next_sequence = 1;
  std::vector<wire::Step> steps;

 private:
  wire::Hello NextHello(const std::string& worker) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < deadline) {
      std::optional<wire::WorkerMessage> message = Receive(worker);
      if (!message) continue;
      if (auto* hello = std::get_if<wire::Hello>(&*message)) return std::move(*hello);
      if (identities_.contains(worker)) Send(worker, wire::WantHello{});
    }
    ADD_FAILURE() << "no hello from " << worker;
    return {};
  }

  // The next message of `worker`, if one comes within a moment. Messages of others are kept.
  std::optional<wire::WorkerMessage> Receive(const std::string& worker) {
    while (std::optional<wire::Received> received = socket_->TryReceive()) Take(*received);
    for (auto next = inbox_.begin(); next != inbox_.end(); ++next) {
      if (next->worker != worker) continue;
      wire::WorkerMessage message = std::move(next->message);
      inbox_.erase(next);
      return message;
    }
    const wire::Socket* sockets[] = {&*socket_};
    wire::WaitForMessages(sockets, waker_, std::chrono::milliseconds(20));
    return std::nullopt;
  }

  // A worker's name is known from its hello; a worker that has sent no hello is asked for one.
  void Take(const wire::Received& received) {
    auto message = wire::DecodeWorkerMessage(received.frame);
    ASSERT_TRUE(message.ok() && message.value().has_value());
    if (const auto* hello = std::get_if<wire::Hello>(&**message)) identities_[hello->worker_id] = received.identity;
    for (const auto& [worker, identity] : identities_) {
      if (identity == received.identity) return inbox_.push_back({worker, **std::move(message)});
    }
    EXPECT_EQ(socket_->Send(received.identity, wire::Encode(wire::RouterMessage(wire::WantHello{}))),
              wire::SendOutcome::kSent);
  }

  struct Incoming {
    std::string worker;
    wire::WorkerMessage message;
  };

  const std::uint64_t instance_;
  wire::Context context_;
  wire::Waker waker_;
  std::optional<wire::RouterSocket> socket_;
  std::map<std::string, std::string> identities_;  // of connections, by worker name
  std::deque<Incoming> inbox_;
};

}  // namespace roost::testing_support
