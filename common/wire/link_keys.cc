#include "common/wire/link_keys.h"

#include <fmt/format.h>
#include <simdjson.h>
#include <zmq.h>

#include <array>
#include <cstdint>
#include <utility>

#include "common/base/check.h"
#include "common/base/json_writer.h"
#include "common/base/name_pattern.h"
#include "common/base/small_file.h"

namespace roost::wire {
namespace {

constexpr std::size_t kKeyBytes = 32;

using KeyText = std::array<char, kLinkKeyBytes + 1>;

std::string PlaceOf(const std::string& name, std::size_t line) { return fmt::format("{}:{}", name, line); }

bool IsKey(std::string_view text) {
  std::array<std::uint8_t, kKeyBytes> bytes{};
  return text.size() == kLinkKeyBytes && zmq_z85_decode(bytes.data(), std::string(text).c_str()) != nullptr;
}

// The pair of a secret key; nothing when it is none.
Result<LinkKeyPair> PairOf(std::string_view secret_key, const std::string& place) {
  KeyText public_key{};
  const std::string secret(secret_key);
  if (!IsKey(secret_key) || zmq_curve_public(public_key.data(), secret.c_str()) != 0) {
    return InvalidArgument(place, "is no secret key: {} characters of Z85 are needed", kLinkKeyBytes);
  }
  return LinkKeyPair{public_key.data(), secret};
}

Result<std::vector<std::string>> NamesOf(simdjson::dom::element value, std::string_view member,
                                         const std::string& place) {
  simdjson::dom::array array;
  std::vector<std::string> names;
  bool are_texts = value.get(array) == simdjson::SUCCESS;
  if (are_texts) {
    for (const simdjson::dom::element item : array) {
      std::string_view name;
      are_texts = are_texts && item.get(name) == simdjson::SUCCESS && !name.empty();
      names.emplace_back(name);
    }
  }
  if (!are_texts || names.empty()) return InvalidArgument(place, "{} is no list of names", member);
  return names;
}

Result<void> TakeMember(simdjson::dom::key_value_pair member, PeersOf side, const std::string& place, LinkPeer& peer) {
  if (member.key == "public_key") {
    std::string_view key;
    if (member.value.get(key) != simdjson::SUCCESS || !IsKey(key)) {
      return InvalidArgument(place, "public_key is no key: {} characters of Z85 are needed", kLinkKeyBytes);
    }
    peer.public_key = key;
    return {};
  }
  if (side == PeersOf::kRouter && (member.key == "workers" || member.key == "models")) {
    ROOST_ASSIGN_OR_RETURN(std::vector<std::string> names, NamesOf(member.value, member.key, place));
    (member.key == "workers" ? peer.workers : peer.models) = std::move(names);
    return {};
  }
  return InvalidArgument(place, "'{}' is no member of a peer; there are public_key{}", member.key,
                         side == PeersOf::kRouter ? ", workers and models" : " alone");
}

Result<LinkPeer> ParsePeer(simdjson::dom::parser& parser, std::string_view line, PeersOf side,
                           const std::string& place) {
  simdjson::dom::object object;
  if (parser.parse(simdjson::padded_string(line)).get(object) != simdjson::SUCCESS) {
    return InvalidArgument(place, "is no JSON object");
  }
  LinkPeer peer;
  for (const simdjson::dom::key_value_pair member : object) {
    ROOST_RETURN_IF_ERROR(TakeMember(member, side, place, peer));
  }
  if (peer.public_key.empty()) return InvalidArgument(place, "public_key is missing");
  if (side == PeersOf::kRouter && peer.workers.empty()) return InvalidArgument(place, "workers is missing");
  if (side == PeersOf::kRouter && peer.models.empty()) return InvalidArgument(place, "models is missing");
  return peer;
}

}  // namespace

LinkKeyPair MakeLinkKeyPair() {
  KeyText public_key{};
  KeyText secret_key{};
  // A line that begins with # is a comment.
  do {
    ROOST_CHECK(zmq_curve_keypair(public_key.data(), secret_key.data()) == 0, "libzmq was built without CURVE");
  } while (secret_key.front() == '#');
  return {public_key.data(), secret_key.data()};
}

Result<LinkKeyPair> ParseLinkKey(std::string_view text, const std::string& name) {
  LinkKeyPair pair;
  ROOST_RETURN_IF_ERROR(ForEachLine(text, [&](std::string_view line, std::size_t number) -> Result<void> {
    if (!pair.secret_key.empty()) return InvalidArgument(PlaceOf(name, number), "is a second key; one is needed");
    ROOST_ASSIGN_OR_RETURN(pair, PairOf(line, PlaceOf(name, number)));
    return {};
  }));
  if (pair.secret_key.empty()) return InvalidArgument(name, "holds no key");
  return pair;
}

Result<LinkKeyPair> ReadLinkKey(const std::string& path) {
  ROOST_ASSIGN_OR_RETURN(const std::string text, ReadTrustedFile(path, kMaxLinkFileBytes));
  return ParseLinkKey(text, path);
}

std::string LinkKeyFile(const LinkKeyPair& pair, std::string_view owner) {
  return fmt::format("# Secret key of {} for the link of Roost. Its public key is {}\n{}\n", owner, pair.public_key,
                     pair.secret_key);
}

std::string LinkPeerLine(const LinkPeer& peer) {
  JsonWriter line;
  line.BeginObject();
  line.Key("public_key").String(peer.public_key);
  const auto list = [&line](std::string_view member, const std::vector<std::string>& names) {
    if (names.empty()) return;
    line.Key(member).BeginArray();
    for (const std::string& name : names) line.String(name);
    line.EndArray();
  };
  list("workers", peer.workers);
  list("models", peer.models);
  line.EndObject();
  return line.Take();
}

Result<LinkPeers> LinkPeers::Parse(std::string_view text, const std::string& name, PeersOf side) {
  LinkPeers peers;
  simdjson::dom::parser parser;
  ROOST_RETURN_IF_ERROR(ForEachLine(text, [&](std::string_view line, std::size_t number) -> Result<void> {
    const std::string place = PlaceOf(name, number);
    if (peers.peers_.size() == kMaxLinkPeers) return InvalidArgument(place, "more than {} peers", kMaxLinkPeers);
    ROOST_ASSIGN_OR_RETURN(LinkPeer peer, ParsePeer(parser, line, side, place));
    if (!peers.by_key_.emplace(peer.public_key, peers.peers_.size()).second) {
      return InvalidArgument(place, "the key {} stands in an earlier line", peer.public_key);
    }
    peers.peers_.push_back(std::move(peer));
    return {};
  }));
  if (peers.peers_.empty()) return InvalidArgument(name, "names no peer");
  return peers;
}

Result<LinkPeers> LinkPeers::Read(const std::string& path, PeersOf side) {
  ROOST_ASSIGN_OR_RETURN(const std::string text, ReadTrustedFile(path, kMaxLinkFileBytes));
  return Parse(text, path, side);
}

const LinkPeer* LinkPeers::Find(std::string_view public_key) const {
  const auto found = by_key_.find(public_key);
  return found == by_key_.end() ? nullptr : &peers_[found->second];
}

Result<void> CheckNames(const LinkPeer& peer, std::string_view worker_id, std::string_view model) {
  const auto refused = [&peer](std::string field, std::string what) {
    return Error{ErrorCode::kUnauthenticated, fmt::format("key {} may not {}", peer.public_key, what),
                 std::move(field)};
  };
  if (!MatchesAny(peer.workers, worker_id)) return refused("worker_id", fmt::format("be worker '{}'", worker_id));
  if (!MatchesAny(peer.models, model)) return refused("model", fmt::format("serve model '{}'", model));
  return {};
}

bool MayServe(const LinkPeer& peer, std::string_view model) { return MatchesAny(peer.models, model); }

}  // namespace roost::wire
