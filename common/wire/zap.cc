#include "common/wire/zap.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/thread_name.h"

namespace roost::wire {
namespace {

constexpr std::string_view kVersion = "1.0";
constexpr std::size_t kRawKeyBytes = 32;

// version, request, domain, address, identity, mechanism, credentials
constexpr std::size_t kPartCount = 7;
enum Part : std::uint8_t {
  kVersionPart,
  kRequestPart,
  kDomainPart,
  kAddressPart,
  kIdentityPart,
  kMechanismPart,
  kKeyPart
};

// A call of ZeroMQ that a signal may interrupt. Nothing is waited for: all parts of a request come together.
template <typename Call>
int Uninterrupted(Call call) {
  int rc = call();
  while (rc < 0 && zmq_errno() == EINTR) rc = call();
  return rc;
}

std::vector<zmq::message_t> ReceiveParts(zmq::socket_t& socket) {
  std::vector<zmq::message_t> parts;
  do {
    zmq::message_t part;
    if (Uninterrupted([&] { return zmq_msg_recv(part.handle(), socket.handle(), ZMQ_DONTWAIT); }) < 0) return {};
    parts.push_back(std::move(part));
  } while (parts.back().more());
  return parts;
}

void SendZapPart(zmq::socket_t& socket, std::string_view bytes, int more) {
  static_cast<void>(
      Uninterrupted([&] { return zmq_send(socket.handle(), bytes.data(), bytes.size(), ZMQ_DONTWAIT | more); }));
}

std::string ToZ85(const zmq::message_t& key) {
  std::array<char, 41> text{};
  ROOST_CHECK(zmq_z85_encode(text.data(), static_cast<const std::uint8_t*>(key.data()), key.size()) != nullptr);
  return text.data();
}

bool AsksAboutAKey(const std::vector<zmq::message_t>& parts) {
  return parts.size() == kPartCount && parts[kVersionPart].to_string_view() == kVersion &&
         parts[kMechanismPart].to_string_view() == "CURVE" && parts[kKeyPart].size() == kRawKeyBytes;
}

}  // namespace

Result<std::unique_ptr<ZapHandler>> ZapHandler::Start(zmq::context_t& context, Admit admit) {
  try {
    zmq::socket_t socket(context, zmq::socket_type::rep);
    socket.set(zmq::sockopt::linger, 0);
    socket.bind("inproc://zeromq.zap.01");
    return std::unique_ptr<ZapHandler>(new ZapHandler(std::move(socket), std::move(admit)));
  } catch (const zmq::error_t& error) {
    return Error{ErrorCode::kUnavailable, fmt::format("peers can not be authenticated: {}", error.what()), ""};
  }
}

ZapHandler::ZapHandler(zmq::socket_t socket, Admit admit)
    : admit_(std::move(admit)), stop_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)), socket_(std::move(socket)) {
  ROOST_CHECK(stop_ >= 0, "eventfd: {}", std::strerror(errno));
  thread_ = std::thread([this] { Run(); });
}

ZapHandler::~ZapHandler() {
  eventfd_write(stop_, 1);
  thread_.join();
  close(stop_);
}

void ZapHandler::Run() {
  NameThisThread("link keys");
  std::array<zmq::pollitem_t, 2> items{{{nullptr, stop_, ZMQ_POLLIN, 0}, {socket_.handle(), 0, ZMQ_POLLIN, 0}}};
  while (items[0].revents == 0) {
    const int rc = zmq_poll(items.data(), static_cast<int>(items.size()), -1);
    ROOST_CHECK(rc >= 0 || errno == EINTR, "zmq_poll: {}", zmq_strerror(errno));
    if (rc > 0 && items[1].revents != 0) Answer();
  }
  socket_.close();
}

void ZapHandler::Answer() {
  const std::vector<zmq::message_t> parts = ReceiveParts(socket_);
  if (parts.empty()) return;
  std::string user;
  if (AsksAboutAKey(parts)) {
    const std::string key = ToZ85(parts[kKeyPart]);
    if (admit_(parts[kAddressPart].to_string(), key)) user = key;
  }
  const std::string request = parts.size() > kRequestPart ? parts[kRequestPart].to_string() : "";
  const std::string_view status = user.empty() ? "400" : "200";
  const std::array<std::string_view, 6> answer{kVersion, request, status, "", user, ""};
  for (std::size_t i = 0; i < answer.size(); ++i) {
    SendZapPart(socket_, answer[i], i + 1 < answer.size() ? ZMQ_SNDMORE : 0);
  }
}

}  // namespace roost::wire
