// A TCP socket with a free port of 127.0.0.1. It refuses connections until the test calls listen.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

namespace roost::testing_support {

class LoopbackSocket {
 public:
  LoopbackSocket() : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address_);
    auto* const address = reinterpret_cast<sockaddr*>(&address_);
    if (bind(fd_, address, size) != 0 || getsockname(fd_, address, &size) != 0) std::abort();
  }
  ~LoopbackSocket() { close(fd_); }
  LoopbackSocket(const LoopbackSocket&) = delete;
  LoopbackSocket& operator=(const LoopbackSocket&) = delete;

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] const sockaddr_in& address() const { return address_; }
  [[nodiscard]] std::uint16_t port() const { return ntohs(address_.sin_port); }
  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(port()); }

 private:
  int fd_;
  sockaddr_in address_{};
};

}  // namespace roost::testing_support
