// One request of a benchmark as the client saw it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace roost::roostctl {

// Times of the answer are since the moment at which the request should have been sent: so a request that the endpoint,
// or this program, holds up counts with all of its waiting (no coordinated omission).
struct BenchSample {
  std::string error = {};       // empty when the whole answer came
  std::string error_kind = {};  // see ChatAnswer
  std::string worker = {};
  double scheduled_seconds = 0;  // since the load's start
  double lag_seconds = 0;        // from then until it was sent
  double ttft_seconds = 0;
  double total_seconds = 0;
  std::vector<float> gap_seconds = {};  // between pieces of the answer
  std::uint64_t prompt_tokens = 0;
  std::optional<std::uint64_t> cached_tokens = {};  // empty: the endpoint does not tell
  std::uint64_t output_tokens = 0;
  std::uint64_t answer_hash = 0;  // of the numbers of the session and the turn, and of the text
  std::size_t session = 0;        // its number
  std::size_t turn = 0;
  std::size_t block = 0;  // of a comparison

  // The mean time of the answer's tokens after the first; 0 for one token.
  [[nodiscard]] double SecondsPerToken() const {
    return output_tokens < 2 ? 0 : (total_seconds - ttft_seconds) / static_cast<double>(output_tokens - 1);
  }
};

}  // namespace roost::roostctl
