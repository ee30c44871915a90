#include "deploy/roostctl/simulate/request_log.h"

#include "common/base/check.h"

namespace roost::simulate {

void RequestLog::OnArrival(std::uint32_t number, std::uint32_t prompt_token_count, Instant now) {
  RequestRecord& record = records_[number];
  ROOST_CHECK(record.prompt_token_count == 0 && prompt_token_count > 0, "request {} arrived before", number);
  record.arrival = now;
  record.prompt_token_count = prompt_token_count;
}

void RequestLog::OnFirstToken(std::uint32_t number, const FirstToken& first, Instant now) {
  RequestRecord& record = records_[number];
  const bool was_moved = record.dispatch_count > 1;
  if (was_moved && record.end) return;
  ROOST_CHECK(record.prompt_token_count > 0 && (!record.first_token || was_moved) && !record.end,
              "request {} is not due", number);
  ROOST_CHECK(first.cached_token_count < record.prompt_token_count, "request {} computed nothing", number);
  record.first_token = now;
  record.cached_token_count = first.cached_token_count;
  record.saved_seconds = first.saved_seconds;
  record.computed_seconds = first.computed_seconds;
  record.worker = first.worker;
}

void RequestLog::OnEnd(std::uint32_t number, std::uint32_t output_token_count, Instant now) {
  ROOST_CHECK(records_[number].first_token.has_value(), "request {} ended before it began", number);
  if (records_[number].end && records_[number].dispatch_count > 1) return;
  records_[number].output_token_count = output_token_count;
  End(number, now);
}

void RequestLog::OnRefused(std::uint32_t number, Instant now) {
  records_[number].refused = true;
  End(number, now);
}

void RequestLog::End(std::uint32_t number, Instant now) {
  ROOST_CHECK(!records_[number].end, "request {} ended twice", number);
  records_[number].end = now;
  ++ended_count_;
  on_end_(number);
}

}  // namespace roost::simulate
