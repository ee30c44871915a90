// Many streamed answers at once, over libcurl and in one thread: for loads of requests that do not wait for each other.
//
// Not thread-safe.
#pragma once

#include <curl/curl.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "deploy/roostctl/curl_call.h"
#include "deploy/roostctl/router_access.h"

namespace roost::roostctl {

class StreamClient {
 public:
  struct Request {
    std::string path;
    std::string json;
    OnData on_data;
    std::function<void(const Result<HttpResponse>& response)> on_end;
  };

  // Each request ends after `timeout_seconds` at the latest.
  StreamClient(RouterAccess access, double timeout_seconds);
  ~StreamClient();
  StreamClient(const StreamClient&) = delete;
  StreamClient& operator=(const StreamClient&) = delete;

  // Whether the access can be used: the key's file can be read.
  [[nodiscard]] Result<void> Check() const;

  // Begins a request. Its callbacks run in later calls of Run; they may call Start.
  void Start(Request request);
  // Ends all requests with kCancelled, with their callbacks.
  void CancelAll();

  // Moves bytes. Returns when there was something to do, or after `at_most`.
  void Run(Duration at_most);

  [[nodiscard]] std::size_t open_count() const { return open_.size(); }

 private:
  struct Transfer {
    CurlCall call;
    Request request;
  };

  void SetTimer(Duration time) const;
  void EndFinished();
  void End(CURL* handle, CURLcode code);

  const RouterAccess access_;
  const Result<std::string> key_;
  const double timeout_seconds_;
  std::unique_ptr<CURLM, decltype(&curl_multi_cleanup)> multi_;
  const int timer_;  // a file descriptor, because curl itself waits for whole milliseconds
  std::unordered_map<CURL*, std::unique_ptr<Transfer>> open_;
  std::vector<std::unique_ptr<Transfer>> idle_;  // to use again
};

}  // namespace roost::roostctl
