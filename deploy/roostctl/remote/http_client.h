// A small blocking HTTP client over libcurl, for the operator's command line: JSON calls and server-sent events.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "common/base/result.h"
#include "deploy/roostctl/remote/router_access.h"
#include "deploy/roostctl/remote/router_call.h"

namespace roost::roostctl {

// One connection, kept alive between calls. Not thread-safe: one client per thread.
class HttpClient {
 public:
  explicit HttpClient(RouterAccess access, double timeout_seconds = 600);

  // An Error when no answer came (kUnavailable, or kTimeout) or the access is wrong (kInvalidArgument); an answer with
  // any HTTP status is a result. No error shows the API key.
  [[nodiscard]] Result<HttpResponse> Get(const std::string& path);
  [[nodiscard]] Result<HttpResponse> PostJson(const std::string& path, const std::string& json);

  // Calls `on_data` with the text behind each "data: " as it arrives. The response's body is everything that was not an
  // event, such as a JSON error.
  [[nodiscard]] Result<HttpResponse> PostForEvents(const std::string& path, const std::string& json, OnData on_data);

  // From now on a call ends with kCancelled as soon as `asked` returns true. `asked` is called whenever bytes move,
  // and at least once a second.
  void StopWhen(std::function<bool()> asked) { stop_asked_ = std::move(asked); }

 private:
  [[nodiscard]] Result<HttpResponse> Perform(RouterCall::Ask ask);

  const RouterAccess access_;
  const Result<std::string> key_;
  const double timeout_seconds_;
  std::function<bool()> stop_asked_;
  RouterCall call_;
};

}  // namespace roost::roostctl
