#include "common/text/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>

namespace roost::text {
namespace {

Result<TokenId> IdFromJson(const JsonNode& node, std::string_view text, simdjson::dom::element value) {
  std::uint64_t id = 0;
  if (value.get(id) == simdjson::SUCCESS && id < kMaxVocabularyIds) return static_cast<TokenId>(id);
  return node.Complain(fmt::format("the id of '{}' must be a whole number below {}", text, kMaxVocabularyIds));
}

}  // namespace

Result<Vocabulary> Vocabulary::FromJson(const JsonNode& node) {
  ROOST_ASSIGN_OR_RETURN(const simdjson::dom::object entries, node.AsObject());
  Vocabulary vocabulary;
  TokenId end = 0;
  std::size_t count = 0;
  for (const auto entry : entries) {
    if (entry.key.size() > kMaxTokenBytes) {
      return node.Complain(
          fmt::format("a token of {} bytes is over the limit of {}", entry.key.size(), kMaxTokenBytes));
    }
    ROOST_ASSIGN_OR_RETURN(const TokenId id, IdFromJson(node, entry.key, entry.value));
    end = std::max(end, id + 1);
    ++count;
  }
  vocabulary.texts_.resize(end);
  vocabulary.ids_.reserve(count);
  for (const auto entry : entries) {
    ROOST_ASSIGN_OR_RETURN(const TokenId id, IdFromJson(node, entry.key, entry.value));
    std::optional<std::string>& text = vocabulary.texts_[id];
    if (text) return node.Complain(fmt::format("'{}' and '{}' have the same id, {}", *text, entry.key, id));
    text = entry.key;
    if (!vocabulary.ids_.emplace(*text, id).second) return node.Complain(fmt::format("'{}' occurs twice", *text));
  }
  return vocabulary;
}

}  // namespace roost::text
