// Reads and checks single values inside messages. Errors name the field. May throw kj::Exception, as any read of a
// malformed message; Decode catches it.
#pragma once

#include <capnp/common.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/wire/messages.h"
#include "schema/roost.capnp.h"

namespace roost::wire {

// Valid UTF-8 of at most `max_bytes`.
[[nodiscard]] Result<std::string> ReadText(capnp::Text::Reader text, const char* field, std::size_t max_bytes);
// The same without control characters: for logs, metrics and headers.
[[nodiscard]] Result<std::string> ReadLine(capnp::Text::Reader text, const char* field, std::size_t max_bytes);
// The same, not empty.
[[nodiscard]] Result<std::string> ReadName(capnp::Text::Reader text, const char* field, std::size_t max_bytes);

template <typename List>
[[nodiscard]] Result<void> CheckCount(const List& list, const char* field, std::size_t limit) {
  if (list.size() > limit) return DataLoss(field, "{} items, limit {}", list.size(), limit);
  return {};
}

[[nodiscard]] inline BlockHash ReadHash(schema::BlockHash::Reader hash) { return {hash.getHigh(), hash.getLow()}; }
[[nodiscard]] Result<std::vector<BlockHash>> ReadHashes(capnp::List<schema::BlockHash>::Reader list, const char* field,
                                                        std::size_t limit);
[[nodiscard]] Result<std::vector<TokenId>> ReadTokens(capnp::List<std::uint32_t>::Reader list, const char* field,
                                                      std::size_t limit);

// Finite and not below zero.
[[nodiscard]] Result<double> ReadSeconds(double seconds, const char* field);
[[nodiscard]] Result<std::uint64_t> ReadNonZero(std::uint64_t value, const char* field);
// At most kMaxPriority.
[[nodiscard]] Result<std::uint32_t> ReadPriority(std::uint32_t priority, const char* field);
// At most kMaxKeepMs.
[[nodiscard]] Result<std::uint64_t> ReadKeepMs(std::uint64_t milliseconds, const char* field);

// The same three fields in Hello and Welcome.
template <typename Reader>
[[nodiscard]] Result<PeerVersion> ReadVersion(Reader in) {
  PeerVersion version{.major = in.getProtocolVersion(), .minor = in.getProtocolMinor()};
  ROOST_ASSIGN_OR_RETURN(version.release, ReadLine(in.getRelease(), "release", kMaxReleaseBytes));
  return version;
}

}  // namespace roost::wire
