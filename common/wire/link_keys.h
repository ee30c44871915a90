// The keys of the link between routers and workers (CURVE, rfc.zeromq.org/spec/26), and the two files that a daemon
// reads them from. Keys are written as Z85, in 40 characters.
//
//   secret key file   one line: the daemon's own secret key. `roostctl key link` makes it
//   peers file        one JSON object per line:
//     of a router       {"public_key":"…","workers":["w1","gpu-*"],"models":["demo"]}
//                       the names and models that a worker with this key may have; a * at the end stands for any rest
//     of a worker       {"public_key":"…"}
//                       a router that it may dial. Several routers, or an old and a new key, have a line each
//
// Empty lines and lines that begin with # are skipped. Errors name the file and the line, never a secret key.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace roost::wire {

inline constexpr std::size_t kLinkKeyBytes = 40;
inline constexpr std::size_t kMaxLinkFileBytes = std::size_t{1} << 20U;
inline constexpr std::size_t kMaxLinkPeers = 4096;

struct LinkKeyPair {
  std::string public_key;
  std::string secret_key;
};

[[nodiscard]] LinkKeyPair MakeLinkKeyPair();

// kNotFound: there is no such file. kInvalidArgument: it holds no secret key.
[[nodiscard]] Result<LinkKeyPair> ReadLinkKey(const std::string& path);
[[nodiscard]] Result<LinkKeyPair> ParseLinkKey(std::string_view text, const std::string& name);

// The text of a secret key file; `owner` stands in its comment.
[[nodiscard]] std::string LinkKeyFile(const LinkKeyPair& pair, std::string_view owner);

struct LinkPeer {
  std::string public_key;
  std::vector<std::string> workers;  // empty for a router's key
  std::vector<std::string> models;

  bool operator==(const LinkPeer&) const = default;
};

// The peer's line of a peers file.
[[nodiscard]] std::string LinkPeerLine(const LinkPeer& peer);

enum class PeersOf { kRouter, kWorker };  // the program that owns the file

// Copyable data. At least one peer; no key twice.
class LinkPeers {
 public:
  // kNotFound: there is no such file. kInvalidArgument: it is wrong.
  [[nodiscard]] static Result<LinkPeers> Read(const std::string& path, PeersOf side);
  // `name` is the file's, for errors.
  [[nodiscard]] static Result<LinkPeers> Parse(std::string_view text, const std::string& name, PeersOf side);

  // In the order of the file.
  [[nodiscard]] const std::vector<LinkPeer>& all() const { return peers_; }
  // Null when unknown. O(log peers).
  [[nodiscard]] const LinkPeer* Find(std::string_view public_key) const;

 private:
  std::vector<LinkPeer> peers_;
  std::map<std::string, std::size_t, std::less<>> by_key_;
};

// May the worker with this key have the name and serve the model? kUnauthenticated says why not.
[[nodiscard]] Result<void> CheckNames(const LinkPeer& peer, std::string_view worker_id, std::string_view model);
// The same of a name beside that of its model: an adapter's.
[[nodiscard]] bool MayServe(const LinkPeer& peer, std::string_view model);

}  // namespace roost::wire
