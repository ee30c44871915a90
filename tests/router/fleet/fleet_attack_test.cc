// Attacks with a copy of a worker's hello: a peer takes its name (squat), answers its requests (forge) or leaves them
// without an answer (black hole), and tells the router of blocks that are not there (poison). Without keys all of it
// works, which shows that these attacks are real; with keys none does.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "router/fleet/core/fleet.h"
#include "tests/router/fleet/fleet_sim.h"
#include "tests/router/fleet/socket_worker.h"
#include "tests/router/fleet/waiting.h"

namespace roost::router {
namespace {

constexpr std::uint64_t kVictimSeed = 1;
constexpr std::uint32_t kInventedBlocks = 1000;
constexpr TokenId kForgedToken = 666;

enum class Answers { kForged, kNone };

// Says a hello again and again, so that it never counts as silent. Once welcomed it tells of invented blocks, and gives
// requests forged answers or none.
class Attacker {
 public:
  Attacker(std::string endpoint, wire::Hello hello, std::optional<wire::ClientKeys> keys, Answers answers)
      : endpoint_(std::move(endpoint)), hello_(std::move(hello)), keys_(std::move(keys)), answers_(answers) {
    thread_ = std::thread([this] { Run(); });
  }
  ~Attacker() {
    stopping_ = true;
    waker_.Wake();
    thread_.join();
  }

  [[nodiscard]] bool is_welcomed() const { return is_welcomed_; }
  [[nodiscard]] int requests() const { return requests_; }
  [[nodiscard]] int refusals() const { return refusals_; }
  // Messages that only a worker should get, and handshakes that failed.
  [[nodiscard]] int secrets() const { return secrets_; }
  [[nodiscard]] int failed_handshakes() const { return failed_handshakes_; }

 private:
  void Run() {
    wire::Context context;
    wire::DealerSocket socket = wire::DealerSocket::Connect(context, endpoint_, keys_).value();
    const std::array<const wire::Socket*, 1> sockets{&socket};
    while (!stopping_) {
      Send(socket, hello_);
      wire::WaitForMessages(sockets, waker_, std::chrono::milliseconds(20));
      while (const std::optional<wire::Bytes> frame = socket.TryReceive()) {
        Take(socket, *wire::DecodeRouterMessage(*frame).value());
      }
      if (socket.TakeHandshakeFailure().has_value()) ++failed_handshakes_;
    }
  }

  void Take(wire::DealerSocket& socket, const wire::RouterMessage& message) {
    if (std::holds_alternative<wire::Refused>(message)) {
      ++refusals_;
      return;
    }
    if (!std::holds_alternative<wire::WantHello>(message)) ++secrets_;
    if (std::holds_alternative<wire::Welcome>(message) && !is_welcomed_.exchange(true)) Poison(socket);
    if (std::holds_alternative<wire::WantTokenizer>(message)) {
      Send(socket, wire::Tokenizer{hello_.tokenizer_digest, "{}", "", "", ""});
    }
    const auto* const request = std::get_if<wire::Generate>(&message);
    if (request == nullptr) return;
    ++requests_;
    if (answers_ == Answers::kForged) Forge(socket, *request);
  }

  void Poison(wire::DealerSocket& socket) {
    wire::Snapshot snapshot;
    snapshot.epoch = hello_.epoch;
    snapshot.sequence = ++sequence_;
    snapshot.last = true;
    snapshot.runs.resize(1);
    Rng rng(3);
    for (std::uint32_t i = 0; i < kInventedBlocks; ++i) snapshot.runs[0].hashes.push_back({rng(), rng()});
    Send(socket, std::move(snapshot));
  }

  void Forge(wire::DealerSocket& socket, const wire::Generate& request) {
    wire::Step step;
    step.epoch = hello_.epoch;
    step.sequence = ++sequence_;
    wire::TokenEvent event;
    event.request_id = request.request_id;
    event.tokens = {kForgedToken};
    event.finish = wire::FinishReason::kLength;
    step.tokens.push_back(std::move(event));
    Send(socket, std::move(step));
  }

  static void Send(wire::DealerSocket& socket, const wire::WorkerMessage& message) {
    static_cast<void>(socket.Send(wire::Encode(message)));
  }

  const std::string endpoint_;
  const wire::Hello hello_;
  const std::optional<wire::ClientKeys> keys_;
  const Answers answers_;
  wire::Waker waker_;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> is_welcomed_ = false;
  std::atomic<int> requests_ = 0;
  std::atomic<int> refusals_ = 0;
  std::atomic<int> secrets_ = 0;
  std::atomic<int> failed_handshakes_ = 0;
  std::uint64_t sequence_ = 0;
  std::thread thread_;
};

struct FleetAttackTest : ::testing::Test {
  struct RefusalCounts final : FleetMetrics {
    void OnPeerRefused(wire::PeerRefusal refusal) override { ++counts[IndexOf(refusal)]; }
    std::array<std::atomic<int>, wire::kPeerRefusalNames.size()> counts{};
  };

  const SteadyClock clock{};
  const wire::LinkKeyPair router_key = wire::MakeLinkKeyPair();
  const wire::LinkKeyPair w1 = wire::MakeLinkKeyPair();
  const wire::LinkKeyPair w2 = wire::MakeLinkKeyPair();
  RefusalCounts refused;
  std::unique_ptr<Fleet> fleet;

  void StartFleet() { Start(std::nullopt); }
  void StartProtectedFleet() {
    const std::string peers = wire::LinkPeerLine({w1.public_key, {"w1"}, {"demo"}}) + "\n" +
                              wire::LinkPeerLine({w2.public_key, {"w2"}, {"demo"}}) + "\n";
    auto guard =
        std::make_shared<wire::LinkGuard>(wire::LinkPeers::Parse(peers, "peers", wire::PeersOf::kRouter).value(), clock,
                                          [this](wire::PeerRefusal refusal) { refused.OnPeerRefused(refusal); });
    Start(wire::ServerKeys{router_key, std::move(guard)});
  }
  void Start(std::optional<wire::ServerKeys> keys) {
    FleetOptions options;
    options.bind = "tcp://127.0.0.1:0";
    options.link_keys = std::move(keys);
    const auto read = [](const wire::Tokenizer&) -> Result<TextBundle> { return TextBundle{}; };
    fleet = std::move(Fleet::Start(options, read, refused)).value();
  }

  // Byte for byte what the victim says.
  static wire::Hello CopiedHello() { return FakeWorker("w1", kVictimSeed).hello(); }
  [[nodiscard]] wire::ClientKeys As(const wire::LinkKeyPair& own) const { return {own, router_key.public_key}; }
  [[nodiscard]] int Refused(wire::PeerRefusal refusal) const { return refused.counts[IndexOf(refusal)]; }

  [[nodiscard]] bool IsReady() const {
    const std::vector<WorkerStatus> workers = fleet->View()->workers;
    return workers.size() == 1 && workers[0].ready && workers[0].index_in_sync;
  }
  Result<RequestId> Submit(const std::vector<TokenId>& prompt, std::shared_ptr<GenerationObserver> observer) const {
    GenerateSpec spec;
    spec.model = fleet->View()->models->Main("demo");
    if (spec.model == nullptr) return Error{ErrorCode::kNotFound, "no such model", "model"};
    spec.generate.prompt = prompt;
    spec.generate.root = RootHash({});
    spec.generate.block_hashes = BlocksOf(prompt);
    spec.generate.max_output_tokens = 20;
    return fleet->Submit(std::move(spec), std::move(observer));
  }

  // A worker with the victim's key serves as if there were no attacker, and the router holds its blocks alone.
  void ExpectTheVictimServes() {
    ASSERT_TRUE(Eventually([this] { return IsReady(); }));
    for (TokenId seed = 1; seed <= 5; ++seed) {
      const std::vector<TokenId> prompt = MakePrompt(seed, 40);
      const auto observer = std::make_shared<WaitingObserver>();
      ASSERT_TRUE(Submit(prompt, observer).ok());
      EXPECT_FALSE(observer->WaitForEnd().error.has_value());
      EXPECT_EQ(observer->tokens(), ExpectedOutput(prompt, 20));
    }
    ASSERT_EQ(fleet->View()->workers.size(), 1U);
    EXPECT_EQ(fleet->View()->workers[0].worker_id, "w1");
    EXPECT_LT(fleet->View()->workers[0].indexed_block_count, kInventedBlocks);
  }

  void ExpectGotNothing(const Attacker& attacker) {
    EXPECT_FALSE(attacker.is_welcomed());
    EXPECT_EQ(attacker.secrets(), 0);
  }
};

TEST_F(FleetAttackTest, WithoutKeysACopiedHelloHasTheNameTheRequestsAndTheIndex) {
  StartFleet();
  const Attacker attacker(fleet->endpoint(), CopiedHello(), std::nullopt, Answers::kForged);
  ASSERT_TRUE(Eventually([this] { return IsReady(); }));
  EXPECT_TRUE(Eventually([this] { return fleet->View()->workers[0].indexed_block_count == kInventedBlocks; }))
      << "poison";
  const auto observer = std::make_shared<WaitingObserver>();
  ASSERT_TRUE(Eventually([&] { return Submit(MakePrompt(1, 40), observer).ok(); }));
  static_cast<void>(observer->WaitForEnd());
  EXPECT_EQ(observer->tokens(), std::vector<TokenId>{kForgedToken}) << "forge";
  // Another process of that name, as the real worker is.
  const SocketWorker victim(fleet->endpoint(), "w1", kVictimSeed + 1);
  EXPECT_TRUE(Eventually([&] { return victim.refusal_count() > 0; })) << "squat";
}

TEST_F(FleetAttackTest, WithoutKeysRequestsDisappearInABlackHole) {
  StartFleet();
  const Attacker attacker(fleet->endpoint(), CopiedHello(), std::nullopt, Answers::kNone);
  ASSERT_TRUE(Eventually([this] { return IsReady(); }));
  ASSERT_TRUE(Submit(MakePrompt(1, 40), std::make_shared<WaitingObserver>()).ok());
  EXPECT_TRUE(Eventually([&] { return attacker.requests() == 1; }));
}

TEST_F(FleetAttackTest, WhoHasNoKeyGetsNothing) {
  StartProtectedFleet();
  const Attacker attacker(fleet->endpoint(), CopiedHello(), std::nullopt, Answers::kForged);
  ASSERT_TRUE(Eventually([&] { return Refused(wire::PeerRefusal::kMechanism) > 0; }));
  const SocketWorker victim(fleet->endpoint(), "w1", kVictimSeed, kUnlimited, As(w1));
  ExpectTheVictimServes();
  ExpectGotNothing(attacker);
}

TEST_F(FleetAttackTest, WhoHasAKeyThatNobodyKnowsGetsNothing) {
  StartProtectedFleet();
  const Attacker attacker(fleet->endpoint(), CopiedHello(), As(wire::MakeLinkKeyPair()), Answers::kForged);
  ASSERT_TRUE(Eventually([&] { return Refused(wire::PeerRefusal::kUnknownKey) > 0; }));
  const SocketWorker victim(fleet->endpoint(), "w1", kVictimSeed, kUnlimited, As(w1));
  ExpectTheVictimServes();
  ExpectGotNothing(attacker);
  EXPECT_TRUE(Eventually([&] { return attacker.failed_handshakes() > 0; }));
}

TEST_F(FleetAttackTest, AnotherWorkersKeyTakesNoName) {
  StartProtectedFleet();
  // Before the victim is there, and while it is.
  const Attacker attacker(fleet->endpoint(), CopiedHello(), As(w2), Answers::kForged);
  ASSERT_TRUE(Eventually([&] { return attacker.refusals() > 0; }));
  EXPECT_TRUE(fleet->View()->workers.empty());
  const SocketWorker victim(fleet->endpoint(), "w1", kVictimSeed, kUnlimited, As(w1));
  ASSERT_TRUE(Eventually([this] { return IsReady(); }));
  const int before = attacker.refusals();
  ASSERT_TRUE(Eventually([&] { return attacker.refusals() > before; }));
  ExpectTheVictimServes();
  ExpectGotNothing(attacker);
  EXPECT_GT(Refused(wire::PeerRefusal::kName), 0);
}

TEST_F(FleetAttackTest, AKeyServesNoOtherModelThanItsOwn) {
  StartProtectedFleet();
  wire::Hello hello = FakeWorker("w2", 7).hello();
  hello.model = "another";
  const Attacker attacker(fleet->endpoint(), hello, As(w2), Answers::kNone);
  ASSERT_TRUE(Eventually([&] { return attacker.refusals() > 0; }));
  EXPECT_EQ(fleet->View()->models->Main("another"), nullptr);
  ExpectGotNothing(attacker);
}

}  // namespace
}  // namespace roost::router
