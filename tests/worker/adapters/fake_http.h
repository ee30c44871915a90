// An HttpPort that keeps what is sent, for a test that plays the engine.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "worker/adapters/http_port.h"

namespace roost::worker::adapters::testing_support {

class FakeHttp final : public HttpPort {
 public:
  struct Sent {
    CallId id;
    HttpCall call;
  };

  void Start(CallId id, HttpCall call) override { sent.push_back({id, std::move(call)}); }
  void Close(CallId id) override { closed.insert(id); }
  void Append(CallId id, std::string bytes) override { appended[id] += bytes; }
  void Grant(CallId id, std::size_t bytes) override { granted[id] += bytes; }

  // The open calls to this path, oldest first.
  [[nodiscard]] std::vector<Sent> Open(std::string_view path) const {
    std::vector<Sent> open;
    for (const Sent& one : sent) {
      if (one.call.path == path && !closed.contains(one.id) && !ended.contains(one.id)) open.push_back(one);
    }
    return open;
  }
  [[nodiscard]] bool IsClosed(CallId id) const { return closed.contains(id); }

  std::vector<Sent> sent;
  std::map<CallId, std::string> appended;
  std::map<CallId, std::size_t> granted;
  std::set<CallId> closed;
  std::set<CallId> ended;  // by the test
};

}  // namespace roost::worker::adapters::testing_support
