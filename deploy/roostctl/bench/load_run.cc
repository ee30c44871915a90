#include "deploy/roostctl/bench/load_run.h"

#include <sys/timerfd.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <ctime>
#include <functional>
#include <memory>
#include <queue>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/base/rng.h"
#include "common/http/curl_call.h"
#include "deploy/roostctl/remote/router_access.h"
#include "deploy/roostctl/remote/router_call.h"

namespace roost::roostctl {
namespace {

// Many streamed answers at once, over libcurl and in one thread: for loads of requests that do not wait for each other.
//
// Not thread-safe.
class StreamClient {
 public:
  struct Request {
    std::string path;
    std::string json;
    OnData on_data;
    std::function<void(const Result<HttpResponse>& response)> on_end;
  };

  // Each request ends after `timeout_seconds` at the latest.
  StreamClient(RouterAccess access, double timeout_seconds);
  ~StreamClient();
  StreamClient(const StreamClient&) = delete;
  StreamClient& operator=(const StreamClient&) = delete;

  // An Error if the access can not be used: the key's file can not be read.
  [[nodiscard]] Result<void> Check() const;

  // Begins a request. Its callbacks run in later calls of Run; they may call Start.
  void Start(Request request);
  // Ends all requests with kCancelled, with their callbacks.
  void CancelAll();

  // Moves bytes. Returns when there was something to do, or after `at_most`.
  void Run(Duration at_most);

  [[nodiscard]] std::size_t open_count() const { return open_.size(); }

 private:
  struct Transfer : RouterCall {
    Request request;
  };

  void SetTimer(Duration time) const;
  void End(CurlCall* call, CURLcode code);

  const RouterAccess access_;
  const Result<std::string> key_;
  const double timeout_seconds_;
  CurlCalls calls_;
  const int timer_;  // a file descriptor, because curl itself waits for whole milliseconds
  std::unordered_map<CurlCall*, std::unique_ptr<Transfer>> open_;
  std::vector<std::unique_ptr<Transfer>> idle_;  // to use again
};

// Connections that are kept for later requests.
constexpr long kKeptConnections = 4096;

StreamClient::StreamClient(RouterAccess access, double timeout_seconds)
    : access_(std::move(access)),
      key_(KeyOf(access_)),
      timeout_seconds_(timeout_seconds),
      calls_(kKeptConnections),
      timer_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {
  ROOST_CHECK(timer_ >= 0);
}

StreamClient::~StreamClient() {
  for (const auto& [call, transfer] : open_) calls_.Remove(*call);
  close(timer_);
}

Result<void> StreamClient::Check() const {
  if (!key_.ok()) return key_.error();
  return {};
}

void StreamClient::Start(Request request) {
  ROOST_CHECK(key_.ok());
  std::unique_ptr<Transfer> transfer;
  if (idle_.empty()) {
    transfer = std::make_unique<Transfer>();
  } else {
    transfer = std::move(idle_.back());
    idle_.pop_back();
  }
  transfer->request = std::move(request);
  transfer->Begin(access_, *key_,
                  {.path = transfer->request.path,
                   .json = &transfer->request.json,
                   .on_data = transfer->request.on_data,
                   .timeout_seconds = timeout_seconds_});
  calls_.Add(*transfer);
  CurlCall* const call = transfer.get();
  open_.emplace(call, std::move(transfer));
  calls_.Move();  // begins to connect and to write now, not at the next Run
}

// Setting it also takes back that it was over before.
void StreamClient::SetTimer(Duration time) const {
  const auto whole = std::chrono::duration_cast<std::chrono::seconds>(time);
  itimerspec spec{};
  spec.it_value.tv_sec = whole.count();
  spec.it_value.tv_nsec = (time - whole).count();
  ROOST_CHECK(timerfd_settime(timer_, 0, &spec, nullptr) == 0);
}

void StreamClient::Run(Duration at_most) {
  if (at_most > Duration(0)) {
    SetTimer(at_most);
    calls_.Wait(std::chrono::ceil<std::chrono::milliseconds>(at_most), std::span(&timer_, 1));
  }
  calls_.Move();
  while (const auto ended = calls_.NextEnded()) End(ended->call, ended->code);
}

void StreamClient::CancelAll() {
  while (!open_.empty()) {
    CurlCall* const call = open_.begin()->first;
    calls_.Remove(*call);
    End(call, CURLE_ABORTED_BY_CALLBACK);
  }
}

void StreamClient::End(CurlCall* call, CURLcode code) {
  const auto found = open_.find(call);
  ROOST_CHECK(found != open_.end());
  std::unique_ptr<Transfer> transfer = std::move(found->second);
  open_.erase(found);
  const Result<HttpResponse> response = transfer->End(code);
  const Request request = std::exchange(transfer->request, {});
  idle_.push_back(std::move(transfer));
  request.on_end(response);
}

constexpr Duration kProgressInterval = std::chrono::milliseconds(100);

std::uint64_t AnswerHash(std::size_t session, std::size_t turn, std::string_view answer) {
  return XXH3_64bits_withSeed(answer.data(), answer.size(), Mix64(session) + turn);
}

std::vector<float> GapsOf(const std::vector<double>& piece_seconds) {
  std::vector<float> gaps;
  for (std::size_t i = 1; i < piece_seconds.size(); ++i) {
    gaps.push_back(static_cast<float>(piece_seconds[i] - piece_seconds[i - 1]));
  }
  return gaps;
}

std::string PromptOfTurns(const std::vector<ChatTurn>& turns) {
  std::string prompt;
  for (const ChatTurn& turn : turns) {
    if (!prompt.empty()) prompt += "\n\n";
    prompt += turn.text;
  }
  return prompt;
}

class Load {
 public:
  Load(const LoadTarget& target, const LoadPlan& plan)
      : target_(target),
        plan_(plan),
        client_(target.access, target.timeout_seconds),
        start_(clock_.Now()),
        runs_(plan.sessions.size()) {
    progress_.session_count = plan.sessions.size();
  }

  [[nodiscard]] Result<void> Check() const { return client_.Check(); }

  LoadResult Run() {
    Begin();
    while (!due_.empty() || client_.open_count() > 0) {
      if (plan_.stop_asked && plan_.stop_asked()) {
        result_.was_stopped = true;
        due_ = {};
        client_.CancelAll();
        break;
      }
      SendDue();
      client_.Run(TimeToNext());
      Tell();
    }
    if (!result_.samples.empty()) result_.seconds = last_end_seconds_ - first_seconds_;
    return std::move(result_);
  }

 private:
  struct SessionRun {
    std::vector<ChatTurn> turns;  // so far
    std::size_t next_turn = 0;
  };
  struct Due {
    double seconds;
    std::size_t index;  // of the session

    bool operator<(const Due& other) const {  // the earliest is on top
      return std::tie(seconds, index) > std::tie(other.seconds, other.index);
    }
  };

  [[nodiscard]] double Now() const { return ToSeconds(clock_.Now() - start_); }

  void Begin() {
    const std::size_t count =
        plan_.concurrency ? std::min<std::size_t>(*plan_.concurrency, runs_.size()) : runs_.size();
    for (; next_session_ < count; ++next_session_) {
      due_.push({plan_.concurrency ? 0 : plan_.sessions[next_session_].start_seconds, next_session_});
    }
  }

  void SendDue() {
    while (!due_.empty() && due_.top().seconds <= Now() && client_.open_count() < kMaxOpen) {
      const Due due = due_.top();
      due_.pop();
      Send(due);
    }
  }

  [[nodiscard]] Duration TimeToNext() const {
    if (due_.empty() || client_.open_count() >= kMaxOpen) return kProgressInterval;
    return std::clamp(FromSeconds(due_.top().seconds - Now()), Duration(0), kProgressInterval);
  }

  void Send(const Due& due) {
    const BenchSession& session = plan_.sessions[due.index];
    SessionRun& run = runs_[due.index];
    if (session.has_whole_prompts) run.turns.clear();
    if (run.turns.empty() && session.front) {
      run.turns.push_back({"system", Render(*session.front, target_.tokens_per_word)});
    }
    const BenchTurn& turn = session.turns[run.next_turn];
    run.turns.push_back({"user", Render(turn.text, target_.tokens_per_word)});
    const Instant scheduled = start_ + FromSeconds(due.seconds);
    auto events = std::make_shared<AnswerEvents>(clock_, scheduled, nullptr);
    const double lag = Now() - due.seconds;
    client_.Start({.path = target_.api == BenchApi::kChat ? "/v1/chat/completions" : "/v1/completions",
                   .json = BodyOf(turn, run.turns),
                   .on_data = [events](std::string_view data) { events->Take(data); },
                   .on_end = [this, events, due,
                              lag](const Result<HttpResponse>& response) { OnEnd(due, lag, events->End(response)); }});
  }

  [[nodiscard]] std::string BodyOf(const BenchTurn& turn, const std::vector<ChatTurn>& turns) const {
    const ChatFields fields{.model = target_.model,
                            .max_tokens = turn.max_tokens,
                            .temperature = 0,
                            .cache = target_.cache,
                            .ignore_eos = target_.ignore_eos};
    return target_.api == BenchApi::kChat ? ChatBody(fields, turns) : CompletionBody(fields, PromptOfTurns(turns));
  }

  void OnEnd(const Due& due, double lag, ChatAnswer answer) {
    if (answer.stopped) return;
    if (answer.error.empty() && answer.piece_seconds.empty()) {
      answer.error = "the answer has no text, so there is no first token to measure";
      answer.error_kind = "no text";
    }
    const BenchSession& session = plan_.sessions[due.index];
    SessionRun& run = runs_[due.index];
    ++progress_.ended_requests;
    if (!answer.error.empty()) ++progress_.failed_requests;
    if (!session.is_warm_up) Record(session, run.next_turn, due.seconds, lag, answer);
    if (plan_.answers != nullptr && answer.error.empty()) {
      answer.text = plan_.answers->try_emplace({session.number, run.next_turn}, answer.text).first->second;
    }
    run.turns.push_back({"assistant", std::move(answer.text)});
    ++run.next_turn;
    GoOn(session, run, due.index);
  }

  void Record(const BenchSession& session, std::size_t turn, double scheduled_seconds, double lag,
              const ChatAnswer& answer) {
    first_seconds_ = std::min(first_seconds_, scheduled_seconds);
    last_end_seconds_ = std::max(last_end_seconds_, Now());
    result_.samples.push_back({.error = answer.error,
                               .error_kind = answer.error_kind,
                               .worker = answer.worker,
                               .scheduled_seconds = scheduled_seconds,
                               .lag_seconds = lag,
                               .ttft_seconds = answer.ttft_seconds,
                               .total_seconds = answer.total_seconds,
                               .gap_seconds = GapsOf(answer.piece_seconds),
                               .prompt_tokens = answer.prompt_tokens,
                               .cached_tokens = answer.cached_tokens,
                               .output_tokens = answer.output_tokens,
                               .answer_hash = AnswerHash(session.number, turn, answer.text),
                               .session = session.number,
                               .turn = turn});
  }

  void GoOn(const BenchSession& session, SessionRun& run, std::size_t index) {
    if (run.next_turn < session.turns.size()) {
      const BenchTurn& next = session.turns[run.next_turn];
      due_.push({std::max(Now() + next.think_seconds, next.earliest_seconds.value_or(0)), index});
      return;
    }
    run.turns = {};
    ++progress_.ended_sessions;
    if (plan_.concurrency && next_session_ < runs_.size()) due_.push({Now(), next_session_++});
  }

  void Tell() {
    if (!plan_.on_progress || clock_.Now() < next_tell_) return;
    next_tell_ = clock_.Now() + kProgressInterval;
    progress_.open_requests = client_.open_count();
    plan_.on_progress(progress_);
  }

  const SteadyClock clock_;
  const LoadTarget& target_;
  const LoadPlan& plan_;
  StreamClient client_;
  const Instant start_;
  std::vector<SessionRun> runs_;  // by index of the session
  std::priority_queue<Due> due_;
  std::size_t next_session_ = 0;
  double first_seconds_ = INFINITY;
  double last_end_seconds_ = 0;
  Instant next_tell_{};
  LoadProgress progress_;
  LoadResult result_;
};

}  // namespace

Result<LoadResult> RunLoad(const LoadTarget& target, const LoadPlan& plan) {
  Load load(target, plan);
  ROOST_RETURN_IF_ERROR(load.Check());
  return load.Run();
}

}  // namespace roost::roostctl
