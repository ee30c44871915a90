// HTTP calls as the engine's core sees them: it starts and closes calls through a port, and is given what comes back as
// events. So the core runs in tests without a socket.
//
//   Start ─► HttpStatus ─► HttpBytes* ─► HttpEnd          HttpStatus and HttpBytes may be missing before an HttpEnd
//   Close: no event of the call comes any more; its connection is closed, which aborts what the engine does for it
//
// A body that is longer than HttpCall::body comes by Append, and HttpUploaded tells how much of it the engine has read.
// An answer with a credit stops at its end until Grant gives more: so neither is longer here than its window.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"

namespace roost::worker::adapters {

// Chosen by the caller; never used twice.
using CallId = StrongId<struct CallTag, std::uint64_t>;

// Gives each call of a worker its own id.
class CallIds {
 public:
  explicit CallIds(std::uint64_t before_first = 0) : last_(before_first) {}
  [[nodiscard]] CallId Next() { return CallId(++last_); }

 private:
  std::uint64_t last_;
};

enum class HttpMethod : std::uint8_t { kGet, kPost };

inline constexpr std::size_t kUnlimitedBody = std::numeric_limits<std::size_t>::max();

struct HttpCall {
  HttpMethod method = HttpMethod::kGet;
  std::string path = {};                  // with a leading slash
  std::vector<std::string> headers = {};  // "Name: value", beside those that HTTP needs
  std::string body = {};
  std::string content_type = "application/json";  // of the body
  std::uint64_t body_bytes = 0;                   // more than `body` has: the rest comes by Append
  std::optional<std::size_t> answer_credit = {};  // bytes of the answer, rounded up to a read; none: no bound
  Duration time_limit = Duration(0);              // for the whole call; 0: none
  std::size_t max_body_bytes = kUnlimitedBody;
};

struct HttpStatus {
  int status = 0;
  std::string content_type = {};
};
struct HttpBytes {
  std::string bytes;
};

// So many more bytes of the body have left; only of a body that comes by Append.
struct HttpUploaded {
  std::size_t bytes = 0;
};

enum class CallEnd : std::uint8_t {
  kComplete,      // the whole answer has come, whatever its status
  kNotConnected,  // no process listens there, or the name is unknown
  kBroken,        // the connection ended in the middle, the answer is no HTTP or too large
  kTooSlow,       // over HttpCall::time_limit
};
struct HttpEnd {
  CallEnd how = CallEnd::kComplete;
  std::string why = {};  // for people; empty with kComplete
};

struct HttpEvent {
  CallId call;
  std::variant<HttpStatus, HttpBytes, HttpUploaded, HttpEnd> what;
};

class HttpPort {
 public:
  virtual ~HttpPort() = default;
  virtual void Start(CallId id, HttpCall call) = 0;
  // Unknown ids are ignored: the call may have just ended.
  virtual void Close(CallId id) = 0;
  virtual void Append(CallId id, std::string bytes) = 0;
  virtual void Grant(CallId id, std::size_t bytes) = 0;
};

}  // namespace roost::worker::adapters
