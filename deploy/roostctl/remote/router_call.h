// One call to a router: its address and rights, and its answer, with the events of a stream. For HttpClient, which
// waits for one call, and StreamClient, which has many under way.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/http/curl_call.h"
#include "deploy/roostctl/remote/router_access.h"

namespace roost::roostctl {

struct HttpResponse {
  std::string path;  // that was asked, with its query
  long status = 0;
  std::string body;
  std::map<std::string, std::string> headers;  // names in lower case
};

// Called with the text behind each "data: " as it arrives.
using OnData = std::function<void(std::string_view data)>;

// Text of a daemon, JSON or plain, without control characters other than line breaks and tabs, escaped ones included:
// what it says is shown on terminals, which obey some of them.
[[nodiscard]] std::string WithoutControls(std::string_view text);

class RouterCall : public CurlCall {
 public:
  struct Ask {
    std::string path;
    const std::string* json = nullptr;  // of a POST; null: a GET. Outlives the call
    OnData on_data = {};                // empty: the whole answer is the response's body
    double timeout_seconds = 0;
  };
  // Sets the handle up. `key` is that of the access, perhaps empty.
  void Begin(const RouterAccess& access, const std::string& key, Ask ask);
  // The result of the call. Takes the response.
  [[nodiscard]] Result<HttpResponse> End(CURLcode code);

 private:
  [[nodiscard]] bool TakeBody(std::string_view bytes);
  void TakeHeader(std::string_view line);
  void TakeLine();

  std::string url_;
  OnData on_data_;
  HttpResponse response_;
  std::string line_;  // the current, unfinished line of the event stream
};

}  // namespace roost::roostctl
