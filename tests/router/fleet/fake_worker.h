// A worker without an engine: it speaks the protocol, keeps a prefix-closed set of blocks, and generates tokens that
// depend only on the tokens before them. So the right answer is known in advance, whatever happens to the workers, and
// a test can ask what the router's index must hold.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/rng.h"
#include "common/wire/messages.h"

namespace roost::router {

enum class StopTokens : std::uint8_t { kAllowed, kBanned };

// The token after `tokens`, by a model that all workers share. A different seed gives a different text.
[[nodiscard]] TokenId NextToken(const std::vector<TokenId>& tokens, std::uint64_t seed,
                                StopTokens stops = StopTokens::kAllowed);

// The whole output of a choice with this prompt and seed.
[[nodiscard]] std::vector<TokenId> ExpectedOutput(std::vector<TokenId> prompt, std::uint32_t max_output_tokens,
                                                  std::uint64_t seed = 0, std::uint32_t min_output_tokens = 0);

// The model's log probabilities for the text's tokens from number `first` on, with `top_count` likeliest tokens.
[[nodiscard]] std::vector<wire::TokenLogprobs> ExpectedLogprobs(const std::vector<TokenId>& text, std::size_t first,
                                                                std::uint32_t top_count);

class FakeWorker {
 public:
  static constexpr std::uint32_t kBlockTokens = 4;
  static constexpr std::uint32_t kBlockCount = 4096;

  FakeWorker(std::string id, std::uint64_t seed);

  // Its hello; change it before the worker starts.
  wire::Hello& hello() { return hello_; }
  [[nodiscard]] const std::string& id() const { return hello_.worker_id; }
  // The identity of its connection: its name, until it reconnects.
  [[nodiscard]] const std::string& identity() const { return identity_; }
  void Reconnect() { identity_ = hello_.worker_id + "/" + std::to_string(++connection_count_); }

  // A new process under the old name: empty cache, new epoch.
  void Restart();
  // Says hello (as it does each second until it is welcomed).
  void SayHello();
  void SayBye();
  // One engine step: every request gets one to three tokens, and the link a Step.
  void Step();
  // Sends only the load, as a worker does when no step ends for a while.
  void Heartbeat();
  // Its engine hangs: no step ends. Its link continues.
  void SetHung(bool hung) { hung_ = hung; }
  // Its engine reports progress, and computes nothing for the requests that it has.
  void SetSilent(bool silent) { silent_ = silent; }
  // It sends each request's first tokens, reports progress, and lets those wait that have begun.
  void SetDripping(bool drips) { drips_ = drips; }
  // Its steps take so many times as long from here on, by its reports. The test lets the time pass.
  void SetSlowness(double slowness) { slowness_ = slowness; }
  // A part of the step under way, which began so long ago, is done: its next heartbeat tells.
  void ComputePart(double under_way_seconds) {
    ++load_.progress;
    load_.step_under_way_seconds = under_way_seconds;
  }
  // The number of routers that it tells of.
  void SetRouterCount(std::uint32_t count) { load_.router_count = count; }
  // Requests that come from now on fail at once.
  void SetBroken(bool broken) { broken_ = broken; }
  // Requests that come from now on are refused.
  void SetFull(bool full) { full_ = full; }
  // Requests that name an adapter are refused, whatever it has told.
  void SetLacksAdapters(bool lacks) { lacks_adapters_ = lacks; }
  // Reports that a request that runs here has failed; by default, that there is no space for it after all.
  void GiveUp(RequestId request_id, Error error = {ErrorCode::kOverloaded, "queue is full", ""});
  // The number of other routers' requests that it reports as waiting.
  void SetWaiting(std::uint32_t count) { load_.waiting_requests = count; }
  // Prompt tokens that it reports as queued, of other routers.
  void SetQueuedTokens(std::uint64_t count) { load_.queued_prefill_tokens = count; }
  // Bytes of blocks that it reports as on their way to it, and from it.
  void SetTransferBytes(std::uint64_t arriving, std::uint64_t leaving) {
    load_.arriving_bytes = arriving;
    load_.leaving_bytes = leaving;
  }
  // Prompts that other routers have queued there.
  void SetOtherPrompts(std::vector<wire::OtherPrompt> prompts);
  // How much is left of the router's own prompts.
  void SetOwnPrompts(std::vector<wire::OwnPrompt> prompts) { load_.own_prompts = std::move(prompts); }
  // The engine that it stands beside is away for so long; 0: it is there.
  void SetEngineAway(std::uint64_t away_ms, std::string why) {
    load_.engine_away_ms = away_ms;
    load_.engine_absence = std::move(why);
    load_.draining = away_ms > 0;
  }
  // Its engine loads and unloads adapters.
  void SetAdapters(std::vector<std::string> names);
  void SetDraining(bool draining) { load_.draining = draining; }

  // Evicts up to `count` leaves; reported with the next step.
  void Evict(std::size_t count);
  // The same without an event, so the router's view becomes wrong.
  void EvictSilently(std::size_t count);

  // Its disk, which outlives its process, gives so many bytes a second, and requests find what is there; 0: it is off.
  void SetDisk(double bytes_per_second, std::uint64_t block_bytes) {
    load_.disk_bytes_per_second = bytes_per_second;
    load_.block_bytes = block_bytes;
  }
  // These blocks are on its disk from now on; up to `count` leaves leave it. Told with its next report, or not at all.
  void WriteToDisk(const std::vector<BlockHash>& chain);
  enum class Telling : std::uint8_t { kTells, kIsSilent };
  void DropFromDisk(std::size_t count, Telling telling = Telling::kTells);

  // Its hello says that it fetches and serves blocks; call it before the worker starts.
  void SetTransfers(std::string address);
  // Its hello says that its engine has a connector; call it before the worker starts. Prompts that are computed here
  // alone end with `kTransfer`.
  void SetConnector() { hello_.features.insert(wire::Feature::kConnector); }
  static constexpr std::string_view kTransfer = R"({"remote_block_ids":[1,2]})";
  // Its engine waits for blocks that do not come, for each request that names another engine's.
  void SetAwaitsBlocks(bool awaits) { awaits_blocks_ = awaits; }
  // From now on at most so many blocks of a Hold arrive, and its answer says this.
  void SetHoldResult(wire::HoldOutcome outcome, std::uint32_t arriving_blocks,
                     wire::HoldCause cause = wire::HoldCause::kNone);

  // From now on pins, cordons, Holds and questions get no answer.
  void SetMute(bool mute) { mute_ = mute; }
  // Blocks that it has from now on; told with its next report.
  void Keep(const std::vector<BlockHash>& chain) { Store(RootHash({}), chain); }
  // Its answer to a question for the most used prefixes.
  void SetUsedPrefixes(std::vector<wire::UsedPrefix> prefixes) { used_prefixes_ = std::move(prefixes); }

  // It tells how many tokens were cached with a request's last tokens, not with its first.
  void SetTellsCachedLate(bool late) { tells_cached_late_ = late; }
  // From its next report on: it has lost track of its cache, or knows it again.
  void SetCacheUnknown(bool unknown) { load_.cache_unknown = unknown; }
  // Requests can go on behind these of its blocks too, if its hello says so; told with its next report.
  void AddResumable(const std::vector<BlockHash>& hashes);
  // From its next report on: its engine computes so many tokens at the end of a hit again.
  void SetDroppedTokens(std::uint32_t tokens) { load_.dropped_tokens = tokens; }
  // It reports its blocks as usual, but requests find none of them.
  void SetHitless(bool hitless) { hitless_ = hitless; }
  // It reports no log probabilities, whatever its hello said.
  void SetTellsNoLogprobs(bool tells_none) { tells_no_logprobs_ = tells_none; }

  void Receive(const wire::RouterMessage& message);
  // A request that is passed on to it, as far as it has come.
  struct Passed {
    wire::Forward head;
    std::string body;
    std::uint64_t credit = 0;  // of the answer, beyond the first
  };
  [[nodiscard]] std::map<RequestId, Passed>& passed() { return passed_; }
  void Answer(wire::Forwarded part) {
    part.epoch = hello_.epoch;
    outbox_.emplace_back(std::move(part));
  }
  // Messages that it sent and the link has not delivered yet, in order.
  std::deque<wire::WorkerMessage>& outbox() { return outbox_; }

  [[nodiscard]] bool welcomed() const { return welcomed_; }
  // That its last welcome told of.
  [[nodiscard]] const wire::Crowding& crowding() const { return crowding_; }
  [[nodiscard]] std::size_t running_count() const { return running_.size(); }
  [[nodiscard]] const std::vector<wire::Generate>& received() const { return received_; }
  [[nodiscard]] const std::vector<wire::Pin>& pins() const { return pins_; }
  [[nodiscard]] const std::vector<wire::Unpin>& unpins() const { return unpins_; }
  [[nodiscard]] const std::vector<wire::Evict>& evictions() const { return evictions_; }
  [[nodiscard]] const std::vector<wire::Hold>& holds() const { return holds_; }
  // How many requests it had received before each of them.
  [[nodiscard]] const std::vector<std::size_t>& requests_before_holds() const { return requests_before_holds_; }
  [[nodiscard]] int cordon_count() const { return cordon_count_; }
  [[nodiscard]] const std::vector<wire::WantPrefixes>& questions() const { return questions_; }
  // How often a router said that it has handed over.
  [[nodiscard]] int handed_over_count() const { return handed_over_count_; }
  // The refusals that routers sent it.
  [[nodiscard]] const std::vector<wire::Refused>& refusals() const { return refusals_; }
  [[nodiscard]] const std::vector<RequestId>& cancelled() const { return cancelled_; }
  [[nodiscard]] std::uint64_t block_count() const { return parents_.size(); }
  [[nodiscard]] BlockHash digest() const;
  // Leading blocks of `chain` that it holds, and that its disk has.
  [[nodiscard]] std::uint32_t Held(const std::vector<BlockHash>& chain) const { return Leading(chain, parents_); }
  [[nodiscard]] std::uint32_t OnDisk(const std::vector<BlockHash>& chain) const { return Leading(chain, on_disk_); }
  [[nodiscard]] int snapshot_requests() const { return snapshot_requests_; }
  [[nodiscard]] int tokenizer_requests() const { return tokenizer_requests_; }

 private:
  struct Choice {
    std::vector<TokenId> tokens;  // prompt and output so far
    std::uint32_t output_count = 0;
    bool ended = false;
  };
  struct Running {
    wire::Generate request;
    std::vector<Choice> choices;
    std::optional<std::uint32_t> cached_tokens;  // known and not yet reported
    std::size_t scored_tokens = 1;               // of the prompt; the first token has no log probability
  };

  [[nodiscard]] wire::Tokenizer Bundle() const;
  void NewEpoch();
  void AnswerPin(std::uint64_t answer_id, const std::vector<BlockHash>& hashes);
  // Erases a prompt or a tenant, with what continues it; nothing of it was in use.
  void CarryOut(const wire::Evict& order);
  void CarryOut(const wire::Cordon& order);
  void CarryOut(const wire::Hold& order);
  using Blocks = std::map<BlockHash, BlockHash>;  // each with its parent
  [[nodiscard]] static std::uint32_t Leading(const std::vector<BlockHash>& chain, const Blocks& blocks);
  static wire::StoredRun Add(BlockHash root, const std::vector<BlockHash>& chain, Blocks& blocks);
  static std::vector<BlockHash> TakeLeaves(std::size_t count, Blocks& blocks);
  [[nodiscard]] static std::vector<wire::StoredRun> RunsOf(const Blocks& blocks);
  static void EraseTree(BlockHash hash, Blocks& blocks, std::vector<BlockHash>& removed);
  void Admit(const wire::Generate& request);
  void SendSnapshot();
  void SendStep(std::vector<wire::TokenEvent> tokens);
  // Runs a step of every open choice. True when the last choice has ended.
  bool Advance(Running& running, std::vector<wire::TokenEvent>& events);
  [[nodiscard]] wire::TokenEvent AdvanceChoice(Running& running, std::uint32_t index);
  [[nodiscard]] wire::TokenEvent ScorePrompt(Running& running);
  void Store(BlockHash root, const std::vector<BlockHash>& chain);

  Rng rng_;
  wire::Hello hello_;
  std::string identity_;
  int connection_count_ = 0;
  std::uint64_t sequence_ = 0;
  bool welcomed_ = false;
  wire::Crowding crowding_;
  bool full_ = false;
  bool hung_ = false;
  bool silent_ = false;
  bool drips_ = false;
  bool awaits_blocks_ = false;
  double slowness_ = 1;
  bool lacks_adapters_ = false;
  bool broken_ = false;
  bool tells_cached_late_ = false;
  bool hitless_ = false;
  bool tells_no_logprobs_ = false;
  wire::Load load_;
  Blocks parents_;  // that it holds
  Blocks on_disk_;
  std::map<RequestId, Running> running_;
  std::vector<wire::TokenEvent> answers_;  // for the next step
  std::vector<wire::CacheEvent> events_;   // for the next step
  std::vector<wire::Generate> received_;
  std::vector<wire::Pin> pins_;
  std::vector<wire::Unpin> unpins_;
  std::vector<wire::Evict> evictions_;
  std::vector<wire::Hold> holds_;
  std::vector<std::size_t> requests_before_holds_;
  wire::HoldOutcome hold_outcome_ = wire::HoldOutcome::kComplete;
  wire::HoldCause hold_cause_ = wire::HoldCause::kNone;
  std::uint32_t arriving_blocks_ = kBlockCount;
  std::vector<wire::WantPrefixes> questions_;
  std::vector<wire::UsedPrefix> used_prefixes_;
  bool mute_ = false;
  std::map<RequestId, Passed> passed_;
  std::vector<RequestId> cancelled_;
  std::vector<wire::Refused> refusals_;
  std::deque<wire::WorkerMessage> outbox_;
  int cordon_count_ = 0;
  int handed_over_count_ = 0;
  int tokenizer_requests_ = 0;
  int snapshot_requests_ = 0;
};

}  // namespace roost::router
