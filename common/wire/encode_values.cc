#include "common/wire/encode_values.h"

#include "common/base/utf8.h"
#include "common/wire/codec.h"

namespace roost::wire {

unsigned Count(std::size_t count, std::size_t limit, const char* what) {
  ROOST_CHECK(count <= limit, "{} {}, limit {}", count, what, limit);
  return static_cast<unsigned>(count);
}

// A third of the limit, because a replaced byte becomes three.
std::string BoundedText(const std::string& text) {
  std::string front = text.substr(0, WireLimits::kMaxTextBytes / 3);
  front.resize(front.size() - IncompleteUtf8Suffix(front));
  return ReplaceInvalidUtf8(front);
}

void FillHash(BlockHash hash, schema::BlockHash::Builder out) {
  out.setHigh(hash.high);
  out.setLow(hash.low);
}

void FillHashes(std::span<const BlockHash> hashes, capnp::List<schema::BlockHash>::Builder out) {
  for (unsigned i = 0; i < out.size(); ++i) FillHash(hashes[i], out[i]);
}

void FillTokens(std::span<const TokenId> tokens, capnp::List<std::uint32_t>::Builder out) {
  for (unsigned i = 0; i < out.size(); ++i) out.set(i, tokens[i]);
}

}  // namespace roost::wire
