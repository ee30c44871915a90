// A request at a worker that lacks its prompt, while a neighbour holds it: the blocks come over loopback, and the first
// token with them. Beside it, in turns and within one process: computing the prompt, finding it, and sources that stop
// or are half as fast as computing. Two engines with their threads and a model of Qwen3-0.6B's shape on the CPU.
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "common/wire/gate.h"
#include "common/wire/socket.h"
#include "tests/bench/bench.h"
#include "worker/engine/engine_thread.h"
#include "worker/model/load_model.h"
#include "worker/sched/waiting_queue.h"
#include "worker/transfer/block_transfer.h"

namespace roost::bench {
namespace {

using worker::BlockTransfer;
using worker::Engine;
using worker::EngineOptions;
using worker::EngineThread;
using worker::LinkId;
using worker::PeerPlace;

constexpr std::uint32_t kTokensOfBlock = 16;
constexpr BlockHash kScope{5, 6};
constexpr LinkId kLink{1};
constexpr std::uint64_t kPatienceMs = 60'000;
constexpr std::chrono::milliseconds kIntoAStep{5};

struct Shape {
  std::string model;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t block_count = 0;
};

// A worker without its link.
class Station {
 public:
  Station(const Shape& shape, std::string name, std::uint32_t step_tokens)
      : name_(std::move(name)),
        step_tokens_(step_tokens),
        model_(worker::LoadModel({"synthetic:" + shape.model},
                                 {.thread_count = std::max(1U, std::thread::hardware_concurrency()),
                                  .block_tokens = kTokensOfBlock,
                                  .block_count = shape.block_count,
                                  .step_bounds = {.token_count = step_tokens}})
                   .value()),
        transfer_(*model_.model, SetupOf(), clock_, [this] { thread_.Nudge(); }),
        engine_(*model_.model, clock_, Options()),
        thread_(engine_, clock_, waker_) {
    thread_.SetTransfer(&transfer_.source(), [this] { return transfer_.travelling_bytes(); });
    thread_.Start();
  }
  ~Station() {
    transfer_.StopFetching();
    thread_.Stop();
  }
  Station(const Station&) = delete;
  Station& operator=(const Station&) = delete;

  // Seconds to the first token, from the Hold if there is a source.
  double FirstToken(const std::vector<TokenId>& prompt, const std::optional<PeerPlace>& source = std::nullopt) {
    const Instant begin = clock_.Now();
    if (source) PostHold(prompt, *source, wire::HoldPurpose::kRequest);
    Post(prompt);
    AwaitToken();
    return ToSeconds(clock_.Now() - begin);
  }
  // Begins to compute a prompt, and returns within a step.
  void Begin(const std::vector<TokenId>& prompt) {
    Post(prompt);
    while (thread_.stall_watch().StepTime() < kIntoAStep && !HasToken()) {
    }
  }
  // Returns the longest step until then.
  double AwaitToken() {
    while (!HasToken()) wire::WaitForMessages({}, waker_, std::chrono::milliseconds(100));
    return longest_step_;
  }
  // Seconds from a Hold to its first frame.
  double FirstFrame(const std::vector<TokenId>& prompt, const PeerPlace& source) {
    // The source may have told its token before the last blocks could be read.
    do {
      answer_.reset();
      PostHold(prompt, source, wire::HoldPurpose::kCopy);
      while (!answer_) {
        (void)HasToken();
        wire::WaitForMessages({}, waker_, std::chrono::milliseconds(100));
      }
    } while (answer_->outcome == wire::HoldOutcome::kMissing);
    ROOST_CHECK(answer_->outcome == wire::HoldOutcome::kComplete, "{}",
                wire::kHoldOutcomeNames[static_cast<std::size_t>(answer_->outcome)]);
    return static_cast<double>(answer_->first_frame_microseconds) * 1e-6;
  }

  [[nodiscard]] PeerPlace place() const { return {.worker_id = name_, .address = transfer_.Describe().address}; }
  [[nodiscard]] std::size_t frame_bytes() { return transfer_.readable().sizes().frame_bytes(); }

 private:
  static constexpr worker::PeerLayout kLayout{.layout = 1, .numerics = 2};

  worker::TransferSetup SetupOf() const {
    worker::TransferSetup setup{.worker_id = name_, .address = {"127.0.0.1", 0}, .layout = kLayout};
    setup.listener = wire::Listen(setup.address).value();
    const worker::FrameSizes sizes{.block_tokens = kTokensOfBlock,
                                   .data_bytes = model_.model->MakeBlockReader()->block_bytes()};
    setup.frame_count = worker::FrameCountOf(sizes, 0, std::nullopt).value();
    return setup;
  }
  // As a worker's own defaults.
  EngineOptions Options() {
    EngineOptions options{.max_batch_tokens = step_tokens_, .short_step_tokens = worker::kDefaultShortStepTokens};
    options.schedule_policy = worker::SchedulePolicy::kShortestUncached;
    options.readable = &transfer_.readable();
    options.arriving = &transfer_.inbox();
    options.source = &transfer_.source();
    return options;
  }

  void Post(const std::vector<TokenId>& prompt) {
    has_token_ = false;
    longest_step_ = 0;
    wire::Generate request;
    request.request_id = RequestId(++last_id_);
    request.prompt = prompt;
    request.root = kScope;
    request.block_hashes = HashBlocks(kScope, prompt, kTokensOfBlock);
    request.sampling.temperature = 0;
    request.max_output_tokens = 1;
    request.ignore_eos = true;
    ROOST_CHECK(thread_.TryPost(worker::SubmitCommand{kLink, std::move(request)}));
  }
  void PostHold(const std::vector<TokenId>& prompt, const PeerPlace& source, wire::HoldPurpose purpose) {
    wire::Hold hold{.answer_id = ++last_id_, .root = kScope, .parent = kScope};
    hold.hashes = HashBlocks(kScope, prompt, kTokensOfBlock);
    hold.purpose = purpose;
    hold.patience_ms = kPatienceMs;
    hold.source = {.worker_id = source.worker_id, .address = source.address};
    ROOST_CHECK(thread_.TryPost(worker::OrderCommand{kLink, std::move(hold)}));
  }
  // Takes all that has come.
  bool HasToken() {
    while (const std::optional<worker::EngineOutput> output = thread_.TryTake()) {
      if (const auto* const reply = std::get_if<worker::EngineAnswer>(&*output)) {
        answer_ = std::get<wire::HoldAnswer>(reply->answer);
      }
      const auto* const report = std::get_if<worker::StepReport>(&*output);
      if (report == nullptr) continue;
      longest_step_ = std::max(longest_step_, report->load.step_seconds);
      for (const worker::RequestEvent& event : report->tokens) {
        ROOST_CHECK(!event.event.error, "{}", event.event.error->ToString());
        has_token_ = has_token_ || event.event.finish.has_value();
      }
    }
    return has_token_;
  }

  const std::string name_;
  const std::uint32_t step_tokens_;
  SteadyClock clock_;
  wire::Waker waker_;
  worker::LoadedModel model_;
  BlockTransfer transfer_;
  Engine engine_;
  EngineThread thread_;
  std::uint64_t last_id_ = 0;
  std::optional<wire::HoldAnswer> answer_;  // the latest
  bool has_token_ = false;                  // of the latest request
  double longest_step_ = 0;
};

// Stands in for a source: what it sends passes at most `bytes_per_second` fast, and nothing after `most_bytes`.
class Relay {
 public:
  struct Limits {
    double bytes_per_second = std::numeric_limits<double>::infinity();
    std::size_t most_bytes = std::numeric_limits<std::size_t>::max();
  };

  Relay(PeerPlace source, Limits limits)
      : source_(std::move(source)), limits_(limits), listener_(wire::Listen({"127.0.0.1", 0}).value()) {
    thread_ = std::thread([this] { Run(); });
  }
  ~Relay() {
    stopping_ = true;
    thread_.join();
  }
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  [[nodiscard]] PeerPlace place() const {
    const std::uint16_t port = wire::BoundTo(listener_, {"127.0.0.1", 0}).port;
    return {.worker_id = source_.worker_id, .address = "127.0.0.1:" + std::to_string(port)};
  }

 private:
  static constexpr int kWaitMs = 2;

  static bool IsReadable(int socket) {
    pollfd poll{.fd = socket, .events = POLLIN, .revents = 0};
    return ::poll(&poll, 1, kWaitMs) > 0;
  }
  // False at the end of either.
  static bool PassOn(int from, int to, std::size_t most, std::size_t& passed) {
    std::array<char, 65'536> bytes{};
    const ssize_t count = ::recv(from, bytes.data(), std::min(most, bytes.size()), 0);
    if (count <= 0) return false;
    for (ssize_t sent = 0; sent < count;) {
      const ssize_t more = ::send(to, bytes.data() + sent, static_cast<std::size_t>(count - sent), MSG_NOSIGNAL);
      if (more <= 0) return false;
      sent += more;
    }
    passed += static_cast<std::size_t>(count);
    return true;
  }

  void Run() {
    while (!stopping_) {
      if (!IsReadable(listener_.get())) continue;
      const wire::Descriptor near(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      const wire::Descriptor far = wire::ConnectTo("tcp://" + source_.address, "");
      Serve(near.get(), far.get());
    }
  }
  void Serve(int near, int far) const {
    const SteadyClock clock;
    const Instant begin = clock.Now();
    std::size_t back = 0;
    std::size_t forth = 0;
    while (!stopping_) {
      if (IsReadable(near) && !PassOn(near, far, std::numeric_limits<std::size_t>::max(), forth)) return;
      const double due = ToSeconds(clock.Now() - begin) * limits_.bytes_per_second;
      while (back < limits_.most_bytes && static_cast<double>(back) < due && IsReadable(far)) {
        if (!PassOn(far, near, limits_.most_bytes - back, back)) return;
      }
    }
  }

  const PeerPlace source_;
  const Limits limits_;
  const wire::Descriptor listener_;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

std::vector<TokenId> NewPrompt(std::uint32_t count) {
  static Rng rng(7);
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = static_cast<TokenId>(rng.Below(300));
  return tokens;
}

// The medians of what each round gives.
class Medians {
 public:
  void Add(std::size_t kind, double seconds) { seconds_[kind].push_back(seconds); }
  [[nodiscard]] double Of(std::size_t kind) {
    std::vector<double>& all = seconds_[kind];
    std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2), all.end());
    return all[all.size() / 2];
  }

 private:
  std::array<std::vector<double>, 7> seconds_;
};

}  // namespace

void BenchRequestPull(Effort effort, double bytes_per_second) {
  enum Kind : std::size_t { kComputed, kFound, kPulled, kStopped, kStoppedHalfWay, kSlow, kFirstFrame };
  const bool is_quick = effort == Effort::kQuick;
  // The last token of a prompt is always computed: one more than its blocks have.
  const Shape shape = is_quick ? Shape{"tiny", 65, 128} : Shape{"qwen3-0.6b", 1025, 512};
  Station source(shape, "source", shape.prompt_tokens);  // its steps take as long as a prompt
  Station consumer(shape, "consumer", EngineOptions().max_batch_tokens);
  const std::size_t bytes = source.frame_bytes() * shape.prompt_tokens / kTokensOfBlock;
  const auto held_there = [&] {
    std::vector<TokenId> prompt = NewPrompt(shape.prompt_tokens);
    (void)source.FirstToken(prompt);
    return prompt;
  };
  const auto through = [&](Relay::Limits limits) {
    const std::vector<TokenId> prompt = held_there();
    const Relay relay(source.place(), limits);
    return consumer.FirstToken(prompt, relay.place());
  };
  (void)consumer.FirstToken(NewPrompt(shape.prompt_tokens));  // its speed is known from here on
  Medians medians;
  for (int round = 0; round < (is_quick ? 1 : 5); ++round) {
    const double computed = consumer.FirstToken(NewPrompt(shape.prompt_tokens));
    medians.Add(kComputed, computed);
    const std::vector<TokenId> prompt = held_there();
    medians.Add(kPulled, consumer.FirstToken(prompt, source.place()));
    medians.Add(kFound, consumer.FirstToken(prompt));
    medians.Add(kStopped, through({.most_bytes = source.frame_bytes() / 2}));
    medians.Add(kStoppedHalfWay, through({.most_bytes = bytes / 2}));
    const std::vector<TokenId> other = held_there();
    source.Begin(NewPrompt(shape.prompt_tokens));
    const double first_frame = consumer.FirstFrame(other, source.place());
    medians.Add(kFirstFrame, first_frame / source.AwaitToken());
    medians.Add(kSlow, through({.bytes_per_second = static_cast<double>(bytes) / computed / 2}));
  }
  const double computed = medians.Of(kComputed);
  Figure("transfer_first_frame_within_a_step", medians.Of(kFirstFrame), "steps");
  Figure("transfer_request_computed_ms", computed * 1e3, "ms");
  Figure("transfer_request_pulled_ms", medians.Of(kPulled) * 1e3, "ms");
  Figure("transfer_request_pulled_over_computed", medians.Of(kPulled) / computed, "x");
  Figure("transfer_request_beyond_hit_over_bytes",
         (medians.Of(kPulled) - medians.Of(kFound)) * bytes_per_second / static_cast<double>(bytes), "x");
  Figure("transfer_request_source_stops_over_computed", medians.Of(kStopped) / computed, "x");
  Figure("transfer_request_source_stops_half_way_over_computed", medians.Of(kStoppedHalfWay) / computed, "x");
  Figure("transfer_request_half_as_fast_over_computed", medians.Of(kSlow) / computed, "x");
}

}  // namespace roost::bench
