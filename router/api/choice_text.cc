#include "router/api/choice_text.h"

#include <algorithm>

namespace roost::router {

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
