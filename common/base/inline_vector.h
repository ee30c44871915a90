// A vector whose first few elements need no allocation. Use it where most vectors hold one or two elements.
//
//   up to kInline   few_ holds them, many_ is empty
//   more            many_ holds all of them
//
// T must be trivially copyable. The elements are contiguous; pointers to them are valid until it changes or moves.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <type_traits>
#include <vector>

namespace roost {

template <typename T, std::size_t kInline>
class InlineVector {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  using value_type = T;

  InlineVector() = default;
  InlineVector(std::initializer_list<T> values) { assign(values.begin(), values.end()); }

  template <typename Iterator>
  void assign(Iterator first, Iterator last) {
    resize(0);
    for (; first != last; ++first) push_back(*first);
  }

  void push_back(T value) {
    if (many_.empty() && few_count_ < kInline) {
      few_[few_count_++] = value;
      return;
    }
    if (many_.empty()) many_.assign(few_.begin(), few_.end());
    few_count_ = 0;
    many_.push_back(value);
  }

  // New elements are value-initialised.
  void resize(std::size_t count) {
    while (size() < count) push_back(T());
    if (many_.empty()) {
      few_count_ = count;
    } else {
      many_.resize(count);
    }
  }

  [[nodiscard]] std::size_t size() const { return many_.empty() ? few_count_ : many_.size(); }
  [[nodiscard]] bool empty() const { return size() == 0; }
  [[nodiscard]] const T* data() const { return many_.empty() ? few_.data() : many_.data(); }
  [[nodiscard]] const T* begin() const { return data(); }
  [[nodiscard]] const T* end() const { return data() + size(); }

  friend bool operator==(const InlineVector& a, const InlineVector& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  std::array<T, kInline> few_{};
  std::size_t few_count_ = 0;  // 0 while many_ holds some
  std::vector<T> many_;
};

}  // namespace roost
