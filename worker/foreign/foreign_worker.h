// A worker's engine that is another program's: the facts that it told, the host that talks to it, and what follows from
// them for the hello.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/prefix/block_hash.h"
#include "common/wire/messages.h"
#include "worker/engine_api/worker_engine.h"
#include "worker/foreign/dialect.h"
#include "worker/foreign/events/event_feed.h"
#include "worker/foreign/foreign_engine.h"
#include "worker/foreign/foreign_host.h"
#include "worker/foreign/http_calls.h"

namespace roost::worker::foreign {

// The addresses of an engine.
struct EngineAddress {
  HttpOptions http;
  std::string events_endpoint = {};  // tcp://HOST:PORT; empty: no events, so the router goes by its own history
  std::string replay_endpoint = {};
};

// An engine that has answered.
struct ConnectedEngine {
  const Dialect* dialect = nullptr;
  EngineFacts facts;
  ForeignOptions options;
  std::unique_ptr<HttpCalls> calls;
  std::unique_ptr<EventFeed> feed = nullptr;  // null: without events
};

// Waits until the engine answers, at most for `patience`, and then for the first replay of its events. `scope` is that
// of requests without tenant, salt and adapter; its block_tokens are filled in. kUnavailable: no answer.
// kInvalidArgument (engine-url, engine-events or engine-replay): an address is wrong, or the engine is none that Roost
// can stand for.
[[nodiscard]] Result<ConnectedEngine> ConnectEngine(const Dialect& dialect, const EngineAddress& address,
                                                    ForeignOptions options, PrefixScope scope, const Clock& clock,
                                                    Duration patience);

class ForeignWorker final : public WorkerEngine {
 public:
  ForeignWorker(ConnectedEngine engine, const EngineSurroundings& surroundings);

  [[nodiscard]] EngineHost& host() override { return host_; }
  void Describe(wire::Hello& hello) const override;

 private:
  const Dialect& dialect_;
  const EngineFacts facts_;
  const ForeignOptions options_;
  const bool sends_events_;
  ForeignHost host_;
};

}  // namespace roost::worker::foreign
