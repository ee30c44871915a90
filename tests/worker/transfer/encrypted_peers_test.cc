// Blocks over loopback under tickets: two ends that agree, ends that do not, and strangers at the door.
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <list>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/worker/transfer/arrived.h"
#include "tests/worker/transfer/pool_blocks.h"
#include "worker/transfer/block_server.h"
#include "worker/transfer/peers.h"

namespace roost::worker {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using wire::HoldOutcome;
using wire::TransferSecret;
using wire::TransferTicket;

constexpr wire::WallSeconds kNow{seconds(1'800'000'000)};
constexpr std::chrono::seconds kPatience{10};

enum class Direction { kToSource, kToConsumer };

// Passes connections on to a port, keeps what passes, and cuts a connection after some bytes of one direction.
class Relay {
 public:
  explicit Relay(const std::string& to) : to_(to), listener_(wire::Listen({"127.0.0.1", 0}).value()) {
    acceptor_ = std::thread([this] { Accept(); });
  }
  ~Relay() {
    stopping_ = true;
    acceptor_.join();
    for (std::thread& thread : threads_) thread.join();
  }

  void CutAfter(Direction direction, std::size_t bytes) {
    cut_direction_ = direction;
    cut_after_ = bytes;
  }
  [[nodiscard]] std::string address() const {
    return "127.0.0.1:" + std::to_string(wire::BoundTo(listener_, {"127.0.0.1", 0}).port);
  }
  [[nodiscard]] std::string passed(Direction direction) {
    const std::lock_guard lock(mutex_);
    return direction == Direction::kToSource ? to_source_ : to_consumer_;
  }

 private:
  void Accept() {
    while (!stopping_) {
      pollfd poll{.fd = listener_.get(), .events = POLLIN, .revents = 0};
      if (::poll(&poll, 1, 20) != 1) continue;
      threads_.emplace_back([this, near = wire::Descriptor(::accept(listener_.get(), nullptr, nullptr))] {
        const wire::Descriptor far = wire::ConnectTo("tcp://" + to_, "");
        if (far.is_open()) Pass(near.get(), far.get());
      });
    }
  }

  void Pass(int near, int far) {
    std::array<std::size_t, 2> passed{};
    std::array<pollfd, 2> polls{pollfd{near, POLLIN, 0}, pollfd{far, POLLIN, 0}};
    while (!stopping_) {
      if (::poll(polls.data(), polls.size(), 20) <= 0) continue;
      for (const Direction direction : {Direction::kToSource, Direction::kToConsumer}) {
        const auto from = static_cast<std::size_t>(direction);
        if (polls[from].revents == 0) continue;
        std::array<char, 4096> bytes{};
        const bool is_cut = direction == cut_direction_;
        const std::size_t most = is_cut ? std::min(bytes.size(), cut_after_ - passed[from]) : bytes.size();
        const ssize_t count = most == 0 ? 0 : ::recv(polls[from].fd, bytes.data(), most, MSG_DONTWAIT);
        if (count <= 0) return;
        passed[from] += static_cast<std::size_t>(count);
        Keep(direction, {bytes.data(), static_cast<std::size_t>(count)});
        if (::send(polls[1 - from].fd, bytes.data(), static_cast<std::size_t>(count), MSG_NOSIGNAL) != count) return;
      }
    }
  }

  void Keep(Direction direction, std::string_view bytes) {
    const std::lock_guard lock(mutex_);
    (direction == Direction::kToSource ? to_source_ : to_consumer_) += bytes;
  }

  const std::string to_;
  const wire::Descriptor listener_;
  std::optional<Direction> cut_direction_;  // constant once connections come
  std::size_t cut_after_ = 0;
  std::atomic<bool> stopping_ = false;
  std::mutex mutex_;
  std::string to_source_;    // guarded by mutex_
  std::string to_consumer_;  // guarded by mutex_
  std::list<std::thread> threads_;
  std::thread acceptor_;
};

class EncryptedPeersTest : public TransferTest {
 protected:
  void SetUp() override {
    TransferTest::SetUp();
    StartServer(TransferAccess::kTicketsOnly);
    MakePeers(TransferAccess::kTicketsOnly);
  }

  void StartServer(TransferAccess access) {
    server_ = BlockServer::Start(*from_.blocks, {.worker_id = "a",
                                                 .layout = kLayout,
                                                 .address = {"127.0.0.1", 0},
                                                 .access = access,
                                                 .secret = secret_,
                                                 .wall_now = [this] { return kNow + seconds(source_clock_.load()); }})
                  .value();
  }
  void MakePeers(TransferAccess access, const std::string& name = "b") {
    peers_.reset();
    memory_ = std::make_shared<FrameMemory>(kTestSizes, 8);
    peers_ = std::make_unique<Peers>(arrived_.inbox, *to_.blocks, memory_,
                                     PeersOptions{.worker_id = name, .layout = kLayout, .access = access}, clock_);
  }

  HoldOutcome Fetch(std::optional<TransferTicket> ticket, const std::string& address) {
    peers_->Ask({.id = HoldId(++last_id_), .chain = chain_.chain, .peer = {"a", address}, .ticket = ticket});
    return arrived_.EndOf(last_id_);
  }
  HoldOutcome Fetch(std::optional<TransferTicket> ticket) { return Fetch(ticket, server_->address()); }
  [[nodiscard]] TransferTicket Ticket(const std::string& consumer = "b") const {
    return wire::MintTicket(secret_, consumer, kNow);
  }

  // Refusals of the source, once there are some.
  void ExpectRefused(wire::FetchRefusal cause, std::uint64_t count) {
    const auto index = static_cast<std::size_t>(cause);
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (server_->counts().refused[index] < count && std::chrono::steady_clock::now() < end)
      std::this_thread::yield();
    for (std::size_t i = 0; i < wire::kFetchRefusalNames.size(); ++i) {
      EXPECT_EQ(server_->counts().refused[i], i == index ? count : 0U) << wire::kFetchRefusalNames[i];
    }
  }
  void ExpectServes() {
    MakePeers(TransferAccess::kTicketsOnly);
    EXPECT_EQ(Fetch(Ticket()), HoldOutcome::kMissing);
    EXPECT_EQ(arrived_.frames[last_id_], 40U);
  }
  [[nodiscard]] PeerConnection Dial() const {
    return PeerConnection::Connect(wire::ParseNumericAddress(server_->address()).value()).value();
  }
  // Past its handshake, with a ticket for this consumer.
  [[nodiscard]] PeerConnection Admitted(const std::string& consumer) const {
    PeerConnection connection = Dial();
    EXPECT_TRUE(connection.ShowTicket(rules_, consumer, Ticket(consumer)).ok());
    EXPECT_TRUE(connection.Send(HelloTo("a")).ok());
    const PartHead head = connection.ReceiveHead(kTestSizes.frame_bytes(), kPatience).value();
    EXPECT_TRUE(std::holds_alternative<wire::PeerWelcome>(connection.ReceiveMessage(head).value()));
    return connection;
  }
  // A fetch of a block that is not there.
  static void FetchNothing(PeerConnection& connection) {
    EXPECT_TRUE(connection.Send(wire::PeerFetch{.hashes = {BlockHash{1, 2}}}).ok());
    const PartHead head = connection.ReceiveHead(kTestSizes.frame_bytes(), kPatience).value();
    EXPECT_TRUE(std::holds_alternative<wire::PeerEnd>(connection.ReceiveMessage(head).value()));
  }
  // All that comes until the end of the connection.
  static std::size_t CountUntilEnd(PeerConnection& connection) {
    std::array<std::byte, 1> byte{};
    std::size_t count = 0;
    while (connection.Receive(byte, kPatience).ok()) ++count;
    return count;
  }

  const PeerTlsRules rules_{PeerSide::kConsumer};
  const TransferSecret secret_ = TransferSecret::Random();
  std::atomic<std::int64_t> source_clock_ = 0;  // seconds after kNow
  std::uint64_t last_id_ = 0;
};

// ---- two ends that agree ----

TEST_F(EncryptedPeersTest, AChainComesUnderATicket) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Fetch(Ticket()), HoldOutcome::kMissing);
    EXPECT_EQ(arrived_.frames[last_id_], 40U);
  }
  EXPECT_EQ(server_->counts().served_bytes, 3 * 40 * kTestSizes.frame_bytes());
}

TEST_F(EncryptedPeersTest, TheLongestNameHasATicket) {
  const std::string name(wire::WireLimits::kMaxWorkerIdBytes, 'w');
  MakePeers(TransferAccess::kTicketsOnly, name);
  EXPECT_EQ(Fetch(Ticket(name)), HoldOutcome::kMissing);
  EXPECT_EQ(arrived_.frames[last_id_], 40U);
}

TEST_F(EncryptedPeersTest, NothingOfABlockTravelsInTheClear) {
  const auto shows = [this](Relay& relay) {
    const std::string sent = relay.passed(Direction::kToSource) + relay.passed(Direction::kToConsumer);
    const auto holds = [&sent](const auto& bytes) {
      return sent.find(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size_bytes())) !=
             std::string::npos;
    };
    const FrameBuffer frame = FrameOf(chain_, 3);
    return std::array<bool, 4>{holds(std::span(chain_.chain.hashes).subspan(3, 1)), holds(chain_.TokensAt(3)),
                               holds(frame.data().first(32)), holds(Ticket().key().bytes())};
  };
  {
    Relay relay(server_->address());
    EXPECT_EQ(Fetch(Ticket(), relay.address()), HoldOutcome::kMissing);
    EXPECT_GT(relay.passed(Direction::kToConsumer).size(), 40 * kTestSizes.frame_bytes());
    EXPECT_EQ(shows(relay), (std::array<bool, 4>{}));
  }
  StartServer(TransferAccess::kLoopback);
  MakePeers(TransferAccess::kLoopback);
  Relay relay(server_->address());
  EXPECT_EQ(Fetch(std::nullopt, relay.address()), HoldOutcome::kMissing);
  EXPECT_EQ(shows(relay), (std::array<bool, 4>{true, true, true, false}));
}

TEST_F(EncryptedPeersTest, AWorkerWithoutKeysUsesATicketTheSame) {
  MakePeers(TransferAccess::kLoopback);
  EXPECT_EQ(Fetch(Ticket()), HoldOutcome::kMissing);
  EXPECT_EQ(arrived_.frames[last_id_], 40U);
}

// Counts the messages that announce a new key; see SSL_CTX_set_msg_callback.
void CountKeyUpdates(int /*is_write*/, int /*version*/, int kind, const void* bytes, std::size_t size, SSL* /*session*/,
                     void* count) {
  if (kind != SSL3_RT_HANDSHAKE || size == 0 || *static_cast<const unsigned char*>(bytes) != SSL3_MT_KEY_UPDATE) return;
  ++*static_cast<std::atomic<int>*>(count);
}

TEST(PeerTlsTest, MoreBytesThanOneKeyMayProtectComeUnderTwo) {
  const TransferSecret secret = TransferSecret::Random();
  const wire::Descriptor listener = wire::Listen({"127.0.0.1", 0}).value();
  PeerConnection consumer = PeerConnection::Connect(wire::BoundTo(listener, {"127.0.0.1", 0})).value();
  PeerConnection source{wire::Descriptor(::accept(listener.get(), nullptr, nullptr))};
  const PeerTlsRules source_rules(PeerSide::kSource);
  const PeerTlsRules consumer_rules(PeerSide::kConsumer);
  std::atomic<int> key_updates = 0;
  SSL_CTX_set_msg_callback(consumer_rules.get(), &CountKeyUpdates);
  SSL_CTX_set_msg_callback_arg(consumer_rules.get(), &key_updates);
  constexpr std::size_t kPiece = std::size_t{1} << 20U;
  constexpr std::size_t kPieces = kTlsKeyBytes / kPiece + 16;
  std::thread sender([&] {
    ASSERT_TRUE(source.AwaitTicket(source_rules, secret, kNow).ok());
    std::vector<std::byte> piece(kPiece);
    for (std::size_t i = 0; i < kPieces; ++i) {
      piece.front() = piece.back() = static_cast<std::byte>(i);
      ASSERT_TRUE(source.Send(piece, {}).ok());
    }
  });
  EXPECT_TRUE(consumer.ShowTicket(consumer_rules, "b", wire::MintTicket(secret, "b", kNow)).ok());
  std::vector<std::byte> piece(kPiece);
  for (std::size_t i = 0; i < kPieces; ++i) {
    ASSERT_TRUE(consumer.Receive(piece, kPatience).ok()) << i;
    ASSERT_TRUE(piece.front() == static_cast<std::byte>(i) && piece.back() == piece.front()) << i;
    const bool may_have_one = (i + 1) * kPiece > kTlsKeyBytes;
    ASSERT_TRUE(may_have_one || key_updates == 0) << i;
  }
  sender.join();
  EXPECT_EQ(key_updates, 1);
}

// ---- tickets that do not fit ----

TEST_F(EncryptedPeersTest, ATicketOfAnotherSecretIsRefused) {
  EXPECT_EQ(Fetch(wire::MintTicket(TransferSecret::Random(), "b", kNow)), HoldOutcome::kBroken);
  ExpectRefused(wire::FetchRefusal::kTicket, 1);
  EXPECT_EQ(arrived_.frames[last_id_], 0U);
}

TEST_F(EncryptedPeersTest, ATicketOfAnotherConsumerIsRefused) {
  EXPECT_EQ(Fetch(Ticket("c")), HoldOutcome::kBroken);
  ExpectRefused(wire::FetchRefusal::kTicket, 1);
}

TEST_F(EncryptedPeersTest, ATicketWithAnotherExpiryIsRefused) {
  EXPECT_EQ(Fetch(TransferTicket(kNow + minutes(9), Ticket().key())), HoldOutcome::kBroken);
  ExpectRefused(wire::FetchRefusal::kTicket, 1);
}

TEST_F(EncryptedPeersTest, ClocksMayDifferByFiveMinutes) {
  std::uint64_t refused = 0;
  const auto try_at = [&](minutes source_clock, bool is_right) {
    MakePeers(TransferAccess::kTicketsOnly);
    source_clock_ = seconds(source_clock).count();
    EXPECT_EQ(Fetch(Ticket()), is_right ? HoldOutcome::kMissing : HoldOutcome::kBroken) << source_clock.count();
    if (!is_right) ExpectRefused(wire::FetchRefusal::kTicket, ++refused);
  };
  // A new ticket, at a source whose clock is behind.
  try_at(minutes(-4), true);
  try_at(minutes(-6), false);
  // One that ends now, at a source whose clock is ahead.
  try_at(minutes(10 + 4), true);
  try_at(minutes(10 + 6), false);
}

TEST_F(EncryptedPeersTest, AnOpenConnectionEndsWithItsTicket) {
  EXPECT_EQ(Fetch(Ticket()), HoldOutcome::kMissing);
  source_clock_ = seconds(minutes(15)).count();
  EXPECT_EQ(Fetch(Ticket()), HoldOutcome::kMissing);
  source_clock_ = seconds(minutes(15)).count() + 1;
  EXPECT_EQ(Fetch(Ticket()), HoldOutcome::kBroken);
  ExpectRefused(wire::FetchRefusal::kTicket, 1);
}

TEST_F(EncryptedPeersTest, AFetchEndsWithItsTicketToo) {
  std::atomic<int> read_count = 0;
  from_.reader->during_read = [&] {
    if (++read_count == 10) source_clock_ = seconds(minutes(15)).count() + 1;
  };
  EXPECT_EQ(Fetch(Ticket()), HoldOutcome::kBroken);
  EXPECT_EQ(arrived_.frames[last_id_], 10U) << "with the frame under way";
  ExpectRefused(wire::FetchRefusal::kTicket, 1);
}

// Without a next fetch.
TEST_F(EncryptedPeersTest, SoDoesOneThatWaits) {
  source_clock_ = seconds(minutes(15)).count() - 1;
  PeerConnection connection = Admitted("b");
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(CountUntilEnd(connection), 0U);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kPatience);
}

TEST_F(EncryptedPeersTest, OneTicketDoesNotTakeAllPlaces) {
  const PeerConnection other = Admitted("c");
  std::list<PeerConnection> open;
  for (std::size_t i = 0; i < 12; ++i) {
    open.push_back(Admitted("b"));
    FetchNothing(open.back());
    if (open.size() <= MostServedOfOne(kDefaultReaders)) continue;
    EXPECT_EQ(CountUntilEnd(open.front()), 0U) << "the oldest makes room";
    open.pop_front();
    for (const PeerConnection& goes_on : open) EXPECT_FALSE(goes_on.HasInput());
  }
  EXPECT_FALSE(other.HasInput());
}

// One that has had no fetch yet is about to have one.
TEST_F(EncryptedPeersTest, ConnectionsWithoutAFirstFetchAreKeptAndTheNextIsToldBusy) {
  std::list<PeerConnection> open;
  for (std::size_t i = 0; i < MostServedOfOne(kDefaultReaders); ++i) open.push_back(Admitted("b"));
  EXPECT_EQ(Fetch(Ticket()), HoldOutcome::kBusy);
  ExpectRefused(wire::FetchRefusal::kBusy, 1);
  for (PeerConnection& each : open) FetchNothing(each);
}

TEST_F(EncryptedPeersTest, AFollowedFetchMoreThanOneConsumersPlacesIsBusyAndBreaksNoOther) {
  const auto follow_next = [&] {
    FrameChain chain = chain_.chain;
    chain.hashes.resize(41 + ++last_id_);  // more than those before it, so that it joins none
    peers_->Ask({.id = HoldId(last_id_),
                 .chain = std::move(chain),
                 .peer = {"a", server_->address()},
                 .ticket = Ticket(),
                 .follow = minutes(1)});
  };
  constexpr std::size_t kPlaces = MostServedOfOne(kDefaultReaders);
  static_assert(kPlaces < kMaxFollowed);
  for (std::size_t i = 0; i < kPlaces; ++i) {
    follow_next();
    arrived_.AwaitFrames(last_id_, 40);
  }
  follow_next();
  EXPECT_EQ(arrived_.EndOf(last_id_), HoldOutcome::kBusy);
  ExpectRefused(wire::FetchRefusal::kBusy, 1);
  for (std::uint32_t i = 40; i < 50; ++i) from_.Put(chain_, i, i);
  for (std::uint64_t id = 1; id <= kPlaces; ++id) EXPECT_EQ(arrived_.EndOf(id), HoldOutcome::kComplete) << id;
  EXPECT_EQ(Fetch(Ticket()), HoldOutcome::kComplete) << "on a connection whose fetch has ended";
}

TEST_F(EncryptedPeersTest, AConsumerDialsAgainLongBeforeThat) {
  Relay relay(server_->address());
  const auto count_handshakes = [&] {
    const std::string sent = relay.passed(Direction::kToSource);
    std::size_t count = 0;
    const std::string identity = wire::EncodeIdentity({.consumer = "b", .expiry = Ticket().expiry()});
    for (std::size_t at = sent.find(identity); at != std::string::npos; at = sent.find(identity, at + 1)) ++count;
    return count;
  };
  EXPECT_EQ(Fetch(Ticket(), relay.address()), HoldOutcome::kMissing);
  clock_.Advance(kPeerConnectionAge);
  EXPECT_EQ(Fetch(Ticket(), relay.address()), HoldOutcome::kMissing);
  EXPECT_EQ(count_handshakes(), 1U);
  clock_.Advance(seconds(1));
  EXPECT_EQ(Fetch(Ticket(), relay.address()), HoldOutcome::kMissing);
  EXPECT_EQ(count_handshakes(), 2U);
}

// ---- ends that speak differently ----

TEST_F(EncryptedPeersTest, APlainConsumerIsRefused) {
  MakePeers(TransferAccess::kLoopback);
  EXPECT_EQ(Fetch(std::nullopt), HoldOutcome::kBroken);
  ExpectRefused(wire::FetchRefusal::kHandshake, 1);
  ExpectServes();
}

TEST_F(EncryptedPeersTest, APlainSourceIsRefused) {
  StartServer(TransferAccess::kLoopback);
  EXPECT_EQ(Fetch(Ticket()), HoldOutcome::kBroken);
  ExpectRefused(wire::FetchRefusal::kHandshake, 1);
}

TEST_F(EncryptedPeersTest, AWorkerWithKeysDialsNobodyWithoutATicket) {
  Relay relay(server_->address());
  EXPECT_EQ(Fetch(std::nullopt, relay.address()), HoldOutcome::kBroken);
  EXPECT_EQ(relay.passed(Direction::kToSource), "");
}

// The key of a ticket alone makes a source, no certificate does.
TEST_F(EncryptedPeersTest, ASourceWithACertificateIsRefused) {
  EVP_PKEY* const key = EVP_EC_gen("P-256");
  X509* const certificate = X509_new();
  X509_set_version(certificate, X509_VERSION_3);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
  X509_set_pubkey(certificate, key);
  ASSERT_GT(X509_sign(certificate, key, EVP_sha256()), 0);
  SSL_CTX* const context = SSL_CTX_new(TLS_server_method());
  ASSERT_EQ(SSL_CTX_use_certificate(context, certificate), 1);
  ASSERT_EQ(SSL_CTX_use_PrivateKey(context, key), 1);
  const wire::Descriptor listener = wire::Listen({"127.0.0.1", 0}).value();
  std::thread source([&] {
    pollfd poll{.fd = listener.get(), .events = POLLIN, .revents = 0};
    (void)::poll(&poll, 1, 10'000);
    const wire::Descriptor socket(::accept(listener.get(), nullptr, nullptr));
    SSL* const session = SSL_new(context);
    SSL_set_fd(session, socket.get());
    EXPECT_NE(SSL_accept(session), 1);
    SSL_free(session);
  });
  EXPECT_EQ(Fetch(Ticket(), "127.0.0.1:" + std::to_string(wire::BoundTo(listener, {"127.0.0.1", 0}).port)),
            HoldOutcome::kBroken);
  source.join();
  SSL_CTX_free(context);
  X509_free(certificate);
  EVP_PKEY_free(key);
}

// ---- strangers ----

// A consumer gives up after kPeerHandshakeTime, which is as long as the strangers would keep their places.
TEST_F(EncryptedPeersTest, SilentStrangersKeepNoWorkerOut) {
  std::vector<PeerConnection> silent;
  for (std::size_t i = 0; i < kMaxHandshakes + 1; ++i) silent.push_back(Dial());
  ExpectServes();
  for (PeerConnection& connection : silent) EXPECT_EQ(CountUntilEnd(connection), 0U);
  ExpectRefused(wire::FetchRefusal::kHandshake, kMaxHandshakes + 1);
  ExpectServes();
}

TEST_F(EncryptedPeersTest, AHandshakeByteByByteEndsInTimeToo) {
  PeerConnection connection = Dial();
  const auto begin = std::chrono::steady_clock::now();
  const std::string record("\x16\x03\x01\x02\x00\x01\x00\x01\xFC\x03\x03", 11);
  std::array<std::byte, 1> byte{};
  bool has_ended = false;
  for (std::size_t i = 0; !has_ended && i < 100; ++i) {
    byte[0] = static_cast<std::byte>(i < record.size() ? record[i] : 'x');
    has_ended = !connection.Send(byte, {}).ok();
    // Waits for an answer, which does not come.
    const Result<void> received = connection.Receive(byte, std::chrono::milliseconds(250));
    has_ended = has_ended || (!received.ok() && received.error().message == "the connection ended");
  }
  EXPECT_TRUE(has_ended);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, kPeerHandshakeTime - std::chrono::milliseconds(100));
  ExpectRefused(wire::FetchRefusal::kHandshake, 1);
}

TEST_F(EncryptedPeersTest, GarbageEndsItsConnectionAlone) {
  Rng rng(1);
  for (std::size_t round = 0; round < 60; ++round) {
    PeerConnection connection = Dial();
    wire::Bytes bytes;
    // The beginning of a ClientHello, or of a record of another kind.
    if (round % 3 == 1)
      bytes = {std::byte{0x16}, std::byte{3}, std::byte{1}, std::byte{0}, std::byte{200}, std::byte{1}};
    if (round % 3 == 2) bytes = {std::byte{0x17}, std::byte{3}, std::byte{3}, std::byte{0}, std::byte{200}};
    for (int i = 0; i < 300; ++i) bytes.push_back(static_cast<std::byte>(rng.Below(256)));
    (void)connection.Send(bytes, {});
    EXPECT_LE(CountUntilEnd(connection), 7U) << "more than an alert";
  }
  ExpectRefused(wire::FetchRefusal::kHandshake, 60);
  ExpectServes();
}

TEST_F(EncryptedPeersTest, AHandshakeThatIsCutAnywhereBreaks) {
  std::array<std::size_t, 2> shaken{};
  {
    Relay whole(server_->address());
    FrameChain none = chain_.chain;
    none.tenant = 1;
    peers_->Ask({.id = HoldId(++last_id_), .chain = none, .peer = {"a", whole.address()}, .ticket = Ticket()});
    EXPECT_EQ(arrived_.EndOf(last_id_), HoldOutcome::kMissing);
    shaken = {whole.passed(Direction::kToSource).size(), whole.passed(Direction::kToConsumer).size()};
  }
  for (const Direction direction : {Direction::kToSource, Direction::kToConsumer}) {
    const std::size_t size = shaken[static_cast<std::size_t>(direction)];
    ASSERT_GT(size, 100U);
    for (std::size_t bytes = 0; bytes < size; bytes += size / 13) {
      Relay relay(server_->address());
      relay.CutAfter(direction, bytes);
      EXPECT_EQ(Fetch(Ticket(), relay.address()), HoldOutcome::kBroken) << bytes << " of " << size;
      EXPECT_EQ(arrived_.frames[last_id_], 0U);
    }
  }
  EXPECT_EQ(server_->counts().refused[static_cast<std::size_t>(wire::FetchRefusal::kTicket)], 0U);
  ExpectServes();
}

TEST_F(EncryptedPeersTest, MoreConnectionsThanTheLimitAreToldBusy) {
  std::vector<PeerConnection> open;
  const auto is_welcome = [&] {
    PeerConnection& connection = open.emplace_back(Dial());
    const std::string consumer = "c" + std::to_string(open.size());
    EXPECT_TRUE(connection.ShowTicket(rules_, consumer, Ticket(consumer)).ok());
    EXPECT_TRUE(connection.Send(HelloTo("a")).ok());
    const PartHead head = connection.ReceiveHead(kTestSizes.frame_bytes(), kPatience).value();
    const wire::PeerMessage answer = connection.ReceiveMessage(head).value();
    EXPECT_NE(std::holds_alternative<wire::PeerWelcome>(answer), std::holds_alternative<wire::PeerRefused>(answer));
    return std::holds_alternative<wire::PeerWelcome>(answer);
  };
  for (std::size_t i = 0; i < kDefaultReaders + kServedBeside; ++i) ASSERT_TRUE(is_welcome()) << i;
  EXPECT_FALSE(is_welcome());
  ExpectRefused(wire::FetchRefusal::kBusy, 1);
  EXPECT_EQ(Fetch(Ticket()), HoldOutcome::kBusy);
  open.clear();
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (Fetch(Ticket()) != HoldOutcome::kMissing && std::chrono::steady_clock::now() < end) {
  }
  EXPECT_EQ(arrived_.frames[last_id_], 40U);
}

}  // namespace
}  // namespace roost::worker
