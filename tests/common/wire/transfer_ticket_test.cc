#include "common/wire/transfer_ticket.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <type_traits>

#include "common/wire/messages.h"

namespace roost::wire {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr WallSeconds kNow{seconds(1'800'000'000)};

// 00 01 02 … 1f
TransferSecret FixedSecret() {
  std::array<std::uint8_t, kTransferKeyBytes> bytes{};
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
  return TransferSecret(TransferKey(bytes));
}

TicketIdentity IdentityAt(WallSeconds expiry) { return {.consumer = "worker-b", .expiry = expiry}; }

std::string DeriveError(WallSeconds expiry, WallSeconds now) {
  const auto derived = DeriveTicket(FixedSecret(), IdentityAt(expiry), now);
  if (derived.ok()) return "";
  EXPECT_EQ(derived.error().code, ErrorCode::kUnauthenticated);
  return derived.error().field;
}

TEST(TransferTicketTest, TheKeyIsTheOneOfAnotherImplementation) {
  // Python's hmac over the same bytes.
  EXPECT_EQ(MintTicket(FixedSecret(), "worker-b", kNow).ToText(),
            "006b49d458575baddb7ae83b6163f614cbd5ca4aaef3ecfa4df930fbffcc1ffe7300498e77");
}

TEST(TransferTicketTest, TheSourceDerivesTheTicketThatTheRouterMade) {
  const TransferTicket made = MintTicket(FixedSecret(), "worker-b", kNow);
  EXPECT_EQ(made.expiry(), kNow + minutes(10));
  const auto derived = DeriveTicket(FixedSecret(), IdentityAt(made.expiry()), kNow);
  ASSERT_TRUE(derived.ok());
  EXPECT_TRUE(*derived == made);
}

TEST(TransferTicketTest, AnotherSecretNameOrExpiryIsAnotherKey) {
  const TransferTicket made = MintTicket(FixedSecret(), "worker-b", kNow);
  EXPECT_FALSE(MintTicket(TransferSecret::Random(), "worker-b", kNow).key() == made.key());
  EXPECT_FALSE(MintTicket(FixedSecret(), "worker-c", kNow).key() == made.key());
  EXPECT_FALSE(MintTicket(FixedSecret(), "worker-", kNow).key() == made.key());
  EXPECT_FALSE(MintTicket(FixedSecret(), "worker-b", kNow + seconds(1)).key() == made.key());
}

TEST(TransferTicketTest, ClocksMayDifferByFiveMinutes) {
  const WallSeconds expiry = kNow + kTicketLife;  // by the router's clock
  EXPECT_EQ(DeriveError(expiry, kNow - minutes(4)), "");
  EXPECT_EQ(DeriveError(expiry, kNow - minutes(5)), "");
  EXPECT_EQ(DeriveError(expiry, kNow - minutes(5) - seconds(1)), "expiry");
  EXPECT_EQ(DeriveError(expiry, expiry + minutes(5)), "");
  EXPECT_EQ(DeriveError(expiry, expiry + minutes(5) + seconds(1)), "expiry");
}

TEST(TransferTicketTest, NoExpiryOverflows) {
  EXPECT_EQ(DeriveError(WallSeconds(seconds(kMaxTicketExpiry)), kNow), "expiry");
  EXPECT_EQ(DeriveError(WallSeconds{}, kNow), "expiry");
}

TEST(TransferTicketTest, TextsAreReadBack) {
  const TransferSecret secret = TransferSecret::Random();
  EXPECT_EQ(secret.ToText().size(), kTransferSecretTextBytes);
  EXPECT_TRUE(TransferSecret::Parse(secret.ToText()).value() == secret);
  const TransferTicket ticket = MintTicket(secret, "worker-b", kNow);
  EXPECT_EQ(ticket.ToText().size(), kTransferTicketTextBytes);
  EXPECT_TRUE(TransferTicket::Parse(ticket.ToText()).value() == ticket);
}

TEST(TransferTicketTest, AnyOtherTextNamesItsFieldAndNothingOfTheText) {
  const std::string secret = FixedSecret().ToText();
  const std::string ticket = MintTicket(FixedSecret(), "w", kNow).ToText();
  const auto spoil = [](std::string text, std::size_t at, char by) {
    text[at] = by;
    return text;
  };
  for (const std::string& text : {std::string(), secret + "0", secret.substr(1), spoil(secret, 0, 'A'),
                                  spoil(secret, 63, 'g'), spoil(secret, 20, '\0'), spoil(secret, 20, ' ')}) {
    const auto parsed = TransferSecret::Parse(text);
    ASSERT_FALSE(parsed.ok());
    EXPECT_EQ(parsed.error().ToString(), "secret: is not 64 hexadecimal digits");
  }
  for (const std::string& text : {std::string(), secret, ticket + "0", ticket.substr(1), spoil(ticket, 0, 'x'),
                                  spoil(ticket, 9, '-'), spoil(ticket, 73, 'F')}) {
    const auto parsed = TransferTicket::Parse(text);
    ASSERT_FALSE(parsed.ok());
    EXPECT_EQ(parsed.error().ToString(), "ticket: is not 74 hexadecimal digits");
  }
}

TEST(TransferTicketTest, IdentitiesAreReadBackWithinTheirLimit) {
  for (const std::size_t size : {std::size_t{1}, std::size_t{8}, std::size_t{WireLimits::kMaxWorkerIdBytes}}) {
    const TicketIdentity identity{.consumer = std::string(size, 'w'), .expiry = kNow};
    const std::string bytes = EncodeIdentity(identity);
    EXPECT_LE(bytes.size(), kMaxTicketIdentityBytes);
    EXPECT_EQ(DecodeIdentity(bytes).value(), identity);
  }
  for (const std::string& bytes :
       {std::string(), std::string("006b49d458"), std::string("006b49d45-w"),
        "006b49d458" + std::string(WireLimits::kMaxWorkerIdBytes + 1, 'w'), std::string(4096, '0')}) {
    const auto identity = DecodeIdentity(bytes);
    ASSERT_FALSE(identity.ok());
    EXPECT_EQ(identity.error().field, "identity");
  }
}

TEST(TransferTicketTest, SecretsOfTwoProcessesDiffer) {
  std::set<std::string> texts;
  for (int i = 0; i < 100; ++i) texts.insert(TransferSecret::Random().ToText());
  EXPECT_EQ(texts.size(), 100U);
}

TEST(TransferTicketTest, NothingPrintsThem) {
  static_assert(!fmt::is_formattable<TransferKey>::value);
  static_assert(!fmt::is_formattable<TransferSecret>::value);
  static_assert(!fmt::is_formattable<TransferTicket>::value);
}

}  // namespace
}  // namespace roost::wire
