#include "deploy/roostctl/remote/router_call.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

namespace roost::roostctl {
namespace {

// More than any answer of a daemon has. A peer that never ends must not fill the memory.
constexpr std::size_t kMaxAnswerBytes = std::size_t{64} << 20U;

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

void RouterCall::TakeLine() {
  constexpr std::string_view kPrefix = "data: ";
  if (!line_.empty() && line_.back() == '\r') line_.pop_back();
  const std::string_view line = line_;
  if (line.substr(0, kPrefix.size()) == kPrefix) {
    on_data_(WithoutControls(line.substr(kPrefix.size())));
  } else if (!line.empty() && line.front() != ':') {
    response_.body.append(line);
  }
  line_.clear();
}

bool RouterCall::TakeBody(std::string_view bytes) {
  if (response_.body.size() + line_.size() + bytes.size() > kMaxAnswerBytes) return false;
  if (!on_data_) {
    response_.body.append(bytes);
    return true;
  }
  for (const char c : bytes) {
    if (c == '\n') {
      TakeLine();
    } else {
      line_ += c;
    }
  }
  return true;
}

void RouterCall::TakeHeader(std::string_view line) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return;
  std::string name(line.substr(0, colon));
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  std::string_view value = line.substr(colon + 1);
  while (!value.empty() && std::isspace(static_cast<unsigned char>(value.front())) != 0) value.remove_prefix(1);
  while (!value.empty() && std::isspace(static_cast<unsigned char>(value.back())) != 0) value.remove_suffix(1);
  response_.headers[std::move(name)] = std::string(value);
}

void RouterCall::Begin(const RouterAccess& access, const std::string& key, Ask ask) {
  constexpr std::string_view kLocalScheme = "unix:";
  const bool is_local = access.url.starts_with(kLocalScheme);
  // With a local socket the host's name only fills the Host header.
  std::string base = is_local ? "http://localhost" : access.url;
  while (!base.empty() && base.back() == '/') base.pop_back();
  url_ = access.url + ask.path;
  on_data_ = std::move(ask.on_data);
  response_ = {.path = ask.path, .body = {}, .headers = {}};
  line_.clear();
  CurlCall::Begin({.url = base + ask.path,
                   .unix_socket = is_local ? access.url.substr(kLocalScheme.size()) : "",
                   .bearer_key = key,
                   .body = ask.json,
                   .time_limit = std::chrono::milliseconds(static_cast<long>(ask.timeout_seconds * 1000)),
                   .ca_file = access.ca_file,
                   .client_cert = access.client_cert,
                   .client_key = access.client_key,
                   .on_body = [this](std::string_view bytes) { return TakeBody(bytes); },
                   .on_header = [this](std::string_view line) { TakeHeader(line); }});
}

Result<HttpResponse> RouterCall::End(CURLcode code) {
  if (code == CURLE_ABORTED_BY_CALLBACK) return Error{ErrorCode::kCancelled, "stopped", ""};
  if (is_too_large()) {
    return Error{ErrorCode::kUnavailable, fmt::format("{} answers with more than {} MiB", url_, kMaxAnswerBytes >> 20U),
                 ""};
  }
  if (code != CURLE_OK) {
    const std::string why = *details() == '\0' ? curl_easy_strerror(code) : details();
    const ErrorCode kind = code == CURLE_OPERATION_TIMEDOUT ? ErrorCode::kTimeout : ErrorCode::kUnavailable;
    return Error{kind, fmt::format("no answer from {}: {}", url_, why), ""};
  }
  if (!line_.empty()) TakeLine();
  response_.status = status();
  response_.body = WithoutControls(response_.body);
  return std::move(response_);
}

}  // namespace roost::roostctl
