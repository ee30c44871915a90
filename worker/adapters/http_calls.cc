#include "worker/adapters/http_calls.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "common/base/small_file.h"
#include "common/http/curl_call.h"

namespace roost::worker::adapters {

// One call that is under way.
struct HttpTransfer : CurlCall {
  CallId id;
  std::string body;                    // the part of it that is here; of an upload, without what has left
  std::size_t uploaded_bytes = 0;      // at the front of `body`
  std::optional<std::int64_t> credit;  // below 0: the last read gave more
  std::size_t max_body_bytes = 0;
  std::size_t received_bytes = 0;
  bool status_told = false;
};

namespace {

constexpr std::size_t kMaxKeyBytes = 8192;
// The most connections that wait for their next call.
constexpr long kMaxKeptConnections = 1024;

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

void TellStatus(HttpTransfer& transfer, std::vector<HttpEvent>& events) {
  if (std::exchange(transfer.status_told, true)) return;
  Tell(events, transfer.id, HttpStatus{static_cast<int>(transfer.status()), transfer.content_type()});
}

std::size_t Upload(HttpTransfer& transfer, std::span<char> room, std::vector<HttpEvent>& events) {
  const std::size_t size = std::min(room.size(), transfer.body.size() - transfer.uploaded_bytes);
  if (size == 0) return 0;
  std::copy_n(transfer.body.data() + transfer.uploaded_bytes, size, room.data());
  transfer.uploaded_bytes += size;
  if (transfer.uploaded_bytes == transfer.body.size()) {
    transfer.body.clear();
    transfer.uploaded_bytes = 0;
  }
  Tell(events, transfer.id, HttpUploaded{size});
  return size;
}

// False if the body is too large.
bool TellBytes(HttpTransfer& transfer, std::string_view bytes, std::vector<HttpEvent>& events) {
  TellStatus(transfer, events);
  if (bytes.size() > transfer.max_body_bytes - transfer.received_bytes) return false;
  transfer.received_bytes += bytes.size();
  if (transfer.credit) *transfer.credit -= static_cast<std::int64_t>(bytes.size());
  const bool follows = !events.empty() && events.back().call == transfer.id;
  HttpBytes* const last = follows ? std::get_if<HttpBytes>(&events.back().what) : nullptr;
  if (last != nullptr) {
    last->bytes.append(bytes);
  } else {
    Tell(events, transfer.id, HttpBytes{std::string(bytes)});
  }
  return true;
}

// "connection refused", where the system says more than libcurl.
std::string WhyOf(const HttpTransfer& transfer, CURLcode code) {
  if (code == CURLE_OK) return "";
  long number = 0;
  if (code == CURLE_COULDNT_CONNECT) curl_easy_getinfo(transfer.handle(), CURLINFO_OS_ERRNO, &number);
  std::string why = number == 0 ? curl_easy_strerror(code) : std::system_category().message(static_cast<int>(number));
  if (why.size() > 1 && std::islower(static_cast<unsigned char>(why[1])) != 0) {
    why[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(why[0])));
  }
  return why;
}

CallEnd EndOf(const HttpTransfer& transfer, CURLcode code) {
  switch (code) {
    case CURLE_OK: return CallEnd::kComplete;
    case CURLE_COULDNT_CONNECT:
    case CURLE_COULDNT_RESOLVE_HOST: return CallEnd::kNotConnected;
    case CURLE_OPERATION_TIMEDOUT: {
      curl_off_t connected_after = 0;  // 0 on a connection of an earlier call, too
      long sent_bytes = 0;
      curl_easy_getinfo(transfer.handle(), CURLINFO_CONNECT_TIME_T, &connected_after);
      curl_easy_getinfo(transfer.handle(), CURLINFO_REQUEST_SIZE, &sent_bytes);
      return connected_after == 0 && sent_bytes == 0 ? CallEnd::kNotConnected : CallEnd::kTooSlow;
    }
    default: return CallEnd::kBroken;
  }
}

}  // namespace

struct HttpCalls::Impl {
  HttpOptions options;
  CurlCalls calls{kMaxKeptConnections};
  std::unordered_map<CallId, std::unique_ptr<HttpTransfer>> transfers;
  std::vector<HttpEvent> events;

  void Perform();
  void Finish(HttpTransfer& transfer, CURLcode code);
  void Remove(CallId id);
};

void HttpCalls::Impl::Perform() {
  calls.Move();
  while (const auto ended = calls.NextEnded()) Finish(static_cast<HttpTransfer&>(*ended->call), ended->code);
}

void HttpCalls::Impl::Finish(HttpTransfer& transfer, CURLcode code) {
  if (code == CURLE_OK) TellStatus(transfer, events);
  std::string why = WhyOf(transfer, code);
  if (transfer.is_too_large()) why = "the answer is larger than " + std::to_string(transfer.max_body_bytes) + " bytes";
  Tell(events, transfer.id, HttpEnd{EndOf(transfer, code), std::move(why)});
  transfers.erase(CallId(transfer.id));
}

void HttpCalls::Impl::Remove(CallId id) {
  const auto found = transfers.find(id);
  if (found == transfers.end()) return;
  calls.Remove(*found->second);
  transfers.erase(found);
}

HttpCalls::HttpCalls(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpCalls::~HttpCalls() {
  while (!impl_->transfers.empty()) impl_->Remove(impl_->transfers.begin()->first);
}

Result<std::unique_ptr<HttpCalls>> HttpCalls::Make(HttpOptions options) {
  ROOST_ASSIGN_OR_RETURN(options.base_url, CheckedUrl(std::move(options.base_url)));
  auto impl = std::make_unique<Impl>();
  impl->options = std::move(options);
  return std::unique_ptr<HttpCalls>(new HttpCalls(std::move(impl)));
}

void HttpCalls::Start(CallId id, HttpCall call) {
  auto owned = std::make_unique<HttpTransfer>();
  HttpTransfer& transfer = *owned;
  transfer.id = id;
  transfer.body = std::move(call.body);
  transfer.max_body_bytes = call.max_body_bytes;
  if (call.answer_credit) transfer.credit = static_cast<std::int64_t>(*call.answer_credit);
  const bool is_upload = call.body_bytes > transfer.body.size();
  const HttpOptions& options = impl_->options;
  std::vector<HttpEvent>& events = impl_->events;
  call.headers.insert(call.headers.begin(), options.headers.begin(), options.headers.end());
  transfer.Begin({.url = options.base_url + call.path,
                  .bearer_key = options.bearer_key,
                  .headers = std::move(call.headers),
                  .body = call.method == HttpMethod::kPost && !is_upload ? &transfer.body : nullptr,
                  .content_type = std::move(call.content_type),
                  .time_limit = std::chrono::ceil<std::chrono::milliseconds>(call.time_limit),
                  .connect_limit = options.connect_timeout,
                  .max_idle_seconds = kMaxIdleSeconds,
                  .on_body = [&](std::string_view bytes) { return TellBytes(transfer, bytes, events); },
                  .on_upload = is_upload ? [&](std::span<char> room) { return Upload(transfer, room, events); }
                                         : std::function<std::size_t(std::span<char>)>(),
                  .upload_bytes = call.body_bytes,
                  .holds_answer = [&transfer] { return transfer.credit && *transfer.credit <= 0; }});
  impl_->calls.Add(transfer);
  impl_->transfers.emplace(id, std::move(owned));
}

void HttpCalls::Close(CallId id) {
  impl_->Remove(id);
  std::vector<HttpEvent> others;
  for (HttpEvent& event : impl_->events) {
    if (event.call != id) others.push_back(std::move(event));
  }
  impl_->events = std::move(others);
}

void HttpCalls::Append(CallId id, std::string bytes) {
  const auto found = impl_->transfers.find(id);
  if (found == impl_->transfers.end()) return;
  found->second->body += bytes;
  found->second->Resume();
}

void HttpCalls::Grant(CallId id, std::size_t bytes) {
  const auto found = impl_->transfers.find(id);
  if (found == impl_->transfers.end() || !found->second->credit) return;
  const bool waits = *found->second->credit <= 0;
  *found->second->credit += static_cast<std::int64_t>(bytes);
  if (waits && *found->second->credit > 0) found->second->Resume();
}

std::vector<HttpEvent> HttpCalls::Poll(std::chrono::milliseconds timeout, std::span<const int> fds) {
  impl_->Perform();
  if (impl_->events.empty()) {
    impl_->calls.Wait(timeout, fds);
    impl_->Perform();
  }
  return std::exchange(impl_->events, {});
}

void HttpCalls::Wake() { impl_->calls.Wake(); }

const std::string& HttpCalls::base_url() const { return impl_->options.base_url; }

std::size_t HttpCalls::open_count() const { return impl_->transfers.size(); }

Result<std::string> ReadBearerKey(const std::filesystem::path& path) {
  ROOST_ASSIGN_OR_RETURN(std::string text, ReadTrustedFile(path, kMaxKeyBytes));
  text.resize(std::min(text.find_first_of("\r\n"), text.size()));
  if (text.empty()) return InvalidArgument(path.string(), "its first line holds no key");
  return text;
}

}  // namespace roost::worker::adapters
