// A worker on virtual time: the daemon's scheduler, prefix cache and messages, with a service model instead of the
// forward pass and sampling, and without its link.
//
//   Generate ─▶ inbox ─▶ scheduler ─▶ step: Schedule … (ServiceModel) … Commit ─▶ first token ─▶ decodes as a fluid
//                                       │                                                          │ drawn
//                                       ▼                                                          ▼
//                     Step to every router: tokens, cache events, load          its answer's blocks are committed; end
//
// A request whose prompt is computed stays in the scheduler with nothing left to compute: it keeps its blocks and its
// place in the batch, and takes no budget. When its answer has been drawn, all its tokens are appended at once and pass
// through the next step, which takes no time for them, so that their blocks enter the cache.
//
// Steps that compute prompts are events, with one token of each decoding request; steps that only decode are not, and
// arrivals meanwhile wait for the end of the one that runs. The inbox is drained between steps. The load is sent with
// every step that is an event, and once per load interval while there is none; if requests decode then, it is sent as
// the report of one of their steps.
//
// With links (block_links.h) it carries out Holds as the daemon does: what has come is committed when a step begins,
// and can be read by other workers when the step has ended. Writing it takes no time.
//
// With a disk (block_disk.h) blocks of requests that end go there, and the scheduler brings a request what comes next
// from there.
//
// Runs on one Timeline. The constructor's arguments outlive it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/wire/messages.h"
#include "deploy/roostctl/simulate/block_disk.h"
#include "deploy/roostctl/simulate/block_links.h"
#include "deploy/roostctl/simulate/fluid_decode.h"
#include "deploy/roostctl/simulate/kept_cache.h"
#include "deploy/roostctl/simulate/request_log.h"
#include "deploy/roostctl/simulate/service_model.h"
#include "deploy/roostctl/simulate/timeline.h"
#include "deploy/roostctl/simulate/trace_text.h"
#include "worker/link/peer_prompt_board.h"
#include "worker/link/peer_prompt_sender.h"
#include "worker/sched/scheduler.h"

namespace roost::simulate {

struct WorkerOptions {
  std::uint64_t cache_tokens = 1'000'000;  // kept in addition to those of running requests
  // All that the worker's memory holds, for running requests and kept tokens together; instead of cache_tokens.
  // Requests then wait for memory, or lose it and are computed again.
  std::optional<std::uint64_t> kv_tokens = {};
  std::string eviction;  // one of worker::kEvictionPolicyNames
  worker::SchedulePolicy schedule_policy = worker::SchedulePolicy::kFcfs;
  std::optional<Duration> first_token_target = {};
  std::uint32_t max_batch_tokens = 1024;
  std::uint32_t short_step_tokens = 0;  // see worker::SchedulerOptions
  std::uint32_t max_running_requests = worker::SchedulerOptions().max_running;
  std::uint32_t max_waiting_requests = worker::SchedulerOptions().max_waiting;
  std::uint32_t max_partial_prefills = worker::SchedulerOptions().max_partial_prefills;
  Duration load_interval = std::chrono::milliseconds(250);
  ServiceModel service;
  LinkOptions links;
  DiskOptions disk;
};

// The differences between workers.
struct WorkerSpec {
  double speed = 1;  // of prefill and decoding
  wire::WorkerRole role = wire::WorkerRole::kBoth;
  Duration joins_after = Duration(0);  // after the start of the run
  // After the start of the run it ends its requests, leaves, and comes back kRestartTime later with an empty cache, and
  // with what its disk has.
  std::optional<Duration> restarts_after = {};
  LinkSpec link;
};
inline constexpr Duration kRestartTime = std::chrono::seconds(10);

// The tokens whose blocks the running requests of the trace are expected to hold at one time on `worker_count` workers.
[[nodiscard]] std::uint64_t ReserveTokens(const workload::Trace& trace, const WorkerOptions& options,
                                          std::uint32_t worker_count);

class SimWorker {
 public:
  // Sends messages to router 0 … router_count - 1.
  using Send = std::function<void(std::uint32_t router, wire::WorkerMessage message)>;

  // A worker that comes back has a later epoch.
  struct Identity {
    std::uint32_t index = 0;
    std::uint64_t epoch = 1;

    [[nodiscard]] std::string id() const { return "worker-" + std::to_string(index); }
  };
  // `links` and `disk` are null where there are none.
  struct Surroundings {
    const TraceText& text;
    Timeline& timeline;
    RequestLog& log;
    BlockLinks* links = nullptr;
    BlockDisk* disk = nullptr;
  };
  SimWorker(const Identity& identity, std::uint32_t router_count, const Surroundings& surroundings,
            const WorkerOptions& options, const WorkerSpec& spec, Send send);

  // Says hello to all routers.
  void Join();
  // Takes no more requests, ends those it has, and says goodbye. `on_gone` is called then.
  void Leave(std::function<void()> on_gone);
  // A request's sampling seed is its number in the trace.
  void OnMessage(std::uint32_t router, wire::RouterMessage message);

  [[nodiscard]] const std::string& id() const { return hello_.worker_id; }
  [[nodiscard]] std::uint32_t index() const { return index_; }
  [[nodiscard]] std::uint64_t prefill_token_count() const { return prefill_token_count_; }
  // The number of these that were for copies of prefixes.
  [[nodiscard]] std::uint64_t copied_token_count() const { return copied_token_count_; }
  [[nodiscard]] const PullCounts& pulls() const { return pulls_; }
  [[nodiscard]] const RestoreCounts& restores() const { return restores_; }
  [[nodiscard]] const worker::Scheduler& scheduler() const { return scheduler_; }

 private:
  struct Link {
    bool up = false;
    bool snapshot_due = false;
    std::uint64_t sequence = 0;
    bool has_news = false;  // prompts have arrived from other routers
    Instant last_step{};
    std::vector<wire::TokenEvent> tokens;  // for the next Step
    worker::PeerPromptSender peer_prompt_sender;
  };
  enum class Phase { kPrefill, kDecode, kDrawn };
  struct Request {
    std::uint32_t number = 0;  // in the trace
    std::uint32_t router = 0;
    RequestId id;
    Instant arrival{};
    Phase phase = Phase::kPrefill;
    wire::RequestPart part = wire::RequestPart::kWhole;
    bool is_copy = false;          // of a prefix: no request waits for it, and it has no answer
    bool has_first_token = false;  // stays true while it is computed again after a preemption
    double tokens_to_draw = 0;     // while it does not decode
    std::uint32_t told_tokens = 0;
    worker::OwnedPrompt prompt;  // as it arrived
  };
  struct Incoming {
    std::uint32_t router = 0;
    wire::RouterMessage message;                      // Generate, Cancel or Hold
    worker::OwnedPrompt prompt = {};                  // for a Generate, to report to other routers
    std::optional<worker::HoldReceipt> receipt = {};  // for a Hold
  };
  // The order that an arrival belongs to.
  struct OpenHold {
    std::uint32_t router = 0;
    std::uint64_t answer_id = 0;
  };

  void OnWelcome(Link& link);

  // ---- a step ----
  // Starts the next step at the end of the running one, if requests decode, or at once.
  void StartStep();
  void RunStep();
  void DrainInbox();
  void Submit(std::uint32_t router, wire::Generate generate, worker::OwnedPrompt prompt);
  void Cancel(std::uint32_t router, RequestId request_id);
  void AppendAnswers();
  void PausePreempted();
  // Sums up what the step computes of prompts; returns its time.
  [[nodiscard]] double PlanPrompts(const std::vector<worker::ScheduledSlice>& slices);
  void EndStep(double step_seconds);
  void OnComputed(worker::SequenceId id);
  // Tells the last tokens of the answer with its end.
  void EndAnswer(worker::SequenceId id);
  void TellDrawnTokens();
  void TellTokens(Request& request, std::uint32_t count);
  void Forget(worker::SequenceId id, wire::FinishReason reason);
  wire::TokenEvent& EventFor(const Request& request);

  // ---- blocks that travel (sim_worker_holds.cc) ----
  void TakeHold(std::uint32_t router, wire::Hold hold);
  void BeginHold(std::uint32_t router, const wire::Hold& hold, worker::HoldReceipt receipt);
  // Blocks come from other workers, or from the disk.
  [[nodiscard]] bool has_arrivals() const { return block_links_ != nullptr || disk_ != nullptr; }
  // Commits what has come.
  void TakeArrived();
  [[nodiscard]] bool HasArrivalNews() const { return !writes_.empty() || scheduler_.arrivals().has_ended(); }
  // Nothing is to be computed now: looks again when a wait for blocks ends, or with the next step that decodes.
  void AwaitArrivals();
  void AnswerHolds();
  void AnswerHold(const worker::EndedArrival& ended);
  void Publish();
  void Retract();

  // ---- the disk ----
  void EndRestore(const worker::EndedArrival& ended);
  // Sets the load's part of it, and returns what has changed.
  [[nodiscard]] std::vector<wire::CacheEvent> TellDisk();

  // ---- decoding ----
  void PlanDecodeEnd();
  void OnDecodeEnd();
  void TakeDrawn();
  void LeaveWhenIdle();

  // ---- reports ----
  [[nodiscard]] wire::Load CurrentLoad() const;
  void Report(const wire::Load& load);
  // The prompts in the scheduler, for other routers.
  [[nodiscard]] std::vector<worker::OwnedPrompt> Queue() const;
  // Plans a report to all routers but `router`, which sent a prompt.
  void PlanNews(std::uint32_t router);
  void TellNews(std::uint32_t router);
  void PlanLoadReport();
  void ReportLoad();
  void SendTo(std::uint32_t router, wire::Step step);

  const std::uint32_t index_;
  const TraceText& text_;
  const WorkerOptions options_;
  const WorkerSpec spec_;
  Timeline& timeline_;
  RequestLog& log_;
  BlockLinks* const block_links_;
  BlockDisk* const disk_;
  Send send_;
  wire::Hello hello_;

  KeptCache kept_;
  worker::Scheduler scheduler_;
  FluidDecode decode_;

  std::optional<worker::ReadableBlocks> readable_;  // with links
  std::vector<worker::FrameNews> news_;             // that the engine has not taken
  std::map<worker::HoldId, OpenHold> holds_;
  std::vector<worker::ArrivedWrite> writes_;  // of the running step
  worker::CacheChanges changes_;              // since the last look
  std::vector<worker::BlockRef> stored_;      // that others may read when the running step has ended
  std::uint64_t last_received_hold_ = 0;
  std::uint64_t wait_plan_ = 0;  // the latest plan; events of earlier ones do nothing
  PullCounts pulls_;
  RestoreCounts restores_;

  std::vector<Link> links_;
  std::uint64_t copied_token_count_ = 0;
  worker::PeerPromptBoard peer_prompt_board_;  // empty when there is only one router
  std::uint64_t next_prompt_id_ = 1;
  std::uint64_t last_taken_prompt_id_ = 0;  // the last one that the engine took in
  std::vector<Incoming> inbox_;
  std::unordered_map<worker::SequenceId, Request> requests_;
  std::vector<worker::SequenceId> drawn_;    // answers whose blocks are still to be committed
  std::vector<worker::SequenceId> wanting_;  // sequences of the running step that need a token
  bool stepping_ = false;
  bool step_is_planned_ = false;  // for the end of the running decode step
  std::uint32_t step_prefill_tokens_ = 0;
  std::uint64_t step_tokens_before_ = 0;  // see worker::TokensBefore
  std::uint32_t step_decode_tokens_ = 0;
  std::uint64_t preemptions_ = 0;
  std::uint64_t prefill_token_count_ = 0;
  std::uint64_t decode_plan_ = 0;  // the latest plan; events of earlier ones do nothing
  std::function<void()> on_gone_;  // set while it leaves
  bool is_gone_ = false;
  Instant last_report_{};
  Instant last_tokens_{};  // the last report with tokens of answers under way
  std::uint64_t report_count_ = 0;
  wire::Load load_;  // the last report, without its step
};

}  // namespace roost::simulate
