#include "worker/adapters/facts_round.h"

#include <fmt/format.h>

#include <utility>
#include <variant>

#include "worker/adapters/metrics_page.h"

namespace roost::worker::adapters {
FactsRound::FactsRound(const EngineProtocol& protocol, CallIds& ids, HttpPort& port, Duration page_time)
    : protocol_(protocol), ids_(ids), port_(port), page_time_(page_time) {}

void FactsRound::Begin() {
  Stop();
  facts_ = {};
  next_page_ = 0;
  Ask();
}

void FactsRound::Stop() {
  if (call_) port_.Close(*call_);
  call_.reset();
  outcome_.reset();
}

std::string_view FactsRound::page() const {
  return next_page_ == 0 ? protocol_.health_page() : protocol_.fact_pages()[next_page_ - 1];
}

void FactsRound::Ask() {
  status_ = 0;
  body_.clear();
  call_ = ids_.Next();
  port_.Start(*call_, {.path = std::string(page()), .time_limit = page_time_, .max_body_bytes = kMaxPageBytes});
}

bool FactsRound::OnHttp(const HttpEvent& event) {
  if (event.call != call_) return false;
  if (const auto* const status = std::get_if<HttpStatus>(&event.what)) status_ = status->status;
  if (const auto* const bytes = std::get_if<HttpBytes>(&event.what)) body_ += bytes->bytes;
  if (const auto* const end = std::get_if<HttpEnd>(&event.what)) OnPage(*end);
  return true;
}

void FactsRound::OnPage(const HttpEnd& end) {
  call_.reset();
  if (end.how == CallEnd::kNotConnected) {
    outcome_ = Unavailable(end.why);
  } else if (end.how != CallEnd::kComplete) {
    outcome_ = ErrorOf(end);
  } else if (status_ != 200) {
    outcome_ = Unavailable(fmt::format("the engine's {} answers with status {}", page(), status_));
  } else {
    const Result<void> read = next_page_ == 0 ? Result<void>() : protocol_.ReadFacts(page(), body_, facts_);
    if (!read.ok()) {
      outcome_ = read.error();
    } else if (next_page_++ == protocol_.fact_pages().size()) {
      outcome_ = std::move(facts_);
    } else {
      Ask();
    }
  }
}

std::optional<Result<EngineFacts>> FactsRound::TakeOutcome() { return std::exchange(outcome_, std::nullopt); }

}  // namespace roost::worker::adapters
