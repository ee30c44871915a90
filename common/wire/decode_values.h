// Reads and checks single values inside messages, for the decoder that is made from the schema. Errors name the field.
// May throw kj::Exception, as any read of a malformed message.
#pragma once

#include <capnp/blob.h>

#include <cstddef>
#include <limits>
#include <string>

#include "common/base/result.h"

namespace roost::wire {

// The texts that a field may hold; schema/annotations.capnp.
enum class TextKind { kAny, kLine, kLabel };
struct TextRule {
  TextKind kind = TextKind::kAny;
  std::size_t most = 0;  // bytes
};
[[nodiscard]] Result<void> ReadText(capnp::Text::Reader text, TextRule rule, const char* field, std::string& out);

struct CountRule {
  std::size_t least = 0;
  std::size_t most = 0;
};
[[nodiscard]] inline Result<void> CheckCount(std::size_t count, CountRule rule, const char* field) {
  if (count < rule.least) [[unlikely]]
    return DataLoss(field, "empty");
  if (count > rule.most) [[unlikely]]
    return DataLoss(field, "{} items, limit {}", count, rule.most);
  return {};
}

// These refuse NaN too: it is not between any bounds.
template <typename T>
[[nodiscard]] Result<void> CheckBetween(T value, T least, T most, const char* field) {
  if (!(value >= least && value <= most)) [[unlikely]]
    return DataLoss(field, "{} is not from {} to {}", value, least, most);
  return {};
}
template <typename T>
[[nodiscard]] Result<void> CheckAbove(T value, T above, T most, const char* field) {
  if (!(value > above && value <= most)) [[unlikely]]
    return DataLoss(field, "{} is not in ({}, {}]", value, above, most);
  return {};
}
template <typename T>
[[nodiscard]] Result<void> CheckAtMost(T value, T most, const char* field) {
  if (!(value <= most)) [[unlikely]]
    return DataLoss(field, "{}, limit {}", value, most);
  return {};
}
// Finite, too.
template <typename T>
[[nodiscard]] Result<void> CheckAtLeast(T value, T least, const char* field) {
  if (!(value >= least && value <= std::numeric_limits<T>::max())) [[unlikely]]
    return DataLoss(field, "{} is not a number from {} up", value, least);
  return {};
}

}  // namespace roost::wire
