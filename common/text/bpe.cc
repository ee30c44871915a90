#include "common/text/bpe.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <utility>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "common/base/utf8.h"
#include "common/text/byte_level.h"

namespace roost::text {
namespace {

constexpr std::uint64_t kNoPair = ~std::uint64_t{0};  // no pair of ids has this key

std::uint64_t KeyOf(TokenId left, TokenId right) { return (std::uint64_t{left} << 32U) | right; }

}  // namespace

MergeTable::MergeTable(std::size_t pair_count)
    : slots_(std::bit_ceil(2 * pair_count + 2), Slot{kNoPair, Merge{0, 0}}) {}

std::size_t MergeTable::SlotOf(std::uint64_t pair) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = Mix64(pair) & mask;
  while (slots_[slot].pair != pair && slots_[slot].pair != kNoPair) slot = (slot + 1) & mask;
  return slot;
}

void MergeTable::Insert(TokenId left, TokenId right, Merge merge) {
  const std::uint64_t pair = KeyOf(left, right);
  slots_[SlotOf(pair)] = {pair, merge};
}

const MergeTable::Merge* MergeTable::Find(TokenId left, TokenId right) const {
  const Slot& slot = slots_[SlotOf(KeyOf(left, right))];
  return slot.pair == kNoPair ? nullptr : &slot.merge;
}

ByteWordTable::ByteWordTable(const Vocabulary& vocabulary) : slots_(std::bit_ceil(2 * vocabulary.token_count() + 2)) {
  for (TokenId id = 0; id < vocabulary.id_end(); ++id) {
    const std::optional<std::string_view> text = vocabulary.TextOf(id);
    const std::optional<std::string> bytes = text ? DecodeByteLevel(*text) : std::nullopt;
    if (!bytes || bytes->empty()) continue;
    const std::uint64_t hash = XXH3_64bits(bytes->data(), bytes->size());
    slots_[SlotOf(*bytes, hash)] = {static_cast<std::uint32_t>(hash >> 32U), id,
                                    static_cast<std::uint32_t>(texts_.size()),
                                    static_cast<std::uint32_t>(bytes->size())};
    texts_ += *bytes;
  }
}

std::size_t ByteWordTable::SlotOf(std::string_view word, std::uint64_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  const auto holds = [&](const Slot& slot) {
    return slot.hash == hash >> 32U && slot.size == word.size() &&
           std::memcmp(texts_.data() + slot.begin, word.data(), word.size()) == 0;
  };
  std::size_t at = hash & mask;
  while (slots_[at].size != 0 && !holds(slots_[at])) at = (at + 1) & mask;
  return at;
}

std::optional<TokenId> ByteWordTable::IdOf(std::string_view word) const {
  if (slots_.empty()) return std::nullopt;
  const Slot& slot = slots_[SlotOf(word, XXH3_64bits(word.data(), word.size()))];
  if (slot.size == 0) return std::nullopt;
  return slot.id;
}

void PairQueue::Clear() {
  run_.clear();
  next_ = 0;
  later_.clear();
}

void PairQueue::Push(std::uint64_t order) {
  later_.push_back(order);
  std::push_heap(later_.begin(), later_.end(), std::greater<>());
}

std::optional<std::uint64_t> PairQueue::Pop() {
  if (next_ == run_.size()) {
    if (later_.empty()) return std::nullopt;
    run_.swap(later_);
    later_.clear();
    next_ = 0;
    if (!std::is_sorted(run_.begin(), run_.end())) std::sort(run_.begin(), run_.end());
  }
  if (later_.empty() || run_[next_] <= later_.front()) return run_[next_++];
  std::pop_heap(later_.begin(), later_.end(), std::greater<>());
  const std::uint64_t least = later_.back();
  later_.pop_back();
  return least;
}

std::size_t WordCache::IndexOf(std::string_view word) { return XXH3_64bits(word.data(), word.size()) % kEntryCount; }

void WordCache::Fill(Entry& entry, std::string_view word, std::span<const TokenId> tokens) {
  if (tokens.size() > kMaxTokens) return;
  entry.word_size = static_cast<std::uint8_t>(word.size());
  entry.token_count = static_cast<std::uint8_t>(tokens.size());
  std::copy(word.begin(), word.end(), entry.word.begin());
  std::copy(tokens.begin(), tokens.end(), entry.tokens.begin());
}

namespace {

constexpr std::string_view kMetaspace = "\xE2\x96\x81";  // U+2581
constexpr char32_t kLowCharacters = 0x250;               // Latin: all of the byte-level alphabet

// Does a metaspace stand behind another character than a metaspace?
bool HasInnerMetaspace(std::string_view text) {
  while (text.starts_with(kMetaspace)) text.remove_prefix(kMetaspace.size());
  return text.find(kMetaspace) != std::string_view::npos;
}

// The two halves of "a b" or ["a", "b"].
Result<std::pair<std::string_view, std::string_view>> MergeFromJson(const JsonNode& merges, std::size_t index,
                                                                    simdjson::dom::element element) {
  const auto complain = [&](std::string_view message) {
    return merges.Complain(fmt::format("entry {}: {}", index, message));
  };
  std::string_view text;
  if (element.get(text) == simdjson::SUCCESS) {
    const std::size_t space = text.find(' ');
    if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) {
      return complain("must be two tokens with one space between them");
    }
    return std::pair(text.substr(0, space), text.substr(space + 1));
  }
  simdjson::dom::array pair;
  std::string_view left;
  std::string_view right;
  if (element.get(pair) != simdjson::SUCCESS || pair.size() != 2 || pair.at(0).get(left) != simdjson::SUCCESS ||
      pair.at(1).get(right) != simdjson::SUCCESS) {
    return complain("must be a string or a pair of strings");
  }
  return std::pair(left, right);
}

Result<MergeTable> MergesFromJson(const JsonNode& node, const Vocabulary& vocabulary) {
  simdjson::dom::array entries;
  if (node.element().get(entries) != simdjson::SUCCESS) return node.Complain("must be an array");
  if (entries.size() > kMaxMerges) return node.Complain(fmt::format("has over {} entries", kMaxMerges));
  MergeTable table(entries.size());
  std::uint32_t rank = 0;
  std::string merged;
  for (const simdjson::dom::element entry : entries) {
    std::string_view comment;
    if (entry.get(comment) == simdjson::SUCCESS && comment.starts_with("#version")) continue;
    ROOST_ASSIGN_OR_RETURN(const auto halves, MergeFromJson(node, rank, entry));
    merged.assign(halves.first).append(halves.second);
    const std::optional<TokenId> left = vocabulary.IdOf(halves.first);
    const std::optional<TokenId> right = vocabulary.IdOf(halves.second);
    const std::optional<TokenId> whole = vocabulary.IdOf(merged);
    if (!left || !right || !whole) {
      const std::string_view missing = !left ? halves.first : !right ? halves.second : std::string_view(merged);
      return node.Complain(fmt::format("entry {}: '{}' is not in the vocabulary", rank, missing));
    }
    table.Insert(*left, *right, {rank++, *whole});
  }
  return table;
}

// Refuses settings that would change the tokens, and that no model of these families uses.
Result<void> RefuseUnsupported(const JsonNode& node) {
  ROOST_ASSIGN_OR_RETURN(const std::optional<JsonNode> type, node.Find("type"));
  if (type) {
    ROOST_ASSIGN_OR_RETURN(const std::string_view name, type->AsString());
    if (name != "BPE") return type->Complain(fmt::format("'{}' is not supported", name));
  }
  ROOST_ASSIGN_OR_RETURN(const std::optional<JsonNode> dropout, node.Find("dropout"));
  double rate = 0;
  if (dropout && (dropout->element().get(rate) != simdjson::SUCCESS || rate != 0)) {
    return dropout->Complain("only null is supported");
  }
  for (const std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    ROOST_ASSIGN_OR_RETURN(const std::optional<JsonNode> affix, node.Find(key));
    if (!affix) continue;
    ROOST_ASSIGN_OR_RETURN(const std::string_view text, affix->AsString());
    if (!text.empty()) return affix->Complain("only null is supported");
  }
  return {};
}

Error WordIsTooLong(std::string_view word) {
  return InvalidArgument("", "a word of {} bytes is over the limit of {}", word.size(), BpeModel::kMaxWordBytes);
}

}  // namespace

Result<BpeModel> BpeModel::FromJson(const JsonNode& node) {
  ROOST_RETURN_IF_ERROR(RefuseUnsupported(node));
  ROOST_ASSIGN_OR_RETURN(const JsonNode vocab_node, node.Get("vocab"));
  ROOST_ASSIGN_OR_RETURN(Vocabulary vocabulary, Vocabulary::FromJson(vocab_node));
  ROOST_ASSIGN_OR_RETURN(const JsonNode merges_node, node.Get("merges"));
  ROOST_ASSIGN_OR_RETURN(MergeTable merges, MergesFromJson(merges_node, vocabulary));
  BpeModel model(std::move(vocabulary), std::move(merges));
  ROOST_ASSIGN_OR_RETURN(model.fuse_unknown_, node.Or<bool>("fuse_unk", false));
  ROOST_ASSIGN_OR_RETURN(model.byte_fallback_, node.Or<bool>("byte_fallback", false));
  ROOST_ASSIGN_OR_RETURN(model.ignore_merges_, node.Or<bool>("ignore_merges", false));
  ROOST_ASSIGN_OR_RETURN(const std::optional<JsonNode> unknown, node.Find("unk_token"));
  if (unknown) {
    ROOST_ASSIGN_OR_RETURN(model.unknown_token_, unknown->AsString());
    model.unknown_id_ = model.vocabulary_.IdOf(model.unknown_token_);
  }
  model.IndexCharacters();
  return model;
}

void BpeModel::IndexCharacters() {
  for (char32_t c = 0; c < kLowCharacters; ++c) {
    std::string character;
    AppendUtf8(c, character);
    low_characters_.push_back(vocabulary_.IdOf(character));
  }
  has_all_bytes_ = true;
  for (unsigned byte = 0; byte < byte_tokens_.size(); ++byte) {
    byte_tokens_[byte] = vocabulary_.IdOf(fmt::format("<0x{:02X}>", byte));
    std::string character;
    AppendByteLevel(std::string(1, static_cast<char>(byte)), character);
    const std::optional<TokenId> id = vocabulary_.IdOf(character);
    has_all_bytes_ &= id.has_value();
    byte_level_tokens_[byte] = id.value_or(0);
  }
  if (ignore_merges_ && has_all_bytes_) byte_words_ = ByteWordTable(vocabulary_);
  cuts_at_metaspace_ = vocabulary_.IdOf(kMetaspace).has_value();
  for (TokenId id = 0; id < vocabulary_.id_end() && cuts_at_metaspace_; ++id) {
    cuts_at_metaspace_ = !HasInnerMetaspace(vocabulary_.TextOf(id).value_or(""));
  }
}

bool BpeModel::MayDrop(Words words) const {
  const auto is_there = [](const std::optional<TokenId>& id) { return id.has_value(); };
  if (byte_fallback_ && std::all_of(byte_tokens_.begin(), byte_tokens_.end(), is_there)) return false;
  if (!unknown_token_.empty()) return fuse_unknown_;
  if (words == Words::kText) return true;
  return !has_all_bytes_;
}

Result<void> BpeModel::Encode(std::string_view word, BpeScratch& scratch, std::vector<TokenId>& tokens) const {
  if (word.size() > kMaxWordBytes) return WordIsTooLong(word);
  if (ignore_merges_) {
    if (const std::optional<TokenId> whole = UnlessSpecial(vocabulary_.IdOf(word))) {
      tokens.push_back(*whole);
      return {};
    }
  }
  if (!cuts_at_metaspace_) return EncodeSegment(word, scratch, tokens);
  while (!word.empty()) {
    std::size_t run = 0;
    while (word.substr(run).starts_with(kMetaspace)) run += kMetaspace.size();
    const std::size_t end = std::min(word.find(kMetaspace, run), word.size());
    ROOST_RETURN_IF_ERROR(EncodeSegment(word.substr(0, end), scratch, tokens));
    word.remove_prefix(end);
  }
  return {};
}

Result<void> BpeModel::EncodeSegment(std::string_view segment, BpeScratch& scratch,
                                     std::vector<TokenId>& tokens) const {
  if (segment.size() > WordCache::kMaxWordBytes || segment.empty()) return Merge(segment, scratch, tokens);
  WordCache::Entry& entry = scratch.cache_.EntryFor(segment);
  if (WordCache::Holds(entry, segment)) {
    tokens.insert(tokens.end(), entry.tokens.begin(), entry.tokens.begin() + entry.token_count);
    return {};
  }
  const std::size_t before = tokens.size();
  ROOST_RETURN_IF_ERROR(Merge(segment, scratch, tokens));
  WordCache::Fill(entry, segment, std::span(tokens).subspan(before));
  return {};
}

Result<void> BpeModel::EncodeBytes(std::string_view word, BpeScratch& scratch, std::vector<TokenId>& tokens) const {
  if (word.size() > kMaxWordBytes) return WordIsTooLong(word);
  if (word.size() > WordCache::kMaxWordBytes) {
    MergeBytes(word, scratch, tokens);
    return {};
  }
  WordCache::Entry& entry = scratch.cache_.EntryFor(word);
  if (WordCache::Holds(entry, word)) {
    tokens.insert(tokens.end(), entry.tokens.begin(), entry.tokens.begin() + entry.token_count);
    return {};
  }
  const std::size_t before = tokens.size();
  MergeBytes(word, scratch, tokens);
  WordCache::Fill(entry, word, std::span(tokens).subspan(before));
  return {};
}

std::optional<TokenId> BpeModel::UnlessSpecial(std::optional<TokenId> whole) const {
  return whole && special_ids_.contains(*whole) ? std::nullopt : whole;
}

void BpeModel::MergeBytes(std::string_view word, BpeScratch& scratch, std::vector<TokenId>& tokens) const {
  if (const std::optional<TokenId> whole = UnlessSpecial(byte_words_.IdOf(word))) {
    tokens.push_back(*whole);
    return;
  }
  const auto token_of = [&](char byte) { return byte_level_tokens_[static_cast<unsigned char>(byte)]; };
  if (word.size() <= kMaxShortSymbols) {
    std::array<TokenId, kMaxShortSymbols> ids;
    std::transform(word.begin(), word.end(), ids.begin(), token_of);
    return MergeShort(std::span(ids).first(word.size()), tokens);
  }
  scratch.symbols_.clear();
  for (const char byte : word) scratch.symbols_.push_back({token_of(byte), 0, 0, false});
  LinkSymbols(scratch);
  MergeAll(scratch);
  AppendMerged(scratch, tokens);
}

void BpeModel::MergeShort(std::span<TokenId> ids, std::vector<TokenId>& tokens) const {
  constexpr MergeTable::Merge kNoMerge{std::numeric_limits<std::uint32_t>::max(), 0};
  std::array<MergeTable::Merge, kMaxShortSymbols> pairs;  // each symbol with the next one
  std::size_t count = ids.size();
  const auto find_pair = [&](std::size_t i) {
    const MergeTable::Merge* merge = i + 1 < count ? merges_.Find(ids[i], ids[i + 1]) : nullptr;
    pairs[i] = merge != nullptr ? *merge : kNoMerge;
  };
  for (std::size_t i = 0; i < count; ++i) find_pair(i);
  while (count > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < count; ++i) {
      if (pairs[i].rank < pairs[best].rank) best = i;
    }
    if (pairs[best].rank == kNoMerge.rank) break;
    ids[best] = pairs[best].merged;
    for (std::size_t i = best + 2; i < count; ++i) {
      ids[i - 1] = ids[i];
      pairs[i - 1] = pairs[i];
    }
    --count;
    find_pair(best);
    if (best > 0) find_pair(best - 1);
  }
  tokens.insert(tokens.end(), ids.data(), ids.data() + count);
}

Result<void> BpeModel::Merge(std::string_view word, BpeScratch& scratch, std::vector<TokenId>& tokens) const {
  ROOST_RETURN_IF_ERROR(ListSymbols(word, scratch));
  const std::vector<BpeScratch::Symbol>& symbols = scratch.symbols_;
  if (symbols.size() <= kMaxShortSymbols) {
    std::array<TokenId, kMaxShortSymbols> ids;
    std::transform(symbols.begin(), symbols.end(), ids.begin(), [](const auto& symbol) { return symbol.id; });
    MergeShort(std::span(ids).first(symbols.size()), tokens);
    return {};
  }
  MergeAll(scratch);
  AppendMerged(scratch, tokens);
  return {};
}

void BpeModel::AppendMerged(BpeScratch& scratch, std::vector<TokenId>& tokens) {
  for (const BpeScratch::Symbol& symbol : scratch.symbols_) {
    if (!symbol.is_merged_away) tokens.push_back(symbol.id);
  }
  if (scratch.symbols_.size() <= BpeScratch::kMaxKeptSymbols) return;
  scratch.symbols_ = {};
  scratch.pairs_ = {};
}

std::optional<TokenId> BpeModel::IdOfCharacter(std::string_view character, char32_t value) const {
  return value < kLowCharacters ? low_characters_[value] : vocabulary_.IdOf(character);
}

// Appends the tokens of the character's bytes; false if one of them is missing.
bool BpeModel::AppendBytes(std::string_view character, BpeScratch& scratch) const {
  const auto token_of = [&](char byte) { return byte_tokens_[static_cast<unsigned char>(byte)]; };
  if (!std::all_of(character.begin(), character.end(), [&](char byte) { return token_of(byte).has_value(); })) {
    return false;
  }
  for (const char byte : character) scratch.symbols_.push_back({*token_of(byte), 0, 0, false});
  return true;
}

// Makes the word's characters into a linked list of symbols. An unknown token is held back until the next known
// character, because more unknown ones may join it; byte tokens between do not end it. The reference library does the
// same.
Result<void> BpeModel::ListSymbols(std::string_view word, BpeScratch& scratch) const {
  std::vector<BpeScratch::Symbol>& symbols = scratch.symbols_;
  symbols.clear();
  bool unknown_waits = false;
  const auto flush = [&] {
    if (unknown_waits) symbols.push_back({*unknown_id_, 0, 0, false});
    unknown_waits = false;
  };
  for (std::size_t i = 0; i < word.size();) {
    const CodePoint point = *DecodeUtf8(word.substr(i));
    const std::string_view character = word.substr(i, point.length);
    i += point.length;
    if (const std::optional<TokenId> id = IdOfCharacter(character, point.value)) {
      flush();
      symbols.push_back({*id, 0, 0, false});
    } else if (!(byte_fallback_ && AppendBytes(character, scratch)) && !unknown_token_.empty()) {
      if (!unknown_id_) {
        return InvalidArgument("", "'{}' has no token, and there is no '{}'", character, unknown_token_);
      }
      if (!fuse_unknown_) flush();
      unknown_waits = true;
    }
  }
  flush();
  LinkSymbols(scratch);
  return {};
}

void BpeModel::LinkSymbols(BpeScratch& scratch) {
  const auto count = static_cast<std::int32_t>(scratch.symbols_.size());
  for (std::int32_t position = 0; position < count; ++position) {
    BpeScratch::Symbol& symbol = scratch.symbols_[static_cast<std::size_t>(position)];
    symbol.previous = position - 1;
    symbol.next = position + 1 < count ? position + 1 : -1;
  }
}

void BpeModel::Consider(std::int32_t position, BpeScratch& scratch) const {
  if (position < 0) return;
  const BpeScratch::Symbol& left = scratch.symbols_[static_cast<std::size_t>(position)];
  if (left.next < 0) return;
  const BpeScratch::Symbol& right = scratch.symbols_[static_cast<std::size_t>(left.next)];
  if (const MergeTable::Merge* merge = merges_.Find(left.id, right.id)) {
    scratch.pairs_.Push((std::uint64_t{merge->rank} << 32U) | static_cast<std::uint32_t>(position));
  }
}

void BpeModel::MergeAll(BpeScratch& scratch) const {
  std::vector<BpeScratch::Symbol>& symbols = scratch.symbols_;
  scratch.pairs_.Clear();
  for (std::size_t position = 0; position < symbols.size(); ++position) {
    Consider(static_cast<std::int32_t>(position), scratch);
  }
  while (const std::optional<std::uint64_t> pair = scratch.pairs_.Pop()) {
    const auto position = static_cast<std::int32_t>(*pair & 0xFFFFFFFFU);
    BpeScratch::Symbol& left = symbols[static_cast<std::size_t>(position)];
    if (left.is_merged_away || left.next < 0) continue;
    BpeScratch::Symbol& right = symbols[static_cast<std::size_t>(left.next)];
    // The neighbours may have changed since the pair was queued.
    const MergeTable::Merge* merge = merges_.Find(left.id, right.id);
    if (merge == nullptr || merge->rank != *pair >> 32U) continue;
    left.id = merge->merged;
    left.next = right.next;
    right.is_merged_away = true;
    if (left.next >= 0) symbols[static_cast<std::size_t>(left.next)].previous = position;
    Consider(left.previous, scratch);
    Consider(position, scratch);
  }
}

}  // namespace roost::text
