// The version of the protocol that a peer tells in its Hello or Welcome.
//
// Peers of one major version understand each other; another major version is refused on both sides. The minor version
// is told for people: what a peer may be sent is decided by the flags of its hello.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/result.h"

namespace roost::wire {

inline constexpr std::uint32_t kProtocolMajor = 2;
// Grows with each release that adds a message or a field.
inline constexpr std::uint32_t kProtocolMinor = 13;

struct PeerVersion {
  std::uint32_t major = kProtocolMajor;
  std::uint32_t minor = kProtocolMinor;
  std::string release = {};  // of the program, for logs; empty: not told

  bool operator==(const PeerVersion&) const = default;
};

// "2.3, release 0.1.0", or "2.0" without a release.
[[nodiscard]] std::string Describe(const PeerVersion& version);

// The two ends of one link.
struct LinkVersions {
  PeerVersion worker;
  PeerVersion router;
};
// kInvalidArgument with both versions when their majors differ. Both ends log the same text.
[[nodiscard]] Result<void> CheckMajors(const LinkVersions& versions);

}  // namespace roost::wire
