// Reports of the API for metrics. The server's threads call it, several at once; the calls must be quick.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "common/base/error.h"
#include "router/route/cache_worth.h"

namespace roost::router {

// One report for each dispatched generation, at its end. The views are valid during the call.
struct GenerationSummary {
  enum class Outcome { kStop, kLength, kToolCalls, kClientGone, kError };

  std::string_view route = {};  // as in OnAnswer
  std::string_view model = {};
  std::string_view worker_id = {};
  Outcome outcome = Outcome::kStop;
  std::optional<ErrorCode> error = {};  // set for kError
  std::uint32_t prompt_tokens = 0;
  std::uint32_t completion_tokens = 0;
  std::uint32_t predicted_cached_tokens = 0;
  std::optional<std::uint32_t> cached_tokens = {};  // empty if it ended before its first token
  double seconds = 0;                               // from the handler's start to the end of the answer
  std::string_view key = {};                        // its name, and its tenant; empty: none
  std::string_view tenant = {};
  std::uint32_t written_tokens = 0;  // of the prompt, into the cache
  CacheSavings savings = {};         // with cached_tokens
};

[[nodiscard]] constexpr std::string_view NameOf(GenerationSummary::Outcome outcome) {
  switch (outcome) {
    case GenerationSummary::Outcome::kStop: return "stop";
    case GenerationSummary::Outcome::kLength: return "length";
    case GenerationSummary::Outcome::kToolCalls: return "tool_calls";
    case GenerationSummary::Outcome::kClientGone: return "client_gone";
    case GenerationSummary::Outcome::kError: return "error";
  }
  return "error";
}

// A generation that ended before it began, because no worker serves its model now.
struct UnservedGeneration {
  std::string_view model = {};  // under which it counts
  // A worker has served the model since the start; otherwise its name is the client's word.
  bool is_known = false;
  ErrorCode error = ErrorCode::kUnavailable;
};

// A request that an engine got unread, at its end. The tokens are what the answer tells of, perhaps none.
struct ForwardSummary {
  bool is_failed = false;
  bool has_begun = false;  // there was an answer
  std::string_view model = {};
  std::string_view key = {};  // its name, and its tenant; empty: none
  std::string_view tenant = {};
  std::uint64_t prompt_tokens = 0;
  std::uint64_t cached_tokens = 0;
  std::uint64_t output_tokens = 0;
};

class ApiObserver {
 public:
  virtual ~ApiObserver() = default;

  // Called once for every request. `route` is one of the route table's names, or "other"; `status` is the HTTP status,
  // 499 for a client that went away.
  virtual void OnAnswer(std::string_view route, int status) = 0;

  // The number of unknown fields in a generation's request; called only if there are any.
  virtual void OnUnknownFields(std::uint32_t count) = 0;

  // The number of items of reasoning in a request that belong to no message of the assistant; only if there are any.
  virtual void OnDroppedReasoning(std::uint32_t /*count*/) {}

  // A generation is active from OnGenerationStart to OnGenerationEnd.
  virtual void OnGenerationStart(std::string_view model) = 0;
  virtual void OnGenerationEnd(const GenerationSummary& summary) = 0;
  virtual void OnUnserved(const UnservedGeneration& /*unserved*/) {}
  // The same of a request that an engine gets unread.
  virtual void OnForwardStart() {}
  virtual void OnForwardEnd(const ForwardSummary& /*summary*/) {}

  virtual void OnFirstToken(std::string_view model, double seconds) = 0;
  // `token_count` tokens arrived together, `seconds` after the previous ones.
  virtual void OnLaterTokens(std::string_view model, std::uint32_t token_count, double seconds) = 0;
};

// Passes all reports on. Those that override some pass these on too.
class PassingApiObserver : public ApiObserver {
 public:
  explicit PassingApiObserver(ApiObserver& next) : next_(next) {}  // which outlives it

  void OnAnswer(std::string_view route, int status) override { next_.OnAnswer(route, status); }
  void OnUnknownFields(std::uint32_t count) override { next_.OnUnknownFields(count); }
  void OnDroppedReasoning(std::uint32_t count) override { next_.OnDroppedReasoning(count); }
  void OnGenerationStart(std::string_view model) override { next_.OnGenerationStart(model); }
  void OnGenerationEnd(const GenerationSummary& summary) override { next_.OnGenerationEnd(summary); }
  void OnUnserved(const UnservedGeneration& unserved) override { next_.OnUnserved(unserved); }
  void OnForwardStart() override { next_.OnForwardStart(); }
  void OnForwardEnd(const ForwardSummary& summary) override { next_.OnForwardEnd(summary); }
  void OnFirstToken(std::string_view model, double seconds) override { next_.OnFirstToken(model, seconds); }
  void OnLaterTokens(std::string_view model, std::uint32_t token_count, double seconds) override {
    next_.OnLaterTokens(model, token_count, seconds);
  }

 private:
  ApiObserver& next_;
};

// Ignores all reports.
class NullApiObserver final : public ApiObserver {
 public:
  void OnAnswer(std::string_view, int) override {}
  void OnUnknownFields(std::uint32_t) override {}
  void OnGenerationStart(std::string_view) override {}
  void OnGenerationEnd(const GenerationSummary&) override {}
  void OnFirstToken(std::string_view, double) override {}
  void OnLaterTokens(std::string_view, std::uint32_t, double) override {}
};

}  // namespace roost::router
