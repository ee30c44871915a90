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
  pages_ = {{Page::Kind::kHealth, std::string(protocol_.health_page())},
            {Page::Kind::kRoutes, std::string(kRoutesPage)}};
  for (const std::string_view page : protocol_.fact_pages()) pages_.push_back({Page::Kind::kFacts, std::string(page)});
  Ask();
}

void FactsRound::Stop() {
  if (call_) port_.Close(*call_);
  call_.reset();
  outcome_.reset();
}

void FactsRound::Ask() {
  status_ = 0;
  body_.clear();
  call_ = ids_.Next();
  const bool is_route = pages_.front().kind == Page::Kind::kRoute;
  port_.Start(*call_, {.method = is_route ? protocol_.route_question() : HttpMethod::kGet,
                       .path = pages_.front().path,
                       .time_limit = page_time_,
                       .max_body_bytes = kMaxPageBytes});
}

bool FactsRound::HasRoute() const {
  if (protocol_.route_question() == HttpMethod::kGet) return status_ == 405;
  return status_ != 404 && status_ != 405 && status_ != 501;
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
  if (end.how != CallEnd::kComplete) {
    outcome_ = end.how == CallEnd::kNotConnected ? Unavailable(end.why) : ErrorOf(end);
    return;
  }
  const Page page = std::move(pages_.front());
  pages_.pop_front();
  if (const Result<void> read = Read(page); !read.ok()) {
    outcome_ = read.error();
  } else if (pages_.empty()) {
    outcome_ = std::move(facts_);
  } else {
    Ask();
  }
}

Result<void> FactsRound::Read(const Page& page) {
  switch (page.kind) {
    case Page::Kind::kRoutes: ReadRoutesPage(); return {};
    case Page::Kind::kRoute:
      if (HasRoute()) facts_.routes.insert(page.path);
      return {};
    case Page::Kind::kHealth:
    case Page::Kind::kFacts: break;
  }
  const bool is_lacking = status_ == 404 || status_ == 405 || status_ == 501;
  if (is_lacking && protocol_.MayLack(page.path)) return {};
  if (status_ != 200) return Unavailable(fmt::format("the engine's {} answers with status {}", page.path, status_));
  if (page.kind == Page::Kind::kHealth) return {};
  facts_.generates = facts_.routes.empty() || facts_.routes.contains(std::string(protocol_.generate_route()));
  return protocol_.ReadFacts(page.path, body_, facts_);
}

void FactsRound::ReadRoutesPage() {
  if (status_ == 200 && ReadRoutes(body_, facts_).ok()) return;
  for (const std::string_view path : kUsualRoutes) pages_.push_front({Page::Kind::kRoute, std::string(path)});
}

std::optional<Result<EngineFacts>> FactsRound::TakeOutcome() { return std::exchange(outcome_, std::nullopt); }

}  // namespace roost::worker::adapters
