// The whole request side against a server that answers with what real vLLM said.
#include "worker/adapters/host/adapter_host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "common/wire/codec.h"
#include "tests/worker/adapters/raw_server.h"
#include "tests/worker/adapters/recordings.h"

namespace roost::worker::adapters {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using testing_support::RawAnswer;
using testing_support::RawServer;
using testing_support::ReadRecording;
using testing_support::WholeAnswer;

constexpr seconds kHostPatience{20};

// vLLM as it was recorded; `streams` are the names of its next answers to requests, "" for silence.
class RecordedEngine {
 public:
  RecordedEngine() : server_([this](const std::string& request) { return Answer(request); }) {}

  [[nodiscard]] std::string url() const { return server_.url(); }
  void AnswerWith(std::string name) {
    const std::lock_guard lock(mutex_);
    streams_.push_back(std::move(name));
  }
  void SetHealth(int status) { health_ = status; }
  void Restart() { ++life_; }
  RawServer& server() { return server_; }

 private:
  RawAnswer Answer(const std::string& request) {
    if (request.starts_with("GET /health")) return WholeAnswer("", health_);
    if (request.starts_with("GET /version")) return Page("page-version");
    if (request.starts_with("GET /openapi.json")) {
      return WholeAnswer(R"({"paths":{"/v1/completions":{"post":{}},"/v1/embeddings":{"post":{}}}})");
    }
    if (request.starts_with("POST /v1/embeddings")) return WholeAnswer(request.substr(request.find("\r\n\r\n") + 4));
    if (request.starts_with("GET /v1/models")) return Page("page-v1-models");
    if (request.starts_with("GET /metrics")) return Metrics();
    const std::string name = NextStream();
    if (name.empty()) return {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", RawAnswer::Then::kHold};
    const std::string folder = name == "all-killed" ? "death/" : "http/";
    return {ReadRecording(folder + name + ".response"), RawAnswer::Then::kClose};
  }
  RawAnswer Metrics() const {
    return WholeAnswer(ReadRecording("metrics-idle.txt") + "process_start_time_seconds " + std::to_string(life_) +
                       "\n");
  }
  static RawAnswer Page(const std::string& name) { return WholeAnswer(testing_support::ReadAnswer(name).body); }
  std::string NextStream() {
    const std::lock_guard lock(mutex_);
    if (streams_.empty()) return "greedy";
    std::string name = streams_.front();
    streams_.erase(streams_.begin());
    return name;
  }

  std::atomic<int> health_ = 200;
  std::atomic<int> life_ = 1;
  std::mutex mutex_;
  std::vector<std::string> streams_;  // guarded by mutex_
  RawServer server_;
};

// A block source that the test drives from its own thread.
class ScriptedBlocks final : public BlockSource {
 public:
  struct Script {
    std::mutex mutex;
    std::vector<wire::CacheEvent> events;
    int restarts = 0;
    bool exact = true;
    const int fd = eventfd(0, EFD_NONBLOCK);
    ~Script() { close(fd); }

    void Store(BlockHash hash) {
      {
        const std::lock_guard lock(mutex);
        wire::CacheEvent event;
        event.stored.hashes = {hash};
        events.push_back(std::move(event));
      }
      const std::uint64_t one = 1;
      EXPECT_EQ(write(fd, &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
    }
  };

  explicit ScriptedBlocks(std::shared_ptr<Script> script) : script_(std::move(script)) {}

  std::vector<int> fds() override { return {script_->fd}; }
  [[nodiscard]] std::optional<Instant> deadline() const override { return std::nullopt; }
  bool Poll(Instant) override {
    std::uint64_t count = 0;
    (void)!read(script_->fd, &count, sizeof(count));
    const std::lock_guard lock(script_->mutex);
    for (wire::CacheEvent& event : std::exchange(script_->events, {})) {
      blocks_.push_back(event.stored);
      fresh_.push_back(std::move(event));
    }
    return false;
  }
  std::vector<wire::CacheEvent> TakeEvents() override { return std::exchange(fresh_, {}); }
  [[nodiscard]] bool exact() const override { return script_->exact; }
  [[nodiscard]] std::vector<wire::StoredRun> Snapshot() const override { return blocks_; }
  [[nodiscard]] BlockHash digest() const override { return blocks_.empty() ? BlockHash() : blocks_[0].hashes[0]; }
  [[nodiscard]] std::size_t block_count() const override { return blocks_.size(); }
  void OnEngineRestart(Instant) override {
    const std::lock_guard lock(script_->mutex);
    ++script_->restarts;
    for (const wire::StoredRun& run : std::exchange(blocks_, {})) {
      wire::CacheEvent event;
      event.kind = wire::CacheEvent::Kind::kRemoved;
      event.removed = run.hashes;
      fresh_.push_back(std::move(event));
    }
  }

 private:
  const std::shared_ptr<Script> script_;
  std::vector<wire::CacheEvent> fresh_;
  std::vector<wire::StoredRun> blocks_;
};

class AdapterHostTest : public ::testing::Test {
 protected:
  AdapterHost& host() {
    if (host_ != nullptr) return *host_;
    auto calls = HttpCalls::Make({.base_url = engine_.url()}).value();
    EngineFacts facts = AskForFacts(VllmProtocol(), *calls, clock_, {.patience = kHostPatience}).value();
    host_ = std::make_unique<AdapterHost>(
        AdapterHost::Setup{.protocol = VllmProtocol(),
                           .facts = std::move(facts),
                           .options = options_,
                           .calls = std::move(calls),
                           .blocks = with_blocks_ ? std::make_unique<ScriptedBlocks>(script_) : nullptr},
        clock_, waker_);
    host_->Start();
    return *host_;
  }
  void Post(EngineCommand command) { ASSERT_TRUE(host().TryPost(std::move(command))); }
  void Submit(std::uint64_t id) {
    wire::Generate generate;
    generate.request_id = RequestId(id);
    generate.prompt.assign(40, 7);
    generate.sampling.temperature = 0;
    generate.max_output_tokens = 6;
    Post(SubmitCommand{kLink, std::move(generate)});
  }
  // Takes outputs until `done`.
  bool TakeUntil(const std::function<bool()>& done) {
    const auto deadline = std::chrono::steady_clock::now() + kHostPatience;
    while (!done()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::optional<EngineOutput> output = host().TryTake();
      if (output) std::visit([this](auto& value) { Take(std::move(value)); }, *output);
      if (!output) wire::WaitForMessages({}, waker_, milliseconds(20));
    }
    return true;
  }
  bool TakeUntilEnd(std::uint64_t id) {
    return TakeUntil([this, id] { return ends_.contains(RequestId(id)); });
  }
  void Take(LinkForwarded forwarded) {
    const RequestId id = forwarded.message.request_id;
    Passed& passed = passed_[id];
    if (forwarded.message.status != 0) passed.status = forwarded.message.status;
    passed.body += forwarded.message.body;
    passed.has_ended = forwarded.message.last;
    if (forwarded.message.error) passed.error = forwarded.message.error;
  }
  void Take(StepReport report) {
    for (RequestEvent& event : report.tokens) {
      std::vector<TokenId>& tokens = tokens_[event.event.request_id];
      tokens.insert(tokens.end(), event.event.tokens.begin(), event.event.tokens.end());
      if (event.event.finish) ends_[event.event.request_id] = event.event;
    }
    event_count_ += report.events.size();
    if (!report.events.empty()) last_events_load_ = report.load;
    last_load_ = report.load;
    output_tokens_ += report.counts.output_tokens;
  }
  void Take(EngineSnapshot snapshot) { snapshot_ = std::move(snapshot); }
  void Take(OutputLost) { ++losses_; }
  void Take(EngineAnswer answer) { answers_.push_back(std::move(answer)); }
  void Take(EngineStanding standing) { standings_.push_back(std::move(standing)); }

  static constexpr LinkId kLink{1};
  RecordedEngine engine_;
  SteadyClock clock_;
  wire::Waker waker_;
  AdapterOptions options_;
  std::shared_ptr<ScriptedBlocks::Script> script_ = std::make_shared<ScriptedBlocks::Script>();
  bool with_blocks_ = false;

  struct Passed {
    std::uint32_t status = 0;
    std::string body;
    bool has_ended = false;
    std::optional<Error> error;
  };
  std::map<RequestId, Passed> passed_;
  std::map<RequestId, std::vector<TokenId>> tokens_;
  std::map<RequestId, wire::TokenEvent> ends_;
  std::vector<EngineStanding> standings_;
  std::vector<EngineAnswer> answers_;
  std::optional<EngineSnapshot> snapshot_;
  wire::Load last_load_;
  wire::Load last_events_load_;
  std::size_t event_count_ = 0;
  std::uint64_t output_tokens_ = 0;
  int losses_ = 0;
  std::unique_ptr<AdapterHost> host_;
};

TEST_F(AdapterHostTest, TheEngineSaysWhatItIs) {
  auto calls = HttpCalls::Make({.base_url = engine_.url()}).value();
  const EngineFacts facts = AskForFacts(VllmProtocol(), *calls, clock_, {.patience = kHostPatience}).value();
  wire::Hello hello;
  AdapterHost::Describe(VllmProtocol(), facts, options_, hello);
  EXPECT_EQ(facts.model, "demo-model");
  EXPECT_EQ(hello.block_tokens, 16U);
  EXPECT_EQ(hello.engine_block_tokens, 32U);
  EXPECT_EQ(hello.block_count, 142U);
  EXPECT_EQ(hello.max_context_tokens, 2048U);
  EXPECT_EQ(hello.max_running_requests, 256U);
  EXPECT_EQ(hello.routes, (std::vector<std::string>{"/v1/completions", "/v1/embeddings"}));
  using wire::Feature;
  EXPECT_EQ(hello.features, (wire::Features{Feature::kFullSampling, Feature::kLogprobs, Feature::kMinOutputTokens,
                                            Feature::kConstrainsOutput, Feature::kAnswers}));
}

TEST_F(AdapterHostTest, ARequestThatIsPassedOnIsAnsweredByTheEngine) {
  wire::Forward forward;
  forward.request_id = RequestId(7);
  forward.path = "/v1/embeddings";
  forward.content_type = "application/json";
  forward.body = std::string(1000, 'a');
  forward.body_bytes = 3000;
  Post(ForwardPart{{kLink, RequestId(7)}, std::move(forward), clock_.Now()});
  Post(ForwardPart{{kLink, RequestId(7)},
                   wire::ForwardBody{.request_id = RequestId(7), .body = std::string(2000, 'b')},
                   clock_.Now()});
  ASSERT_TRUE(TakeUntil([this] { return passed_[RequestId(7)].has_ended; }));
  EXPECT_EQ(passed_[RequestId(7)].status, 200U);
  EXPECT_EQ(passed_[RequestId(7)].body, std::string(1000, 'a') + std::string(2000, 'b'));
}

TEST_F(AdapterHostTest, AnEngineThatDoesNotComeIsAnErrorWithTheReason) {
  engine_.SetHealth(503);
  auto calls = HttpCalls::Make({.base_url = engine_.url()}).value();
  const auto facts = AskForFacts(VllmProtocol(), *calls, clock_, {.patience = milliseconds(1)});
  ASSERT_FALSE(facts.ok());
  EXPECT_EQ(facts.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(facts.error().message, HasSubstr("/health answers with status 503"));
}

TEST_F(AdapterHostTest, AnEngineThatStillStartsIsAskedAgain) {
  std::atomic<int> attempts = 0;
  RawServer server([&](const std::string& request) {
    if (request.starts_with("GET /health")) return WholeAnswer("", ++attempts < 3 ? 503 : 200);
    if (request.starts_with("GET /metrics")) return WholeAnswer(attempts < 4 ? "" : ReadRecording("metrics-idle.txt"));
    const std::string page = request.starts_with("GET /version") ? "page-version" : "page-v1-models";
    return WholeAnswer(testing_support::ReadAnswer(page).body);
  });
  auto calls = HttpCalls::Make({.base_url = server.url()}).value();
  const auto facts = AskForFacts(VllmProtocol(), *calls, clock_, {.patience = kHostPatience, .pause = milliseconds(1)});
  ASSERT_TRUE(facts.ok()) << facts.error().message;
  EXPECT_EQ(attempts, 4);
}

// A block of any size is so many of ours, or a piece of one; the rest is predicted.
TEST_F(AdapterHostTest, BlocksOfAnySizeAreServed) {
  struct Case {
    std::uint32_t tokens, count, grain, grain_count, engine_block;
  };
  for (const Case c : {Case{16, 70, 16, 70, 0}, Case{1, 1000, 16, 62, 0}, Case{2, 80, 16, 10, 0}, Case{8, 10, 8, 10, 0},
                       Case{12, 4, 4, 12, 12}, Case{48, 72, 16, 216, 48}, Case{448, 10, 16, 280, 448},
                       Case{2096, 3, 16, 393, 2096}, Case{6, 16, 0, 6, 0}}) {
    const EngineFacts facts{.block_tokens = c.tokens, .block_count = c.count, .max_context_tokens = 100};
    EXPECT_EQ(facts.grain_tokens(), c.grain) << c.tokens;
    wire::Hello hello;
    AdapterHost::Describe(VllmProtocol(), facts, options_, hello);
    EXPECT_EQ(hello.block_tokens, c.grain > 0 ? c.grain : 16U) << c.tokens;
    EXPECT_EQ(hello.block_count, c.grain_count) << c.tokens;
    EXPECT_EQ(hello.engine_block_tokens, c.engine_block) << c.tokens;
  }
}

TEST_F(AdapterHostTest, ARequestGoesThroughTheEngine) {
  engine_.AnswerWith("choice");
  Submit(5);
  ASSERT_TRUE(TakeUntilEnd(5));
  EXPECT_EQ(tokens_[RequestId(5)], (std::vector<TokenId>{82, 78, 84, 407}));
  EXPECT_EQ(ends_[RequestId(5)].stop_token, 2045U);
  EXPECT_EQ(ends_[RequestId(5)].cached_token_count, 32U);
  EXPECT_EQ(output_tokens_, 5U);
  ASSERT_FALSE(standings_.empty());
  EXPECT_EQ(standings_.front(), EngineStanding{}) << "without events there is nothing to lose track of";
}

TEST_F(AdapterHostTest, ManyRequestsGoThroughItAtOnce) {
  for (std::uint64_t id = 1; id <= 64; ++id) Submit(id);
  for (std::uint64_t id = 1; id <= 64; ++id) {
    ASSERT_TRUE(TakeUntilEnd(id));
    EXPECT_EQ(tokens_[RequestId(id)], (std::vector<TokenId>{268, 40, 485, 258, 1626, 11}));
  }
}

TEST_F(AdapterHostTest, ACancelClosesTheConnection) {
  engine_.AnswerWith("");
  Submit(5);
  ASSERT_TRUE(TakeUntil([&] { return last_load_.running_requests == 1; }));
  Post(CancelCommand{{kLink, RequestId(5)}});
  ASSERT_TRUE(TakeUntilEnd(5));
  EXPECT_EQ(ends_[RequestId(5)].finish, wire::FinishReason::kCancelled);
}

TEST_F(AdapterHostTest, AnEngineThatIsKilledMovesItsRequestsElsewhere) {
  engine_.AnswerWith("all-killed");
  Submit(5);
  ASSERT_TRUE(TakeUntilEnd(5));
  EXPECT_EQ(tokens_[RequestId(5)], (std::vector<TokenId>{288, 614, 751, 268}));
  EXPECT_EQ(ends_[RequestId(5)].error->code, ErrorCode::kUnavailable);
}

TEST_F(AdapterHostTest, AHungEngineIsAwayAndComesBack) {
  options_.times.silence = milliseconds(50);
  options_.times.retry_interval = milliseconds(1);
  engine_.AnswerWith("");              // the request
  engine_.AnswerWith("not-streamed");  // the trial
  Submit(5);
  ASSERT_TRUE(TakeUntilEnd(5));
  EXPECT_EQ(ends_[RequestId(5)].error->code, ErrorCode::kUnavailable);
  ASSERT_TRUE(TakeUntil([&] { return standings_.size() >= 3; }));
  EXPECT_THAT(standings_[1].absence, HasSubstr("no token"));
  EXPECT_EQ(standings_[2].absence, "");
  EXPECT_TRUE(engine_.server().WaitForClosed(1));
}

TEST_F(AdapterHostTest, ARequestThatCanNotRunIsRefused) {
  wire::Generate generate;
  generate.request_id = RequestId(5);
  generate.prompt.assign(5000, 7);
  generate.max_output_tokens = 1;
  Post(SubmitCommand{kLink, std::move(generate)});
  ASSERT_TRUE(TakeUntilEnd(5));
  EXPECT_EQ(ends_[RequestId(5)].error->code, ErrorCode::kContextTooLong);
}

TEST_F(AdapterHostTest, BlocksComeWithReportsAndSnapshotsAfterThem) {
  with_blocks_ = true;
  host();
  script_->Store(BlockHash{1, 2});
  ASSERT_TRUE(TakeUntil([&] { return event_count_ == 1; }));
  EXPECT_EQ(last_events_load_.cached_block_count, 1U);
  EXPECT_EQ(last_events_load_.digest, (BlockHash{1, 2}));
  EXPECT_TRUE(standings_.at(0).knows_cache);
  Post(SnapshotCommand{});
  ASSERT_TRUE(TakeUntil([&] { return snapshot_.has_value(); }));
  ASSERT_EQ(snapshot_->runs.size(), 1U);
  EXPECT_EQ(snapshot_->runs[0].hashes, (std::vector<BlockHash>{{1, 2}}));
}

// The link finds that its copy is another, and asks for a snapshot.
TEST_F(AdapterHostTest, MoreEventsThanAMessageHoldsAreLeftOut) {
  with_blocks_ = true;
  constexpr std::size_t kMany = wire::WireLimits::kMaxListItems + 1;
  {
    const std::lock_guard lock(script_->mutex);
    wire::CacheEvent event;
    for (std::uint64_t i = 1; i <= kMany; ++i) {
      event.stored.hashes = {BlockHash{i, i}};
      script_->events.push_back(event);
    }
  }
  host();
  ASSERT_TRUE(TakeUntil([&] { return last_load_.cached_block_count == kMany; }));
  EXPECT_EQ(event_count_, 0U);
  EXPECT_NE(last_load_.digest, BlockHash());
  Post(SnapshotCommand{});
  ASSERT_TRUE(TakeUntil([&] { return snapshot_.has_value(); }));
  EXPECT_EQ(snapshot_->runs.size(), kMany);
  script_->Store(BlockHash{1, 2});
  ASSERT_TRUE(TakeUntil([&] { return event_count_ == 1; }));
}

TEST_F(AdapterHostTest, ARestartedEngineHasNoBlocks) {
  with_blocks_ = true;
  host();
  script_->Store(BlockHash{1, 2});
  ASSERT_TRUE(TakeUntil([&] { return event_count_ == 1; }));
  engine_.Restart();
  ASSERT_TRUE(TakeUntil([&] { return event_count_ == 2; }));
  EXPECT_EQ(last_events_load_.digest, BlockHash());
  EXPECT_EQ(last_events_load_.cached_block_count, 0U);
  ASSERT_TRUE(TakeUntil([&] { return standings_.size() == 3; }));
  EXPECT_THAT(standings_[1].absence, HasSubstr("has restarted"));
  const std::lock_guard lock(script_->mutex);
  EXPECT_EQ(script_->restarts, 1);
}

TEST_F(AdapterHostTest, TheEnginesCacheIsItsOwn) {
  Post(OrderCommand{kLink, wire::Pin{.root = {}, .hashes = {BlockHash{1, 2}, BlockHash{3, 4}}, .answer_id = 1}});
  Post(OrderCommand{kLink, wire::Unpin{.root = {}, .hashes = {BlockHash{1, 2}}, .answer_id = 2}});
  Post(OrderCommand{kLink, wire::Evict{.what = wire::TenantToEvict{"t"}, .answer_id = 3}});
  Post(OrderCommand{kLink, wire::WantPrefixes{.answer_id = 4, .most = 5}});
  ASSERT_TRUE(TakeUntil([&] { return answers_.size() == 4; }));
  EXPECT_EQ(std::get<wire::PinAnswer>(answers_[0].answer), (wire::PinAnswer{.answer_id = 1, .refused_block_count = 2}));
  EXPECT_EQ(std::get<wire::PinAnswer>(answers_[1].answer).answer_id, 2U);
  EXPECT_EQ(std::get<wire::EvictAnswer>(answers_[2].answer).outcome, wire::EvictOutcome::kRefused);
  EXPECT_TRUE(std::get<wire::Prefixes>(answers_[3].answer).prefixes.empty());
}

TEST_F(AdapterHostTest, ReportsThatNobodyTakesAreToldAsLost) {
  options_.times.load_interval = Duration(0);  // a report each round
  host();
  const auto deadline = std::chrono::steady_clock::now() + kHostPatience;
  while (engine_.server().request_count() < kOutboxCapacity + 64 && std::chrono::steady_clock::now() < deadline) {
    wire::WaitForMessages({}, waker_, milliseconds(5));
  }
  ASSERT_TRUE(TakeUntil([&] { return losses_ > 0; }));
  Submit(5);
  EXPECT_TRUE(TakeUntilEnd(5));
  EXPECT_EQ(tokens_[RequestId(5)].size(), 6U);
}

TEST_F(AdapterHostTest, StopsWithRequestsUnderWay) {
  engine_.AnswerWith("");
  Submit(5);
  host().Stop();
  host().Stop();
  EXPECT_FALSE(host().TryPost(NudgeCommand{}));
}

}  // namespace
}  // namespace roost::worker::adapters
