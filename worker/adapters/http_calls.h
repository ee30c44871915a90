// HTTP/1.1 calls to one engine over libcurl: many streams at once on the caller's thread, on connections that are kept.
//
//   Start, Close ─► transfers ◄─► curl_multi ◄─► connections        Poll: waits, moves bytes, returns events in order
//
// No redirects, proxies, cookies or signals. An idle connection is dropped after kMaxIdleSeconds, before a server of
// uvicorn closes it (5 s), so that no request meets a connection that is just being closed.
//
// Threads: one, but Wake, which any thread may call. Poll costs O(open calls).
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "worker/adapters/http_port.h"

namespace roost::worker::adapters {

inline constexpr long kMaxIdleSeconds = 4;

struct HttpOptions {
  std::string base_url = {};              // "http://HOST:PORT", or https; a path is put before those of the calls
  std::string bearer_key = {};            // sent as Authorization; empty: none
  std::vector<std::string> headers = {};  // of every call, before its own
  std::chrono::milliseconds connect_timeout{5000};
};

class HttpCalls final : public HttpPort {
 public:
  // kInvalidArgument (field engine-url) when the URL is none. The engine need not run yet.
  [[nodiscard]] static Result<std::unique_ptr<HttpCalls>> Make(HttpOptions options);
  ~HttpCalls() override;
  HttpCalls(const HttpCalls&) = delete;
  HttpCalls& operator=(const HttpCalls&) = delete;

  void Start(CallId id, HttpCall call) override;
  void Close(CallId id) override;
  void Append(CallId id, std::string bytes) override;
  void Grant(CallId id, std::size_t bytes) override;

  // Waits until something happens on a connection, one of `fds` can be read, Wake is called or the time is over; not at
  // all if events are there already.
  [[nodiscard]] std::vector<HttpEvent> Poll(std::chrono::milliseconds timeout, std::span<const int> fds);
  // Ends a Poll that waits, or the next one.
  void Wake();

  [[nodiscard]] const std::string& base_url() const;
  [[nodiscard]] std::size_t open_count() const;

 private:
  struct Impl;
  explicit HttpCalls(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

// The first line of a small file that holds an API key. Errors name the path.
[[nodiscard]] Result<std::string> ReadBearerKey(const std::filesystem::path& path);

}  // namespace roost::worker::adapters
