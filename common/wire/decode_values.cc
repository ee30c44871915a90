#include "common/wire/decode_values.h"

#include <cmath>
#include <string_view>

#include "common/base/utf8.h"

namespace roost::wire {

Result<std::string> ReadText(capnp::Text::Reader text, const char* field, std::size_t max_bytes) {
  if (text.size() > max_bytes) return DataLoss(field, "{} bytes of text, limit {}", text.size(), max_bytes);
  const std::string_view view(text.cStr(), text.size());
  if (!IsValidUtf8(view)) return DataLoss(field, "text is not UTF-8");
  return std::string(view);
}

Result<std::string> ReadLine(capnp::Text::Reader text, const char* field, std::size_t max_bytes) {
  ROOST_ASSIGN_OR_RETURN(std::string line, ReadText(text, field, max_bytes));
  if (HasControlCharacter(line)) return DataLoss(field, "holds a control character");
  return line;
}

Result<std::string> ReadName(capnp::Text::Reader text, const char* field, std::size_t max_bytes) {
  if (text.size() == 0) return DataLoss(field, "empty");
  ROOST_ASSIGN_OR_RETURN(std::string name, ReadLine(text, field, max_bytes));
  if (HasInvisibleCharacter(name)) return DataLoss(field, "holds a character that nobody sees");
  return name;
}

Result<std::vector<BlockHash>> ReadHashes(capnp::List<schema::BlockHash>::Reader list, const char* field,
                                          std::size_t limit) {
  ROOST_RETURN_IF_ERROR(CheckCount(list, field, limit));
  std::vector<BlockHash> hashes;
  hashes.reserve(list.size());
  for (const auto hash : list) hashes.push_back(ReadHash(hash));
  return hashes;
}

Result<std::vector<TokenId>> ReadTokens(capnp::List<std::uint32_t>::Reader list, const char* field, std::size_t limit) {
  ROOST_RETURN_IF_ERROR(CheckCount(list, field, limit));
  std::vector<TokenId> tokens;
  tokens.reserve(list.size());
  for (const std::uint32_t token : list) tokens.push_back(token);
  return tokens;
}

Result<double> ReadSeconds(double seconds, const char* field) {
  if (!std::isfinite(seconds) || seconds < 0) return DataLoss(field, "{} is not a duration", seconds);
  return seconds;
}

Result<std::uint64_t> ReadNonZero(std::uint64_t value, const char* field) {
  if (value == 0) return DataLoss(field, "zero");
  return value;
}

Result<std::uint32_t> ReadPriority(std::uint32_t priority, const char* field) {
  if (priority > kMaxPriority) return DataLoss(field, "{}, limit {}", priority, kMaxPriority);
  return priority;
}

Result<std::uint64_t> ReadKeepMs(std::uint64_t milliseconds, const char* field) {
  if (milliseconds > kMaxKeepMs) return DataLoss(field, "{} ms, limit {}", milliseconds, kMaxKeepMs);
  return milliseconds;
}

}  // namespace roost::wire
