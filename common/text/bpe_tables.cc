#include "common/text/bpe_tables.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <functional>

#include "common/base/rng.h"
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

}  // namespace roost::text
