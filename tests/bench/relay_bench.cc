// Measures the time that a worker's token takes through the router to its client, beside clients that send large
// bodies. Router and worker are in this process: the real server, API, text threads and fleet, over real sockets; the
// worker is a script.
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "common/http/server.h"
#include "common/text/tokenizer.h"
#include "common/wire/codec.h"
#include "common/wire/socket.h"
#include "tests/bench/bench.h"
#include "tests/bench/bench_router.h"
#include "tests/common/http/raw_client.h"
#include "tests/support/source_dir.h"

namespace roost::bench {
namespace {

constexpr std::chrono::milliseconds kTokenInterval{4};

// In production, clients and workers are on other machines. So here the senders must not take CPUs from the router's
// threads, and the threads that measure should not wait for a CPU, if this user may set that priority.
void SetNice(int nice) { static_cast<void>(setpriority(PRIO_PROCESS, 0, nice)); }

constexpr int kTimekeeperNice = -15;

struct Sizes {
  std::size_t senders;
  std::size_t body_bytes;
  std::size_t tokens;
};

// Answers its first request, the stream, with one token every few milliseconds, and ends all others at once.
class ScriptedWorker {
 public:
  ScriptedWorker(const std::string& endpoint, TokenId token)
      : token_(token), socket_(wire::DealerSocket::Connect(context_, endpoint).value()) {
    thread_ = std::thread([this] { Run(); });
  }
  ScriptedWorker(const ScriptedWorker&) = delete;
  ScriptedWorker& operator=(const ScriptedWorker&) = delete;
  ~ScriptedWorker() {
    stopping_ = true;
    waker_.Wake();
    thread_.join();
  }

  // The time at which the stream's n-th token was sent.
  [[nodiscard]] Instant SentAt(std::size_t n) const {
    const std::lock_guard lock(mutex_);
    return sent_.at(n);
  }

 private:
  void Run() {
    SetNice(kTimekeeperNice);
    const wire::Socket* const sockets[] = {&socket_};
    while (!stopping_) {
      if (!welcomed_) Send(hello_);
      wire::WaitForMessages(sockets, waker_, kTokenInterval);
      while (const std::optional<wire::Bytes> frame = socket_.TryReceive()) {
        const auto message = wire::DecodeRouterMessage(*frame);
        if (message.ok() && message->has_value()) Take(**message);
      }
      if (welcomed_ && clock_.Now() >= next_step_) SendStep();
    }
  }

  void Take(const wire::RouterMessage& message) {
    if (std::holds_alternative<wire::Welcome>(message)) welcomed_ = true;
    if (std::holds_alternative<wire::WantTokenizer>(message)) {
      Send(WorkerBundle());
    }
    const auto* const request = std::get_if<wire::Generate>(&message);
    if (request == nullptr) return;
    if (!stream_) {
      stream_ = request->request_id;
      return;
    }
    wire::TokenEvent end;
    end.request_id = request->request_id;
    end.finish = wire::FinishReason::kLength;
    ends_.push_back(std::move(end));
  }

  void SendStep() {
    next_step_ = clock_.Now() + kTokenInterval;
    wire::Step step;
    step.load.progress = sequence_;
    step.epoch = hello_.epoch;
    step.sequence = ++sequence_;
    step.tokens = std::exchange(ends_, {});
    if (stream_) {
      wire::TokenEvent event;
      event.request_id = *stream_;
      event.tokens.push_back(token_);
      step.tokens.push_back(std::move(event));
      const std::lock_guard lock(mutex_);
      sent_.push_back(clock_.Now());
    }
    Send(std::move(step));
  }

  void Send(wire::WorkerMessage message) {
    const wire::Bytes frame = wire::Encode(message);
    // Before there is a connection, a hello is refused as full, and is sent again.
    const wire::SendOutcome outcome = socket_.Send(frame);
    ROOST_CHECK(!welcomed_ || outcome == wire::SendOutcome::kSent);
  }

  const wire::Hello hello_ = WorkerHello();
  const TokenId token_;
  const SteadyClock clock_;
  wire::Context context_;
  wire::Waker waker_;
  wire::DealerSocket socket_;
  std::atomic<bool> stopping_ = false;

  // Used by the thread only.
  bool welcomed_ = false;
  std::uint64_t sequence_ = 0;
  Instant next_step_{};
  std::optional<RequestId> stream_;
  std::vector<wire::TokenEvent> ends_;

  mutable std::mutex mutex_;
  std::vector<Instant> sent_;  // guarded by mutex_

  std::thread thread_;
};

// Words, as many as make the size.
std::string LargeBody(std::size_t size) {
  Rng rng(3);
  std::string text;
  while (text.size() < size) {
    for (std::uint64_t i = 2 + rng.Below(8); i > 0; --i) text += static_cast<char>('a' + rng.Below(26));
    text += ' ';
  }
  return R"({"model":"m","max_tokens":1,"messages":[{"role":"user","content":")" + text + R"("}]})";
}

// Sends large bodies, one after the other on one connection, and reads the answers, until told to stop.
class Sender {
 public:
  Sender(std::uint16_t port, const std::string& request, std::atomic<std::size_t>& answers)
      : thread_([this, port, &request, &answers] {
          SetNice(19);
          while (!stopping_) {
            RawClient client(port);
            while (!stopping_ && client.Write(request)) {
              if (client.ReadResponse().status == 0) break;
              ++answers;
            }
          }
        }) {}
  ~Sender() { thread_.join(); }
  void Stop() { stopping_ = true; }

 private:
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

// Sorted seconds from the worker to the client of each token from `first` to `last`.
std::vector<double> ReadStream(RawClient& client, const ScriptedWorker& worker, std::size_t first, std::size_t last) {
  const SteadyClock clock;
  std::vector<double> seconds;
  while (first < last) {
    const std::optional<std::string> event = client.ReadUntil("\n\n");
    ROOST_CHECK(event.has_value(), "the stream ended early");
    // The chunk with the role comes with the first token, and has no text.
    if (event->find("\"content\":\"a\"") == std::string::npos) continue;
    seconds.push_back(ToSeconds(clock.Now() - worker.SentAt(first++)));
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds;
}

}  // namespace

void BenchRelay(Effort effort) {
  const Sizes sizes = effort == Effort::kQuick ? Sizes{2, 1U << 20U, 50} : Sizes{8, 8'000'000, 2500};
  const std::string tokenizer_file = std::string(testing_support::SourceDir()) + "/deploy/demo-model/tokenizer.json";
  const std::shared_ptr<const Tokenizer> tokenizer = Tokenizer::FromFile(tokenizer_file).value();
  BenchRouter router(tokenizer);
  const std::unique_ptr<HttpServer> server = router.Serve();
  const ScriptedWorker worker(router.link(), tokenizer->IdOf("a").value());
  router.WaitForModel();
  const std::string request = ChatRequest(LargeBody(sizes.body_bytes));

  // New threads inherit the niceness, so all others must have begun.
  SetNice(kTimekeeperNice);
  RawClient client(server->port());
  ROOST_CHECK(client.Write(ChatRequest(R"({"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]})")));
  ROOST_CHECK(client.ReadUntil("\r\n\r\n").has_value());
  // The machine's own delay, without load on the router.
  const std::vector<double> quiet = ReadStream(client, worker, 0, sizes.tokens);
  std::atomic<std::size_t> answers = 0;
  std::vector<std::unique_ptr<Sender>> senders;
  for (std::size_t i = 0; i < sizes.senders; ++i) {
    senders.push_back(std::make_unique<Sender>(server->port(), request, answers));
  }
  const std::vector<double> seconds = ReadStream(client, worker, sizes.tokens, 2 * sizes.tokens);
  for (const auto& sender : senders) sender->Stop();

  Figure("relay_delay_quiet_max_ms", quiet.back() * 1e3, "ms");
  Figure("relay_delay_median_ms", seconds[seconds.size() / 2] * 1e3, "ms");
  Figure("relay_delay_p99_ms", seconds[seconds.size() * 99 / 100] * 1e3, "ms");
  Figure("relay_delay_max_ms", seconds.back() * 1e3, "ms");
  Figure("relay_bodies_answered", static_cast<double>(answers), "bodies");
}

}  // namespace roost::bench
