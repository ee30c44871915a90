// Blocks over loopback: a server of one worker's blocks, and another worker that asks for them; and peers that do
// wrong.
#include "worker/transfer/peers.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <thread>

#include "tests/worker/transfer/arrived.h"
#include "tests/worker/transfer/pool_blocks.h"
#include "worker/transfer/block_server.h"

namespace roost::worker {
namespace {

using wire::HoldCause;
using wire::HoldOutcome;

class PeersTest : public TransferTest {
 protected:
  void SetUp() override {
    TransferTest::SetUp();
    server_ =
        BlockServer::Start(*from_.blocks, {.worker_id = "a", .layout = kLayout, .address = {"127.0.0.1", 0}}).value();
    MakePeers(kLayout, 8);
  }
  void MakePeers(PeerLayout layout, std::size_t frame_limit) {
    peers_.reset();
    memory_ = std::make_shared<FrameMemory>(kTestSizes, frame_limit);
    peers_ = std::make_unique<Peers>(arrived_.inbox, *to_.blocks, memory_,
                                     PeersOptions{.worker_id = "b", .layout = layout}, clock_);
  }

  void Ask(std::uint64_t id, FrameChain chain, const std::string& name = "a") {
    peers_->Ask({.id = HoldId(id), .chain = std::move(chain), .peer = {name, server_->address()}});
  }
};

TEST_F(PeersTest, AChainComesFrontToBackAsFarAsItIsThere) {
  Ask(1, chain_.chain);
  EXPECT_EQ(arrived_.EndOf(1), HoldOutcome::kMissing);
  EXPECT_EQ(arrived_.frames[1], 40U);
  EXPECT_EQ(server_->counts().served_bytes, 40 * kTestSizes.frame_bytes());
}

TEST_F(PeersTest, WhatIsHeldIsNotAskedFor) {
  for (std::uint32_t i = 0; i < 15; ++i) to_.Put(chain_, i, i);
  arrived_.firsts[1] = 15;
  FrameChain there = chain_.chain;
  there.hashes.resize(40);
  Ask(1, there);
  EXPECT_EQ(arrived_.EndOf(1), HoldOutcome::kComplete);
  EXPECT_EQ(arrived_.frames[1], 25U);
  for (std::uint32_t i = 15; i < 40; ++i) to_.Put(chain_, i, i);
  Ask(2, there);
  EXPECT_EQ(arrived_.EndOf(2), HoldOutcome::kComplete);
  EXPECT_EQ(arrived_.frames[2], 0U);
}

TEST_F(PeersTest, AnAddressBeyondLoopbackIsNotDialled) {
  // The system takes this address for the host itself.
  server_ = BlockServer::Start(*from_.blocks, {.worker_id = "a", .layout = kLayout, .address = {"0.0.0.0", 0}}).value();
  Ask(1, chain_.chain);
  EXPECT_EQ(arrived_.EndOf(1), HoldOutcome::kBroken);
  EXPECT_EQ(arrived_.frames[1], 0U);
}

TEST_F(PeersTest, OneConnectionServesOneFetchAfterTheOther) {
  for (std::uint64_t id = 1; id <= 20; ++id) {
    FrameChain part = chain_.chain;
    part.hashes.resize(id);
    Ask(id, part);
    EXPECT_EQ(arrived_.EndOf(id), HoldOutcome::kComplete);
    EXPECT_EQ(arrived_.frames[id], id);
  }
}

TEST_F(PeersTest, MemoryThatIsFullHoldsTheSourceBack) {
  arrived_.keeps = true;
  MakePeers(kLayout, 3);
  Ask(1, chain_.chain);
  arrived_.AwaitFrames(1, 3);
  EXPECT_EQ(memory_->used(), 3U);
  EXPECT_FALSE(arrived_.ends.contains(1));
  for (std::size_t count = 4; count <= 40; ++count) {
    arrived_.kept.erase(arrived_.kept.begin());
    arrived_.AwaitFrames(1, count);
    EXPECT_LE(memory_->used(), 3U);
  }
  EXPECT_EQ(arrived_.EndOf(1), HoldOutcome::kMissing);
}

// Asked for and not come, of both sides: in the end there is nothing, however it ends.
TEST_F(PeersTest, BytesOnTheirWayAreTheBlocksThatHaveNotCome) {
  for (std::uint32_t i = 0; i < 15; ++i) to_.Put(chain_, i, i);
  arrived_.firsts[1] = 15;
  arrived_.keeps = true;
  MakePeers(kLayout, 3);
  Ask(1, chain_.chain);
  arrived_.AwaitFrames(1, 3);
  const std::size_t frame = kTestSizes.frame_bytes();
  EXPECT_EQ(peers_->awaited_bytes(), 32 * frame);
  // The source sends on as far as the sockets take it, and to the end of what it has; the last may be here before it is
  // counted there.
  EXPECT_LE(server_->counts().leaving_bytes, 33 * frame);
  FrameChain other = chain_.chain;
  other.hashes.resize(20);
  Ask(2, other);
  EXPECT_EQ(peers_->awaited_bytes(), 32 * frame) << "it joins the first";
  other.tenant = TenantHash("other");
  Ask(3, other);
  EXPECT_EQ(peers_->awaited_bytes(), 52 * frame);
  peers_->Cancel(HoldId(1));
  EXPECT_EQ(arrived_.EndOf(1), HoldOutcome::kCancelled);
  EXPECT_EQ(arrived_.EndOf(3), HoldOutcome::kMissing);
  ExpectNothingOnItsWay();
}

TEST_F(PeersTest, ABrokenFetchLeavesNoBytesOnTheirWay) {
  std::atomic<int> read_count = 0;
  std::atomic<bool> third_is_sent = false;
  std::atomic<bool> may_go_on = false;
  from_.reader->during_read = [&] {
    if (++read_count != 4) return;
    third_is_sent = true;
    third_is_sent.notify_all();
    may_go_on.wait(false);
  };
  Ask(1, chain_.chain);
  arrived_.AwaitFrames(1, 3);
  third_is_sent.wait(false);
  EXPECT_EQ(peers_->awaited_bytes(), 47 * kTestSizes.frame_bytes());
  EXPECT_EQ(server_->counts().leaving_bytes, 47 * kTestSizes.frame_bytes());
  peers_->Stop();
  may_go_on = true;
  may_go_on.notify_all();
  EXPECT_EQ(arrived_.EndOf(1), HoldOutcome::kCancelled);
  server_->Stop();
  ExpectNothingOnItsWay();
}

TEST_F(PeersTest, ARequestForTheSameBlocksJoinsAndACancelledOneEnds) {
  arrived_.keeps = true;
  MakePeers(kLayout, 2);
  Ask(1, chain_.chain);
  arrived_.AwaitFrames(1, 2);
  FrameChain part = chain_.chain;
  part.hashes.resize(5);
  Ask(2, part);
  peers_->Cancel(HoldId(1));
  EXPECT_EQ(arrived_.EndOf(1), HoldOutcome::kCancelled);
  EXPECT_EQ(arrived_.joins[2], 1U);
  EXPECT_FALSE(arrived_.ends.contains(2));
  // The connection goes on.
  arrived_.keeps = false;
  arrived_.kept.clear();
  part.hashes.resize(4);
  Ask(4, part);
  EXPECT_EQ(arrived_.EndOf(4), HoldOutcome::kComplete);
}

TEST_F(PeersTest, AnotherLayoutNameOrPlaceIsRefused) {
  MakePeers({.layout = 1, .numerics = 88}, 8);
  Ask(1, chain_.chain);
  EXPECT_EQ(arrived_.EndOf(1), HoldOutcome::kBroken);
  MakePeers({.layout = 77, .numerics = 1}, 8);
  Ask(2, chain_.chain);
  EXPECT_EQ(arrived_.EndOf(2), HoldOutcome::kBroken);
  MakePeers(kLayout, 8);
  Ask(3, chain_.chain, "b");
  EXPECT_EQ(arrived_.EndOf(3), HoldOutcome::kBroken);
  peers_->Ask({.id = HoldId(4), .chain = chain_.chain, .peer = {"a", "localhost:1"}});
  EXPECT_EQ(arrived_.EndOf(4), HoldOutcome::kBroken);
  const auto refused = server_->counts().refused;
  EXPECT_EQ(refused[1], 1U);
  EXPECT_EQ(refused[2], 1U);
  EXPECT_EQ(refused[3], 1U);
  EXPECT_TRUE(arrived_.frames.empty());
}

TEST_F(PeersTest, BlocksOfAnotherTenantAreMissing) {
  FrameChain other = chain_.chain;
  other.tenant = TenantHash("other");
  Ask(1, other);
  EXPECT_EQ(arrived_.EndOf(1), HoldOutcome::kMissing);
  EXPECT_EQ(arrived_.frames[1], 0U);
}

TEST_F(PeersTest, MoreRequestsThanTheLimitAreBusy) {
  arrived_.keeps = true;
  MakePeers(kLayout, 1);
  std::uint64_t last = 0;
  const auto ask = [&](std::size_t count, const std::string& source) {
    for (std::size_t i = 0; i < count; ++i) {
      FrameChain chain = chain_.chain;
      chain.tenant = ++last;  // none joins another
      if (last == 1) chain.tenant = chain_.chain.tenant;
      Ask(last, chain, source);
    }
    EXPECT_EQ(arrived_.EndOf(last), HoldOutcome::kBusy) << source;
    EXPECT_EQ(arrived_.CauseOf(last), HoldCause::kOwnLimit);
  };
  ask(kMaxAskedOfOne + 1, "a");  // one source does not take all
  ask(1, "a");
  // Nor does one that is at several places at a time.
  peers_->Ask({.id = HoldId(++last), .chain = chain_.From(1), .peer = {"a", "127.0.0.1:1"}});
  EXPECT_EQ(arrived_.EndOf(last), HoldOutcome::kBusy);
}

TEST_F(PeersTest, MoreSourcesThanPullsAreBusy) {
  PeersOptions options{.worker_id = "b", .layout = kLayout, .most_peers = 1};
  peers_ = std::make_unique<Peers>(arrived_.inbox, *to_.blocks, memory_, options, clock_);
  std::atomic<bool> may_go_on = false;
  from_.reader->during_read = [&] { may_go_on.wait(false); };
  Ask(1, chain_.chain);
  FrameChain other = chain_.chain;
  other.tenant = 2;
  peers_->Ask({.id = HoldId(2), .chain = std::move(other), .peer = {"c", server_->address()}});
  EXPECT_EQ(arrived_.EndOf(2), HoldOutcome::kBusy);
  EXPECT_EQ(arrived_.CauseOf(2), HoldCause::kOwnLimit);
  may_go_on = true;
  may_go_on.notify_all();
  EXPECT_EQ(arrived_.EndOf(1), HoldOutcome::kMissing);
}

TEST_F(PeersTest, MoreFetchesThanReadersAreBusy) {
  server_ = BlockServer::Start(*from_.blocks,
                               {.worker_id = "a", .layout = kLayout, .address = {"127.0.0.1", 0}, .most_readers = 1})
                .value();
  std::atomic<bool> is_read = false;
  std::atomic<bool> may_go_on = false;
  from_.reader->during_read = [&] {
    is_read = true;
    is_read.notify_all();
    may_go_on.wait(false);
  };
  Ask(1, chain_.chain);
  is_read.wait(false);
  const auto second_memory = std::make_shared<FrameMemory>(kTestSizes, 8);
  Peers second(arrived_.inbox, *to_.blocks, second_memory, {.worker_id = "c", .layout = kLayout}, clock_);
  second.Ask({.id = HoldId(2), .chain = chain_.chain, .peer = {"a", server_->address()}});
  EXPECT_EQ(arrived_.EndOf(2), HoldOutcome::kBusy);
  EXPECT_EQ(arrived_.CauseOf(2), HoldCause::kNone);
  may_go_on = true;
  may_go_on.notify_all();
  EXPECT_EQ(arrived_.EndOf(1), HoldOutcome::kMissing);
  second.Ask({.id = HoldId(3), .chain = chain_.chain, .peer = {"a", server_->address()}});
  EXPECT_EQ(arrived_.EndOf(3), HoldOutcome::kMissing);
  second.Stop();
}

TEST_F(PeersTest, ASourceThatStopsBreaksTheFetch) {
  std::atomic<int> read_count = 0;
  std::atomic<bool> third_is_sent = false;
  std::atomic<bool> may_go_on = false;
  from_.reader->during_read = [&] {
    if (++read_count != 4) return;
    third_is_sent = true;
    third_is_sent.notify_all();
    may_go_on.wait(false);
  };
  Ask(1, chain_.chain);
  arrived_.AwaitFrames(1, 3);
  third_is_sent.wait(false);
  std::thread stop([&] { server_->Stop(); });
  EXPECT_EQ(arrived_.EndOf(1), HoldOutcome::kBroken);
  EXPECT_EQ(arrived_.CauseOf(1), HoldCause::kClosed);
  EXPECT_EQ(arrived_.frames[1], 3U);
  may_go_on = true;
  may_go_on.notify_all();
  stop.join();
  Ask(2, chain_.chain);
  EXPECT_EQ(arrived_.EndOf(2), HoldOutcome::kBroken);
  EXPECT_EQ(arrived_.CauseOf(2), HoldCause::kUnreachable);
}

// A peer that sends what a test tells it to.
class RawPeer {
 public:
  RawPeer() : listener_(wire::Listen({"127.0.0.1", 0}).value()) {}
  ~RawPeer() { AwaitEnd(); }

  // The last connection ended while a next message was awaited.
  [[nodiscard]] bool WasHungUp() {
    AwaitEnd();
    return was_hung_up_;
  }

  [[nodiscard]] std::string address() const {
    return "127.0.0.1:" + std::to_string(wire::BoundTo(listener_, {"127.0.0.1", 0}).port);
  }
  // Welcomes the next connection, takes its fetch, sends `answer`, and waits for its end; meanwhile it sends `drip`, a
  // byte at a time.
  void Serve(wire::Bytes answer, wire::Bytes drip = {}) {
    AwaitEnd();
    was_hung_up_ = false;
    thread_ = std::thread([this, answer = std::move(answer), drip = std::move(drip)] {
      pollfd poll{.fd = listener_.get(), .events = POLLIN, .revents = 0};
      if (::poll(&poll, 1, 10'000) != 1) return;
      PeerConnection connection{wire::Descriptor(::accept(listener_.get(), nullptr, nullptr))};
      for (const bool is_hello : {true, false}) {
        const auto head = connection.ReceiveHead(kTestSizes.frame_bytes(), kPeerSilence);
        if (!head.ok() || !connection.ReceiveMessage(*head).ok()) return;
        if (is_hello && !connection.Send(wire::PeerWelcome()).ok()) return;
      }
      if (!connection.Send(answer, {}).ok()) return;
      for (const std::byte byte : drip) {
        if (!connection.Send({&byte, 1}, {}).ok()) break;
        pollfd ends{.fd = connection.descriptor(), .events = POLLIN, .revents = 0};
        if (::poll(&ends, 1, 50) != 0) break;
      }
      const auto next = connection.ReceiveHead(kTestSizes.frame_bytes(), std::chrono::seconds(10));
      was_hung_up_ = !next.ok() && next.error().code == ErrorCode::kUnavailable;
    });
  }

 private:
  void AwaitEnd() {
    if (thread_.joinable()) thread_.join();
  }

  wire::Descriptor listener_;
  bool was_hung_up_ = false;  // the thread's
  std::thread thread_;
};

class WrongPeerTest : public PeersTest {
 protected:
  static void Add(std::span<const std::byte> more, wire::Bytes& to) { to.insert(to.end(), more.begin(), more.end()); }
  wire::Bytes Frames(std::uint32_t count) const {
    wire::Bytes bytes;
    for (std::uint32_t i = 0; i < count; ++i) {
      Add(EncodeHead(PeerPart::kFrame, kTestSizes.frame_bytes()), bytes);
      Add(FrameOf(chain_, i).bytes(), bytes);
    }
    return bytes;
  }
  HoldOutcome EndAt(const std::string& address) {
    peers_->Ask({.id = HoldId(++last_id_), .chain = chain_.chain, .peer = {"a", address}});
    return arrived_.EndOf(last_id_);
  }
  HoldOutcome EndWith(wire::Bytes answer) {
    RawPeer peer;
    peer.Serve(std::move(answer));
    return EndAt(peer.address());
  }

  std::uint64_t last_id_ = 0;
};

TEST_F(WrongPeerTest, AnAlteredFrameEndsTheFetchAndIsNotUsed) {
  for (const std::size_t at :
       {std::size_t{0}, std::size_t{30}, kTestSizes.data_offset() + 7, kTestSizes.frame_bytes() - 1}) {
    wire::Bytes bytes = Frames(3);
    bytes[2 * (kPartHeadBytes + kTestSizes.frame_bytes()) + kPartHeadBytes + at] ^= std::byte{1};
    EXPECT_EQ(EndWith(std::move(bytes)), HoldOutcome::kWrong);
    EXPECT_EQ(arrived_.CauseOf(last_id_), at == 0 ? HoldCause::kMalformed : HoldCause::kSum);
    EXPECT_EQ(arrived_.frames[last_id_], 2U);
  }
}

TEST_F(WrongPeerTest, AFrameOfAnotherBlockIsWrong) {
  wire::Bytes bytes = Frames(1);
  Add(EncodeHead(PeerPart::kFrame, kTestSizes.frame_bytes()), bytes);
  Add(FrameOf(chain_, 5).bytes(), bytes);
  EXPECT_EQ(EndWith(std::move(bytes)), HoldOutcome::kWrong);
  EXPECT_EQ(arrived_.CauseOf(last_id_), HoldCause::kOtherBlock);
  EXPECT_EQ(arrived_.frames[last_id_], 1U);
}

TEST_F(WrongPeerTest, AFrameOfAnotherSizeIsWrong) {
  for (const std::size_t size : {std::size_t{0}, kTestSizes.frame_bytes() - 1, kTestSizes.frame_bytes() + 1}) {
    wire::Bytes bytes = Frames(2);
    Add(EncodeHead(PeerPart::kFrame, size), bytes);
    EXPECT_EQ(EndWith(std::move(bytes)), HoldOutcome::kWrong);
    EXPECT_EQ(arrived_.CauseOf(last_id_), HoldCause::kMalformed);
    EXPECT_EQ(arrived_.frames[last_id_], 2U);
  }
}

TEST_F(WrongPeerTest, AfterAWrongFrameItsSourceIsNotAskedForAMinute) {
  RawPeer peer;
  wire::Bytes wrong = Frames(1);
  wrong.back() ^= std::byte{1};
  peer.Serve(std::move(wrong));
  EXPECT_EQ(EndAt(peer.address()), HoldOutcome::kWrong);
  wire::Bytes right = Frames(50);
  Add(BytesOf(wire::PeerEnd{HoldOutcome::kComplete}), right);
  peer.Serve(std::move(right));
  clock_.Advance(PairPauses::kWrongPause - std::chrono::milliseconds(1));
  EXPECT_EQ(EndAt(peer.address()), HoldOutcome::kBroken);
  EXPECT_EQ(arrived_.CauseOf(last_id_), HoldCause::kPaused);
  EXPECT_EQ(arrived_.frames[last_id_], 0U);
  // Another source is asked all the same.
  Ask(++last_id_, chain_.chain);
  EXPECT_EQ(arrived_.EndOf(last_id_), HoldOutcome::kMissing);
  clock_.Advance(std::chrono::milliseconds(1));
  EXPECT_EQ(EndAt(peer.address()), HoldOutcome::kComplete);
  EXPECT_EQ(arrived_.frames[last_id_], 50U);
  peers_->Stop();  // hangs up
}

TEST_F(WrongPeerTest, ASourceWhoseBlocksWereFoundWrongIsNotAskedForAMinute) {
  Ask(++last_id_, chain_.chain);
  EXPECT_EQ(arrived_.EndOf(last_id_), HoldOutcome::kMissing);
  peers_->Distrust("a");
  clock_.Advance(PairPauses::kWrongPause - std::chrono::milliseconds(1));
  Ask(++last_id_, chain_.chain);
  EXPECT_EQ(arrived_.EndOf(last_id_), HoldOutcome::kBroken);
  EXPECT_EQ(arrived_.CauseOf(last_id_), HoldCause::kPaused);
  clock_.Advance(std::chrono::milliseconds(1));
  Ask(++last_id_, chain_.chain);
  EXPECT_EQ(arrived_.EndOf(last_id_), HoldOutcome::kMissing);
}

TEST_F(WrongPeerTest, AfterThreeFailuresItsSourceIsNotAskedForASecond) {
  RawPeer peer;
  for (int i = 0; i < 3; ++i) {
    peer.Serve(BytesOf(wire::PeerEnd{HoldOutcome::kComplete}));
    EXPECT_EQ(EndAt(peer.address()), HoldOutcome::kBroken);
  }
  wire::Bytes right = Frames(50);
  Add(BytesOf(wire::PeerEnd{HoldOutcome::kComplete}), right);
  peer.Serve(std::move(right));
  EXPECT_EQ(EndAt(peer.address()), HoldOutcome::kBroken);
  EXPECT_EQ(arrived_.frames[last_id_], 0U);
  clock_.Advance(PairPauses::kFirstPause);
  EXPECT_EQ(EndAt(peer.address()), HoldOutcome::kComplete);
  peers_->Stop();  // hangs up
}

TEST_F(WrongPeerTest, AMessageThatIsNoneOrAnEarlyEndBreaks) {
  wire::Bytes early = Frames(2);
  Add(BytesOf(wire::PeerEnd{HoldOutcome::kComplete}), early);
  EXPECT_EQ(EndWith(std::move(early)), HoldOutcome::kBroken);
  EXPECT_EQ(arrived_.CauseOf(last_id_), HoldCause::kMalformed);
  wire::Bytes junk = Frames(1);
  junk.resize(junk.size() + 64, std::byte{0x5A});
  EXPECT_EQ(EndWith(std::move(junk)), HoldOutcome::kBroken);
  EXPECT_EQ(arrived_.CauseOf(last_id_), HoldCause::kMalformed);
  wire::Bytes again = Frames(1);
  Add(BytesOf(wire::PeerWelcome()), again);
  EXPECT_EQ(EndWith(std::move(again)), HoldOutcome::kBroken);
}

TEST_F(WrongPeerTest, APeerThatIsNotThereIsBroken) {
  const std::string address = RawPeer().address();
  EXPECT_EQ(EndAt(address), HoldOutcome::kBroken);
  EXPECT_EQ(arrived_.CauseOf(last_id_), HoldCause::kUnreachable);
}

TEST_F(WrongPeerTest, APeerOfAnotherNameIsRefused) {
  peers_->Ask({.id = HoldId(++last_id_), .chain = chain_.chain, .peer = {"another", server_->address()}});
  EXPECT_EQ(arrived_.EndOf(last_id_), HoldOutcome::kBroken);
  EXPECT_EQ(arrived_.CauseOf(last_id_), HoldCause::kRefused);
}

TEST_F(WrongPeerTest, APeerThatFallsSilentIsBroken) {
  const auto begin = std::chrono::steady_clock::now();
  wire::Bytes bytes = Frames(2);
  bytes.resize(bytes.size() - 100);
  EXPECT_EQ(EndWith(std::move(bytes)), HoldOutcome::kBroken);
  EXPECT_EQ(arrived_.CauseOf(last_id_), HoldCause::kSilent);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, kPeerSilence);
  EXPECT_EQ(arrived_.frames[last_id_], 1U);
}

// A frame takes its time as a whole.
TEST_F(WrongPeerTest, APeerThatDripsIsBroken) {
  RawPeer peer;
  wire::Bytes frames = Frames(2);
  const auto half = frames.begin() + static_cast<std::ptrdiff_t>(frames.size() / 2);
  peer.Serve({frames.begin(), half}, {half, frames.end()});
  EXPECT_EQ(EndAt(peer.address()), HoldOutcome::kBroken);
  EXPECT_EQ(arrived_.CauseOf(last_id_), HoldCause::kSilent);
  EXPECT_EQ(arrived_.frames[last_id_], 1U);
  EXPECT_TRUE(peer.WasHungUp());
}

TEST_F(WrongPeerTest, ACancelledFetchHangsUpWhateverComes) {
  RawPeer peer;
  wire::Bytes bytes = Frames(2);
  bytes.resize(bytes.size() - 100);
  peer.Serve(std::move(bytes));
  peers_->Ask({.id = HoldId(++last_id_), .chain = chain_.chain, .peer = {"a", peer.address()}});
  arrived_.AwaitFrames(last_id_, 1);
  peers_->Cancel(HoldId(last_id_));
  EXPECT_EQ(arrived_.EndOf(last_id_), HoldOutcome::kCancelled);
  EXPECT_TRUE(peer.WasHungUp());
}

// The source awaits the rest of a fetch for so long, and no longer.
TEST_F(PeersTest, AFetchThatDripsEndsItsConnection) {
  PeerConnection connection = PeerConnection::Connect(wire::ParseNumericAddress(server_->address()).value()).value();
  ASSERT_TRUE(connection.Send(HelloTo("a")).ok());
  wire::Bytes answer(BytesOf(wire::PeerWelcome()).size());
  ASSERT_TRUE(connection.Receive(answer, kPeerSilence).ok());
  const wire::Bytes fetch = BytesOf(wire::PeerFetch{.tenant = chain_.chain.tenant, .hashes = chain_.chain.hashes});
  bool has_ended = false;
  for (std::size_t i = 0; i < fetch.size() && !has_ended; ++i) {
    has_ended = !connection.Send({&fetch[i], 1}, {}).ok();
    const Result<void> received = connection.Receive({answer.data(), 1}, std::chrono::milliseconds(50));
    has_ended = has_ended || received.ok() || received.error().code == ErrorCode::kUnavailable;
  }
  EXPECT_TRUE(has_ended);
  EXPECT_EQ(server_->counts().served_bytes, 0U);
}

TEST_F(PeersTest, TheServerStopsWhileHandshakesAreUnderWay) {
  for (int round = 0; round < 200; ++round) {
    const auto server =
        BlockServer::Start(*from_.blocks, {.worker_id = "a", .layout = kLayout, .address = {"127.0.0.1", 0}}).value();
    const auto endpoint = wire::ParseNumericAddress(server->address()).value();
    std::vector<PeerConnection> connections;
    for (int i = 0; i < 6; ++i) connections.push_back(PeerConnection::Connect(endpoint).value());
    for (PeerConnection& connection : connections) EXPECT_TRUE(connection.Send(BytesOf(HelloTo("a")), {}).ok());
    server->Stop();
  }
}

// A server that gets anything but the protocol ends the connection, and goes on.
TEST_F(PeersTest, TheServerEndsConnectionsThatAreNoPeers) {
  Rng rng(1);
  const auto endpoint = wire::ParseNumericAddress(server_->address()).value();
  for (int round = 0; round < 30; ++round) {
    PeerConnection connection = PeerConnection::Connect(endpoint).value();
    wire::Bytes bytes;
    if (round % 3 > 0) bytes = BytesOf(HelloTo("a"));
    if (round % 3 > 1) bytes.push_back(std::byte{4});
    for (int i = 0; i < 40; ++i) bytes.push_back(static_cast<std::byte>(rng.Below(256)));
    EXPECT_TRUE(connection.Send(bytes, {}).ok());
    // All that comes until the end.
    std::array<std::byte, 1> byte{};
    std::size_t count = 0;
    while (connection.Receive(byte, std::chrono::seconds(10)).ok()) ++count;
    EXPECT_LE(count, 64U);
  }
  FrameChain part = chain_.chain;
  part.hashes.resize(4);
  Ask(1, part);
  EXPECT_EQ(arrived_.EndOf(1), HoldOutcome::kComplete);
}

}  // namespace
}  // namespace roost::worker
