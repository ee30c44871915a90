#include "deploy/roostctl/remote/curl_call.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

#include "common/base/check.h"

namespace roost::roostctl {
namespace {

constexpr std::string_view kLocalScheme = "unix:";

bool IsLocal(const RouterAccess& access) { return access.url.rfind(kLocalScheme, 0) == 0; }

// With a local socket the host's name only fills the Host header.
std::string UrlOf(const RouterAccess& access, const std::string& path) {
  std::string base = IsLocal(access) ? "http://localhost" : access.url;
  while (!base.empty() && base.back() == '/') base.pop_back();
  return base + path;
}

// More than any answer of a daemon has. A peer that never ends must not fill the memory.
constexpr std::size_t kMaxAnswerBytes = std::size_t{64} << 20U;
// The value that a callback returns to end the transfer: another number of bytes than it got.
constexpr std::size_t kRefused = 0;
constexpr std::size_t kMaxHeaderBytes = std::size_t{1} << 20U;

}  // namespace

std::string WithoutControls(std::string_view text) {
  const auto is_control = [](unsigned value) { return value < 0x20 || (value >= 0x7F && value < 0xA0); };
  const auto is_blank = [](char c) { return c == '\n' || c == '\t' || c == '\r'; };
  constexpr std::size_t kEscapeBytes = 6;  // \u001b
  std::string clean;
  clean.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    if (byte == '\\' && next == 'u' && i + kEscapeBytes <= text.size()) {
      unsigned value = ' ';
      std::from_chars(text.data() + i + 2, text.data() + i + kEscapeBytes, value, 16);
      const bool is_allowed = !is_control(value) || is_blank(static_cast<char>(value));
      clean += is_allowed ? text.substr(i, kEscapeBytes) : "\\ufffd";
      i += kEscapeBytes - 1;
    } else if (byte == '\\' && next != 0) {
      clean += text.substr(i++, 2);
    } else if (byte == 0xC2 && is_control(next) && next >= 0x80) {
      ++i;
    } else if ((byte >= 0x20 && byte != 0x7F) || is_blank(text[i])) {
      clean += text[i];
    }
  }
  return clean;
}

CurlCall::CurlCall() : handle_(curl_easy_init(), &curl_easy_cleanup) { ROOST_CHECK(handle_ != nullptr); }

void CurlCall::TakeLine() {
  constexpr std::string_view kPrefix = "data: ";
  if (!line_.empty() && line_.back() == '\r') line_.pop_back();
  const std::string_view line = line_;
  if (line.substr(0, kPrefix.size()) == kPrefix) {
    ask_.on_data(WithoutControls(line.substr(kPrefix.size())));
  } else if (!line.empty() && line.front() != ':') {
    response_.body.append(line);
  }
  line_.clear();
}

std::size_t CurlCall::OnBody(char* data, std::size_t size, std::size_t count, void* user) {
  auto& call = *static_cast<CurlCall*>(user);
  const std::string_view bytes(data, size * count);
  if (call.response_.body.size() + call.line_.size() + bytes.size() > kMaxAnswerBytes) {
    call.too_large_ = true;
    return kRefused;
  }
  if (!call.ask_.on_data) {
    call.response_.body.append(bytes);
    return bytes.size();
  }
  for (const char c : bytes) {
    if (c == '\n') {
      call.TakeLine();
    } else {
      call.line_ += c;
    }
  }
  return bytes.size();
}

std::size_t CurlCall::OnHeader(char* data, std::size_t size, std::size_t count, void* user) {
  auto& call = *static_cast<CurlCall*>(user);
  const std::string_view line(data, size * count);
  call.header_bytes_ += line.size();
  if (call.header_bytes_ > kMaxHeaderBytes) {
    call.too_large_ = true;
    return kRefused;
  }
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return line.size();
  std::string name(line.substr(0, colon));
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  std::string_view value = line.substr(colon + 1);
  while (!value.empty() && std::isspace(static_cast<unsigned char>(value.front())) != 0) value.remove_prefix(1);
  while (!value.empty() && std::isspace(static_cast<unsigned char>(value.back())) != 0) value.remove_suffix(1);
  call.response_.headers[std::move(name)] = std::string(value);
  return line.size();
}

void CurlCall::SetAccess(const RouterAccess& access) {
  CURL* const curl = handle();
  curl_easy_setopt(curl, CURLOPT_URL, UrlOf(access, ask_.path).c_str());
  if (IsLocal(access)) {
    curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, access.url.substr(kLocalScheme.size()).c_str());
  }
  curl_easy_setopt(curl, CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2);
  if (!access.ca_file.empty()) {
    curl_easy_setopt(curl, CURLOPT_CAINFO, access.ca_file.c_str());
    curl_easy_setopt(curl, CURLOPT_CAPATH, nullptr);  // the system's are not trusted then
  }
  if (!access.client_cert.empty()) curl_easy_setopt(curl, CURLOPT_SSLCERT, access.client_cert.c_str());
  if (!access.client_key.empty()) curl_easy_setopt(curl, CURLOPT_SSLKEY, access.client_key.c_str());
}

void CurlCall::SetHeaders(const std::string& key) {
  curl_slist* headers = nullptr;
  if (!key.empty()) headers = curl_slist_append(headers, ("Authorization: Bearer " + key).c_str());
  if (ask_.json != nullptr) {
    headers = curl_slist_append(headers, "Content-Type: application/json");
    headers = curl_slist_append(headers, "Expect:");
  }
  headers_.reset(headers);
  curl_easy_setopt(handle(), CURLOPT_HTTPHEADER, headers);
}

void CurlCall::Begin(const RouterAccess& access, const std::string& key, Ask ask) {
  ask_ = std::move(ask);
  url_ = access.url + ask_.path;
  response_ = {.path = ask_.path, .body = {}, .headers = {}};
  line_.clear();
  header_bytes_ = 0;
  too_large_ = false;
  details_.fill('\0');
  CURL* const curl = handle();
  curl_easy_reset(curl);
  SetAccess(access);
  SetHeaders(key);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, details_.data());
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_TCP_NODELAY, 1L);
  curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(curl, CURLOPT_PROXY, "");
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(ask_.timeout_seconds * 1000));
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &CurlCall::OnBody);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, this);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, &CurlCall::OnHeader);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, this);
  if (ask_.json == nullptr) return;
  curl_easy_setopt(curl, CURLOPT_POSTFIELDS, ask_.json->c_str());
  curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(ask_.json->size()));
}

Result<HttpResponse> CurlCall::End(CURLcode code) {
  if (code == CURLE_ABORTED_BY_CALLBACK) return Error{ErrorCode::kCancelled, "stopped", ""};
  if (too_large_) {
    return Error{ErrorCode::kUnavailable, fmt::format("{} answers with more than {} MiB", url_, kMaxAnswerBytes >> 20U),
                 ""};
  }
  if (code != CURLE_OK) {
    const char* const why = details_[0] == '\0' ? curl_easy_strerror(code) : details_.data();
    const ErrorCode kind = code == CURLE_OPERATION_TIMEDOUT ? ErrorCode::kTimeout : ErrorCode::kUnavailable;
    return Error{kind, fmt::format("no answer from {}: {}", url_, why), ""};
  }
  if (!line_.empty()) TakeLine();
  curl_easy_getinfo(handle(), CURLINFO_RESPONSE_CODE, &response_.status);
  response_.body = WithoutControls(response_.body);
  return std::move(response_);
}

}  // namespace roost::roostctl
