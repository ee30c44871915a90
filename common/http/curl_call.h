// HTTP/1.1 calls over libcurl: one exchange, and many at once. No redirects, proxies, cookies or signals.
//
// Not thread-safe, but for CurlCalls::Wake. A call keeps its handle for the next Begin, and with it the connection of a
// Perform; the connections of calls that run at once are kept by their CurlCalls.
#pragma once

#include <curl/curl.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace roost {

class CurlCall {
 public:
  struct Ask {
    std::string url;
    std::string unix_socket = {};  // path of a local socket; empty: TCP
    std::string bearer_key = {};   // sent as Authorization; empty: none
    std::vector<std::string> headers = {};
    const std::string* body = nullptr;  // of a POST, outlives the call; null: a GET, or see on_upload
    std::string content_type = "application/json";
    std::chrono::milliseconds time_limit{0};     // for the whole call; 0: none
    std::chrono::milliseconds connect_limit{0};  // 0: libcurl's
    long max_idle_seconds = 0;                   // of a kept connection; 0: libcurl's
    std::string ca_file = {};                    // PEM: the authorities to trust; empty: the system's
    std::string client_cert = {};                // PEM; empty: none
    std::string client_key = {};                 // PEM; empty: in the same file
    // The body as it comes, and the lines of the head; empty: not wanted. False ends the call: the body is too large.
    std::function<bool(std::string_view bytes)> on_body = {};
    std::function<void(std::string_view line)> on_header = {};
    // The body of a POST that comes in pieces, and its size. Writes what there is and returns how much: 0 makes the
    // call wait for a Resume, before which there must be more.
    std::function<std::size_t(std::span<char> room)> on_upload = {};
    std::uint64_t upload_bytes = 0;
    // Asked before each on_body: true makes the answer wait for a Resume.
    std::function<bool()> holds_answer = {};
  };

  CurlCall();
  CurlCall(const CurlCall&) = delete;
  CurlCall& operator=(const CurlCall&) = delete;

  // Sets the handle up. Ends with Perform, or CurlCalls.
  void Begin(Ask ask);
  [[nodiscard]] CURLcode Perform() { return curl_easy_perform(handle()); }

  // The call goes on, if it waits. May call on_body and on_upload.
  void Resume() { curl_easy_pause(handle(), CURLPAUSE_CONT); }

  [[nodiscard]] long status() const;
  [[nodiscard]] std::string content_type() const;
  // on_body said so, or the head had no end: the call ended with an error.
  [[nodiscard]] bool is_too_large() const { return is_too_large_; }
  // libcurl's words for an error; may be empty.
  [[nodiscard]] const char* details() const { return details_.data(); }
  [[nodiscard]] CURL* handle() const { return handle_.get(); }

 private:
  static std::size_t OnBody(char* data, std::size_t size, std::size_t count, void* user);
  static std::size_t OnHeader(char* data, std::size_t size, std::size_t count, void* user);
  static std::size_t OnUpload(char* room, std::size_t size, std::size_t count, void* user);
  void AddHeader(const std::string& line);
  void SetTls();
  void SetBody();

  std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> handle_;
  std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers_{nullptr, &curl_slist_free_all};
  Ask ask_;
  std::size_t header_bytes_ = 0;
  bool is_too_large_ = false;
  std::array<char, CURL_ERROR_SIZE> details_{};
};

// Calls that run at once, on the caller's thread.
class CurlCalls {
 public:
  explicit CurlCalls(long kept_connections);

  // After its Begin. The call is under way until NextEnded gives it or it is removed, and outlives that.
  void Add(CurlCall& call);
  void Remove(CurlCall& call);

  // Waits until a call can go on, one of `fds` can be read, Wake is called or the time is over.
  void Wait(std::chrono::milliseconds most, std::span<const int> fds);
  // Moves the bytes that can be moved. O(open calls).
  void Move();
  struct Ended {
    CurlCall* call;
    CURLcode code;
  };
  [[nodiscard]] std::optional<Ended> NextEnded();
  // Ends a Wait, or the next one.
  void Wake() { curl_multi_wakeup(multi_.get()); }

 private:
  std::unique_ptr<CURLM, decltype(&curl_multi_cleanup)> multi_;
};

}  // namespace roost
