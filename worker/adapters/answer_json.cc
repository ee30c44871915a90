#include "worker/adapters/answer_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "worker/adapters/engine_error.h"

namespace roost::worker::adapters {
namespace {

float Bounded(float logprob) { return std::clamp(logprob, wire::kMinLogprob, 0.0F); }

}  // namespace

Result<std::vector<TokenId>> ReadTokens(const json::Array& list) {
  std::vector<TokenId> tokens;
  tokens.reserve(list.size());
  for (const json::Element element : list) {
    std::uint64_t token = 0;
    if (element.get(token) != simdjson::SUCCESS || token > std::numeric_limits<TokenId>::max()) {
      return Unreadable("a token id is no whole number");
    }
    tokens.push_back(static_cast<TokenId>(token));
  }
  return tokens;
}

Result<json::Element> ParseAnswer(simdjson::dom::parser& parser, std::string_view text) {
  json::Element document;
  if (parser.parse(text.data(), text.size()).get(document) != simdjson::SUCCESS || !document.is_object()) {
    return Unreadable("it is no JSON object");
  }
  return document;
}

Error Unreadable(std::string_view what) {
  return Unavailable(fmt::format("the engine's answer can not be read: {}", what));
}

wire::TokenLogprobs Ranked(wire::TokenLogprob own, std::vector<wire::TokenLogprob> likeliest, std::uint32_t wanted,
                           std::optional<std::uint32_t> rank) {
  std::sort(likeliest.begin(), likeliest.end(), [](const wire::TokenLogprob& a, const wire::TokenLogprob& b) {
    return std::tuple(-a.logprob, a.token) < std::tuple(-b.logprob, b.token);
  });
  const auto is_own = [&own](const wire::TokenLogprob& other) { return other.token == own.token; };
  const auto place = std::find_if(likeliest.begin(), likeliest.end(), is_own);
  const auto counted = static_cast<std::uint32_t>(place - likeliest.begin()) + 1;
  likeliest.resize(std::min<std::size_t>(likeliest.size(), wanted));
  for (wire::TokenLogprob& other : likeliest) other.logprob = Bounded(other.logprob);
  return {.logprob = Bounded(own.logprob), .rank = std::max(rank.value_or(counted), 1U), .top = std::move(likeliest)};
}

}  // namespace roost::worker::adapters
