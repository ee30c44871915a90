// Measures the cost of TLS for a router: the work of one of its cores in a second over TLS, divided by its work over
// plain HTTP, of streamed tokens and of whole chats on connections that stay open. Router, worker and clients are in
// this process; the router's time is the process's without the threads of the others. The two take turns.
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/wire/codec.h"
#include "common/wire/socket.h"
#include "tests/bench/bench.h"
#include "tests/bench/bench_router.h"
#include "tests/common/http/raw_client.h"
#include "tests/common/http/test_certificates.h"
#include "tests/support/source_dir.h"

namespace roost::bench {
namespace {

struct Sizes {
  std::size_t rounds;
  std::size_t clients;
  std::size_t streams_each;
  std::size_t tokens_each;
  std::size_t chats_each;
};

double Seconds(clockid_t clock) {
  timespec time{};
  ROOST_CHECK(clock_gettime(clock, &time) == 0);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// Answers each request with as many tokens as it asks for, one a step, so slowly that each is a write of its own.
class SteadyWorker {
 public:
  SteadyWorker(const std::string& endpoint, TokenId token)
      : token_(token), socket_(wire::DealerSocket::Connect(context_, endpoint).value()) {
    thread_ = std::thread([this] { Run(); });
    ROOST_CHECK(pthread_getcpuclockid(thread_.native_handle(), &cpu_clock_) == 0);
  }
  SteadyWorker(const SteadyWorker&) = delete;
  SteadyWorker& operator=(const SteadyWorker&) = delete;
  ~SteadyWorker() {
    stopping_ = true;
    waker_.Wake();
    thread_.join();
  }

  [[nodiscard]] double cpu_seconds() const { return Seconds(cpu_clock_); }

 private:
  struct Running {
    RequestId id;
    std::uint32_t tokens_left;
  };
  static constexpr std::chrono::milliseconds kStepInterval{1};
  static constexpr std::chrono::milliseconds kReportInterval{100};

  void Run() {
    const wire::Socket* const sockets[] = {&socket_};
    while (!stopping_) {
      if (!welcomed_) static_cast<void>(Send(hello_));
      wire::WaitForMessages(sockets, waker_, running_.empty() ? kReportInterval : kStepInterval);
      while (const std::optional<wire::Bytes> frame = socket_.TryReceive()) {
        const auto message = wire::DecodeRouterMessage(*frame);
        if (message.ok() && message->has_value()) Take(**message);
      }
      if (welcomed_ && clock_.Now() >= next_step_) SendStep();
    }
  }

  void Take(const wire::RouterMessage& message) {
    if (std::holds_alternative<wire::Welcome>(message)) welcomed_ = true;
    if (std::holds_alternative<wire::WantTokenizer>(message)) static_cast<void>(Send(WorkerBundle()));
    if (const auto* const request = std::get_if<wire::Generate>(&message)) {
      running_.push_back({request->request_id, request->max_output_tokens});
    }
  }

  void SendStep() {
    next_step_ = clock_.Now() + kStepInterval;
    wire::Step step;
    step.load.progress = sequence_;
    step.epoch = hello_.epoch;
    step.sequence = sequence_ + 1;
    for (const Running& running : running_) {
      wire::TokenEvent event;
      event.request_id = running.id;
      event.tokens.push_back(token_);
      if (running.tokens_left == 1) event.finish = wire::FinishReason::kLength;
      step.tokens.push_back(std::move(event));
    }
    if (!Send(std::move(step))) return;  // the router is behind
    ++sequence_;
    for (Running& running : running_) --running.tokens_left;
    std::erase_if(running_, [](const Running& running) { return running.tokens_left == 0; });
  }

  bool Send(wire::WorkerMessage message) { return socket_.Send(wire::Encode(message)) == wire::SendOutcome::kSent; }

  const wire::Hello hello_ = WorkerHello();
  const TokenId token_;
  const SteadyClock clock_;
  wire::Context context_;
  wire::Waker waker_;
  wire::DealerSocket socket_;
  std::atomic<bool> stopping_ = false;

  // The thread's own.
  bool welcomed_ = false;
  Instant next_step_{};
  std::uint64_t sequence_ = 0;
  std::vector<Running> running_;

  clockid_t cpu_clock_{};
  std::thread thread_;
};

// One way to the router.
struct Wire {
  std::unique_ptr<HttpServer> server;
  ClientContext client;  // null: plain
};

// Router's seconds: the process's without those of the worker and of the threads that are clients.
class RouterTime {
 public:
  explicit RouterTime(const SteadyWorker& worker) : worker_(worker) {}
  [[nodiscard]] double Since(double client_seconds) const {
    return Seconds(CLOCK_PROCESS_CPUTIME_ID) - process_ - (worker_.cpu_seconds() - worker_seconds_) - client_seconds;
  }

 private:
  const SteadyWorker& worker_;
  const double worker_seconds_ = worker_.cpu_seconds();
  const double process_ = Seconds(CLOCK_PROCESS_CPUTIME_ID);
};

class Load {
 public:
  // Connects.
  Load(const Wire& wire, std::size_t client_count) {
    for (std::size_t i = 0; i < client_count; ++i) {
      clients_.push_back(std::unique_ptr<RawClient>(new RawClient(wire.server->port(), 0, wire.client.get())));
      ROOST_CHECK(clients_.back()->connected(), "{}", clients_.back()->tls_error());
    }
  }

  // Each client asks `count_each` times, one after the other. Returns the router's seconds.
  double Run(const std::string& request, std::size_t count_each, const SteadyWorker& worker) {
    std::atomic<double> client_seconds = 0;
    const RouterTime spent(worker);
    std::vector<std::thread> threads;
    for (const auto& client : clients_) {
      threads.emplace_back([&] {
        for (std::size_t i = 0; i < count_each; ++i) {
          ROOST_CHECK(client->Write(request));
          const RawResponse response = client->ReadResponse();
          ROOST_CHECK(response.status == 200 && response.complete, "{} {}", response.status, response.body);
        }
        client_seconds += Seconds(CLOCK_THREAD_CPUTIME_ID);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return spent.Since(client_seconds);
  }

 private:
  std::vector<std::unique_ptr<RawClient>> clients_;
};

std::string Question(bool stream, std::size_t tokens) {
  return ChatRequest(fmt::format(
      R"({{"model":"m","stream":{},"max_tokens":{},"messages":[{{"role":"user","content":"What is this?"}}]}})", stream,
      tokens));
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

void BenchHttpTls(Effort effort) {
  SetUpLogging(LogLevel::kWarning, LogFormat::kText);  // not a line for each request
  const Sizes sizes = effort == Effort::kQuick ? Sizes{1, 2, 1, 20, 5} : Sizes{7, 16, 1, 400, 400};
  const std::string tokenizer_file = std::string(testing_support::SourceDir()) + "/deploy/demo-model/tokenizer.json";
  const std::shared_ptr<const Tokenizer> tokenizer = Tokenizer::FromFile(tokenizer_file).value();
  BenchRouter router(tokenizer);
  const SteadyWorker worker(router.link(), tokenizer->IdOf("a").value());
  router.WaitForModel();
  const auto tls = TlsContext::Load(FilesOf(SharedServerCertificate())).value();
  const Wire wires[] = {{router.Serve(), nullptr}, {router.Serve(tls), SharedClientContext()}};

  const std::string stream = Question(true, sizes.tokens_each);
  const std::string chat = Question(false, 1);
  std::vector<double> stream_seconds[2];
  std::vector<double> chat_seconds[2];
  std::vector<double> connect_seconds[2];
  for (std::size_t round = 0; round < sizes.rounds; ++round) {
    for (std::size_t i = 0; i < 2; ++i) {
      const RouterTime spent(worker);
      const double own = Seconds(CLOCK_THREAD_CPUTIME_ID);
      Load load(wires[i], sizes.clients);
      connect_seconds[i].push_back(spent.Since(Seconds(CLOCK_THREAD_CPUTIME_ID) - own));
      stream_seconds[i].push_back(load.Run(stream, sizes.streams_each, worker));
      chat_seconds[i].push_back(load.Run(chat, sizes.chats_each, worker));
    }
  }

  const auto events = static_cast<double>(sizes.clients * sizes.streams_each * sizes.tokens_each);
  const auto chats = static_cast<double>(sizes.clients * sizes.chats_each);
  const double stream_ratio = Median(stream_seconds[0]) / Median(stream_seconds[1]);
  const double chat_ratio = Median(chat_seconds[0]) / Median(chat_seconds[1]);
  Figure("http_plain_events_per_core_s", events / Median(stream_seconds[0]), "events/s");
  Figure("http_tls_events_per_core_s", events / Median(stream_seconds[1]), "events/s");
  Figure("http_plain_chats_per_core_s", chats / Median(chat_seconds[0]), "chats/s");
  Figure("http_tls_chats_per_core_s", chats / Median(chat_seconds[1]), "chats/s");
  Figure("http_tls_handshake_us",
         1e6 * (Median(connect_seconds[1]) - Median(connect_seconds[0])) / static_cast<double>(sizes.clients), "us");
  Figure("http_tls_stream_ratio", stream_ratio, "ratio");
  Figure("http_tls_chat_ratio", chat_ratio, "ratio");
  Figure("http_tls_throughput_ratio", std::min(stream_ratio, chat_ratio), "ratio");
}

}  // namespace roost::bench
