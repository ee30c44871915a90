#include "common/wire/transfer_ticket.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>
#include <optional>

#include "common/base/check.h"
#include "common/wire/messages.h"

namespace roost::wire {
namespace {

// With its 0x00: no expiry and no name continues it.
constexpr std::string_view kPurpose("roost transfer ticket 1\0", 24);

static_assert(kTicketExpiryTextBytes + WireLimits::kMaxWorkerIdBytes <= kMaxTicketIdentityBytes);

std::uint64_t SecondsOf(WallSeconds time) {
  return static_cast<std::uint64_t>(std::max<WallSeconds::rep>(time.time_since_epoch().count(), 0));
}

TransferKey KeyOf(const TransferSecret& secret, std::string_view consumer, WallSeconds expiry) {
  std::string message(kPurpose);
  for (int shift = 56; shift >= 0; shift -= 8) message.push_back(static_cast<char>(SecondsOf(expiry) >> shift));
  message += consumer;
  std::array<std::uint8_t, kTransferKeyBytes> key{};
  const auto secret_bytes = secret.key().bytes();
  const auto* const made =
      HMAC(EVP_sha256(), secret_bytes.data(), static_cast<int>(secret_bytes.size()),
           reinterpret_cast<const unsigned char*>(message.data()), message.size(), key.data(), nullptr);
  ROOST_CHECK(made != nullptr, "HMAC-SHA256");
  return TransferKey(key);
}

std::optional<std::uint8_t> DigitOf(char c) {
  if (c >= '0' && c <= '9') return static_cast<std::uint8_t>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<std::uint8_t>(c - 'a' + 10);
  return std::nullopt;
}

// `text` has kTransferSecretTextBytes.
std::optional<TransferKey> ParseKey(std::string_view text) {
  std::array<std::uint8_t, kTransferKeyBytes> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const std::optional<std::uint8_t> high = DigitOf(text[2 * i]);
    const std::optional<std::uint8_t> low = DigitOf(text[2 * i + 1]);
    if (!high || !low) return std::nullopt;
    bytes[i] = static_cast<std::uint8_t>(*high << 4U | *low);
  }
  return TransferKey(bytes);
}

// `text` has kTicketExpiryTextBytes.
std::optional<WallSeconds> ParseExpiry(std::string_view text) {
  std::uint64_t seconds = 0;
  for (const char c : text) {
    const std::optional<std::uint8_t> digit = DigitOf(c);
    if (!digit) return std::nullopt;
    seconds = seconds << 4U | *digit;
  }
  return WallSeconds(std::chrono::seconds(seconds));
}

std::string TextOf(const TransferKey& key) { return fmt::format("{:02x}", fmt::join(key.bytes(), "")); }

std::string TextOf(WallSeconds expiry) {
  static_assert(kTicketExpiryTextBytes == 10);
  return fmt::format("{:010x}", std::min(SecondsOf(expiry), kMaxTicketExpiry));
}

}  // namespace

WallSeconds WallNow() { return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()); }

bool TransferKey::operator==(const TransferKey& other) const {
  return CRYPTO_memcmp(bytes_.data(), other.bytes_.data(), bytes_.size()) == 0;
}

TransferSecret TransferSecret::Random() {
  std::array<std::uint8_t, kTransferKeyBytes> bytes{};
  ROOST_CHECK(RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) == 1, "no random numbers");
  return TransferSecret(TransferKey(bytes));
}

Result<TransferSecret> TransferSecret::Parse(std::string_view text) {
  if (text.size() == kTransferSecretTextBytes) {
    if (const std::optional<TransferKey> key = ParseKey(text)) return TransferSecret(*key);
  }
  return InvalidArgument("secret", "is not {} hexadecimal digits", kTransferSecretTextBytes);
}

std::string TransferSecret::ToText() const { return TextOf(key_); }

Result<TransferTicket> TransferTicket::Parse(std::string_view text) {
  if (text.size() == kTransferTicketTextBytes) {
    const std::optional<WallSeconds> expiry = ParseExpiry(text.substr(0, kTicketExpiryTextBytes));
    const std::optional<TransferKey> key = ParseKey(text.substr(kTicketExpiryTextBytes));
    if (expiry && key) return TransferTicket(*expiry, *key);
  }
  return InvalidArgument("ticket", "is not {} hexadecimal digits", kTransferTicketTextBytes);
}

std::string TransferTicket::ToText() const { return TextOf(expiry_) + TextOf(key_); }

TransferTicket MintTicket(const TransferSecret& secret, std::string_view consumer, WallSeconds now) {
  const WallSeconds expiry = now + kTicketLife;
  return {expiry, KeyOf(secret, consumer, expiry)};
}

std::string EncodeIdentity(const TicketIdentity& identity) { return TextOf(identity.expiry) + identity.consumer; }

Result<TicketIdentity> DecodeIdentity(std::string_view bytes) {
  if (bytes.size() <= kTicketExpiryTextBytes || bytes.size() > kTicketExpiryTextBytes + WireLimits::kMaxWorkerIdBytes) {
    return InvalidArgument("identity", "has {} bytes", bytes.size());
  }
  const std::optional<WallSeconds> expiry = ParseExpiry(bytes.substr(0, kTicketExpiryTextBytes));
  if (!expiry) return InvalidArgument("identity", "does not begin with {} hexadecimal digits", kTicketExpiryTextBytes);
  return TicketIdentity{.consumer = std::string(bytes.substr(kTicketExpiryTextBytes)), .expiry = *expiry};
}

Result<TransferTicket> DeriveTicket(const TransferSecret& secret, const TicketIdentity& identity, WallSeconds now) {
  const auto refused = [](const char* why) { return Error{ErrorCode::kUnauthenticated, why, "expiry"}; };
  if (now > identity.expiry + kTicketClockSkew) return refused("the ticket has ended");
  if (identity.expiry > now + kTicketLife + kTicketClockSkew) return refused("no ticket lives so long");
  return TransferTicket(identity.expiry, KeyOf(secret, identity.consumer, identity.expiry));
}

}  // namespace roost::wire
