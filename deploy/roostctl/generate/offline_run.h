// Prompts in, answers out, in one process: the engine runs on the caller's thread, without router and sockets.
//
//   naive     one request at a time
//   offline   waves: as many requests as fit start together; the next wave starts when all of them have ended
//   online    continuous batching: a request starts as soon as another has made room for it
//
// A request gets the tokens and the text that a router and a worker with this model would give it: it is submitted like
// a router's request, and its tokens become text like the API's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/wire/messages.h"
#include "router/fleet/dispatcher.h"
#include "worker/engine/engine.h"
#include "worker/model/model.h"
#include "worker/options.h"
#include "worker/worker.h"

namespace roost::roostctl {

// A model, loaded as roost-worker loads it, with what a router would know about it.
struct OfflineModel {
  worker::WorkerSetup setup;
  std::shared_ptr<const router::ServedModel> served;
};

// `options` must be complete. Blocks stay in this process. Errors are those of PrepareWorker. Takes as long as reading
// the weights.
[[nodiscard]] Result<OfflineModel> LoadOfflineModel(const worker::WorkerOptions& options);

enum class OfflineScheduler : std::uint8_t { kNaive, kOffline, kOnline };
inline constexpr std::array kOfflineSchedulers{
    std::pair<std::string_view, OfflineScheduler>{"naive", OfflineScheduler::kNaive},
    std::pair<std::string_view, OfflineScheduler>{"offline", OfflineScheduler::kOffline},
    std::pair<std::string_view, OfflineScheduler>{"online", OfflineScheduler::kOnline},
};

struct OfflineRequest {
  router::GenerateSpec spec;
  std::vector<std::string> stop;
};

struct OfflineChoice {
  std::vector<TokenId> tokens;  // including those whose text a stop string cut off; without the stop token
  std::string text;
  wire::FinishReason finish = wire::FinishReason::kStop;  // kStop or kLength
};

struct OfflineAnswer {
  std::size_t index = 0;  // of the request
  std::uint32_t prompt_token_count = 0;
  std::uint32_t cached_token_count = 0;
  std::vector<OfflineChoice> choices;
  std::optional<Error> error;  // if set, there are no choices
};

// The progress of a run. A step's time is split between prefill and decode in proportion to its tokens.
struct OfflineTotals {
  std::size_t request_count = 0;  // all of the run
  std::size_t ended_count = 0;
  std::size_t failed_count = 0;              // included in ended_count
  std::uint64_t prompt_tokens = 0;           // of prompts that were computed
  std::uint64_t cached_tokens = 0;           // the part of prompt_tokens that came from the cache
  std::uint64_t computed_prompt_tokens = 0;  // including prompts computed in part or again
  std::uint64_t decode_tokens = 0;           // all output tokens but the first of each choice, which the prefill gives
  std::uint64_t output_tokens = 0;
  double prefill_seconds = 0;
  double decode_seconds = 0;
  double total_seconds = 0;

  [[nodiscard]] std::uint64_t prefill_tokens() const { return computed_prompt_tokens + cached_tokens; }
  // Tokens per second; 0 before the first.
  [[nodiscard]] double prefill_rate() const { return Rate(prefill_tokens(), prefill_seconds); }
  [[nodiscard]] double decode_rate() const { return Rate(decode_tokens, decode_seconds); }
  [[nodiscard]] double total_rate() const { return Rate(prompt_tokens + output_tokens, total_seconds); }
  // Share of the prompt tokens.
  [[nodiscard]] double cached_share() const {
    return prompt_tokens == 0 ? 0 : static_cast<double>(cached_tokens) / static_cast<double>(prompt_tokens);
  }

 private:
  [[nodiscard]] static double Rate(std::uint64_t tokens, double seconds) {
    return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
  }
};

class OfflineSink {
 public:
  virtual ~OfflineSink() = default;
  // Called in the order of the requests, as soon as the request and all before it have ended.
  virtual void OnAnswer(const OfflineAnswer& answer) = 0;
  virtual void OnStep(const OfflineTotals& totals) = 0;
};

// The references outlive the run.
struct OfflineSetup {
  worker::Model& model;
  const Clock& clock;
  worker::EngineOptions engine = {};
  OfflineScheduler scheduler = OfflineScheduler::kOnline;
  // kOff: no request uses the cache, whatever it asks for.
  wire::CacheMode cache = wire::CacheMode::kOn;
  // Waits until engine.constrainer may have something. Called while all open requests wait for their grammars.
  std::function<void()> await_grammar = {};
};

// Runs all requests to their end. A failed one has an answer with its error; the others go on. Returns the final
// totals.
OfflineTotals RunOffline(const OfflineSetup& setup, std::vector<OfflineRequest> requests, OfflineSink& sink);

}  // namespace roost::roostctl
