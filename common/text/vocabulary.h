// Token texts and ids of a model. Immutable after load, shared by threads. Ids may have holes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/json/json_node.h"

namespace roost::text {

// All ids must be below this: a table is as long as the greatest id. The largest vocabularies have under 300,000
// entries.
inline constexpr TokenId kMaxVocabularyIds = 1U << 22U;
inline constexpr std::size_t kMaxTokenBytes = std::size_t{64}
                                              << 10U;  // of a token's text; the longest in use have hundreds

class Vocabulary {
 public:
  // From {"text": id, …}.
  static Result<Vocabulary> FromJson(const JsonNode& node);

  // Views into the table stay valid when it moves; in a copy they would not.
  Vocabulary() = default;
  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;

  // Constant time.
  [[nodiscard]] std::optional<TokenId> IdOf(std::string_view text) const {
    const auto found = ids_.find(text);
    if (found == ids_.end()) return std::nullopt;
    return found->second;
  }
  [[nodiscard]] std::optional<std::string_view> TextOf(TokenId id) const {
    if (id >= texts_.size() || !texts_[id]) return std::nullopt;
    return *texts_[id];
  }

  // The number of tokens; and one more than the greatest id.
  [[nodiscard]] std::size_t token_count() const { return ids_.size(); }
  [[nodiscard]] std::size_t id_end() const { return texts_.size(); }
  // Bytes of the longest text. Linear.
  [[nodiscard]] std::size_t LongestText() const {
    std::size_t longest = 0;
    for (const std::optional<std::string>& text : texts_) longest = std::max(longest, text ? text->size() : 0);
    return longest;
  }

 private:
  std::vector<std::optional<std::string>> texts_;
  std::unordered_map<std::string_view, TokenId> ids_;  // keys point into texts_
};

}  // namespace roost::text
