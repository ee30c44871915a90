#include "worker/adapters/http_calls.h"

#include <curl/curl.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "common/base/check.h"
#include "common/base/small_file.h"

namespace roost::worker::adapters {

// One call that is under way.
struct HttpTransfer {
  CallId id;
  std::string url;
  std::string body;
  std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers{nullptr, &curl_slist_free_all};
  std::size_t max_body_bytes = 0;
  std::size_t received_bytes = 0;
  bool status_told = false;
  bool is_too_large = false;
  std::vector<HttpEvent>* events = nullptr;
  std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> easy{nullptr, &curl_easy_cleanup};
};

namespace {

constexpr std::size_t kMaxKeyBytes = 8192;
// The most connections that wait for their next call.
constexpr long kMaxKeptConnections = 1024;

void AddHeader(HttpTransfer& transfer, const std::string& line) {
  curl_slist* const longer = curl_slist_append(transfer.headers.get(), line.c_str());
  ROOST_CHECK(longer != nullptr);
  (void)transfer.headers.release();
  transfer.headers.reset(longer);
}

Result<std::string> CheckedUrl(std::string url) {
  const std::size_t scheme = url.find("://");
  const std::string_view name = std::string_view(url).substr(0, scheme);
  const bool has_spaces = std::any_of(url.begin(), url.end(), [](char c) { return c <= ' '; });
  while (url.ends_with('/')) url.pop_back();
  if (scheme == std::string::npos || (name != "http" && name != "https") || url.size() <= scheme + 3 || has_spaces) {
    return InvalidArgument("engine-url", "'{}' is no URL such as http://127.0.0.1:8000", url);
  }
  return url;
}

// In two steps: GCC 12 takes the moved variant for uninitialised.
template <typename What>
void Tell(std::vector<HttpEvent>& events, CallId id, What what) {
  HttpEvent& event = events.emplace_back();
  event.call = id;
  event.what = std::move(what);
}

void TellStatus(HttpTransfer& transfer) {
  if (std::exchange(transfer.status_told, true)) return;
  long status = 0;
  curl_easy_getinfo(transfer.easy.get(), CURLINFO_RESPONSE_CODE, &status);
  Tell(*transfer.events, transfer.id, HttpStatus{static_cast<int>(status)});
}

std::size_t OnBytes(char* bytes, std::size_t size, std::size_t count, void* user) {
  HttpTransfer& transfer = *static_cast<HttpTransfer*>(user);
  const std::size_t length = size * count;
  TellStatus(transfer);
  transfer.is_too_large = length > transfer.max_body_bytes - transfer.received_bytes;
  if (transfer.is_too_large) return CURL_WRITEFUNC_ERROR;
  transfer.received_bytes += length;
  std::vector<HttpEvent>& events = *transfer.events;
  const bool follows = !events.empty() && events.back().call == transfer.id;
  HttpBytes* const last = follows ? std::get_if<HttpBytes>(&events.back().what) : nullptr;
  if (last != nullptr) {
    last->bytes.append(bytes, length);
  } else {
    Tell(events, transfer.id, HttpBytes{std::string(bytes, length)});
  }
  return length;
}

CallEnd EndOf(const HttpTransfer& transfer, CURLcode code) {
  switch (code) {
    case CURLE_OK: return CallEnd::kComplete;
    case CURLE_COULDNT_CONNECT:
    case CURLE_COULDNT_RESOLVE_HOST: return CallEnd::kNotConnected;
    case CURLE_OPERATION_TIMEDOUT: {
      curl_off_t connected_after = 0;  // 0 on a connection of an earlier call, too
      long sent_bytes = 0;
      curl_easy_getinfo(transfer.easy.get(), CURLINFO_CONNECT_TIME_T, &connected_after);
      curl_easy_getinfo(transfer.easy.get(), CURLINFO_REQUEST_SIZE, &sent_bytes);
      return connected_after == 0 && sent_bytes == 0 ? CallEnd::kNotConnected : CallEnd::kTooSlow;
    }
    default: return CallEnd::kBroken;
  }
}

long MillisecondsOf(Duration duration) {
  return static_cast<long>(std::chrono::ceil<std::chrono::milliseconds>(duration).count());
}

}  // namespace

struct HttpCalls::Impl {
  HttpOptions options;
  std::unique_ptr<CURLM, decltype(&curl_multi_cleanup)> multi{curl_multi_init(), &curl_multi_cleanup};
  std::unordered_map<CallId, std::unique_ptr<HttpTransfer>> transfers;
  std::vector<HttpEvent> events;

  void SetUp(HttpTransfer& transfer, const HttpCall& call);
  void Perform();
  void Finish(CURL* easy, CURLcode code);
  void Remove(CallId id);
};

void HttpCalls::Impl::SetUp(HttpTransfer& transfer, const HttpCall& call) {
  CURL* const easy = transfer.easy.get();
  for (const std::string& line : call.headers) AddHeader(transfer, line);
  if (!options.bearer_key.empty()) AddHeader(transfer, "Authorization: Bearer " + options.bearer_key);
  AddHeader(transfer, "Expect:");  // no question before a long prompt is sent
  curl_easy_setopt(easy, CURLOPT_URL, transfer.url.c_str());
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_PROXY, "");
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options.connect_timeout.count()));
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, MillisecondsOf(call.time_limit));
  curl_easy_setopt(easy, CURLOPT_MAXAGE_CONN, kMaxIdleSeconds);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &OnBytes);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, static_cast<void*>(&transfer));
  curl_easy_setopt(easy, CURLOPT_PRIVATE, static_cast<void*>(&transfer));
  if (call.method == HttpMethod::kPost) {
    AddHeader(transfer, "Content-Type: application/json");
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, transfer.body.c_str());
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(transfer.body.size()));
  }
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, transfer.headers.get());
}

void HttpCalls::Impl::Perform() {
  int running = 0;
  curl_multi_perform(multi.get(), &running);
  int left = 0;
  while (const CURLMsg* const message = curl_multi_info_read(multi.get(), &left)) {
    if (message->msg == CURLMSG_DONE) Finish(message->easy_handle, message->data.result);
  }
}

void HttpCalls::Impl::Finish(CURL* easy, CURLcode code) {
  HttpTransfer* transfer = nullptr;
  curl_easy_getinfo(easy, CURLINFO_PRIVATE, &transfer);
  if (code == CURLE_OK) TellStatus(*transfer);
  std::string why = code == CURLE_OK ? "" : curl_easy_strerror(code);
  if (transfer->is_too_large) why = "the answer is larger than " + std::to_string(transfer->max_body_bytes) + " bytes";
  Tell(events, transfer->id, HttpEnd{EndOf(*transfer, code), std::move(why)});
  Remove(transfer->id);
}

void HttpCalls::Impl::Remove(CallId id) {
  const auto found = transfers.find(id);
  if (found == transfers.end()) return;
  curl_multi_remove_handle(multi.get(), found->second->easy.get());
  transfers.erase(found);
}

HttpCalls::HttpCalls(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpCalls::~HttpCalls() {
  while (!impl_->transfers.empty()) impl_->Remove(impl_->transfers.begin()->first);
}

Result<std::unique_ptr<HttpCalls>> HttpCalls::Make(HttpOptions options) {
  ROOST_ASSIGN_OR_RETURN(options.base_url, CheckedUrl(std::move(options.base_url)));
  auto impl = std::make_unique<Impl>();
  ROOST_CHECK(impl->multi != nullptr);
  impl->options = std::move(options);
  curl_multi_setopt(impl->multi.get(), CURLMOPT_MAXCONNECTS, kMaxKeptConnections);
  return std::unique_ptr<HttpCalls>(new HttpCalls(std::move(impl)));
}

void HttpCalls::Start(CallId id, HttpCall call) {
  auto transfer = std::make_unique<HttpTransfer>();
  transfer->id = id;
  transfer->url = impl_->options.base_url + call.path;
  transfer->body = std::move(call.body);
  transfer->max_body_bytes = call.max_body_bytes;
  transfer->events = &impl_->events;
  transfer->easy.reset(curl_easy_init());
  ROOST_CHECK(transfer->easy != nullptr);
  impl_->SetUp(*transfer, call);
  curl_multi_add_handle(impl_->multi.get(), transfer->easy.get());
  impl_->transfers.emplace(id, std::move(transfer));
}

void HttpCalls::Close(CallId id) {
  impl_->Remove(id);
  std::vector<HttpEvent> others;
  for (HttpEvent& event : impl_->events) {
    if (event.call != id) others.push_back(std::move(event));
  }
  impl_->events = std::move(others);
}

std::vector<HttpEvent> HttpCalls::Poll(std::chrono::milliseconds timeout, std::span<const int> fds) {
  impl_->Perform();
  if (impl_->events.empty()) {
    std::vector<curl_waitfd> waits;
    waits.reserve(fds.size());
    for (const int fd : fds) waits.push_back({.fd = fd, .events = CURL_WAIT_POLLIN, .revents = 0});
    curl_multi_poll(impl_->multi.get(), waits.data(), static_cast<unsigned>(waits.size()),
                    static_cast<int>(timeout.count()), nullptr);
    impl_->Perform();
  }
  return std::exchange(impl_->events, {});
}

void HttpCalls::Wake() { curl_multi_wakeup(impl_->multi.get()); }

const std::string& HttpCalls::base_url() const { return impl_->options.base_url; }

std::size_t HttpCalls::open_count() const { return impl_->transfers.size(); }

Result<std::string> ReadBearerKey(const std::filesystem::path& path) {
  ROOST_ASSIGN_OR_RETURN(std::string text, ReadTrustedFile(path, kMaxKeyBytes));
  text.resize(std::min(text.find_first_of("\r\n"), text.size()));
  if (text.empty()) return InvalidArgument(path.string(), "its first line holds no key");
  return text;
}

}  // namespace roost::worker::adapters
