// Answers ZeroMQ's question whether a peer may come in (ZAP, rfc.zeromq.org/spec/27), for all protected sockets of one
// context. The peer has proven that it has the secret half of its key when the question comes.
//
// Threads: one of its own. It exists before the first protected socket and is destroyed after the last one, before the
// context.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <zmq.hpp>

#include "common/base/result.h"

namespace roost::wire {

class ZapHandler {
 public:
  // Called on the handler's thread with the address that ZeroMQ sees and the peer's public key as Z85. True lets it in;
  // its messages then carry the key as "User-Id".
  using Admit = std::function<bool(const std::string& address, const std::string& public_key)>;

  // kUnavailable: the context has a handler already.
  [[nodiscard]] static Result<std::unique_ptr<ZapHandler>> Start(zmq::context_t& context, Admit admit);
  ~ZapHandler();
  ZapHandler(const ZapHandler&) = delete;
  ZapHandler& operator=(const ZapHandler&) = delete;

 private:
  ZapHandler(zmq::socket_t socket, Admit admit);
  void Run();
  void Answer();

  const Admit admit_;
  const int stop_;  // an eventfd
  zmq::socket_t socket_;
  std::thread thread_;
};

}  // namespace roost::wire
