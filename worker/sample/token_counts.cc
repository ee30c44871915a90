#include "worker/sample/token_counts.h"

#include <algorithm>

namespace roost::worker {

using kernels::CountedToken;
using kernels::kInPrompt;

kernels::OutputPenalties PenaltiesOf(const wire::Sampling& sampling) {
  return {.repetition = sampling.repetition_penalty,
          .presence = sampling.presence_penalty,
          .frequency = sampling.frequency_penalty};
}

bool Penalizes(const kernels::OutputPenalties& penalties) {
  return penalties.repetition != 1 || penalties.presence != 0 || penalties.frequency != 0;
}

void AppendCounts(const kernels::OutputPenalties& penalties, std::span<const TokenId> text, std::size_t output_count,
                  std::vector<CountedToken>& counted) {
  const std::size_t split = text.size() - std::min(output_count, text.size());
  std::vector<CountedToken> tokens;
  for (std::size_t i = penalties.repetition == 1 ? split : 0; i < text.size(); ++i) {
    tokens.push_back({.token = text[i], .count = i < split ? kInPrompt : 1});
  }
  // Among equal tokens, those of the output come first.
  std::sort(tokens.begin(), tokens.end(), [](const CountedToken& a, const CountedToken& b) {
    return a.token != b.token ? a.token < b.token : a.count < b.count;
  });
  const std::size_t first = counted.size();
  for (const CountedToken& each : tokens) {
    if (counted.size() == first || counted.back().token != each.token) {
      counted.push_back(each);
    } else if (each.count == kInPrompt) {
      counted.back().count |= kInPrompt;
    } else {
      ++counted.back().count;
    }
  }
}

}  // namespace roost::worker
