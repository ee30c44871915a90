// One HTTP request and one whole answer, as plain values. Nothing of the server's library shows here.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/error.h"
#include "router/http/http_body.h"

namespace roost::router {

struct HttpHeader {
  std::string name;
  std::string value;
};

// Of a well-formed request within the server's bounds. `path` is as sent, before the first '?', still percent-encoded;
// of a whole URL it is the part behind the host, and Host is the URL's.
struct HttpRequest {
  std::string method;  // upper case
  std::string path;
  std::string query;  // after the first '?'; may be empty
  std::vector<HttpHeader> headers;
  HttpBody body;
  std::string request_id;  // the client's x-request-id when it is well-formed, else a new one; every answer carries it

  // The first header of that name, letter case aside.
  [[nodiscard]] std::optional<std::string_view> FindHeader(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<HttpHeader> headers;  // beside Content-Type, Content-Length, Connection and x-request-id
  std::string body;
};

// {"error":{"message","type","param","code"}}: what OpenAI's clients read. `param` is the error's field.
[[nodiscard]] std::string ErrorBody(const Error& error);

// The error's row of the table in common/base/error.cc as an answer. An overload, and what is not available now,
// carries Retry-After: `retry_after` in whole seconds, at least one.
[[nodiscard]] HttpResponse ErrorResponse(const Error& error, Duration retry_after = std::chrono::seconds(1));

// As names of headers compare: letter case of ASCII aside.
[[nodiscard]] bool EqualsIgnoringCase(std::string_view a, std::string_view b);

// Does a Content-Type say JSON: application/json or application/…+json, whatever its parameters?
[[nodiscard]] bool IsJson(std::string_view content_type);

// 1 to 128 of [A-Za-z0-9._:-]: what may be echoed to clients and written to logs.
[[nodiscard]] bool IsValidRequestId(std::string_view id);

}  // namespace roost::router
