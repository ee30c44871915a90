#include "router/api/choice_text.h"

#include <algorithm>

namespace roost::router {

std::string ChoiceText::Push(const std::vector<TokenId>& tokens, const std::vector<TokenId>& stop_tokens) {
  std::string text;
  for (const TokenId id : tokens) {
    if (stop_filter_->stopped()) break;
    ++token_count_;
    const bool ends_text = std::find(stop_tokens.begin(), stop_tokens.end(), id) != stop_tokens.end();
    if (!ends_text) text += stop_filter_->Push(stream_.Push(id));
  }
  return text;
}

std::string ChoiceText::Flush() {
  std::string rest = stop_filter_->Push(stream_.Finish());
  rest += stop_filter_->Flush();
  return rest;
}

}  // namespace roost::router
