// Blocks of one process' pool into another one's, over loopback: copied out under their guard, sealed, sent, checked
// and copied in, in the clear and encrypted under a ticket; beside a bare TCP stream of as many bytes between the same
// processes.
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "common/wire/gate.h"
#include "tests/bench/bench.h"
#include "worker/transfer/block_server.h"
#include "worker/transfer/peers.h"

namespace roost::bench {
namespace {

using worker::ArrivedFrame;
using worker::BlockReader;
using worker::BlockServer;
using worker::FrameChain;
using worker::FrameInbox;
using worker::FrameMemory;
using worker::FrameNews;
using worker::FramesEnded;
using worker::HoldId;
using worker::PeerLayout;
using worker::Peers;
using worker::PublishedBlock;
using worker::ReadableBlocks;

constexpr std::uint32_t kTokensOfBlock = 16;
constexpr BlockHash kScope{3, 4};
constexpr PeerLayout kSameLayout{.layout = 1, .numerics = 2};

struct Shape {
  std::size_t block_bytes = 0;
  std::uint32_t block_count = 0;

  [[nodiscard]] std::size_t bytes() const { return block_bytes * block_count; }
};

// A pool as the CPU's: a block's bytes in one piece.
class Pool final : public BlockReader {
 public:
  explicit Pool(const Shape& shape) : shape_(shape), bytes_(shape.bytes(), std::byte{1}) {}

  [[nodiscard]] std::size_t block_bytes() const override { return shape_.block_bytes; }
  void Read(BlockId block, std::span<std::byte> to, const std::function<void()>& may_change) const override {
    std::memcpy(to.data(), bytes_.data() + block.value() * shape_.block_bytes, shape_.block_bytes);
    may_change();
  }
  void Write(std::uint32_t block, std::span<const std::byte> from) {
    std::memcpy(bytes_.data() + block * shape_.block_bytes, from.data(), from.size());
  }
  [[nodiscard]] std::span<std::byte> bytes() { return bytes_; }

 private:
  const Shape shape_;
  std::vector<std::byte> bytes_;
};

struct Prompt {
  explicit Prompt(const Shape& shape) : tokens(std::size_t{shape.block_count} * kTokensOfBlock) {
    Rng rng(1);
    for (TokenId& token : tokens) token = static_cast<TokenId>(rng.Below(1000));
    chain = {.root = kScope, .parent = kScope, .hashes = HashBlocks(kScope, tokens, kTokensOfBlock)};
  }

  std::vector<TokenId> tokens;
  FrameChain chain;
};

void Publish(const Prompt& prompt, ReadableBlocks& blocks) {
  for (std::uint32_t i = 0; i < prompt.chain.size(); ++i) {
    const PublishedBlock block{
        .block = BlockId(i),
        .about = {.position = i, .hash = prompt.chain.hashes[i], .parent = prompt.chain.ParentAt(i), .root = kScope},
        .tokens = std::span(prompt.tokens).subspan(std::size_t{i} * kTokensOfBlock, kTokensOfBlock)};
    blocks.Publish(std::span(&block, 1));
  }
}

// Sends the bytes on each connection that comes, until `end` can be read.
void ServeStream(const wire::Descriptor& listener, std::span<const std::byte> bytes, int end) {
  while (true) {
    std::array<pollfd, 2> waits{pollfd{listener.get(), POLLIN, 0}, pollfd{end, POLLIN, 0}};
    (void)::poll(waits.data(), waits.size(), -1);
    if (waits[1].revents != 0) return;
    const wire::Descriptor socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    for (std::size_t sent = 0; socket.is_open() && sent < bytes.size();) {
      const ssize_t count = ::send(socket.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (count <= 0) break;
      sent += static_cast<std::size_t>(count);
    }
  }
}

struct Ports {
  std::uint16_t blocks = 0;
  std::uint16_t encrypted = 0;
  std::uint16_t stream = 0;
};

// The process with the blocks: tells its ports to `out` and serves until `end` closes.
[[noreturn]] void RunSource(const Shape& shape, const wire::TransferSecret& secret, int out, int end) {
  auto pool = std::make_unique<Pool>(shape);
  const std::span<std::byte> bytes = pool->bytes();
  ReadableBlocks blocks(std::move(pool), shape.block_count, kTokensOfBlock);
  Publish(Prompt(shape), blocks);
  const wire::Endpoint any{"127.0.0.1", 0};
  const auto server =
      BlockServer::Start(blocks, {.worker_id = "source", .layout = kSameLayout, .address = any}).value();
  const auto encrypted = BlockServer::Start(blocks, {.worker_id = "source",
                                                     .layout = kSameLayout,
                                                     .address = any,
                                                     .access = worker::TransferAccess::kTicketsOnly,
                                                     .secret = secret})
                             .value();
  const wire::Descriptor stream = wire::Listen(any).value();
  const auto port_of = [](const BlockServer& of) { return wire::ParseNumericAddress(of.address()).value().port; };
  const Ports ports{
      .blocks = port_of(*server), .encrypted = port_of(*encrypted), .stream = wire::BoundTo(stream, any).port};
  ROOST_CHECK(::write(out, &ports, sizeof(ports)) == sizeof(ports));
  ServeStream(stream, bytes, end);
  ::_exit(0);
}

class Source {
 public:
  explicit Source(const Shape& shape) {
    std::array<int, 2> told{};
    std::array<int, 2> end{};
    ROOST_CHECK(::pipe(told.data()) == 0 && ::pipe(end.data()) == 0);
    process_ = ::fork();
    ROOST_CHECK(process_ >= 0);
    if (process_ == 0) {
      ::close(end[1]);
      RunSource(shape, secret_, told[1], end[0]);
    }
    ::close(told[1]);
    ::close(end[0]);
    end_ = wire::Descriptor(end[1]);
    const wire::Descriptor from(told[0]);
    ROOST_CHECK(::read(from.get(), &ports_, sizeof(ports_)) == sizeof(ports_), "the source has ended");
  }
  ~Source() {
    end_.Close();
    (void)::waitpid(process_, nullptr, 0);
  }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  [[nodiscard]] const Ports& ports() const { return ports_; }
  [[nodiscard]] wire::TransferTicket MakeTicket() const {
    return wire::MintTicket(secret_, "consumer", wire::WallNow());
  }

 private:
  const wire::TransferSecret secret_ = wire::TransferSecret::Random();
  pid_t process_ = -1;
  wire::Descriptor end_;
  Ports ports_;
};

// The process that fetches, without an engine: what has come is written to its pool at once.
class Consumer {
 public:
  explicit Consumer(const Shape& shape)
      : pool_(shape),
        held_(std::make_unique<Pool>(Shape{shape.block_bytes, 1}), 1, kTokensOfBlock),
        inbox_([this] { Wake(); }),
        peers_(inbox_, held_, std::make_shared<FrameMemory>(held_.sizes(), kFrames),
               {.worker_id = "consumer", .layout = kSameLayout}, clock_) {}
  ~Consumer() { peers_.Stop(); }

  void Fetch(const Prompt& prompt, std::uint16_t port, std::optional<wire::TransferTicket> ticket = std::nullopt) {
    peers_.Ask({.id = HoldId(++last_id_),
                .chain = prompt.chain,
                .peer = {.worker_id = "source", .address = "127.0.0.1:" + std::to_string(port)},
                .ticket = std::move(ticket)});
    while (!TakeNews()) {
      std::unique_lock lock(mutex_);
      woken_.wait(lock, [this] { return is_woken_; });
      is_woken_ = false;
    }
  }
  void Receive(std::uint16_t port) {
    const wire::Descriptor socket = wire::ConnectTo("tcp://127.0.0.1:" + std::to_string(port), "");
    for (std::span<std::byte> left = pool_.bytes(); !left.empty();) {
      const ssize_t count = ::recv(socket.get(), left.data(), left.size(), 0);
      ROOST_CHECK(count > 0, "the stream has ended");
      left = left.subspan(static_cast<std::size_t>(count));
    }
  }

 private:
  static constexpr std::size_t kFrames = 16;

  void Wake() {
    {
      const std::lock_guard lock(mutex_);
      is_woken_ = true;
    }
    woken_.notify_one();
  }
  // True at the end.
  bool TakeNews() {
    bool has_ended = false;
    for (FrameNews& news : inbox_.Take()) {
      if (auto* const frame = std::get_if<ArrivedFrame>(&news)) {
        pool_.Write(frame->index, std::as_const(frame->buffer).data());
      } else {
        has_ended = true;
        ROOST_CHECK(std::get<FramesEnded>(news).outcome == wire::HoldOutcome::kComplete);
      }
    }
    return has_ended;
  }

  const SteadyClock clock_;
  Pool pool_;
  ReadableBlocks held_;
  std::mutex mutex_;
  std::condition_variable woken_;
  bool is_woken_ = false;  // guarded by mutex_
  FrameInbox inbox_;
  Peers peers_;
  std::uint64_t last_id_ = 0;
};

}  // namespace

void BenchTransfer(Effort effort) {
  // Blocks of Qwen3-0.6B in bf16, 1,024 tokens.
  constexpr std::size_t kBytesOfToken = 114'688;
  const Shape shape = effort == Effort::kQuick ? Shape{16'384, 4} : Shape{kBytesOfToken * kTokensOfBlock, 64};
  const int rounds = effort == Effort::kQuick ? 1 : 15;
  const Source source(shape);
  Consumer consumer(shape);
  const Prompt prompt(shape);
  const SteadyClock clock;
  double fetched = std::numeric_limits<double>::max();
  double encrypted = fetched;
  double streamed = fetched;
  // In turns, the fastest of each: what other programs take from one, they take from the other.
  for (int round = 0; round < rounds; ++round) {
    const Instant begin = clock.Now();
    consumer.Fetch(prompt, source.ports().blocks);
    const Instant in_the_clear = clock.Now();
    consumer.Fetch(prompt, source.ports().encrypted, source.MakeTicket());
    const Instant under_a_ticket = clock.Now();
    consumer.Receive(source.ports().stream);
    fetched = std::min(fetched, ToSeconds(in_the_clear - begin));
    encrypted = std::min(encrypted, ToSeconds(under_a_ticket - in_the_clear));
    streamed = std::min(streamed, ToSeconds(clock.Now() - under_a_ticket));
  }
  const double gigabytes = static_cast<double>(shape.bytes()) * 1e-9;
  Figure("transfer_pool_to_pool_gb_per_s", gigabytes / fetched, "GB/s");
  Figure("transfer_encrypted_pool_to_pool_gb_per_s", gigabytes / encrypted, "GB/s");
  Figure("transfer_bare_stream_gb_per_s", gigabytes / streamed, "GB/s");
  Figure("transfer_over_bare_stream", streamed / fetched, "x");
  Figure("transfer_encrypted_over_bare_stream", streamed / encrypted, "x");
  BenchRequestPull(effort, static_cast<double>(shape.bytes()) / fetched);
}

}  // namespace roost::bench
