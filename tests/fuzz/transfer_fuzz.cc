// Any bytes as what one worker sends another: message after message, until one is wrong. Decoding does not crash; a
// message that is accepted can be encoded again and reads back equal, and a frame to the same bytes. The first byte
// repairs frames, so that the checks behind the sum are reached: bit 0 their sum, bit 1 also their hash. With bit 2 the
// bytes are texts of secrets and tickets, and names of tickets. With bit 3 they are what a source, with bit 4 what a
// consumer gets as its peer's handshake of TLS, which never succeeds.
#include <sys/socket.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/check.h"
#include "common/wire/transfer_ticket.h"
#include "worker/transfer/frame.h"
#include "worker/transfer/peer_connection.h"
#include "worker/transfer/peer_messages.h"
#include "worker/transfer/peer_tls.h"

namespace roost::worker {
namespace {

using Bytes = std::span<const std::byte>;

constexpr FrameSizes kSizes{.block_tokens = 4, .data_bytes = 32};
constexpr std::size_t kHashOffset = 24;
constexpr std::size_t kParentOffset = 40;

struct Repairs {
  bool sum = false;
  bool hash = false;
};

void Repair(Repairs repairs, std::span<std::byte> frame) {
  if (repairs.hash) {
    BlockHash parent;
    std::memcpy(&parent, frame.data() + kParentOffset, sizeof(parent));
    std::vector<TokenId> tokens(kSizes.block_tokens);
    std::memcpy(tokens.data(), frame.data() + kFrameHeaderBytes, tokens.size() * sizeof(TokenId));
    const BlockHash hash = ChainHash(parent, tokens);
    std::memcpy(frame.data() + kHashOffset, &hash, sizeof(hash));
  }
  if (repairs.sum) {
    const XXH128_hash_t sum = XXH3_128bits(frame.data(), frame.size() - kFrameSumBytes);
    std::memcpy(frame.data() + frame.size() - kFrameSumBytes, &sum.low64, sizeof(sum.low64));
    std::memcpy(frame.data() + frame.size() - sizeof(sum.high64), &sum.high64, sizeof(sum.high64));
  }
}

// A frame that is opened, sealed again from what was read, is the same.
bool TakeFrame(Bytes payload, Repairs repairs) {
  FrameBuffer frame(kSizes);
  std::copy(payload.begin(), payload.end(), frame.bytes().begin());
  Repair(repairs, frame.bytes());
  const auto opened = OpenFrame(frame);
  if (!opened.ok()) return false;
  FrameBuffer again(kSizes);
  std::copy(frame.data().begin(), frame.data().end(), again.data().begin());
  SealFrame(opened->block, opened->tokens, again);
  ROOST_CHECK(std::equal(again.bytes().begin(), again.bytes().end(), frame.bytes().begin()));
  // It is the block of a chain that asks for exactly this block, and not of one that begins a block later.
  FrameChain chain{.root = opened->block.root,
                   .parent = opened->block.parent,
                   .first_position = opened->block.position,
                   .hashes = {opened->block.hash},
                   .tenant = opened->block.tenant};
  const bool begins_its_scope = chain.first_position > 0 || chain.parent == chain.root;
  ROOST_CHECK(OpenFrame(frame, chain, 0).ok() == begins_its_scope);
  ++chain.first_position;
  ROOST_CHECK(!OpenFrame(frame, chain, 0).ok());
  return true;
}

bool TakeMessage(Bytes payload) {
  const auto message = wire::DecodePeerMessage(payload);
  if (!message.ok() || !message.value().has_value()) return false;
  const auto again = wire::DecodePeerMessage(wire::Encode(*message.value()));
  ROOST_CHECK(again.ok() && again.value() == message.value());
  return true;
}

// Takes messages until the first that is wrong.
void TakeAll(Bytes rest, Repairs repairs) {
  while (rest.size() >= kPartHeadBytes) {
    const auto head = DecodeHead(rest.first<kPartHeadBytes>(), kSizes.frame_bytes());
    rest = rest.subspan(kPartHeadBytes);
    if (!head.ok() || rest.size() < head->length) return;
    const Bytes payload = rest.first(head->length);
    if (!(head->kind == PeerPart::kFrame ? TakeFrame(payload, repairs) : TakeMessage(payload))) return;
    rest = rest.subspan(head->length);
  }
}

// ---- tickets ----

constexpr wire::WallSeconds kNow{std::chrono::seconds(1'800'000'000)};

wire::TransferSecret FixedSecret() { return wire::TransferSecret(wire::TransferKey()); }

void TakeText(std::string_view text) {
  if (const auto secret = wire::TransferSecret::Parse(text); secret.ok()) ROOST_CHECK(secret->ToText() == text);
  if (const auto ticket = wire::TransferTicket::Parse(text); ticket.ok()) ROOST_CHECK(ticket->ToText() == text);
  const auto identity = wire::DecodeIdentity(text);
  if (!identity.ok()) return;
  ROOST_CHECK(wire::EncodeIdentity(*identity) == text);
  const auto ticket = wire::DeriveTicket(FixedSecret(), *identity, kNow);
  const bool is_in_time = identity->expiry + wire::kTicketClockSkew >= kNow &&
                          identity->expiry <= kNow + wire::kTicketLife + wire::kTicketClockSkew;
  ROOST_CHECK(ticket.ok() == is_in_time);
}

template <typename Shake>
void TakeHandshake(Bytes bytes, const Shake& shake) {
  std::array<int, 2> sockets{};
  ROOST_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sockets.data()) == 0);
  PeerConnection connection{wire::Descriptor(sockets[0])};
  const wire::Descriptor other(sockets[1]);
  (void)::send(other.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  (void)::shutdown(other.get(), SHUT_WR);
  ROOST_CHECK(!shake(connection));
}

// Is one of these asked for?
bool TakeTicket(unsigned kind, Bytes bytes) {
  if ((kind & 4U) != 0) TakeText({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if ((kind & 8U) != 0) {
    static const PeerTlsRules rules(PeerSide::kSource);
    const wire::TransferSecret secret = FixedSecret();
    TakeHandshake(bytes, [&](PeerConnection& connection) { return connection.AwaitTicket(rules, secret, kNow).ok(); });
  }
  if ((kind & 16U) != 0) {
    static const PeerTlsRules rules(PeerSide::kConsumer);
    const wire::TransferTicket ticket = wire::MintTicket(FixedSecret(), "b", kNow);
    TakeHandshake(bytes, [&](PeerConnection& connection) { return connection.ShowTicket(rules, "b", ticket).ok(); });
  }
  return (kind & 28U) != 0;
}

}  // namespace

void TakeInput(Bytes input) {
  if (input.empty()) return;
  const auto kind = static_cast<unsigned>(input.front());
  if (TakeTicket(kind, input.subspan(1))) return;
  TakeAll(input.subspan(1), {.sum = (kind & 1U) != 0, .hash = (kind & 2U) != 0});
}

}  // namespace roost::worker

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  roost::worker::TakeInput({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
