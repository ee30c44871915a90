// Is the engine there, and how busy is it? Pure; pages are asked for through the port.
//
//              not connected, health page fails, restarted, silent while requests run
//   serving ──────────────────────────────────────────────────────────────────────────► away
//      ▲                                                                                 │ every retry_interval
//      └──── facts as before, and after a silence: a small request answered ◄── health and fact pages
//
// Serving, it reads the load page each load_interval, the health page each EngineProtocol::health_interval, and which
// adapters there are each adapters_interval. Silence is no token of any request and no progress in the load (tokens
// computed, blocks in use) for `silence`, while requests are open: an engine that hangs may still answer pages, and one
// that was told to end keeps streams open without a word.
//
// One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "worker/adapters/engine_protocol.h"
#include "worker/adapters/facts_round.h"
#include "worker/adapters/http_port.h"

namespace roost::worker::adapters {

struct WatchTimes {
  Duration silence = std::chrono::seconds(60);
  Duration load_interval = std::chrono::milliseconds(250);
  Duration adapters_interval = std::chrono::seconds(5);
  Duration retry_interval = std::chrono::milliseconds(500);
  Duration page_time = std::chrono::seconds(5);
};

enum class OpenWork : std::uint8_t { kNone, kSome };

class EngineWatch {
 public:
  // The facts are those that the worker's Hello was made from. The references outlive it.
  EngineWatch(const EngineProtocol& protocol, EngineFacts facts, WatchTimes times, const Clock& clock, CallIds& ids,
              HttpPort& port);
  ~EngineWatch();
  EngineWatch(const EngineWatch&) = delete;
  EngineWatch& operator=(const EngineWatch&) = delete;

  void Tick(OpenWork work);
  [[nodiscard]] Duration TimeToNextTick() const;
  // False if the event is of another's call.
  bool OnHttp(const HttpEvent& event);
  // A request has tokens, or ended.
  void OnLife() { last_life_ = clock_.Now(); }
  // A request's call ended without a whole answer.
  void OnLostCall(const HttpEnd& end);
  // A request failed in a way that the whole engine may have.
  void AskHealthNow() { next_health_ = clock_.Now(); }
  // The engine does not know a request's adapter. It counts as gone until the page tells of it again, so that routers
  // hear of it then even if it was loaded anew meanwhile.
  void OnUnknownAdapter(const std::string& name);

  [[nodiscard]] bool is_away() const { return away_; }
  [[nodiscard]] const std::string& why() const { return why_; }  // while it is away
  [[nodiscard]] const EngineFacts& facts() const { return facts_; }
  // The last load; empty when the page does not tell it.
  [[nodiscard]] const EngineLoad& load() const { return load_; }
  // True once after each new load.
  [[nodiscard]] bool TakeNewLoad() { return std::exchange(has_new_load_, false); }
  // True once after the engine has come back as another process, or perhaps so.
  [[nodiscard]] bool TakeRestart() { return std::exchange(restarted_, false); }

 private:
  enum class Page : std::uint8_t { kLoad, kHealth, kAdapters, kTrial };
  struct Call {
    Page page = Page::kLoad;
    int status = 0;
    std::string body = {};
    Instant asked_at = {};
  };

  void Ask(Page page, HttpCall call);
  // Asks for the page unless it is asked for already, or not due yet.
  void AskIfDue(Page page, std::string_view path, Duration interval, Instant& next);
  void AskForLoad();
  void OnEnd(const Call& call, const HttpEnd& end);
  void OnLoad(const Call& call, const HttpEnd& end);
  void OnHealth(const Call& call, const HttpEnd& end);
  void OnAdapters(const Call& call, const HttpEnd& end);
  void OnTrial(const Call& call, const HttpEnd& end);
  void GoAway(std::string why);
  void ComeBack();
  void CloseCalls();
  void TickAway();
  void OnRound(Result<EngineFacts> outcome);
  void Try();
  [[nodiscard]] bool IsAsking(Page page) const;

  const EngineProtocol& protocol_;
  EngineFacts facts_;
  const WatchTimes times_;
  const Clock& clock_;
  CallIds& ids_;
  HttpPort& port_;
  FactsRound round_;
  std::map<CallId, Call> calls_;  // at most one of each page

  bool away_ = false;
  std::string why_;
  bool needs_trial_ = false;  // it was silent, so pages prove nothing
  std::optional<double> started_at_;
  std::optional<double> next_started_at_;  // as the round before the trial told
  bool restarted_ = false;
  int failures_ = 0;  // of the health page, in a row
  EngineLoad load_;
  std::optional<EngineLoad> seen_load_;  // the last that told something
  bool has_new_load_ = false;
  Instant last_life_;
  Instant next_load_;
  Instant next_health_;
  Instant next_adapters_;
  Instant next_round_;
};

}  // namespace roost::worker::adapters
