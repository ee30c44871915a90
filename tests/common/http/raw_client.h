// A blocking HTTP client that knows nothing of HTTP libraries, over TCP or TLS: it writes the bytes it is given and
// reads answers byte by byte as RFC 9112 frames them. Every wait is bounded by kPatience, after which a test fails.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace roost {

struct RawResponse {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // chunks joined
  bool complete = false;                       // complete, not cut off

  // Empty when absent.
  [[nodiscard]] std::string Header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? std::string() : found->second;
  }
};

class RawClient {
 public:
  static constexpr int kPatienceSeconds = 20;

  // With `tls` it speaks TLS, and is connected when the handshake has succeeded; `session` is one to resume.
  explicit RawClient(std::uint16_t port, int receive_buffer_bytes = 0, SSL_CTX* tls = nullptr,
                     SSL_SESSION* session = nullptr)
      : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_buffer_bytes > 0) {
      ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof(receive_buffer_bytes));
    }
    const timeval patience{kPatienceSeconds, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
    if (tls == nullptr || !connected_) return;
    ssl_ = SSL_new(tls);
    SSL_set_fd(ssl_, fd_);
    if (session != nullptr) SSL_set_session(ssl_, session);
    connected_ = SSL_connect(ssl_) == 1;
    if (!connected_) TakeError();
  }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;
  ~RawClient() { Close(); }

  [[nodiscard]] bool connected() const { return connected_; }

  // ---- of TLS ----
  [[nodiscard]] SSL* tls() { return ssl_; }
  // The reason why the handshake, or a read after it, failed.
  [[nodiscard]] const std::string& tls_error() const { return tls_error_; }
  // Whether the server said that nothing more comes. Without that an end is a cut.
  [[nodiscard]] bool saw_close_notify() const { return (SSL_get_shutdown(ssl_) & SSL_RECEIVED_SHUTDOWN) != 0; }
  void SayCloseNotify() { SSL_shutdown(ssl_); }

  // Without a goodbye.
  void Close() {
    SSL_free(std::exchange(ssl_, nullptr));
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

  // False when the server has reset the connection.
  bool Write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ssl_ == nullptr ? ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL)
                                              : SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size()));
      if (written <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
    return true;
  }

  // Has something come that was not read yet?
  [[nodiscard]] bool HasInput() const {
    pollfd arrived{.fd = fd_, .events = POLLIN, .revents = 0};
    return !input_.empty() || ::poll(&arrived, 1, 0) > 0;
  }

  // Everything up to and including `end`, or nothing if the connection ends first.
  std::optional<std::string> ReadUntil(std::string_view end) {
    for (;;) {
      const std::size_t found = input_.find(end);
      if (found != std::string::npos) return Take(found + end.size());
      if (!Fill()) return std::nullopt;
    }
  }

  std::optional<std::string> ReadExactly(std::size_t size) {
    while (input_.size() < size) {
      if (!Fill()) return std::nullopt;
    }
    return Take(size);
  }

  // Reads until the server closes or resets the connection.
  std::string ReadToEnd() {
    while (Fill()) {
    }
    return std::exchange(input_, {});
  }

  // True if the server closed or reset the connection without another byte.
  bool AtEnd() { return input_.empty() && !Fill(); }

  enum class Body { kExpected, kNone };
  RawResponse ReadResponse(Body body = Body::kExpected) {
    RawResponse response;
    const std::optional<std::string> head = ReadUntil("\r\n\r\n");
    if (!head || head->size() < 12) return response;
    response.status = std::atoi(head->c_str() + 9);
    ParseHeaders(*head, response.headers);
    if (body == Body::kNone || response.status == 204) {
      response.complete = true;
    } else if (response.headers["transfer-encoding"] == "chunked") {
      ReadChunks(response);
    } else if (response.headers.contains("content-length")) {
      const auto size = static_cast<std::size_t>(std::atoll(response.headers["content-length"].c_str()));
      if (std::optional<std::string> bytes = ReadExactly(size)) {
        response.body = std::move(*bytes);
        response.complete = true;
      }
    } else {
      response.body = ReadToEnd();
      response.complete = true;
    }
    return response;
  }

 private:
  bool Fill() {
    char buffer[4096];
    const ssize_t size =
        ssl_ == nullptr ? ::recv(fd_, buffer, sizeof(buffer), 0) : SSL_read(ssl_, buffer, sizeof(buffer));
    if (size <= 0) {
      if (ssl_ != nullptr) TakeError();
      return false;
    }
    input_.append(buffer, static_cast<std::size_t>(size));
    return true;
  }

  void TakeError() {
    const char* const reason = ERR_reason_error_string(ERR_peek_last_error());
    tls_error_ = reason == nullptr ? "" : reason;
    ERR_clear_error();
  }

  std::string Take(std::size_t size) {
    std::string taken = input_.substr(0, size);
    input_.erase(0, size);
    return taken;
  }

  static void ParseHeaders(const std::string& head, std::map<std::string, std::string>& headers) {
    std::size_t begin = head.find("\r\n") + 2;
    for (std::size_t end = head.find("\r\n", begin); end != begin; end = head.find("\r\n", begin)) {
      const std::string line = head.substr(begin, end - begin);
      const std::size_t colon = line.find(": ");
      std::string name = line.substr(0, colon);
      for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      headers[name] = line.substr(colon + 2);
      begin = end + 2;
    }
  }

  void ReadChunks(RawResponse& response) {
    for (;;) {
      const std::optional<std::string> line = ReadUntil("\r\n");
      if (!line) return;
      const std::size_t size = std::strtoul(line->c_str(), nullptr, 16);
      const std::optional<std::string> data = ReadExactly(size + 2);
      if (!data) return;
      if (size == 0) {
        response.complete = true;
        return;
      }
      response.body += data->substr(0, size);
    }
  }

  int fd_;
  SSL* ssl_ = nullptr;
  bool connected_ = false;
  std::string tls_error_;
  std::string input_;
};

}  // namespace roost
