// The one list of expected failures, and what each means to a client. A daemon never throws across its own code: a
// failure that can happen in a correct program is an Error inside a Result.
#pragma once

#include <string>
#include <string_view>

namespace roost {

// The values travel between the daemons: new codes go to the end.
enum class ErrorCode {
  kInvalidArgument,       // the request or file is wrong and stays wrong
  kUnauthenticated,       // no valid API key
  kNotFound,              // no such route or file
  kMethodNotAllowed,      // the route exists, the method does not
  kTimeout,               // the client was too slow to send its request
  kContextTooLong,        // prompt and output do not fit the model's context
  kBodyTooLarge,          // HTTP body over its limit
  kHeaderTooLarge,        // HTTP header over its limit
  kOverloaded,            // every queue that could take it is full; retry later
  kUnavailable,           // no worker serves the model now, or the worker was lost
  kDeadlineExceeded,      // accepted, but its deadline passed before it ended
  kCancelled,             // the client went away
  kDataLoss,              // a file or message is truncated or corrupt
  kInternal,              // a bug or a device failure that hits one request; the daemon goes on
  kModelNotFound,         // no worker serves a model with that name
  kUnsupportedMediaType,  // the request's Content-Type is not JSON
  kPermissionDenied,      // a valid API key, which may not do this
  kRateLimited,           // the API key has used up one of its limits; retry later
};

inline constexpr int kErrorCodeCount = static_cast<int>(ErrorCode::kRateLimited) + 1;

// The row of the table in error.cc.
struct ErrorTraits {
  std::string_view name;         // for logs and metrics labels: "invalid_argument"
  int http_status;               // 400
  std::string_view openai_type;  // "invalid_request_error"
  std::string_view openai_code;  // "context_length_exceeded"; empty where OpenAI sends null
  bool retryable;                // may the same request succeed elsewhere or later?
};

// Constant time; every code has a row.
[[nodiscard]] const ErrorTraits& TraitsOf(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;  // a whole clause for a person: what is wrong, and which value
  std::string field;    // the request field, configuration key or file that is wrong; may be empty

  // "field: message", or the message alone.
  [[nodiscard]] std::string ToString() const;

  bool operator==(const Error&) const = default;
};

}  // namespace roost
