#include "router/index/holder_set.h"

#include <algorithm>

namespace roost::router {

namespace {

constexpr std::uint64_t BitOf(WorkerSlot slot) { return std::uint64_t{1} << (slot.value() % 64); }

}  // namespace

std::uint64_t HolderSet::Word(std::size_t index) const {
  if (index == 0) return first_;
  return index - 1 < more_.size() ? more_[index - 1] : 0;
}

std::uint64_t& HolderSet::MutableWord(std::size_t index) {
  if (index == 0) return first_;
  if (index - 1 >= more_.size()) more_.resize(index);
  return more_[index - 1];
}

bool HolderSet::Insert(WorkerSlot slot) {
  if (Contains(slot)) return false;
  MutableWord(slot.value() / kWordBits) |= BitOf(slot);
  return true;
}

bool HolderSet::Erase(WorkerSlot slot) {
  if (!Contains(slot)) return false;
  MutableWord(slot.value() / kWordBits) &= ~BitOf(slot);
  return true;
}

bool HolderSet::Contains(WorkerSlot slot) const { return (Word(slot.value() / kWordBits) & BitOf(slot)) != 0; }

bool HolderSet::empty() const {
  return first_ == 0 && std::all_of(more_.begin(), more_.end(), [](std::uint64_t word) { return word == 0; });
}

void HolderSet::IntersectWith(const HolderSet& other) {
  for (std::size_t word = 0; word < word_count(); ++word) MutableWord(word) &= other.Word(word);
}

void HolderSet::UniteWith(const HolderSet& other) {
  for (std::size_t word = 0; word < other.word_count(); ++word) MutableWord(word) |= other.Word(word);
}

HolderSet HolderSet::Minus(const HolderSet& other) const {
  HolderSet result = *this;
  for (std::size_t word = 0; word < word_count(); ++word) result.MutableWord(word) &= ~other.Word(word);
  return result;
}

}  // namespace roost::router
