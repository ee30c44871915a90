// Carries a connection's bytes over its socket: as they are, or in TLS records. Private to common/http.
//
// Both forms wait until the socket is ready and then read into a buffer of the caller's, so a connection that waits
// holds none. TLS works on the same socket: what it can not read or write at once it waits for in the same way.
//
//   plain    everything but Handshake
//   TLS      Handshake until kDone; then the same
//
// One thread. A handler is never called inside the call that takes it; it keeps the transport alive.
#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "common/http/tls_context.h"

struct bio_st;  // BIO of OpenSSL

namespace roost {

class Transport {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;
  using SystemError = boost::system::error_code;
  // A handshake has a few kilobytes, with a client's certificates some ten; a request that comes with it may follow.
  static constexpr std::size_t kMaxHandshakeBytes = 96 * 1024;
  // Written at a time, so that a long answer holds up no other connection of its thread. Plain: Asio's 64 KiB.
  static constexpr std::size_t kTurnBytes = 128 * 1024;

  enum class Outcome {
    kDone,
    kWaitInput,   // again after AsyncWaitInput
    kWaitOutput,  // again after AsyncWaitOutput
    kEnded,       // the peer sends no more
    kFailed,      // the connection is of no use any more
  };

  // Without a session: plain.
  Transport(Socket socket, TlsSession session);
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  [[nodiscard]] Socket::executor_type executor() { return socket_.get_executor(); }
  [[nodiscard]] bool speaks_tls() const { return session_ != nullptr; }

  // Once, first.
  void SetUp();
  // The address of the other end without its port; "unix" for a local socket, empty when it is gone already.
  [[nodiscard]] std::string PeerAddress();

  // One more step of the handshake. After kFailed, failure and why tell the reason; if that is kPlainHttp, the
  // transport is plain from now on, and nothing of the request has been read.
  [[nodiscard]] Outcome Handshake();
  [[nodiscard]] HandshakeFailure failure() const { return failure_; }
  [[nodiscard]] const std::string& why() const { return why_; }

  // The bytes that are there, at most `buffer`. Size 0 unless the outcome is kDone.
  struct Input {
    Outcome outcome;
    std::size_t size;
  };
  [[nodiscard]] Input Read(std::span<char> buffer);

  // Calls handler(error) when Read may have something.
  template <typename Handler>
  void AsyncWaitInput(Handler handler) {
    if (has_input_) return Post(std::move(handler), {});
    socket_.async_wait(reads_wait_for_output_ ? Socket::wait_write : Socket::wait_read, std::move(handler));
  }
  template <typename Handler>
  void AsyncWaitOutput(Handler handler) {
    socket_.async_wait(Socket::wait_write, std::move(handler));
  }

  // Calls handler(error) when all of `bytes`, which stay until then, were handed to the kernel. One at a time.
  template <typename Handler>
  void AsyncWrite(std::string_view bytes, Handler handler) {
    if (session_ != nullptr) return WriteRecords(bytes, std::move(handler));
    boost::asio::async_write(
        socket_, boost::asio::buffer(bytes),
        [handler = std::move(handler)](SystemError error, std::size_t) mutable { handler(error); });
  }

  // Tells the peer that nothing more comes: close_notify where TLS is spoken, and the end of the stream. After kDone,
  // Read gives what the peer sends as it comes over the network, good for nothing but to be dropped.
  [[nodiscard]] Outcome EndOutput();

  // kClean says TLS's close_notify before, if that is possible at once. kReset resets the connection, so that no client
  // takes half an answer for a whole one: without close_notify its TLS tells it so too.
  enum class Farewell { kClean, kReset };
  void Close(Farewell farewell);

 private:
  template <typename Handler>
  void Post(Handler handler, SystemError error) {
    boost::asio::post(socket_.get_executor(), [handler = std::move(handler), error]() mutable { handler(error); });
  }

  template <typename Handler>
  void WriteRecords(std::string_view bytes, Handler handler) {
    const Outcome outcome = WriteSome(bytes);
    if (outcome == Outcome::kDone && bytes.empty()) return Post(std::move(handler), {});
    if (outcome != Outcome::kDone && outcome != Outcome::kWaitOutput) {
      return Post(std::move(handler), boost::asio::error::broken_pipe);
    }
    auto go_on = [this, bytes, handler = std::move(handler)](SystemError error) mutable {
      if (error) return handler(error);
      WriteRecords(bytes, std::move(handler));
    };
    outcome == Outcome::kDone ? Post(std::move(go_on), {}) : AsyncWaitOutput(std::move(go_on));
  }

  // Takes what it wrote off the front. After kDone there may be more to write, in a turn of its own.
  Outcome WriteSome(std::string_view& bytes);
  Input ReadPlain(std::span<char> buffer);
  // The outcome of a call of the library that did not succeed.
  Outcome OutcomeOf(int result);
  void SetFailure(int library_error);
  Outcome BecomePlain();

  // The library's way to the socket.
  static bio_st* NewBio(Transport* transport);
  static int BioRead(bio_st* bio, char* out, int size);
  static int BioWrite(bio_st* bio, const char* bytes, int size);
  static long BioControl(bio_st* bio, int command, long number, void* pointer);

  Socket socket_;
  TlsSession session_;

  // The state of TLS.
  bool handshake_done_ = false;
  bool first_byte_seen_ = false;
  bool broken_ = false;  // the library must not be called again, not even for a goodbye
  bool peer_ended_ = false;
  bool socket_is_drained_ = false;  // since the last wait: the library need not ask the kernel once more
  bool output_ended_ = false;
  bool has_input_ = false;  // perhaps, without the socket's becoming ready
  bool reads_wait_for_output_ = false;
  std::size_t handshake_bytes_ = 0;
  HandshakeFailure failure_ = HandshakeFailure::kProtocol;
  std::string why_;
};

}  // namespace roost
