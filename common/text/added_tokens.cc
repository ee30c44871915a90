#include "common/text/added_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "common/base/log.h"
#include "common/base/utf8.h"
#include "common/text/unicode.h"

namespace roost::text {
namespace {

Result<AddedToken> TokenFromJson(const JsonNode& node) {
  AddedToken token;
  ROOST_ASSIGN_OR_RETURN(const JsonNode id, node.Get("id"));
  ROOST_ASSIGN_OR_RETURN(token.id, id.AsCount(kMaxVocabularyIds));
  ROOST_ASSIGN_OR_RETURN(const JsonNode content, node.Get("content"));
  ROOST_ASSIGN_OR_RETURN(token.content, content.AsString());
  if (token.content.size() > kMaxAddedTokenBytes) {
    return content.Complain(fmt::format("is over the limit of {} bytes", kMaxAddedTokenBytes));
  }
  ROOST_ASSIGN_OR_RETURN(token.single_word, node.Get<bool>("single_word"));
  ROOST_ASSIGN_OR_RETURN(token.strip_left, node.Get<bool>("lstrip"));
  ROOST_ASSIGN_OR_RETURN(token.strip_right, node.Get<bool>("rstrip"));
  ROOST_ASSIGN_OR_RETURN(token.normalized, node.Get<bool>("normalized"));
  ROOST_ASSIGN_OR_RETURN(token.special, node.Get<bool>("special"));
  return token;
}

// The last character of a non-empty `text`.
std::string_view LastCharacter(std::string_view text) {
  std::size_t begin = text.size() - 1;
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0U) == 0x80U) --begin;
  return text.substr(begin);
}

// Must be asked for places in ascending order.
class WrittenCursor {
 public:
  explicit WrittenCursor(std::span<const ByteRange> written) : left_(written) {}

  // The number of written bytes that follow `place` before the next given one.
  [[nodiscard]] std::size_t BytesFrom(std::size_t place) {
    while (!left_.empty() && left_.front().end <= place) left_ = left_.subspan(1);
    return left_.empty() || left_.front().begin > place ? 0 : left_.front().end - place;
  }

 private:
  std::span<const ByteRange> left_;
};

}  // namespace

Result<AddedTokens> AddedTokens::FromJson(const std::optional<JsonNode>& node, const Vocabulary& vocabulary,
                                          const Normalizer& normalizer, RegexScratch& scratch) {
  ROOST_ASSIGN_OR_RETURN(Regex word, Regex::CompilePcre2(fmt::format("[{}]", kWordCharacters)));
  AddedTokens tokens(std::move(word), vocabulary.token_count());
  if (!node) return tokens;
  ROOST_ASSIGN_OR_RETURN(const std::vector<JsonNode> entries, node->AsArray());
  for (const JsonNode& entry : entries) ROOST_RETURN_IF_ERROR(tokens.Add(entry, vocabulary, normalizer, scratch));
  if (tokens.renumbered_ > 0) {
    LogWarning(fmt::format("{} ({} tokens in all)", tokens.first_renumbered_, tokens.renumbered_));
  }
  tokens.Index();
  return tokens;
}

Result<void> AddedTokens::Add(const JsonNode& node, const Vocabulary& vocabulary, const Normalizer& normalizer,
                              RegexScratch& scratch) {
  ROOST_ASSIGN_OR_RETURN(AddedToken token, TokenFromJson(node));
  if (token.content.empty()) return {};
  const TokenId id_in_file = token.id;
  std::optional<TokenId> known = IdOf(token.content);
  if (!known) known = vocabulary.IdOf(token.content);
  token.id = known ? *known : next_new_id_++;
  if (token.id != id_in_file && renumbered_++ == 0) {
    const std::string message = fmt::format("'{}' is given id {}, not {}", token.content, token.id, id_in_file);
    first_renumbered_ = node.Complain(message).ToString();
  }
  token.matched = token.content;
  if (token.normalized) {
    scratch.budget().Start(token.matched.size());
    Result<void> applied = normalizer.Apply(token.matched, kMaxAddedTokenBytes, scratch);
    if (!applied.ok()) return node.Complain(applied.error().message);
  }
  id_end_ = std::max<std::size_t>(id_end_, token.id + 1);
  const TokenId id = token.id;
  const auto [place, is_new] = by_id_.try_emplace(id);
  token.special |= place->second.special;
  if (!is_new) by_content_.erase(place->second.content);
  place->second = std::move(token);
  by_content_[place->second.content] = id;
  return {};
}

void AddedTokens::Index() {
  for (const auto& [id, token] : by_id_) {
    if (token.matched.empty()) continue;
    Matcher& matcher = token.normalized ? normalized_ : raw_;
    matcher.by_text.push_back(&token);
    matcher.has_special |= token.special;
    matcher.first_bytes[static_cast<unsigned char>(token.matched[0])] = true;
  }
  for (Matcher* matcher : {&raw_, &normalized_}) {
    const auto& first = matcher->first_bytes;
    if (std::count(first.begin(), first.end(), true) == 1) {
      matcher->only_first_byte = static_cast<char>(std::find(first.begin(), first.end(), true) - first.begin());
    }
    // Different tokens may have the same normal form; then the lowest id wins.
    std::sort(matcher->by_text.begin(), matcher->by_text.end(), [](const AddedToken* left, const AddedToken* right) {
      return std::pair<std::string_view, TokenId>(left->matched, left->id) <
             std::pair<std::string_view, TokenId>(right->matched, right->id);
    });
  }
}

std::size_t AddedTokens::Matcher::NextBegin(std::string_view text, std::size_t from) const {
  if (only_first_byte) return std::min(text.find(*only_first_byte, from), text.size());
  while (from < text.size() && !first_bytes[static_cast<unsigned char>(text[from])]) ++from;
  return from;
}

const AddedToken* AddedTokens::LongestAt(const Matcher& matcher, std::string_view text, std::size_t written) {
  auto begin = matcher.by_text.begin();
  auto end = matcher.by_text.end();
  const AddedToken* longest = nullptr;
  // [begin, end): the tokens that share the first `depth` bytes with the text.
  for (std::size_t depth = 0; depth < text.size() && begin != end; ++depth) {
    const auto byte = static_cast<unsigned char>(text[depth]);
    const auto byte_at = [&](const AddedToken* token) {
      return token->matched.size() > depth ? static_cast<int>(static_cast<unsigned char>(token->matched[depth])) : -1;
    };
    begin = std::lower_bound(begin, end, byte, [&](const AddedToken* token, int b) { return byte_at(token) < b; });
    end = std::upper_bound(begin, end, byte, [&](int b, const AddedToken* token) { return b < byte_at(token); });
    if (begin == end || (*begin)->matched.size() != depth + 1) continue;
    if (!(*begin)->special || depth + 1 <= written) longest = *begin;
  }
  return longest;
}

// True if no word character stands right before or after `range`.
Result<bool> AddedTokens::StandsAlone(std::string_view text, TextRange range, RegexScratch& scratch) const {
  std::vector<std::string_view> neighbours;
  if (range.begin > 0) neighbours.push_back(LastCharacter(text.substr(0, range.begin)));
  if (range.end < text.size()) {
    neighbours.push_back(text.substr(range.end, Utf8SequenceLength(text.substr(range.end))));
  }
  std::vector<TextRange> matches;
  for (const std::string_view neighbour : neighbours) {
    std::string stand_in;
    const std::string_view subject = ReplaceNewCodePoints(neighbour, stand_in) ? stand_in : neighbour;
    ROOST_RETURN_IF_ERROR(word_.FindAll(subject, scratch, matches));
  }
  return matches.empty();
}

Result<void> AddedTokens::Split(PromptText prompt, Stage stage, RegexScratch& scratch,
                                std::vector<Segment>& segments) const {
  const std::string_view text = prompt.bytes;
  const Matcher& matcher = MatcherOf(stage);
  WrittenCursor written(prompt.written);
  std::size_t done = 0;       // segments cover the text up to here
  std::size_t space_end = 0;  // end of the white space that a token took on its right
  for (std::size_t i = 0; i < text.size();) {
    i = matcher.NextBegin(text, i);
    if (i == text.size()) break;
    if (!scratch.budget().TrySpend(1)) return scratch.budget().SpentTime();
    const AddedToken* token = LongestAt(matcher, text.substr(i), written.BytesFrom(i));
    if (token == nullptr) {
      ++i;
      continue;
    }
    TextRange range{i, i + token->matched.size()};
    i = range.end;
    if (token->single_word) {
      ROOST_ASSIGN_OR_RETURN(const bool alone, StandsAlone(text, range, scratch));
      if (!alone) continue;
    }
    if (token->strip_left && range.begin <= done) range.begin = done;
    if (token->strip_left) range.begin = done + TrailingWhitespaceBegin(text.substr(done, range.begin - done));
    if (token->strip_right && range.end >= space_end)
      space_end = range.end + LeadingWhitespaceEnd(text.substr(range.end));
    if (token->strip_right) range.end = space_end;
    if (done < range.begin) segments.push_back({{done, range.begin}, std::nullopt});
    segments.push_back({range, token->id});
    done = range.end;
  }
  if (done < text.size()) segments.push_back({{done, text.size()}, std::nullopt});
  return {};
}

const AddedToken* AddedTokens::Find(TokenId id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &found->second;
}

std::optional<TokenId> AddedTokens::IdOf(std::string_view content) const {
  const auto found = by_content_.find(content);
  if (found == by_content_.end()) return std::nullopt;
  return found->second;
}

std::unordered_set<TokenId> AddedTokens::SpecialIds() const {
  std::unordered_set<TokenId> ids;
  for (const auto& [id, token] : by_id_) {
    if (token.special) ids.insert(id);
  }
  return ids;
}

std::optional<std::size_t> AddedTokens::MostBytes() const {
  std::size_t most = 0;
  for (const auto& [id, token] : by_id_) {
    if (token.strip_left || token.strip_right) return std::nullopt;
    most = std::max(most, token.matched.size());
  }
  return most;
}

}  // namespace roost::text
