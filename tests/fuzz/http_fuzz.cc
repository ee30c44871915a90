// Input of a client to the HTTP server, in pieces as a network may cut it: whatever the bytes, the connection answers
// only well-formed heads with a status that the server knows, hands on only requests that a proxy would read the same
// way, and is done with once the client has closed.
//
//   byte 0   how long the pieces are, in a pattern of its bits
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "common/http/connection.h"

namespace roost {
namespace {

constexpr std::size_t kBodyBytes = 4096;
constexpr std::size_t kHeaderBytes = 2048;

std::string ReadAll(int fd) {
  std::string all;
  std::array<char, 4096> piece{};
  for (ssize_t size = 0; (size = recv(fd, piece.data(), piece.size(), MSG_DONTWAIT)) > 0;) {
    all.append(piece.data(), static_cast<std::size_t>(size));
  }
  return all;
}

void CheckRequest(const HttpRequest& request) {
  ROOST_CHECK(!request.method.empty() && !request.path.empty());
  ROOST_CHECK(request.path.find('?') == std::string::npos && IsValidRequestId(request.request_id));
  ROOST_CHECK(request.FindHeader("host").has_value() || request.headers.empty() || request.path[0] == '/');
  ROOST_CHECK(request.body.size() <= kBodyBytes);
  for (const HttpHeader& header : request.headers) {
    ROOST_CHECK(header.value.find_first_of("\r\n\0", 0, 3) == std::string::npos);
  }
}

// Each answer of this target's handler has no body; refusals have one of JSON.
void CheckAnswers(std::string_view text) {
  constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  constexpr std::string_view kLength = "Content-Length: ";
  while (!text.empty()) {
    if (text.starts_with(kContinue)) {
      text.remove_prefix(kContinue.size());
      continue;
    }
    const std::size_t end = text.find("\r\n\r\n");
    ROOST_CHECK(text.starts_with("HTTP/1.1 ") && end != std::string_view::npos);
    int status = 0;
    std::from_chars(text.data() + 9, text.data() + 12, status);
    ROOST_CHECK(status == 200 || (status >= 400 && status <= 503));
    const std::size_t length_at = text.find(kLength);
    std::size_t length = 0;
    if (length_at < end) std::from_chars(text.data() + length_at + kLength.size(), text.data() + end, length);
    ROOST_CHECK(text.size() >= end + 4 + length);
    text.remove_prefix(end + 4 + length);
  }
}

void FuzzOne(std::string_view bytes) {
  if (bytes.empty()) return;
  const auto pattern = static_cast<std::uint8_t>(bytes.front());
  bytes.remove_prefix(1);
  std::array<int, 2> pair{};
  ROOST_CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()) == 0);
  const auto shared = std::make_shared<ServerShared>();
  shared->options.body_bytes = kBodyBytes;
  shared->options.header_bytes = kHeaderBytes;
  shared->options.check_head = [](const HttpRequest& head) -> HeadVerdict {
    CheckRequest(head);
    if (head.path != "/refused") return {};
    return {.refusal = ErrorResponse({ErrorCode::kUnauthenticated, "no", ""})};
  };
  shared->handler = [](const HttpRequest& request, const std::shared_ptr<Responder>& responder) {
    CheckRequest(request);
    responder->Respond({.status = 200, .content_type = "text/plain", .headers = {}, .body = {}});
  };
  const auto thread = std::make_shared<IoThread>(1);
  {
    Connection::Socket socket(thread->context, boost::asio::generic::stream_protocol(AF_UNIX, 0), pair[0]);
    std::make_shared<Connection>(std::move(socket), CountConnection(shared), thread)->Start();
  }
  std::string answers;
  Rng cuts(pattern);
  while (!bytes.empty()) {
    const std::size_t size = std::min<std::size_t>(bytes.size(), pattern == 0 ? bytes.size() : 1 + cuts.Below(pattern));
    if (send(pair[1], bytes.data(), size, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) break;
    bytes.remove_prefix(size);
    thread->context.poll();
    answers += ReadAll(pair[1]);
  }
  shutdown(pair[1], SHUT_WR);
  thread->context.poll();
  answers += ReadAll(pair[1]);
  CheckAnswers(answers);
  ROOST_CHECK(thread->connections.empty(), "a connection outlives its client");
  close(pair[1]);
}

}  // namespace
}  // namespace roost

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  roost::FuzzOne({reinterpret_cast<const char*>(data), size});
  return 0;
}
