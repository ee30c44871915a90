// A server on a free port whose answers are raw bytes, so that tests can play an engine that answers, stalls, breaks
// off or sends garbage. A thread for each connection.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "tests/support/loopback_socket.h"

namespace roost::worker::adapters::testing_support {

struct RawAnswer {
  std::string bytes;
  enum class Then : std::uint8_t {
    kKeep,   // the connection is kept for another request
    kClose,  // it is closed
    kHold,   // nothing more is sent until the client closes it
  };
  Then then = Then::kKeep;
};

inline RawAnswer WholeAnswer(std::string_view body, int status = 200) {
  return {"HTTP/1.1 " + std::to_string(status) + " X\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
          std::string(body)};
}

class RawServer {
 public:
  // Called on the connection's thread with a whole request: head and body.
  using Handler = std::function<RawAnswer(const std::string& request)>;

  explicit RawServer(Handler handler) : handler_(std::move(handler)) {
    if (listen(listener_.fd(), 128) != 0) std::abort();
    thread_ = std::thread([this] { Accept(); });
  }
  ~RawServer() {
    shutdown(listener_.fd(), SHUT_RDWR);
    thread_.join();
    for (Connection& connection : connections_) {
      shutdown(connection.socket, SHUT_RDWR);
      connection.thread.join();
      close(connection.socket);
    }
  }
  RawServer(const RawServer&) = delete;
  RawServer& operator=(const RawServer&) = delete;

  [[nodiscard]] std::string url() const { return listener_.url(); }
  [[nodiscard]] std::size_t connection_count() const { return connection_count_; }
  [[nodiscard]] std::size_t request_count() const { return request_count_; }
  // Waits until clients have closed so many connections that were held.
  [[nodiscard]] bool WaitForClosed(std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return closed_count_ >= count; });
  }

 private:
  struct Connection {
    int socket = -1;
    std::thread thread = {};
  };

  void Accept() {
    for (;;) {
      const int socket = accept(listener_.fd(), nullptr, nullptr);
      if (socket < 0) return;
      ++connection_count_;
      Connection& connection = connections_.emplace_back(Connection{socket});
      connection.thread = std::thread([this, socket] { Serve(socket); });
    }
  }

  void Serve(int socket) {
    std::string request;
    while (ReadRequest(socket, request)) {
      ++request_count_;
      const RawAnswer answer = handler_(request);
      Send(socket, answer.bytes);
      if (answer.then == RawAnswer::Then::kHold) return Hold(socket);
      if (answer.then == RawAnswer::Then::kClose) break;
    }
    shutdown(socket, SHUT_RDWR);
  }

  // No request is sent before the answer to the one before it.
  static bool ReadRequest(int socket, std::string& request) {
    request.clear();
    for (;;) {
      const std::size_t head = request.find("\r\n\r\n");
      if (head != std::string::npos && request.size() >= head + 4 + BodySize(request)) return true;
      char bytes[4096];
      const ssize_t count = recv(socket, bytes, sizeof(bytes), 0);
      if (count <= 0) return false;
      request.append(bytes, static_cast<std::size_t>(count));
    }
  }
  static std::size_t BodySize(const std::string& request) {
    const std::size_t field = request.find("Content-Length: ");
    return field == std::string::npos ? 0 : std::stoul(request.substr(field + 16));
  }
  static void Send(int socket, std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t count = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count <= 0) return;
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
  }
  void Hold(int socket) {
    char byte = 0;
    while (recv(socket, &byte, 1, 0) > 0) {
    }
    const std::lock_guard lock(mutex_);
    ++closed_count_;
    changed_.notify_all();
  }

  const Handler handler_;
  roost::testing_support::LoopbackSocket listener_;
  std::atomic<std::size_t> connection_count_ = 0;
  std::atomic<std::size_t> request_count_ = 0;
  std::list<Connection> connections_;  // the accepting thread's, until it has ended
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t closed_count_ = 0;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace roost::worker::adapters::testing_support
