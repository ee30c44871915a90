#include "worker/link/resolver.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <memory>
#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"

namespace roost::worker {
namespace {

std::optional<std::string> NumericHost(const addrinfo& info) {
  std::array<char, NI_MAXHOST> text{};
  const int rc = getnameinfo(info.ai_addr, info.ai_addrlen, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  if (rc != 0) return std::nullopt;
  return std::string(text.data());
}

EndpointSet EndpointsOfFamily(const addrinfo* list, int family, std::uint16_t port) {
  EndpointSet endpoints;
  for (const addrinfo* info = list; info != nullptr; info = info->ai_next) {
    if (info->ai_family != family) continue;
    if (const auto host = NumericHost(*info)) endpoints.insert(wire::Endpoint{*host, port}.ToString());
  }
  return endpoints;
}

}  // namespace

Result<EndpointSet> ResolveEndpoint(const wire::Endpoint& name) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int rc = getaddrinfo(name.host.c_str(), nullptr, &hints, &list);
  if (rc != 0) return Error{ErrorCode::kUnavailable, gai_strerror(rc), name.host};
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, &freeaddrinfo);
  EndpointSet endpoints = EndpointsOfFamily(list, AF_INET, name.port);
  if (endpoints.empty()) endpoints = EndpointsOfFamily(list, AF_INET6, name.port);
  if (endpoints.empty()) return Error{ErrorCode::kUnavailable, "no address", name.host};
  return endpoints;
}

Resolver::Resolver(Options options, const wire::Waker& waker)
    : options_(std::move(options)), waker_(waker), answers_(options_.names.size()) {}

Resolver::~Resolver() { Stop(); }

void Resolver::Start() {
  ROOST_CHECK(!thread_.joinable());
  thread_ = std::thread([this] { Run(); });
}

void Resolver::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Resolver::Run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    Ask();
    lock.lock();
    changed_.wait_for(lock, options_.interval, [this] { return stopping_; });
  }
}

void Resolver::Ask() {
  EndpointSet all;
  for (std::size_t i = 0; i < options_.names.size(); ++i) {
    Result<EndpointSet> answer = options_.lookup(options_.names[i]);
    if (answer.ok()) {
      answers_[i] = std::move(answer).value();
    } else {
      LogWarning("router name can not be resolved",
                 {{"name", options_.names[i].ToString()}, {"error", answer.error().message}});
    }
    all.insert(answers_[i].begin(), answers_[i].end());
  }
  {
    const std::lock_guard lock(mutex_);
    if (all == known_) return;
    known_ = all;
    change_ = std::move(all);
  }
  waker_.Wake();
}

std::optional<EndpointSet> Resolver::TakeChange() {
  const std::lock_guard lock(mutex_);
  return std::exchange(change_, std::nullopt);
}

}  // namespace roost::worker
