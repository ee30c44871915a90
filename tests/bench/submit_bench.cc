// Measures the time that a client's thread waits to have a request routed while the link thread reads a large snapshot:
// both need the fleet's lock. Router and worker are in this process, over a real socket; the worker is a script.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/rng.h"
#include "common/wire/codec.h"
#include "common/wire/socket.h"
#include "common/wire/tokenizer_digest.h"
#include "router/fleet/core/fleet.h"
#include "tests/bench/bench.h"

namespace roost::bench {
namespace {

constexpr std::size_t kPromptBlocks = 64;
constexpr std::size_t kChunkHashes = wire::WireLimits::kMaxSnapshotHashes;
// Requests under way to the worker, each with its Cancel: a quarter of what a connection may hold before the router
// gives up the worker.
constexpr std::size_t kMaxUnderWay = wire::kHighWaterMark / 8;

// Sends a snapshot of this many blocks whenever it is asked for one.
class SnapshotWorker {
 public:
  SnapshotWorker(const std::string& endpoint, std::size_t block_count)
      : block_count_(block_count), socket_(wire::DealerSocket::Connect(context_, endpoint).value()) {
    hello_.worker_id = "scripted";
    hello_.process_id = 1;
    hello_.epoch = 1;
    hello_.model = "m";
    hello_.fingerprint = "f";
    hello_.kv_dtype = "f32";
    hello_.block_tokens = kBlockTokens;
    hello_.block_count = static_cast<std::uint32_t>(block_count);
    hello_.max_context_tokens = 1U << 20U;
    hello_.max_running_requests = 64;
    hello_.tokenizer_digest = wire::DigestOf(bundle_);
    bundle_.digest = hello_.tokenizer_digest;
    thread_ = std::thread([this] { Run(); });
  }
  SnapshotWorker(const SnapshotWorker&) = delete;
  SnapshotWorker& operator=(const SnapshotWorker&) = delete;
  ~SnapshotWorker() {
    stopping_ = true;
    waker_.Wake();
    thread_.join();
  }

  // The number of requests that have arrived.
  [[nodiscard]] std::size_t requests() const { return requests_; }

  void SendSnapshot() {
    snapshot_due_ = true;
    waker_.Wake();
  }

 private:
  void Run() {
    const wire::Socket* const sockets[] = {&socket_};
    while (!stopping_) {
      if (!welcomed_) (void)socket_.Send(wire::Encode(wire::WorkerMessage(hello_)));
      wire::WaitForMessages(sockets, waker_, std::chrono::milliseconds(100));
      ReceiveAll();
      if (welcomed_ && snapshot_due_.exchange(false)) Snapshot();
      if (welcomed_) Send(wire::Step{.epoch = 1, .sequence = ++sequence_, .tokens = {}, .events = {}, .load = Load()});
    }
  }

  void ReceiveAll() {
    while (const std::optional<wire::Bytes> frame = socket_.TryReceive()) {
      const auto message = wire::DecodeRouterMessage(*frame);
      if (message.ok() && message->has_value()) Take(**message);
    }
  }

  void Take(const wire::RouterMessage& message) {
    if (std::holds_alternative<wire::Welcome>(message)) welcomed_ = true;
    if (std::holds_alternative<wire::WantTokenizer>(message)) Send(bundle_);
    if (std::holds_alternative<wire::Generate>(message)) ++requests_;
  }

  // Before its first snapshot a worker has no blocks; from then on its load counts them.
  [[nodiscard]] wire::Load Load() const {
    wire::Load load;
    load.progress = sequence_;
    load.cached_block_count = held_ ? hello_.block_count : 0;
    load.digest = digest_;
    return load;
  }

  // Reads messages between its chunks, as a worker does: a router gives up a worker that does not read.
  void Snapshot() {
    held_ = true;
    digest_ = {};
    Rng rng(7);
    std::uint32_t chunk_index = 0;
    for (std::size_t sent = 0; sent < block_count_; ++chunk_index) {
      wire::Snapshot chunk;
      chunk.epoch = 1;
      chunk.sequence = ++sequence_;
      chunk.chunk_index = chunk_index;
      chunk.runs.resize(1);
      const std::size_t count = std::min(kChunkHashes, block_count_ - sent);
      for (std::size_t i = 0; i < count; ++i) chunk.runs[0].hashes.push_back({rng(), rng()});
      for (const BlockHash hash : chunk.runs[0].hashes) digest_ = digest_ ^ hash;
      sent += count;
      chunk.last = sent == block_count_;
      Send(std::move(chunk));
      ReceiveAll();
    }
  }

  // Waits for space: one step per wake-up can be more than a router reads at once.
  void Send(wire::WorkerMessage message) {
    const wire::Bytes frame = wire::Encode(message);
    while (!stopping_ && socket_.Send(frame) != wire::SendOutcome::kSent) std::this_thread::yield();
  }

  const std::size_t block_count_;
  wire::Tokenizer bundle_{"", "{}", "", "", ""};
  wire::Hello hello_;
  wire::Context context_;
  wire::Waker waker_;
  wire::DealerSocket socket_;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> snapshot_due_ = true;
  std::atomic<std::size_t> requests_ = 0;

  // Used by the thread only.
  bool welcomed_ = false;
  bool held_ = false;
  std::uint64_t sequence_ = 0;
  BlockHash digest_;

  std::thread thread_;
};

class NobodyListens final : public router::GenerationObserver {
 public:
  void OnDispatched(const router::Dispatched& /*dispatched*/) override {}
  void OnTokens(router::ChoiceTokens /*tokens*/) override {}
  void OnChoiceEnd(router::ChoiceEnd /*end*/) override {}
  void OnEnd(router::GenerationEnd /*end*/) override {}
};

// The time of each request that is submitted, and cancelled, until `done`.
std::vector<double> SubmitSeconds(router::Fleet& fleet, const SnapshotWorker& worker,
                                  const std::function<bool()>& done) {
  const SteadyClock clock;
  const auto observer = std::make_shared<NobodyListens>();
  const std::shared_ptr<const router::ServedModel> model = fleet.View()->models->Main("m");
  Rng rng(11);
  std::vector<double> seconds;
  const std::size_t arrived_before = worker.requests();
  while (!done()) {
    // This loop is faster than the link thread and the worker.
    if (arrived_before + seconds.size() >= worker.requests() + kMaxUnderWay) {
      std::this_thread::yield();
      continue;
    }
    router::GenerateSpec spec;
    spec.model = model;
    spec.generate.prompt.assign(kPromptBlocks * kBlockTokens, static_cast<TokenId>(rng.Below(1000)));
    spec.generate.block_hashes = HashBlocks(spec.generate.root, spec.generate.prompt, kBlockTokens);
    spec.generate.max_output_tokens = 1;
    const Instant start = clock.Now();
    const Result<RequestId> id = fleet.Submit(std::move(spec), observer);
    const double taken = ToSeconds(clock.Now() - start);
    if (!id.ok()) {
      ROOST_CHECK(id.error().code == ErrorCode::kOverloaded, "{}", id.error().ToString());
      std::this_thread::yield();
      continue;
    }
    seconds.push_back(taken);
    fleet.Cancel(*id);
  }
  return seconds;
}

}  // namespace

void BenchSubmit(Effort effort) {
  SetUpLogging(LogLevel::kWarning, LogFormat::kText);
  // 2 million blocks, in 64 chunks of 32,768.
  const std::size_t block_count = effort == Effort::kQuick ? 100'000 : 64 * 32'768;
  const int rounds = effort == Effort::kQuick ? 1 : 5;
  router::FleetMetrics metrics;
  router::FleetOptions options;
  options.bind = "tcp://127.0.0.1:0";
  options.core.requests.worker_queue_bound = 1U << 20U;
  const auto read = [](const wire::Tokenizer&) -> Result<router::TextBundle> { return router::TextBundle{}; };
  const std::unique_ptr<router::Fleet> fleet = std::move(router::Fleet::Start(options, read, metrics).value());
  SnapshotWorker worker(fleet->endpoint(), block_count);
  const auto in_sync = [&] {
    const std::vector<router::WorkerStatus> workers = fleet->View()->workers;
    return !workers.empty() && workers[0].ready && workers[0].index_in_sync &&
           workers[0].indexed_block_count == block_count;
  };
  while (!in_sync()) std::this_thread::yield();
  std::vector<double> seconds;
  for (int i = 0; i < rounds; ++i) {
    worker.SendSnapshot();
    while (in_sync()) std::this_thread::yield();  // its first chunk empties the view
    std::size_t looks = 0;
    const std::vector<double> round = SubmitSeconds(*fleet, worker, [&] { return ++looks % 16 == 0 && in_sync(); });
    seconds.insert(seconds.end(), round.begin(), round.end());
  }
  std::sort(seconds.begin(), seconds.end());
  Figure("submit_p50_us", seconds[seconds.size() / 2] * 1e6, "us");
  Figure("submit_p99_us", seconds[seconds.size() * 99 / 100] * 1e6, "us");
}

}  // namespace roost::bench
