#include "common/http/curl_call.h"

#include <utility>

#include "common/base/check.h"

namespace roost {
namespace {

constexpr std::size_t kMaxHeaderBytes = std::size_t{1} << 20U;
// A callback that takes another number of bytes than it got ends the call.
constexpr std::size_t kRefused = CURL_WRITEFUNC_ERROR;

}  // namespace

CurlCall::CurlCall() : handle_(curl_easy_init(), &curl_easy_cleanup) { ROOST_CHECK(handle_ != nullptr); }

std::size_t CurlCall::OnBody(char* data, std::size_t size, std::size_t count, void* user) {
  auto& call = *static_cast<CurlCall*>(user);
  const std::string_view bytes(data, size * count);
  if (call.ask_.holds_answer && call.ask_.holds_answer()) return CURL_WRITEFUNC_PAUSE;
  call.is_too_large_ = call.ask_.on_body && !call.ask_.on_body(bytes);
  return call.is_too_large_ ? kRefused : bytes.size();
}

std::size_t CurlCall::OnHeader(char* data, std::size_t size, std::size_t count, void* user) {
  auto& call = *static_cast<CurlCall*>(user);
  const std::string_view line(data, size * count);
  call.header_bytes_ += line.size();
  call.is_too_large_ = call.header_bytes_ > kMaxHeaderBytes;
  if (call.is_too_large_) return kRefused;
  if (call.ask_.on_header) call.ask_.on_header(line);
  return line.size();
}

std::size_t CurlCall::OnUpload(char* room, std::size_t size, std::size_t count, void* user) {
  const std::size_t written = static_cast<CurlCall*>(user)->ask_.on_upload({room, size * count});
  return written == 0 ? CURL_READFUNC_PAUSE : written;
}

void CurlCall::AddHeader(const std::string& line) {
  curl_slist* const longer = curl_slist_append(headers_.get(), line.c_str());
  ROOST_CHECK(longer != nullptr);
  static_cast<void>(headers_.release());
  headers_.reset(longer);
}

void CurlCall::SetTls() {
  CURL* const curl = handle();
  curl_easy_setopt(curl, CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2);
  if (!ask_.ca_file.empty()) {
    curl_easy_setopt(curl, CURLOPT_CAINFO, ask_.ca_file.c_str());
    curl_easy_setopt(curl, CURLOPT_CAPATH, nullptr);  // the system's are not trusted then
  }
  if (!ask_.client_cert.empty()) curl_easy_setopt(curl, CURLOPT_SSLCERT, ask_.client_cert.c_str());
  if (!ask_.client_key.empty()) curl_easy_setopt(curl, CURLOPT_SSLKEY, ask_.client_key.c_str());
}

void CurlCall::Begin(Ask ask) {
  ask_ = std::move(ask);
  header_bytes_ = 0;
  is_too_large_ = false;
  details_.fill('\0');
  headers_.reset();
  for (const std::string& line : ask_.headers) AddHeader(line);
  if (!ask_.bearer_key.empty()) AddHeader("Authorization: Bearer " + ask_.bearer_key);
  CURL* const curl = handle();
  curl_easy_reset(curl);  // the connection stays
  curl_easy_setopt(curl, CURLOPT_URL, ask_.url.c_str());
  if (!ask_.unix_socket.empty()) curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, ask_.unix_socket.c_str());
  SetTls();
  curl_easy_setopt(curl, CURLOPT_PRIVATE, static_cast<void*>(this));
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, details_.data());
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_PROXY, "");
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(ask_.time_limit.count()));
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(ask_.connect_limit.count()));
  if (ask_.max_idle_seconds > 0) curl_easy_setopt(curl, CURLOPT_MAXAGE_CONN, ask_.max_idle_seconds);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &CurlCall::OnBody);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, static_cast<void*>(this));
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, &CurlCall::OnHeader);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, static_cast<void*>(this));
  SetBody();
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers_.get());
}

void CurlCall::SetBody() {
  CURL* const curl = handle();
  if (ask_.body == nullptr && !ask_.on_upload) return;
  AddHeader("Content-Type: " + ask_.content_type);
  AddHeader("Expect:");  // no question before a long body is sent
  if (ask_.body != nullptr) {
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, ask_.body->c_str());
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(ask_.body->size()));
    return;
  }
  curl_easy_setopt(curl, CURLOPT_POST, 1L);
  curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(ask_.upload_bytes));
  curl_easy_setopt(curl, CURLOPT_READFUNCTION, &CurlCall::OnUpload);
  curl_easy_setopt(curl, CURLOPT_READDATA, static_cast<void*>(this));
}

long CurlCall::status() const {
  long status = 0;
  curl_easy_getinfo(handle(), CURLINFO_RESPONSE_CODE, &status);
  return status;
}

std::string CurlCall::content_type() const {
  const char* type = nullptr;
  curl_easy_getinfo(handle(), CURLINFO_CONTENT_TYPE, &type);
  return type == nullptr ? "" : type;
}

CurlCalls::CurlCalls(long kept_connections) : multi_(curl_multi_init(), &curl_multi_cleanup) {
  ROOST_CHECK(multi_ != nullptr);
  curl_multi_setopt(multi_.get(), CURLMOPT_MAXCONNECTS, kept_connections);
}

void CurlCalls::Add(CurlCall& call) { ROOST_CHECK(curl_multi_add_handle(multi_.get(), call.handle()) == CURLM_OK); }

void CurlCalls::Remove(CurlCall& call) { curl_multi_remove_handle(multi_.get(), call.handle()); }

void CurlCalls::Wait(std::chrono::milliseconds most, std::span<const int> fds) {
  std::vector<curl_waitfd> waits;
  waits.reserve(fds.size());
  for (const int fd : fds) waits.push_back({.fd = fd, .events = CURL_WAIT_POLLIN, .revents = 0});
  curl_multi_poll(multi_.get(), waits.data(), static_cast<unsigned>(waits.size()), static_cast<int>(most.count()),
                  nullptr);
}

void CurlCalls::Move() {
  int running = 0;
  curl_multi_perform(multi_.get(), &running);
}

std::optional<CurlCalls::Ended> CurlCalls::NextEnded() {
  int left = 0;
  while (const CURLMsg* const message = curl_multi_info_read(multi_.get(), &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    Ended ended{nullptr, message->data.result};  // the message is void once its call is removed
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &ended.call);
    Remove(*ended.call);
    return ended;
  }
  return std::nullopt;
}

}  // namespace roost
