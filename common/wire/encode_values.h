// Writes single values inside messages, for Encode. A value over its limit stops the program.
#pragma once

#include <capnp/list.h>
#include <kj/string.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "common/base/check.h"
#include "common/wire/messages.h"
#include "schema/roost.capnp.h"

namespace roost::wire {

// The size of a list, at most `limit`. Cap'n Proto counts lists in 32 bits; the limits are far below that.
[[nodiscard]] unsigned Count(std::size_t count, std::size_t limit, const char* what);

[[nodiscard]] inline kj::StringPtr Text(const std::string& text) { return {text.c_str(), text.size()}; }
// Errors may quote long input. Only the front of a long text is sent, always as UTF-8.
[[nodiscard]] std::string BoundedText(const std::string& text);

void FillHash(BlockHash hash, schema::BlockHash::Builder out);
// These two fill `out`, which has the size of the span.
void FillHashes(std::span<const BlockHash> hashes, capnp::List<schema::BlockHash>::Builder out);
void FillTokens(std::span<const TokenId> tokens, capnp::List<std::uint32_t>::Builder out);

// The same three fields in Hello and Welcome.
template <typename Builder>
void FillVersion(const PeerVersion& version, Builder out) {
  ROOST_CHECK(version.release.size() <= kMaxReleaseBytes);
  out.setProtocolVersion(version.major);
  out.setProtocolMinor(version.minor);
  if (!version.release.empty()) out.setRelease(Text(version.release));
}

}  // namespace roost::wire
