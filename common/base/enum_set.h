// A set of enumerators: one bit for each, so it has at most 64 and is copied like a number.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace roost {

template <typename Enum>
class EnumSet {
 public:
  constexpr EnumSet() = default;
  constexpr EnumSet(std::initializer_list<Enum> members) {
    for (const Enum member : members) insert(member);
  }

  constexpr void insert(Enum member) { bits_ |= BitOf(member); }
  constexpr void insert(EnumSet members) { bits_ |= members.bits_; }
  constexpr void erase(Enum member) { bits_ &= ~BitOf(member); }

  [[nodiscard]] constexpr bool empty() const { return bits_ == 0; }
  [[nodiscard]] constexpr bool contains(Enum member) const { return (bits_ & BitOf(member)) != 0; }
  // Is `part` a subset of this set?
  [[nodiscard]] constexpr bool contains(EnumSet part) const { return (part.bits_ & ~bits_) == 0; }

  constexpr bool operator==(const EnumSet&) const = default;

 private:
  [[nodiscard]] static constexpr std::uint64_t BitOf(Enum member) {
    return std::uint64_t{1} << static_cast<unsigned>(member);
  }

  std::uint64_t bits_ = 0;
};

}  // namespace roost
