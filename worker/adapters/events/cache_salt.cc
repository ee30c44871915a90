#include "worker/adapters/events/cache_salt.h"

#include <fmt/format.h>

#include <charconv>
#include <cstddef>
#include <cstdint>

namespace roost::worker::adapters {
namespace {

constexpr std::string_view kPrefix = "roost:";
constexpr std::size_t kHalfDigits = 16;  // of half a hash

std::optional<std::uint64_t> ParseHalf(std::string_view digits) {
  std::uint64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value, 16);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

// Takes 32 digits from the front of `text`.
std::optional<BlockHash> TakeHash(std::string_view& text) {
  if (text.size() < 2 * kHalfDigits) return std::nullopt;
  const auto high = ParseHalf(text.substr(0, kHalfDigits));
  const auto low = ParseHalf(text.substr(kHalfDigits, kHalfDigits));
  if (!high || !low) return std::nullopt;
  text.remove_prefix(2 * kHalfDigits);
  return BlockHash{*high, *low};
}

// ":FIRST:OWNROOT"
std::optional<OwnScope> ParseOwn(std::string_view text) {
  if (!text.starts_with(':')) return std::nullopt;
  text.remove_prefix(1);
  OwnScope own;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), own.first_block);
  if (error != std::errc() || own.first_block == 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
  if (!text.starts_with(':')) return std::nullopt;
  text.remove_prefix(1);
  const std::optional<BlockHash> root = TakeHash(text);
  if (!root || !text.empty()) return std::nullopt;
  own.root = *root;
  return own;
}

std::string Write(const SaltedRoots& roots) {
  if (!roots.own) return fmt::format("{}{}", kPrefix, roots.root.ToHex());
  return fmt::format("{}{}:{}:{}", kPrefix, roots.root.ToHex(), roots.own->first_block, roots.own->root.ToHex());
}

}  // namespace

std::string SaltOf(BlockHash root, const std::optional<OwnScope>& own, BlockHash default_root) {
  if (root == default_root && !own) return "";
  return Write({root, own});
}

std::optional<SaltedRoots> ParseSalt(std::string_view text) {
  if (!text.starts_with(kPrefix)) return std::nullopt;
  std::string_view rest = text.substr(kPrefix.size());
  const std::optional<BlockHash> root = TakeHash(rest);
  if (!root) return std::nullopt;
  SaltedRoots roots{*root, std::nullopt};
  if (!rest.empty()) {
    roots.own = ParseOwn(rest);
    if (!roots.own) return std::nullopt;
  }
  // Numbers have other spellings, such as capital digits and zeros in front.
  if (Write(roots) != text) return std::nullopt;
  return roots;
}

}  // namespace roost::worker::adapters
