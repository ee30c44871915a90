#include "common/http/transport.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cerrno>

namespace roost {
namespace {

namespace asio = boost::asio;

bool WouldBlock(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

bool IsLetter(char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }

}  // namespace

Transport::Transport(Socket socket, TlsSession session) : socket_(std::move(socket)), session_(std::move(session)) {
  if (session_ == nullptr) return;
  BIO* const bio = NewBio(this);
  if (bio == nullptr) {
    broken_ = true;
    return;
  }
  SSL_set_bio(session_.get(), bio, bio);
}

std::string Transport::PeerAddress() {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getpeername(socket_.native_handle(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return {};
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.ss_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(&address)->sin_addr, text.data(), text.size());
  } else if (address.ss_family == AF_INET6) {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(&address)->sin6_addr, text.data(), text.size());
  } else {
    return "unix";
  }
  return text.data();
}

void Transport::SetUp() {
  SystemError ignored;  // a local socket has no such option
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket_.non_blocking(true, ignored);
}

// ---- handshake ----

Transport::Outcome Transport::Handshake() {
  if (broken_) return Outcome::kFailed;
  if (!first_byte_seen_) {
    char first = 0;
    const ssize_t size = ::recv(socket_.native_handle(), &first, 1, MSG_PEEK);
    if (size < 0 && WouldBlock(errno)) return Outcome::kWaitInput;
    first_byte_seen_ = true;
    // A TLS client begins with a byte that is no letter.
    if (size == 1 && IsLetter(first)) return BecomePlain();
  }
  ERR_clear_error();
  const int result = SSL_do_handshake(session_.get());
  if (result != 1) return OutcomeOf(result);
  handshake_done_ = true;
  has_input_ = true;  // perhaps the first request came along
  return Outcome::kDone;
}

Transport::Outcome Transport::BecomePlain() {
  failure_ = HandshakeFailure::kPlainHttp;
  why_ = "the client does not speak TLS";
  session_.reset();
  return Outcome::kFailed;
}

Transport::Outcome Transport::OutcomeOf(int result) {
  const int error = SSL_get_error(session_.get(), result);
  if (error == SSL_ERROR_WANT_READ) return Outcome::kWaitInput;
  if (error == SSL_ERROR_WANT_WRITE) return Outcome::kWaitOutput;
  if (error == SSL_ERROR_ZERO_RETURN && handshake_done_) return Outcome::kEnded;
  SetFailure(error);
  broken_ = true;
  return Outcome::kFailed;
}

void Transport::SetFailure(int library_error) {
  const unsigned long code = ERR_peek_error();
  const int reason = ERR_GET_REASON(code);
  const char* const text = ERR_reason_error_string(code);
  why_ = text == nullptr ? "the connection ended" : text;
  if (handshake_bytes_ > kMaxHandshakeBytes) {
    failure_ = HandshakeFailure::kTooLarge;
    why_ = "the handshake is too long";
  } else if (library_error != SSL_ERROR_SSL || peer_ended_ || reason > SSL_AD_REASON_OFFSET) {
    failure_ = HandshakeFailure::kClientLeft;
  } else if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE || reason == SSL_R_CERTIFICATE_VERIFY_FAILED) {
    failure_ = HandshakeFailure::kClientCertificate;
  } else {
    failure_ = HandshakeFailure::kProtocol;
  }
  ERR_clear_error();
}

// ---- reading ----

Transport::Input Transport::Read(std::span<char> buffer) {
  if (session_ == nullptr || output_ended_) return ReadPlain(buffer);
  reads_wait_for_output_ = false;
  socket_is_drained_ = false;
  std::size_t size = 0;
  Outcome outcome = broken_ ? Outcome::kFailed : Outcome::kDone;
  while (outcome == Outcome::kDone && size < buffer.size()) {
    std::size_t taken = 0;
    ERR_clear_error();
    const int result = SSL_read_ex(session_.get(), buffer.data() + size, buffer.size() - size, &taken);
    size += taken;
    if (result != 1) outcome = OutcomeOf(result);
  }
  // Nothing is left behind only where the library had to wait. An end comes again.
  has_input_ = outcome != Outcome::kWaitInput && outcome != Outcome::kWaitOutput;
  reads_wait_for_output_ = outcome == Outcome::kWaitOutput;
  return size > 0 ? Input{Outcome::kDone, size} : Input{outcome, 0};
}

Transport::Input Transport::ReadPlain(std::span<char> buffer) {
  SystemError error;
  const std::size_t size = socket_.read_some(asio::buffer(buffer.data(), buffer.size()), error);
  if (error == asio::error::would_block) return {Outcome::kWaitInput, 0};
  if (error == asio::error::eof) return {Outcome::kEnded, 0};
  if (error) return {Outcome::kFailed, 0};
  return {Outcome::kDone, size};
}

// ---- writing ----

Transport::Outcome Transport::WriteSome(std::string_view& bytes) {
  // A call that is repeated after a wait must offer no fewer bytes than before. It does: the room begins anew.
  for (std::size_t room = kTurnBytes; !bytes.empty() && room > 0;) {
    if (broken_) return Outcome::kFailed;
    std::size_t written = 0;
    ERR_clear_error();
    const int result = SSL_write_ex(session_.get(), bytes.data(), std::min(bytes.size(), room), &written);
    if (result != 1) return OutcomeOf(result);
    bytes.remove_prefix(written);
    room -= written;
  }
  return Outcome::kDone;
}

Transport::Outcome Transport::EndOutput() {
  if (handshake_done_ && !broken_) {
    ERR_clear_error();
    const int result = SSL_shutdown(session_.get());
    if (result < 0 && OutcomeOf(result) == Outcome::kWaitOutput) return Outcome::kWaitOutput;
  }
  output_ended_ = true;
  has_input_ = false;
  reads_wait_for_output_ = false;
  SystemError error;
  socket_.shutdown(Socket::shutdown_send, error);
  return error ? Outcome::kFailed : Outcome::kDone;
}

void Transport::Close(Farewell farewell) {
  SystemError ignored;
  if (farewell == Farewell::kReset) {
    socket_.set_option(asio::socket_base::linger(true, 0), ignored);
  } else if (handshake_done_ && !broken_ && !output_ended_) {
    ERR_clear_error();
    static_cast<void>(SSL_shutdown(session_.get()));
  }
  socket_.close(ignored);
}

// ---- the library's way to the socket ----

bio_st* Transport::NewBio(Transport* transport) {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* const made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "roost transport");
    if (made == nullptr) return made;
    BIO_meth_set_read(made, &Transport::BioRead);
    BIO_meth_set_write(made, &Transport::BioWrite);
    BIO_meth_set_ctrl(made, &Transport::BioControl);
    return made;
  }();
  BIO* const bio = method == nullptr ? nullptr : BIO_new(method);
  if (bio == nullptr) return nullptr;
  BIO_set_data(bio, transport);
  BIO_set_init(bio, 1);
  return bio;
}

int Transport::BioRead(bio_st* bio, char* out, int size) {
  auto& transport = *static_cast<Transport*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  if (transport.socket_is_drained_) {
    BIO_set_retry_read(bio);
    return -1;
  }
  if (!transport.handshake_done_ && transport.handshake_bytes_ > kMaxHandshakeBytes) return -1;
  const ssize_t received = ::recv(transport.socket_.native_handle(), out, static_cast<std::size_t>(size), 0);
  if (received < 0 && WouldBlock(errno)) BIO_set_retry_read(bio);
  if (received == 0) transport.peer_ended_ = true;
  // Less than there was room for: what comes now makes the socket ready again.
  transport.socket_is_drained_ = received > 0 && received < size && transport.handshake_done_;
  if (received > 0 && !transport.handshake_done_) transport.handshake_bytes_ += static_cast<std::size_t>(received);
  return static_cast<int>(received);
}

int Transport::BioWrite(bio_st* bio, const char* bytes, int size) {
  auto& transport = *static_cast<Transport*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  const ssize_t sent = ::send(transport.socket_.native_handle(), bytes, static_cast<std::size_t>(size), MSG_NOSIGNAL);
  if (sent < 0 && WouldBlock(errno)) BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

long Transport::BioControl(bio_st* bio, int command, long, void*) {
  if (command == BIO_CTRL_FLUSH) return 1;
  if (command == BIO_CTRL_EOF) return static_cast<const Transport*>(BIO_get_data(bio))->peer_ended_ ? 1 : 0;
  return 0;
}

}  // namespace roost
