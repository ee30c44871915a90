#include "worker/adapters/forward_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <system_error>
#include <utility>
#include <variant>

#include "common/base/json_writer.h"
#include "common/base/utf8.h"
#include "worker/adapters/engine_error.h"

namespace roost::worker::adapters {
namespace {

// Credit is given in steps of this, so that a body of many pieces is no flood of messages.
constexpr std::uint32_t kCreditStep = wire::kForwardCredit / 4;

constexpr int kOk = 200;
constexpr std::uint32_t kMostUsageTokens = 1U << 30U;

bool Knows(const EngineFacts& facts, const std::string& name) {
  return name == facts.model || facts.aliases.contains(name) || facts.adapters.contains(name);
}

std::vector<std::string> HeadersOf(const wire::Forward& forward) {
  std::vector<std::string> headers;
  if (!forward.accept.empty()) headers.push_back("Accept: " + forward.accept);
  if (!forward.trace_parent.empty()) headers.push_back("traceparent: " + forward.trace_parent);
  return headers;
}

// The wire takes no other text.
std::string TypeOf(const std::string& told) {
  const bool is_text =
      told.size() <= wire::WireLimits::kMaxTextBytes && IsValidUtf8(told) && !HasControlCharacter(told);
  return is_text ? told : std::string();
}

}  // namespace

RenamedBody::RenamedBody(std::uint64_t begin, std::uint64_t end, std::string_view name) : begin_(begin), end_(end) {
  JsonWriter json;
  json.String(name);
  name_ = json.Take();
  name_ = name_.substr(1, name_.size() - 2);
}

// piece:   [taken, taken + size)      keeps what is outside of [begin, end); the name goes where `begin` is
std::string RenamedBody::Next(std::string piece) {
  const std::uint64_t first = std::exchange(taken_bytes_, taken_bytes_ + piece.size());
  if (begin_ == end_ || taken_bytes_ <= begin_ || first >= end_) return piece;
  const std::uint64_t cut_from = std::max(first, begin_) - first;
  const std::uint64_t cut_to = std::min(taken_bytes_, end_) - first;
  return piece.replace(cut_from, cut_to - cut_from, first <= begin_ ? name_ : std::string());
}

void UsageFinder::OnBytes(std::string_view bytes) {
  begin_.append(bytes.substr(0, kBeginBytes - begin_.size()));
  if (bytes.size() > kEndBytes) bytes.remove_prefix(bytes.size() - kEndBytes);
  end_.append(bytes);
  if (end_.size() > 2 * kEndBytes) end_.erase(0, end_.size() - kEndBytes);
}

std::optional<std::uint32_t> UsageFinder::NumberOf(std::string_view name) const {
  const std::string quoted = fmt::format("\"{}\":", name);
  const bool is_in_end = end_.rfind(quoted) != std::string::npos;
  const std::string& text = is_in_end ? end_ : begin_;
  const std::size_t found = text.rfind(quoted);
  if (found == std::string::npos) return std::nullopt;
  const std::size_t begin = text.find_first_not_of(' ', found + quoted.size());
  if (begin == std::string::npos) return std::nullopt;
  std::uint32_t number = 0;
  const char* const end = text.data() + text.size();
  return std::from_chars(text.data() + begin, end, number).ec == std::errc() ? std::optional(number) : std::nullopt;
}

std::optional<UsageFinder::Usage> UsageFinder::Find() const {
  if (const auto cached = NumberOf("cached_tokens")) {
    std::optional<std::uint32_t> prompt = NumberOf("prompt_tokens");
    if (!prompt) prompt = NumberOf("input_tokens");
    if (prompt) return Usage{*prompt, std::min(*cached, *prompt)};
  }
  // These two tell what is cached beside what is not.
  for (const auto& [cached_name, rest_name] :
       {std::pair("cache_n", "prompt_n"), std::pair("cache_read_input_tokens", "input_tokens")}) {
    const auto cached = NumberOf(cached_name);
    const auto rest = NumberOf(rest_name);
    if (cached && rest && *cached <= kMostUsageTokens && *rest <= kMostUsageTokens)
      return Usage{*cached + *rest, *cached};
  }
  return std::nullopt;
}

ForwardCalls::~ForwardCalls() {
  for (const auto& [id, key] : by_call_) port_.Close(id);
}

// ---- from the router ----

void ForwardCalls::Begin(LinkId link, wire::Forward forward, Instant received, const EngineFacts& facts) {
  const RequestKey key{link, forward.request_id};
  const auto [entry, is_new] = requests_.try_emplace(key);
  if (!is_new) return;
  Request& request = entry->second;
  request.body_bytes = forward.body_bytes;
  if (forward.body.size() > forward.body_bytes || forward.model_end > forward.body_bytes ||
      forward.model_begin > forward.model_end) {
    return Fail(key, InvalidArgument("body", "is not as large as the router says"));
  }
  if (!forward.model.empty()) {
    const std::string& name = Knows(facts, forward.model) ? forward.model : facts.model;
    request.body = RenamedBody(forward.model_begin, forward.model_end, name);
  }
  HttpCall call{.method = HttpMethod::kPost,
                .path = forward.path,
                .headers = HeadersOf(forward),
                .body = request.body.Next(std::move(forward.body)),
                .content_type = forward.content_type,
                .body_bytes = request.body.SizeOf(forward.body_bytes),
                .answer_credit = wire::kForwardCredit};
  if (forward.deadline_ms > 0) {
    const Instant deadline = received + std::chrono::milliseconds(std::min(forward.deadline_ms, wire::kMaxKeepMs));
    call.time_limit = std::max<Duration>(deadline - clock_.Now(), std::chrono::milliseconds(1));
  }
  request.call = ids_.Next();
  by_call_.emplace(*request.call, key);
  port_.Start(*request.call, std::move(call));
}

void ForwardCalls::Refuse(RequestKey key, Error error) {
  const auto [entry, is_new] = requests_.try_emplace(key);
  if (is_new) Fail(key, std::move(error));
}

void ForwardCalls::Append(RequestKey key, std::string body) {
  const auto found = requests_.find(key);
  if (found == requests_.end() || !found->second.call) return;
  Request& request = found->second;
  const std::uint64_t taken = request.body.taken_bytes() + body.size();
  if (taken > request.body_bytes) return Fail(key, InvalidArgument("body", "is longer than the router said"));
  if (taken > request.uploaded_bytes + 2 * std::uint64_t{wire::kForwardCredit}) {
    return Fail(key, InvalidArgument("body", "comes beyond its credit"));
  }
  port_.Append(*request.call, request.body.Next(std::move(body)));
}

void ForwardCalls::Grant(RequestKey key, std::uint32_t bytes) {
  const auto found = requests_.find(key);
  if (found == requests_.end()) return;
  found->second.credit += bytes;
  if (found->second.call) port_.Grant(*found->second.call, bytes);
  Note(key, found->second);
}

void ForwardCalls::Cancel(RequestKey key) {
  const auto found = requests_.find(key);
  if (found == requests_.end()) return;
  CloseCall(found->second);
  due_.erase(key);
  requests_.erase(found);
}

void ForwardCalls::CancelLink(LinkId link) {
  std::vector<RequestKey> keys;
  for (const auto& [key, request] : requests_) {
    if (key.link == link) keys.push_back(key);
  }
  for (const RequestKey key : keys) Cancel(key);
}

void ForwardCalls::EndAll(const Error& error) {
  std::vector<RequestKey> open;
  for (const auto& [id, key] : by_call_) open.push_back(key);
  for (const RequestKey key : open) Fail(key, error);
}

// ---- from the engine ----

bool ForwardCalls::OnHttp(const HttpEvent& event) {
  const auto found = by_call_.find(event.call);
  if (found == by_call_.end()) return event.call.value() > kFirstCall;
  const RequestKey key = found->second;
  Request& request = requests_.at(key);
  if (const auto* const status = std::get_if<HttpStatus>(&event.what)) {
    request.status = status->status;
    request.content_type = TypeOf(status->content_type);
  } else if (const auto* const bytes = std::get_if<HttpBytes>(&event.what)) {
    if (request.status == kOk) request.usage.OnBytes(bytes->bytes);
    request.answer += bytes->bytes;
  } else if (const auto* const uploaded = std::get_if<HttpUploaded>(&event.what)) {
    request.uploaded_bytes += uploaded->bytes;
    request.upload_credit += static_cast<std::uint32_t>(uploaded->bytes);
  } else {
    return OnEnd(key, std::get<HttpEnd>(event.what)), true;
  }
  Note(key, request);
  return true;
}

void ForwardCalls::OnEnd(RequestKey key, const HttpEnd& end) {
  if (end.how == CallEnd::kTooSlow) {
    return Fail(key, {ErrorCode::kDeadlineExceeded, "the deadline passed before the request ended", ""});
  }
  if (end.how != CallEnd::kComplete) return Fail(key, ErrorOf(end));
  Request& request = requests_.at(key);
  CloseCall(request);
  request.is_complete = true;
  Note(key, request);
}

// An answer of which nothing is told yet can come from another engine.
void ForwardCalls::Fail(RequestKey key, Error error) {
  Request& request = requests_.at(key);
  CloseCall(request);
  request.error = std::move(error);
  if (!request.head_is_told) request.answer.clear();
  Note(key, request);
}

void ForwardCalls::CloseCall(Request& request) {
  if (!request.call) return;
  port_.Close(*request.call);
  by_call_.erase(*request.call);
  request.call.reset();
}

// ---- to the router ----

void ForwardCalls::Note(RequestKey key, const Request& request) {
  const bool ends = request.answer.empty() && (request.is_complete || request.error);
  const bool answers = !request.answer.empty() && request.credit > 0;
  if (ends || answers || request.upload_credit >= kCreditStep) due_.insert(key);
}

std::optional<LinkForwarded> ForwardCalls::TakeAnswer() {
  if (due_.empty()) return std::nullopt;
  const RequestKey key = *due_.begin();
  due_.erase(due_.begin());
  Request& request = requests_.at(key);
  LinkForwarded taken{.link = key.link, .message = {}};
  wire::Forwarded& message = taken.message;
  message.request_id = key.request;
  message.credit = std::exchange(request.upload_credit, 0);
  const std::uint64_t size = std::min<std::uint64_t>({request.answer.size(), request.credit, wire::kMaxForwardBytes});
  message.body = request.answer.substr(0, size);
  request.answer.erase(0, size);
  request.credit -= size;
  const bool has_head = !request.head_is_told && (size > 0 || (request.is_complete && request.answer.empty()));
  if (has_head) {
    request.head_is_told = true;
    message.status = static_cast<std::uint32_t>(request.status);
    message.content_type = std::move(request.content_type);
  }
  message.last = request.answer.empty() && (request.is_complete || request.error);
  if (message.last) {
    message.error = std::move(request.error);
    const UsageFinder::Usage usage = request.usage.Find().value_or(UsageFinder::Usage());
    message.prompt_tokens = usage.prompt_tokens;
    message.cached_tokens = usage.cached_tokens;
    requests_.erase(key);
  } else {
    Note(key, request);
  }
  return taken;
}

}  // namespace roost::worker::adapters
