#include "router/api/choice_text.h"

#include <algorithm>
#include <cstddef>

namespace roost::router {

std::optional<StopFilter::Found> StopFilter::FirstStop() const {
  std::optional<Found> first;
  std::size_t end = std::string::npos;
  for (const std::string& stop : stops_) {
    const std::size_t at = held_.find(stop);
    if (at == std::string::npos) continue;
    const std::size_t at_end = at + stop.size();
    if (at_end > end || (at_end == end && first && first->begin < at)) continue;
    first = {at, &stop};
    end = at_end;
  }
  return first;
}

std::size_t StopFilter::HeldLength() const {
  std::size_t longest = 0;
  for (const std::string& stop : stops_) {
    for (std::size_t length = std::min(stop.size() - 1, held_.size()); length > longest; --length) {
      if (held_.compare(held_.size() - length, length, stop, 0, length) == 0) longest = length;
    }
  }
  return longest;
}

std::string StopFilter::Push(std::string_view piece) {
  if (stopped()) return {};
  held_ += piece;
  if (const std::optional<Found> found = FirstStop()) {
    stopped_by_ = found->stop;
    held_.resize(found->begin + (stop_text_ == StopText::kShow ? found->stop->size() : 0));
    return std::exchange(held_, {});
  }
  const std::size_t sure = held_.size() - HeldLength();
  std::string text = held_.substr(0, sure);
  held_.erase(0, sure);
  return text;
}

std::string StopFilter::Flush() { return std::exchange(held_, {}); }

std::string ChoiceText::Push(TokenId token, const std::vector<TokenId>& stop_tokens) {
  if (stop_filter_->stopped()) return {};
  ++token_count_;
  const auto is_in = [token](const std::vector<TokenId>& ids) {
    return std::find(ids.begin(), ids.end(), token) != ids.end();
  };
  if (is_in(stop_tokens)) return {};
  return stop_filter_->Push(is_in(shown_) ? stream_.PushShown(token) : stream_.Push(token));
}

std::string ChoiceText::Flush() {
  std::string rest = stop_filter_->Push(stream_.Finish());
  rest += stop_filter_->Flush();
  return rest;
}

}  // namespace roost::router
