// Requests that routers pass on unread: each becomes one call of HTTP with the same path and body, and what the engine
// answers goes back as it comes. Pure; calls go through the port.
//
//   Begin, Append ─► the call's body ─► engine         at most its credit of bytes is here each way: what the engine
//   has TakeAnswer ◄─ the answer, credit ◄─┘               not read yet, and what the router has no room for
//        ▲
//   Grant┘
//
// A request names its model by the router's name for it, or another one: it gets a name that the engine knows.
//
// Every request that Begin took ends exactly once: with an answer whose end is not `running`, or silently by Cancel and
// CancelLink.
//
// Not thread-safe. Each call is O(bytes + log requests), CancelLink and EndAll O(requests).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/wire/messages.h"
#include "worker/adapters/engine_protocol.h"
#include "worker/adapters/http_port.h"
#include "worker/engine_api/exchange.h"

namespace roost::worker::adapters {

// The body of a request in pieces, with the engine's name in the place of the model's.
class RenamedBody {
 public:
  RenamedBody() = default;
  // The name that stands in [begin, end) of the body becomes `name`, as in a text of JSON.
  RenamedBody(std::uint64_t begin, std::uint64_t end, std::string_view name);

  // The next piece as the engine gets it.
  [[nodiscard]] std::string Next(std::string piece);
  // The size of a body of `bytes` then.
  [[nodiscard]] std::uint64_t SizeOf(std::uint64_t bytes) const { return bytes - (end_ - begin_) + name_.size(); }
  [[nodiscard]] std::uint64_t taken_bytes() const { return taken_bytes_; }

 private:
  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
  std::string name_;
  std::uint64_t taken_bytes_ = 0;
};

// Finds the usage that an engine tells in an answer, whole or streamed: OpenAI's and Anthropic's names for it, and
// llama.cpp's timings. It looks at the beginning and the end alone, and for names between quotes: in a text that the
// model wrote, these are escaped.
class UsageFinder {
 public:
  struct Usage {
    std::uint32_t prompt_tokens = 0;
    std::uint32_t cached_tokens = 0;

    bool operator==(const Usage&) const = default;
  };

  void OnBytes(std::string_view bytes);
  // Empty: the answer does not tell both numbers.
  [[nodiscard]] std::optional<Usage> Find() const;

 private:
  static constexpr std::size_t kBeginBytes = 4096;
  static constexpr std::size_t kEndBytes = 16384;

  // The last number of that name.
  [[nodiscard]] std::optional<std::uint32_t> NumberOf(std::string_view name) const;

  std::string begin_;
  std::string end_;  // at least the last kEndBytes; of a short answer it is all, as is `begin_`
};

class ForwardCalls {
 public:
  // The references outlive it.
  ForwardCalls(const Clock& clock, HttpPort& port) : clock_(clock), port_(port) {}
  ~ForwardCalls();
  ForwardCalls(const ForwardCalls&) = delete;
  ForwardCalls& operator=(const ForwardCalls&) = delete;

  // The deadline counts from `received`.
  void Begin(LinkId link, wire::Forward forward, Instant received, const EngineFacts& facts);
  void Refuse(RequestKey key, Error error);
  // More of its body, within its credit. Unknown keys are ignored here and below: the request may have just ended.
  void Append(RequestKey key, std::string body);
  void Grant(RequestKey key, std::uint32_t bytes);
  void Cancel(RequestKey key);
  void CancelLink(LinkId link);
  void EndAll(const Error& error);

  // False if the event is of another's call.
  bool OnHttp(const HttpEvent& event);

  [[nodiscard]] bool HasAnswer() const { return !due_.empty(); }
  // The next message to a router, without its epoch.
  [[nodiscard]] std::optional<LinkForwarded> TakeAnswer();
  // Requests whose call is open.
  [[nodiscard]] std::size_t open_count() const { return by_call_.size(); }

 private:
  static constexpr std::uint64_t kFirstCall = std::uint64_t{1} << 63U;  // beyond those of others

  struct Request {
    std::optional<CallId> call = {};  // while it is open
    RenamedBody body = {};
    std::uint64_t body_bytes = 0;
    std::uint64_t uploaded_bytes = 0;
    std::uint32_t upload_credit = 0;  // that the router is to be given
    int status = 0;
    std::string content_type = {};
    bool head_is_told = false;
    std::string answer = {};  // not told yet
    UsageFinder usage = {};
    std::uint64_t credit = wire::kForwardCredit;
    bool is_complete = false;
    std::optional<Error> error = {};
  };

  void OnEnd(RequestKey key, const HttpEnd& end);
  void Fail(RequestKey key, Error error);
  void CloseCall(Request& request);
  // Puts it among those with something to tell, if it has.
  void Note(RequestKey key, const Request& request);

  const Clock& clock_;
  HttpPort& port_;
  CallIds ids_{kFirstCall};
  std::map<RequestKey, Request> requests_;
  std::map<CallId, RequestKey> by_call_;
  std::set<RequestKey> due_;
};

}  // namespace roost::worker::adapters
