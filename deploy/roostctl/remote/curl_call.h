// One HTTP exchange on a curl handle: what every call to a router sets, and how its answer is collected. For
// HttpClient, which waits for one call, and StreamClient, which has many under way.
//
// Not thread-safe. A handle is kept from call to call, and with it the connection (HttpClient) or not (a multi handle
// has the connections itself).
#pragma once

#include <curl/curl.h>

#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/result.h"
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

class CurlCall {
 public:
  CurlCall();
  CurlCall(const CurlCall&) = delete;
  CurlCall& operator=(const CurlCall&) = delete;

  struct Ask {
    std::string path;
    const std::string* json = nullptr;  // of a POST; null: a GET. Outlives the call
    OnData on_data = {};                // empty: the whole answer is the response's body
    double timeout_seconds = 0;
  };
  // Sets the handle up; `access` outlives the call. `key` is that of the access, perhaps empty.
  void Begin(const RouterAccess& access, const std::string& key, Ask ask);
  // The result of the call. Takes the response.
  [[nodiscard]] Result<HttpResponse> End(CURLcode code);

  [[nodiscard]] CURL* handle() const { return handle_.get(); }

 private:
  static std::size_t OnBody(char* data, std::size_t size, std::size_t count, void* user);
  static std::size_t OnHeader(char* data, std::size_t size, std::size_t count, void* user);
  void SetAccess(const RouterAccess& access);
  void SetHeaders(const std::string& key);
  void TakeLine();

  std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> handle_;
  std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers_{nullptr, &curl_slist_free_all};
  Ask ask_;
  std::string url_;
  HttpResponse response_;
  std::size_t header_bytes_ = 0;
  bool too_large_ = false;
  std::string line_;  // the current, unfinished line of the event stream
  std::array<char, CURL_ERROR_SIZE> details_{};
};

}  // namespace roost::roostctl
