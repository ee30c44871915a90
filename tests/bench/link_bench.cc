// Measures the cost of keys: tokens per second from a worker to the observers of their requests, over a link with CURVE
// and over one without, in turn in the same run. Router and worker are in this process, over real sockets; the worker
// is a script that sends steps as fast as the router takes them.
#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/wire/codec.h"
#include "common/wire/socket.h"
#include "router/fleet/core/fleet.h"
#include "tests/bench/bench.h"
#include "tests/bench/bench_worker.h"

namespace roost::bench {
namespace {

constexpr std::size_t kStreams = 64;

// Sends steps of one token for each of its streams, once it has all of them.
class StepWorker {
 public:
  StepWorker(const std::string& endpoint, const std::optional<wire::ClientKeys>& keys, std::size_t step_count)
      : step_count_(step_count), socket_(wire::DealerSocket::Connect(context_, endpoint, keys).value()) {
    thread_ = std::thread([this] { Run(); });
  }
  StepWorker(const StepWorker&) = delete;
  StepWorker& operator=(const StepWorker&) = delete;
  ~StepWorker() {
    stopping_ = true;
    waker_.Wake();
    thread_.join();
  }

 private:
  void Run() {
    const wire::Socket* const sockets[] = {&socket_};
    while (!stopping_) {
      if (!welcomed_) static_cast<void>(socket_.Send(wire::Encode(wire::WorkerMessage(WorkerHello()))));
      wire::WaitForMessages(sockets, waker_, std::chrono::milliseconds(10));
      while (const std::optional<wire::Bytes> frame = socket_.TryReceive()) {
        const auto message = wire::DecodeRouterMessage(*frame);
        if (message.ok() && message->has_value()) Take(**message);
      }
      if (streams_.size() == kStreams) Stream();
      if (welcomed_) SendStep({});
    }
  }

  void Take(const wire::RouterMessage& message) {
    if (std::holds_alternative<wire::Welcome>(message)) welcomed_ = true;
    if (std::holds_alternative<wire::WantTokenizer>(message)) Send(WorkerBundle());
    if (const auto* const request = std::get_if<wire::Generate>(&message)) streams_.push_back(request->request_id);
  }

  void Stream() {
    for (std::size_t i = 1; i <= step_count_; ++i) {
      std::vector<wire::TokenEvent> events(kStreams);
      for (std::size_t stream = 0; stream < kStreams; ++stream) {
        events[stream].request_id = streams_[stream];
        events[stream].tokens = {static_cast<TokenId>(i)};
        if (i == step_count_) events[stream].finish = wire::FinishReason::kLength;
      }
      SendStep(std::move(events));
    }
    streams_.clear();
  }

  void SendStep(std::vector<wire::TokenEvent> tokens) {
    wire::Step step;
    step.epoch = 1;
    step.sequence = ++sequence_;
    step.load.progress = sequence_;
    step.tokens = std::move(tokens);
    Send(std::move(step));
  }

  void Send(wire::WorkerMessage message) {
    const wire::Bytes frame = wire::Encode(message);
    while (!stopping_ && socket_.Send(frame) != wire::SendOutcome::kSent) std::this_thread::yield();
  }

  const std::size_t step_count_;
  wire::Context context_;
  wire::Waker waker_;
  wire::DealerSocket socket_;
  std::atomic<bool> stopping_ = false;

  // The thread's own.
  bool welcomed_ = false;
  std::uint64_t sequence_ = 0;
  std::vector<RequestId> streams_;

  std::thread thread_;
};

class TokenCounter final : public router::GenerationObserver {
 public:
  void OnDispatched(const router::Dispatched& /*dispatched*/) override {}
  void OnTokens(router::ChoiceTokens tokens) override { count_ += tokens.tokens.size(); }
  void OnChoiceEnd(router::ChoiceEnd /*end*/) override {}
  void OnEnd(router::GenerationEnd end) override {
    ROOST_CHECK(!end.error.has_value(), "{}", end.error->ToString());
    ++ends_;
  }

  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] std::size_t ends() const { return ends_; }

 private:
  std::atomic<std::size_t> count_ = 0;
  std::atomic<std::size_t> ends_ = 0;
};

struct BenchKeys {
  wire::ServerKeys server;
  wire::ClientKeys client;
};

BenchKeys MakeBenchKeys(const Clock& clock) {
  const wire::LinkKeyPair router = wire::MakeLinkKeyPair();
  const wire::LinkKeyPair worker = wire::MakeLinkKeyPair();
  const std::string line = wire::LinkPeerLine({worker.public_key, {"*"}, {"*"}});
  wire::LinkPeers peers = wire::LinkPeers::Parse(line, "peers", wire::PeersOf::kRouter).value();
  const auto nobody = [](wire::PeerRefusal /*refusal*/) {};
  return {{router, std::make_shared<wire::LinkGuard>(std::move(peers), clock, nobody)}, {worker, router.public_key}};
}

double TokensPerSecond(const std::optional<BenchKeys>& keys, std::size_t step_count) {
  const SteadyClock clock;
  router::FleetMetrics metrics;
  router::FleetOptions options;
  options.bind = "tcp://127.0.0.1:0";
  options.core.requests.worker_queue_bound = 1U << 20U;
  if (keys) options.link_keys = keys->server;
  const auto read = [](const wire::Tokenizer&) -> Result<router::TextBundle> { return router::TextBundle{}; };
  const std::unique_ptr<router::Fleet> fleet = std::move(router::Fleet::Start(options, read, metrics).value());
  const StepWorker worker(fleet->endpoint(), keys ? std::optional(keys->client) : std::nullopt, step_count);
  while (fleet->View()->models->Main("m") == nullptr) std::this_thread::yield();
  const auto counter = std::make_shared<TokenCounter>();
  for (std::size_t i = 0; i < kStreams; ++i) {
    router::GenerateSpec spec;
    spec.model = fleet->View()->models->Main("m");
    spec.generate.prompt.assign(32, static_cast<TokenId>(i));
    spec.generate.block_hashes = HashBlocks(spec.generate.root, spec.generate.prompt, 16);
    spec.generate.max_output_tokens = static_cast<std::uint32_t>(step_count);
    ROOST_CHECK(fleet->Submit(std::move(spec), counter).ok());
  }
  while (counter->count() < kStreams) std::this_thread::yield();
  const Instant begin = clock.Now();
  const std::size_t counted = counter->count();
  while (counter->ends() < kStreams) wire::WaitForMessages({}, wire::Waker(), std::chrono::milliseconds(1));
  return static_cast<double>(counter->count() - counted) / ToSeconds(clock.Now() - begin);
}

}  // namespace

void BenchLink(Effort effort) {
  SetUpLogging(LogLevel::kError, LogFormat::kText);
  const std::size_t step_count = effort == Effort::kQuick ? 200 : 20'000;
  const std::size_t pairs = effort == Effort::kQuick ? 1 : 5;
  const SteadyClock clock;
  std::vector<double> open;
  std::vector<double> ratios;
  for (std::size_t i = 0; i < pairs; ++i) {
    open.push_back(TokensPerSecond(std::nullopt, step_count));
    ratios.push_back(TokensPerSecond(MakeBenchKeys(clock), step_count) / open.back());
  }
  std::sort(open.begin(), open.end());
  std::sort(ratios.begin(), ratios.end());
  Figure("link_open_tokens_per_s", open[pairs / 2], "/s");
  Figure("link_curve_throughput_ratio", ratios[pairs / 2], "ratio");
}

}  // namespace roost::bench
