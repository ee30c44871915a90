// Asks an engine's pages one after another: is it healthy, and what is it? Pure; calls go through the port.
//
//   Begin ─► health page ─► its routes ─► fact page 1 ─► … ─► outcome: the facts, or why not
//
// One thread.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "worker/adapters/engine_protocol.h"
#include "worker/adapters/http_port.h"

namespace roost::worker::adapters {

class FactsRound {
 public:
  // The references outlive it.
  FactsRound(const EngineProtocol& protocol, CallIds& ids, HttpPort& port, Duration page_time);
  ~FactsRound() { Stop(); }
  FactsRound(const FactsRound&) = delete;
  FactsRound& operator=(const FactsRound&) = delete;

  // Ends the round that is under way.
  void Begin();
  void Stop();
  // False if the event is of another's call.
  bool OnHttp(const HttpEvent& event);

  [[nodiscard]] bool is_under_way() const { return call_.has_value(); }
  // The outcome of the round that ended, once. kUnavailable: ask again later; other errors stay.
  [[nodiscard]] std::optional<Result<EngineFacts>> TakeOutcome();

 private:
  struct Page {
    enum class Kind { kHealth, kRoutes, kRoute, kFacts } kind = Kind::kFacts;
    std::string path;
  };

  void Ask();
  void OnPage(const HttpEnd& end);
  [[nodiscard]] Result<void> Read(const Page& page);
  void ReadRoutesPage();
  [[nodiscard]] bool HasRoute() const;

  const EngineProtocol& protocol_;
  CallIds& ids_;
  HttpPort& port_;
  const Duration page_time_;
  std::deque<Page> pages_;  // to ask, the one that is asked first
  std::optional<CallId> call_;
  int status_ = 0;
  std::string body_;
  EngineFacts facts_;
  std::optional<Result<EngineFacts>> outcome_;
};

}  // namespace roost::worker::adapters
