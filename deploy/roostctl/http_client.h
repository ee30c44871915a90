// A small blocking HTTP client over libcurl, for the operator's command line: JSON calls and server-sent events.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/result.h"
#include "deploy/roostctl/router_access.h"

namespace roost::roostctl {

struct HttpResponse {
  long status = 0;
  std::string body;
  std::map<std::string, std::string> headers;  // names in lower case
};

// One connection, kept alive between calls. Not thread-safe: one client per thread.
class HttpClient {
 public:
  explicit HttpClient(RouterAccess access, double timeout_seconds = 600);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // An Error when no answer came (kUnavailable) or the access is wrong (kInvalidArgument); an answer with any HTTP
  // status is a result. No error shows the API key.
  [[nodiscard]] Result<HttpResponse> Get(const std::string& path);
  [[nodiscard]] Result<HttpResponse> PostJson(const std::string& path, const std::string& json);

  // Calls `on_data` with the text behind each "data: " as it arrives. The response's body is everything that was not an
  // event, such as a JSON error.
  using OnData = std::function<void(std::string_view data)>;
  [[nodiscard]] Result<HttpResponse> PostForEvents(const std::string& path, const std::string& json,
                                                   const OnData& on_data);

  // From now on a call ends with kCancelled as soon as `asked` returns true. `asked` is called whenever bytes move,
  // and at least once a second.
  void StopWhen(std::function<bool()> asked) { stop_asked_ = std::move(asked); }

 private:
  [[nodiscard]] Result<HttpResponse> Perform(const std::string& path, const std::string* json, const OnData* on_data);
  void SetAccess(const std::string& url);

  const RouterAccess access_;
  const Result<std::string> key_;
  double timeout_seconds_;
  std::function<bool()> stop_asked_;
  void* curl_;  // CURL*
};

}  // namespace roost::roostctl
