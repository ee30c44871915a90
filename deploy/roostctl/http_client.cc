#include "deploy/roostctl/http_client.h"

#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <memory>
#include <utility>

#include "common/base/check.h"

namespace roost::roostctl {
namespace {

// The callbacks of one call write into this.
struct Exchange {
  HttpResponse response;
  const HttpClient::OnData* on_data = nullptr;
  std::string line;  // the current, unfinished line of the event stream
};

void TakeLine(Exchange& exchange) {
  constexpr std::string_view kPrefix = "data: ";
  std::string_view line = exchange.line;
  if (line.substr(0, kPrefix.size()) == kPrefix) {
    (*exchange.on_data)(line.substr(kPrefix.size()));
  } else if (!line.empty() && line.front() != ':') {
    exchange.response.body.append(line);
  }
  exchange.line.clear();
}

std::size_t OnBody(char* data, std::size_t size, std::size_t count, void* user) {
  auto& exchange = *static_cast<Exchange*>(user);
  const std::string_view bytes(data, size * count);
  if (exchange.on_data == nullptr) {
    exchange.response.body.append(bytes);
    return bytes.size();
  }
  for (const char c : bytes) {
    if (c == '\n') {
      TakeLine(exchange);
    } else {
      exchange.line += c;
    }
  }
  return bytes.size();
}

std::size_t OnHeader(char* data, std::size_t size, std::size_t count, void* user) {
  auto& exchange = *static_cast<Exchange*>(user);
  const std::string_view line(data, size * count);
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return line.size();
  std::string name(line.substr(0, colon));
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  std::string_view value = line.substr(colon + 1);
  while (!value.empty() && std::isspace(static_cast<unsigned char>(value.front())) != 0) value.remove_prefix(1);
  while (!value.empty() && std::isspace(static_cast<unsigned char>(value.back())) != 0) value.remove_suffix(1);
  exchange.response.headers[std::move(name)] = std::string(value);
  return line.size();
}

// A result other than 0 ends the call.
int OnProgress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return (*static_cast<const std::function<bool()>*>(user))() ? 1 : 0;
}

constexpr std::string_view kLocalScheme = "unix:";

bool IsLocal(const RouterAccess& access) { return access.url.rfind(kLocalScheme, 0) == 0; }

// With a local socket the host's name only fills the Host header.
std::string UrlOf(const RouterAccess& access, const std::string& path) {
  std::string base = IsLocal(access) ? "http://localhost" : access.url;
  while (!base.empty() && base.back() == '/') base.pop_back();
  return base + path;
}

using HeaderList = std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)>;

HeaderList MakeHeaders(const std::string& key, const std::string* json) {
  curl_slist* headers = nullptr;
  if (!key.empty()) headers = curl_slist_append(headers, ("Authorization: Bearer " + key).c_str());
  if (json != nullptr) {
    headers = curl_slist_append(headers, "Content-Type: application/json");
    headers = curl_slist_append(headers, "Expect:");
  }
  return {headers, &curl_slist_free_all};
}

}  // namespace

HttpClient::HttpClient(RouterAccess access, double timeout_seconds)
    : access_(std::move(access)), key_(KeyOf(access_)), timeout_seconds_(timeout_seconds), curl_(curl_easy_init()) {
  ROOST_CHECK(curl_ != nullptr);
}

HttpClient::~HttpClient() { curl_easy_cleanup(curl_); }

Result<HttpResponse> HttpClient::Get(const std::string& path) { return Perform(path, nullptr, nullptr); }

Result<HttpResponse> HttpClient::PostJson(const std::string& path, const std::string& json) {
  return Perform(path, &json, nullptr);
}

Result<HttpResponse> HttpClient::PostForEvents(const std::string& path, const std::string& json,
                                               const OnData& on_data) {
  return Perform(path, &json, &on_data);
}

void HttpClient::SetAccess(const std::string& url) {
  curl_easy_setopt(curl_, CURLOPT_URL, url.c_str());
  if (IsLocal(access_)) {
    curl_easy_setopt(curl_, CURLOPT_UNIX_SOCKET_PATH, access_.url.substr(kLocalScheme.size()).c_str());
  }
  curl_easy_setopt(curl_, CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2);
  if (!access_.ca_file.empty()) {
    curl_easy_setopt(curl_, CURLOPT_CAINFO, access_.ca_file.c_str());
    curl_easy_setopt(curl_, CURLOPT_CAPATH, nullptr);  // the system's are not trusted then
  }
  if (!access_.client_cert.empty()) curl_easy_setopt(curl_, CURLOPT_SSLCERT, access_.client_cert.c_str());
  if (!access_.client_key.empty()) curl_easy_setopt(curl_, CURLOPT_SSLKEY, access_.client_key.c_str());
}

Result<HttpResponse> HttpClient::Perform(const std::string& path, const std::string* json, const OnData* on_data) {
  if (!key_.ok()) return key_.error();
  Exchange exchange;
  exchange.on_data = on_data;
  const std::string url = UrlOf(access_, path);
  std::array<char, CURL_ERROR_SIZE> details{};
  curl_easy_reset(curl_);
  SetAccess(url);
  curl_easy_setopt(curl_, CURLOPT_ERRORBUFFER, details.data());
  curl_easy_setopt(curl_, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl_, CURLOPT_TCP_NODELAY, 1L);
  curl_easy_setopt(curl_, CURLOPT_PROXY, "");
  curl_easy_setopt(curl_, CURLOPT_TIMEOUT_MS, static_cast<long>(timeout_seconds_ * 1000));
  curl_easy_setopt(curl_, CURLOPT_WRITEFUNCTION, &OnBody);
  curl_easy_setopt(curl_, CURLOPT_WRITEDATA, &exchange);
  curl_easy_setopt(curl_, CURLOPT_HEADERFUNCTION, &OnHeader);
  curl_easy_setopt(curl_, CURLOPT_HEADERDATA, &exchange);
  if (stop_asked_) {
    curl_easy_setopt(curl_, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl_, CURLOPT_XFERINFOFUNCTION, &OnProgress);
    curl_easy_setopt(curl_, CURLOPT_XFERINFODATA, &stop_asked_);
  }
  const HeaderList headers = MakeHeaders(*key_, json);
  curl_easy_setopt(curl_, CURLOPT_HTTPHEADER, headers.get());
  if (json != nullptr) {
    curl_easy_setopt(curl_, CURLOPT_POSTFIELDS, json->c_str());
    curl_easy_setopt(curl_, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(json->size()));
  }
  const CURLcode code = curl_easy_perform(curl_);
  if (code == CURLE_ABORTED_BY_CALLBACK) return Error{ErrorCode::kCancelled, "stopped", ""};
  if (code != CURLE_OK) {
    const char* const why = details[0] == '\0' ? curl_easy_strerror(code) : details.data();
    return Error{ErrorCode::kUnavailable, fmt::format("no answer from {}: {}", access_.url + path, why), ""};
  }
  if (!exchange.line.empty()) TakeLine(exchange);
  curl_easy_getinfo(curl_, CURLINFO_RESPONSE_CODE, &exchange.response.status);
  return std::move(exchange.response);
}

}  // namespace roost::roostctl
