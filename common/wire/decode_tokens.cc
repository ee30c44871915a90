#include "common/wire/decode_tokens.h"

#include <utility>
#include <vector>

#include "common/wire/codec.h"
#include "common/wire/decode_values.h"

namespace roost::wire {
namespace {

Result<void> ReadError(schema::Error::Reader in, Error& error) {
  const auto code = in.getCode();
  if (code <= schema::ErrorCode::RATE_LIMITED) error.code = static_cast<ErrorCode>(code);
  ROOST_ASSIGN_OR_RETURN(error.message, ReadText(in.getMessage(), "error.message", WireLimits::kMaxTextBytes));
  ROOST_ASSIGN_OR_RETURN(error.field, ReadText(in.getField(), "error.field", WireLimits::kMaxTextBytes));
  return {};
}

// Refuses NaN too: it is not between any bounds.
Result<float> ReadLogprob(float logprob, const char* field) {
  if (!(logprob >= kLeastLogprob && logprob <= 0)) {
    return DataLoss(field, "{} is not from {} to 0", logprob, kLeastLogprob);
  }
  return logprob;
}

Result<TokenLogprobs> ReadPosition(schema::TokenLogprobs::Reader in) {
  TokenLogprobs position;
  ROOST_ASSIGN_OR_RETURN(position.logprob, ReadLogprob(in.getLogprob(), "logprob"));
  position.rank = in.getRank();
  ROOST_RETURN_IF_ERROR(ReadNonZero(position.rank, "rank"));
  const auto tokens = in.getTopTokens();
  const auto logprobs = in.getTopLogprobs();
  ROOST_RETURN_IF_ERROR(CheckCount(tokens, "topTokens", kMaxTopLogprobs));
  if (logprobs.size() != tokens.size()) {
    return DataLoss("topLogprobs", "{} of {} tokens", logprobs.size(), tokens.size());
  }
  position.top.reserve(tokens.size());
  for (unsigned i = 0; i < tokens.size(); ++i) {
    ROOST_ASSIGN_OR_RETURN(const float logprob, ReadLogprob(logprobs[i], "topLogprobs"));
    position.top.push_back({.token = tokens[i], .logprob = logprob});
  }
  return position;
}

Result<std::vector<TokenLogprobs>> ReadPositions(capnp::List<schema::TokenLogprobs>::Reader list, const char* field,
                                                 std::size_t limit) {
  ROOST_RETURN_IF_ERROR(CheckCount(list, field, limit));
  std::vector<TokenLogprobs> positions;
  positions.reserve(list.size());
  for (const auto in : list) {
    ROOST_ASSIGN_OR_RETURN(TokenLogprobs position, ReadPosition(in));
    positions.push_back(std::move(position));
  }
  return positions;
}

Result<void> ReadEventLogprobs(schema::TokenEvent::Reader in, TokenEvent& event) {
  if (in.hasLogprobs()) {
    ROOST_ASSIGN_OR_RETURN(event.logprobs, ReadPositions(in.getLogprobs(), "logprobs", event.tokens.size()));
    if (!event.logprobs.empty() && event.logprobs.size() != event.tokens.size()) {
      return DataLoss("logprobs", "{} of {} tokens", event.logprobs.size(), event.tokens.size());
    }
  }
  if (in.hasPromptLogprobs()) {
    ROOST_ASSIGN_OR_RETURN(event.prompt_logprobs, ReadPositions(in.getPromptLogprobs(), "promptLogprobs",
                                                                WireLimits::kMaxPromptLogprobsPerEvent));
  }
  return {};
}

Result<std::uint32_t> ReadTopCount(std::uint32_t count, const char* field) {
  if (count > kMaxTopLogprobs) return DataLoss(field, "{}, limit {}", count, kMaxTopLogprobs);
  return count;
}

// The error for a kind that a newer router sent.
Error UnknownLogprobs() {
  return {ErrorCode::kInvalidArgument, "the worker does not know this kind of log probabilities", "logprobs"};
}

// Reads the end of the choice, if it ended. A newer worker's unknown reason can not be told to a client: its request
// fails.
Result<void> ReadEnd(schema::TokenEvent::Reader in, TokenEvent& event) {
  const auto state = in.getState();
  if (state.isFinished() && state.getFinished() > schema::FinishReason::ERROR) {
    event.finish = FinishReason::kError;
    event.error = Error{ErrorCode::kInternal,
                        fmt::format("the worker ended the request for a reason that this router does not know ({})",
                                    static_cast<int>(state.getFinished())),
                        ""};
    return {};
  }
  if (state.isFinished()) event.finish = static_cast<FinishReason>(state.getFinished());
  if (const auto stop = in.getStopToken(); stop.isToken()) event.stop_token = stop.getToken();
  if (event.stop_token && event.finish != FinishReason::kStop)
    return DataLoss("stopToken", "is set, but the finish reason is not stop");
  const bool failed = event.finish == FinishReason::kError;
  if (failed != in.hasError()) return DataLoss("error", "must be there if, and only if, the finish reason is error");
  if (failed) ROOST_RETURN_IF_ERROR(ReadError(in.getError(), event.error.emplace()));
  return {};
}

}  // namespace

Result<TokenEvent> ReadTokenEvent(schema::TokenEvent::Reader in) {
  TokenEvent event;
  event.request_id = RequestId(in.getRequestId());
  event.choice = in.getChoice();
  if (event.choice >= kMaxSampleCount) return DataLoss("choice", "{}, limit {}", event.choice, kMaxSampleCount);
  const auto tokens = in.getTokens();
  ROOST_RETURN_IF_ERROR(CheckCount(tokens, "tokens", WireLimits::kMaxTokensPerEvent));
  event.tokens.assign(tokens.begin(), tokens.end());
  if (const auto cached = in.getCachedTokenCount(); cached.isCount()) event.cached_token_count = cached.getCount();
  if (const auto wait = in.getQueueWaitSeconds(); wait.isSeconds()) {
    ROOST_ASSIGN_OR_RETURN(event.queue_wait_seconds, ReadSeconds(wait.getSeconds(), "queueWaitSeconds"));
  }
  ROOST_RETURN_IF_ERROR(ReadEnd(in, event));
  ROOST_RETURN_IF_ERROR(ReadEventLogprobs(in, event));
  return event;
}

Result<void> ReadWantedLogprobs(schema::Generate::Reader in, Generate& generate) {
  if (const auto output = in.getOutputLogprobs(); output.isTopCount()) {
    ROOST_ASSIGN_OR_RETURN(generate.output_logprobs, ReadTopCount(output.getTopCount(), "outputLogprobs"));
  } else if (!output.isAbsent()) {
    generate.refusal = UnknownLogprobs();
  }
  if (const auto prompt = in.getPromptLogprobs(); prompt.isTopCount()) {
    ROOST_ASSIGN_OR_RETURN(generate.prompt_logprobs, ReadTopCount(prompt.getTopCount(), "promptLogprobs"));
  } else if (!prompt.isAbsent()) {
    generate.refusal = UnknownLogprobs();
  }
  return {};
}

}  // namespace roost::wire
