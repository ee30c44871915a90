// HTTP/1.1 server. It has N threads, each with its own event loop. The listener distributes accepted connections, and a
// connection stays on its thread. A connection serves one request at a time; input that a client sends ahead waits in a
// bounded buffer.
//
// Every misuse ends in bounded time and bounded memory, with an OpenAI error body if an answer is still possible: 400
// malformed, 408 too slow, 413 body too large, 431 head too large, 429 too many connections or bytes. If memory still
// runs out, only the connection that needed it ends, not the process. Idle connections keep no client out: a new one
// takes the place of the one that is idle longest, over max_connections or when the process has no descriptors left.
//
// With TLS a handshake comes first, within header_timeout and a bounded number of bytes; one that fails ends its
// connection, and a request that comes in plain HTTP is answered 400. One connection too many is closed before its
// handshake, without the 429: a handshake costs more than most requests. An answer that is cut off ends without TLS's
// close_notify, every other one with it.
//
// Threads: Start and Stop from one thread; port and connection_count from any. The handler runs on the server's
// threads.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/byte_budget.h"
#include "common/base/error.h"
#include "common/base/result.h"
#include "common/http/responder.h"
#include "common/http/tls_context.h"

namespace roost {

struct HttpServerOptions {
  std::string address = "127.0.0.1";  // a numeric IPv4 or IPv6 address
  std::string unix_path = {};         // of a socket in the file system, instead of address and port; for its user alone
  std::uint16_t port = 0;             // 0: any free one, see port()
  std::uint32_t thread_count = 1;

  // One more takes the place of the connection that waits longest for its client: for the next request or the end of a
  // head; if there is none, for an answer to be read. If all others have a request that is read or answered, the new
  // one is answered 429 and closed.
  std::size_t max_connections = 10'000;
  std::size_t header_bytes = 32 * 1024;
  std::size_t body_bytes = 8 * 1024 * 1024;
  std::size_t stream_buffer_bytes = 256 * 1024;  // of one stream, not yet read by its client
  // The memory budget for all requests that arrive or wait, and for answers that wait for their clients to read them;
  // null: only the limits above apply. A request over the budget is answered 429, or 413 if it is larger than the whole
  // budget. A stream whose client reads too slowly for it is cut off.
  std::shared_ptr<ByteBudget> input_budget;
  // For heads that arrive, so that those who have not said who they are take nothing from input_budget; null: that one.
  std::shared_ptr<ByteBudget> head_budget;

  std::chrono::milliseconds header_timeout{10'000};  // from the first byte of a head to its last
  std::chrono::milliseconds body_timeout{60'000};    // from the end of the head to the end of the body
  std::chrono::milliseconds idle_timeout{120'000};  // between requests; then the connection is closed without an answer
  std::chrono::milliseconds write_timeout{30'000};  // for each write to finish
  std::chrono::milliseconds linger_timeout{2'000};  // for the client to close first, so that it reads the last answer
  std::chrono::milliseconds keep_alive_interval{15'000};  // after this silence on a stream, a comment is sent

  std::shared_ptr<const TlsContext> tls;  // null: plain HTTP

  std::vector<std::string> cors_origins;  // their web pages may call the server; see cors.h

  // Called for each request once its head is there, before its body is read. On the server's threads; `head` has no
  // body. Null: no request is refused by its head.
  std::function<HeadVerdict(const HttpRequest& head)> check_head;

  // For metrics: called, on the server's threads, for each request that the server refuses before the handler sees it.
  std::function<void(const Error&)> on_refused;
  // Called for each TLS handshake that fails; for metrics. On the server's threads.
  std::function<void(HandshakeFailure)> on_handshake_failed;
};

class HttpServer {
 public:
  // Connections of one server that have read their refusal or may do so: beyond max_connections.
  static constexpr std::size_t kMaxLingering = 64;

  // Binds, listens and serves. kInvalidArgument names `address` or `port` if the server can not bind it.
  [[nodiscard]] static Result<std::unique_ptr<HttpServer>> Start(HttpServerOptions options, HttpHandler handler);

  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  ~HttpServer();  // Stop without a drain

  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] std::size_t connection_count() const;

  // Has each loop turned since the call before? Asks each for another turn. The first call says no. One thread at a
  // time, not after Stop.
  [[nodiscard]] bool LoopsTurn();

  // From now on each answer is the last one of its connection and says so, so that clients go where new connections
  // lead. New connections are accepted as before. For the time before Stop: a client whose connection is closed without
  // a word may have sent its next request already.
  void CloseAfterAnswers();

  // Stops accepting, closes idle connections, gives open requests up to `drain_timeout` to end, then resets the rest
  // (their OnClosed callbacks run) and joins the threads. A second call does nothing.
  void Stop(std::chrono::milliseconds drain_timeout);

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace roost
