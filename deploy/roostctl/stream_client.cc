#include "deploy/roostctl/stream_client.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <utility>

#include "common/base/check.h"

namespace roost::roostctl {
namespace {

// Connections that are kept for later requests.
constexpr long kKeptConnections = 4096;

}  // namespace

StreamClient::StreamClient(RouterAccess access, double timeout_seconds)
    : access_(std::move(access)),
      key_(KeyOf(access_)),
      timeout_seconds_(timeout_seconds),
      multi_(curl_multi_init(), &curl_multi_cleanup),
      timer_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {
  ROOST_CHECK(multi_ != nullptr && timer_ >= 0);
  curl_multi_setopt(multi_.get(), CURLMOPT_MAXCONNECTS, kKeptConnections);
}

StreamClient::~StreamClient() {
  for (const auto& [handle, transfer] : open_) curl_multi_remove_handle(multi_.get(), handle);
  close(timer_);
}

Result<void> StreamClient::Check() const {
  if (!key_.ok()) return key_.error();
  return {};
}

void StreamClient::Start(Request request) {
  ROOST_CHECK(key_.ok());
  std::unique_ptr<Transfer> transfer;
  if (idle_.empty()) {
    transfer = std::make_unique<Transfer>();
  } else {
    transfer = std::move(idle_.back());
    idle_.pop_back();
  }
  transfer->request = std::move(request);
  transfer->call.Begin(access_, *key_,
                       {.path = transfer->request.path,
                        .json = &transfer->request.json,
                        .on_data = transfer->request.on_data,
                        .timeout_seconds = timeout_seconds_});
  CURL* const handle = transfer->call.handle();
  ROOST_CHECK(curl_multi_add_handle(multi_.get(), handle) == CURLM_OK);
  open_.emplace(handle, std::move(transfer));
  // Begins to connect and to write now, not at the next Run.
  int running = 0;
  curl_multi_perform(multi_.get(), &running);
}

// Setting it also takes back that it was over before.
void StreamClient::SetTimer(Duration time) const {
  const auto whole = std::chrono::duration_cast<std::chrono::seconds>(time);
  itimerspec spec{};
  spec.it_value.tv_sec = whole.count();
  spec.it_value.tv_nsec = (time - whole).count();
  ROOST_CHECK(timerfd_settime(timer_, 0, &spec, nullptr) == 0);
}

void StreamClient::Run(Duration at_most) {
  curl_waitfd timer{.fd = timer_, .events = CURL_WAIT_POLLIN, .revents = 0};
  if (at_most > Duration(0)) {
    SetTimer(at_most);
    const auto wait_ms = std::chrono::ceil<std::chrono::milliseconds>(at_most).count();
    curl_multi_poll(multi_.get(), &timer, 1, static_cast<int>(wait_ms), nullptr);
  }
  int running = 0;
  curl_multi_perform(multi_.get(), &running);
  EndFinished();
}

void StreamClient::EndFinished() {
  int left = 0;
  while (CURLMsg* const message = curl_multi_info_read(multi_.get(), &left)) {
    if (message->msg == CURLMSG_DONE) End(message->easy_handle, message->data.result);
  }
}

void StreamClient::CancelAll() {
  while (!open_.empty()) End(open_.begin()->first, CURLE_ABORTED_BY_CALLBACK);
}

void StreamClient::End(CURL* handle, CURLcode code) {
  const auto found = open_.find(handle);
  ROOST_CHECK(found != open_.end());
  std::unique_ptr<Transfer> transfer = std::move(found->second);
  open_.erase(found);
  curl_multi_remove_handle(multi_.get(), handle);
  const Result<HttpResponse> response = transfer->call.End(code);
  const Request request = std::exchange(transfer->request, {});
  idle_.push_back(std::move(transfer));
  request.on_end(response);
}

}  // namespace roost::roostctl
