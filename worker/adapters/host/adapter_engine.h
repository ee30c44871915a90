// A worker's requests at vLLM or SGLang, without a socket or a thread: Generates become calls of HTTP, and what comes
// back becomes the token events of a step report.
//
//   Submit ─► one call for each choice ─► tokens … end, usage ─► TokenEvents in the next report
//
// Every choice has a call of its own, with the seed sampling.seed + choice: an engine draws the same, and one that
// refuses several greedy choices in one call is no special case. With prompt_logprobs the first choice's answer comes
// in one piece, because streams lack them; the other choices' calls begin after it, because the router wants the
// prompt's log probabilities before all tokens.
//
// A choice's last event waits for the engine's usage, which follows at once and tells how many prompt tokens were
// cached. So cached_token_count is in the last event of choice 0 where an engine tells it late, and in the first one
// otherwise.
//
// Every request that Submit accepted ends exactly once: with a finish reason in a report, or silently by CancelLink.
// While the engine is away there are no requests: they end with kUnavailable, and the router continues them elsewhere.
//
// Not thread-safe: all calls come from one thread. Each call is O(open calls) at most.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/wire/messages.h"
#include "worker/adapters/block_source.h"
#include "worker/adapters/engine_protocol.h"
#include "worker/adapters/engine_standing_watch.h"
#include "worker/adapters/http_port.h"
#include "worker/adapters/slots/slot_moves.h"
#include "worker/adapters/slots/slot_table.h"
#include "worker/adapters/step_meter.h"
#include "worker/engine_api/step_report.h"

namespace roost::worker::adapters {

class ForwardCalls;

// Reads server-sent events from bytes as they come, however they are cut. Only `data` matters to an engine's streams:
// other fields and comments are skipped. Several data lines of one event are joined by line feeds.
//
//   data: {"a":1}⏎⏎data: [DONE]⏎⏎          two events; a line may end with CR LF too
class SseReader {
 public:
  // The most bytes of one event, with the line that is not complete yet. The first chunk of vLLM repeats the prompt: up
  // to 2^20 tokens.
  static constexpr std::size_t kMaxEventBytes = std::size_t{16} << 20U;

  explicit SseReader(std::size_t max_event_bytes = kMaxEventBytes) : max_event_bytes_(max_event_bytes) {}

  // Calls `on_event` with the data of each event that is complete, in order. Stops at its first error. kDataLoss when
  // an event is too large; then the reader is of no more use. O(bytes).
  [[nodiscard]] Result<void> Read(std::string_view bytes,
                                  const std::function<Result<void>(std::string_view)>& on_event);

 private:
  [[nodiscard]] Result<void> ReadLine(std::string_view line,
                                      const std::function<Result<void>(std::string_view)>& on_event);

  const std::size_t max_event_bytes_;
  std::string partial_line_;
  std::string data_;
  bool has_data_ = false;
};

struct AdapterOptions {
  std::uint32_t max_running_requests = 256;   // where the engine does not tell its own limit
  std::uint32_t max_waiting_requests = 1024;  // calls beyond the running ones; over this, Submit answers kOverloaded
  std::string id_prefix = "roost";            // of requests' ids at the engine; the host adds a number of its own
  // The text that keeps a request's blocks apart from those of other scopes in the engine's cache. Null: none.
  std::function<std::string(const wire::Generate&)> salt_of = nullptr;
  std::shared_ptr<const Tokenizer> tokenizer = nullptr;  // of the model; null: not known
  // By the model's configuration; until the events show otherwise. See EventFeed::has_checkpoints.
  bool expects_groups = false;
  std::uint32_t window = 0;    // of its layers that have one; 0: none, or not known
  bool has_connector = false;  // the engine exchanges KV blocks with others; see wire::Generate, kvTransfer
  // Stands for all that makes what the engine computes; see SavedSlot. Null: nothing is saved.
  std::function<BlockHash(const EngineFacts&)> slot_origin = nullptr;
  WatchTimes times = {};
};

// Learns from hits whether the engine computes the last block of each again, as one with speculative heads (EAGLE, MTP)
// does: they read the last tokens of what was found. No configuration that an engine tells says so for sure.
class HitDrop {
 public:
  void Note(const HitGuess& guess, std::uint32_t found_tokens);
  [[nodiscard]] bool drops() const { return drops_; }

 private:
  bool drops_ = false;
  std::uint32_t against_ = 0;  // hits in a row that say otherwise
};

// The limit that the Hello names.
[[nodiscard]] std::uint32_t MaxRunning(const EngineFacts& facts, const AdapterOptions& options);

class AdapterEngine {
 public:
  // The references outlive it. `blocks` is what is known of the engine's cache; null: nothing.
  AdapterEngine(const EngineProtocol& protocol, EngineFacts facts, AdapterOptions options, const Clock& clock,
                HttpPort& port, BlockSource* blocks = nullptr);
  ~AdapterEngine();
  AdapterEngine(const AdapterEngine&) = delete;
  AdapterEngine& operator=(const AdapterEngine&) = delete;

  // The deadline counts from `received`, by default now. kOverloaded over the limit of calls, kUnavailable while the
  // engine is away and for what only another worker can continue, kContextTooLong, kInvalidArgument.
  [[nodiscard]] Result<void> Submit(LinkId link, wire::Generate request, std::optional<Instant> received = {});
  // Its event with kCancelled is in the next report. Unknown ids are ignored.
  void Cancel(RequestKey key);
  void CancelLink(LinkId link);

  // Where slots are saved it erases what an order names, and answers once that is done: see SlotMoves. Not elsewhere.
  [[nodiscard]] bool evicts() const { return moves_.has_value(); }
  void Evict(LinkId link, const wire::Evict& order);
  [[nodiscard]] std::vector<EngineAnswer> TakeAnswers();

  // The host passes on requests beside these, whose open calls count as these do.
  void NoteForwards(const ForwardCalls& forwards);
  // kUnavailable and kOverloaded as Submit, for so many calls more.
  [[nodiscard]] Result<void> CheckRoom(std::size_t call_count) const;
  // Such a call ended without a whole answer.
  void NoteLostForward(const HttpEnd& end);

  void OnHttp(const HttpEvent& event);
  // There is a sign that the engine may be gone.
  void AskHealthNow() { watch_.AskHealthNow(); }
  // Deadlines, pages, silence. Call it after each round of events, and when TimeToNextTick has passed.
  void Tick();
  [[nodiscard]] Duration TimeToNextTick() const;

  // Is there something that the next report tells? A report is small enough for a message; what does not fit is in the
  // next one.
  [[nodiscard]] bool HasReport() const;
  // The blocks' part of the load (digest, cached and idle blocks) is the caller's.
  [[nodiscard]] StepReport TakeReport();

  [[nodiscard]] const EngineWatch& watch() const { return watch_; }
  [[nodiscard]] bool TakeRestart() { return watch_.TakeRestart(); }
  [[nodiscard]] std::size_t open_call_count() const { return calls_.size(); }

 private:
  struct Request {
    wire::Generate generate;
    std::uint64_t order = 0;
    Instant received;
    std::optional<Instant> deadline = {};
    std::uint32_t open_choices = 1;
    bool has_tokens = false;
    std::optional<std::uint32_t> cached_tokens = {};  // of choice 0
    HitGuess guess = {};
    bool cached_told = false;
  };
  struct Call {
    RequestKey key;
    std::uint32_t choice = 0;
    std::string engine_id = {};
    bool is_streamed = true;
    std::unique_ptr<AnswerReader> reader = {};
    bool is_sent = false;
    SseReader events = SseReader();
    int status = 0;
    std::string body = {};  // of an answer that is not streamed, or an error's
    Instant sent = {};
    std::optional<Instant> first_tokens = {};
    Instant last_tokens = {};
    std::uint32_t output_tokens = 0;
    std::vector<TokenId> output = {};                 // where a slot holds it, as far as it is told for sure
    bool has_untold = false;                          // there is more of it
    std::optional<wire::TokenEvent> last_event = {};  // waits for the usage
    std::string kv_transfer = {};                     // for the last event
  };
  using Requests = std::map<RequestKey, Request>;
  using Calls = std::map<CallId, Call>;

  [[nodiscard]] Result<void> Check(RequestKey key, const wire::Generate& generate) const;
  [[nodiscard]] Result<void> Begin(RequestKey key, Request& request);
  [[nodiscard]] Result<void> StartCall(RequestKey key, const Request& request, std::uint32_t choice);
  [[nodiscard]] Result<void> Send(CallId id, std::optional<SlotTable::Grant> grant);
  // Sends what waits for a slot, while one is idle.
  void FillSlots();
  void SendInSlot(const SlotTable::Grant& grant);
  [[nodiscard]] std::string SaltOf(const wire::Generate& generate, std::string_view engine_id) const;
  void StartOtherChoices(RequestKey key);

  void OnCallEvent(const HttpEvent& event);
  void OnBytes(CallId id, const std::string& bytes);
  void OnStreamed(CallId id, const std::string& bytes);
  void OnCallEnd(CallId id, const HttpEnd& end);
  void OnPiece(CallId id, AnswerPiece piece);
  void OnChoicePiece(CallId id, ChoicePiece piece);
  void OnAnswered(CallId id, bool is_cut);
  void OnComplaint(RequestKey key, const Complaint& complaint);

  void TellPrompt(RequestKey key, std::vector<wire::TokenLogprobs> prompt_logprobs);
  void TellCached(const Call& call, Request& request, wire::TokenEvent& event);
  void NoteTokens(CallId id, Call& call, Request& request, std::size_t token_count);
  void EndChoice(RequestKey key);
  void Fail(RequestKey key, Error error);
  void EndRequest(RequestKey key, wire::FinishReason reason, std::optional<Error> error);
  void Drop(Requests::iterator request);
  void CloseCalls(RequestKey key);
  void FollowWatch();
  void EndSilentCalls();
  void CloseDrained();
  // Many tokens come in several events.
  void Push(LinkId link, wire::TokenEvent event);

  void LeaveRest(StepReport& report);
  void FillLoad(wire::Load& load) const;
  void FillPrompts(StepReport& report) const;
  void FillRestores(StepReport& report);
  [[nodiscard]] std::uint32_t UncachedTokens(const Request& request) const;
  [[nodiscard]] HitGuess GuessOf(const wire::Generate& generate) const;
  void NoteHit(const Request& request);
  void CountTier(double tokens);
  [[nodiscard]] std::uint32_t engine_block_tokens() const;

  const EngineProtocol& protocol_;
  const AdapterOptions options_;
  const Clock& clock_;
  HttpPort& port_;
  CallIds ids_;
  BlockSource* const blocks_;       // may be null
  SlotTable* const slots_;          // may be null
  std::optional<SlotMoves> moves_;  // of slots with a shelf
  EngineWatch watch_;
  StepMeter meter_;
  HitDrop hit_drop_;
  simdjson::dom::parser parser_;

  Requests requests_;
  Calls calls_;
  std::map<CallId, Instant> draining_;  // calls whose choice has ended, until their connection is free
  std::size_t forward_count_ = 0;
  std::uint64_t submit_count_ = 0;
  std::uint64_t step_count_ = 0;
  std::uint32_t other_requests_ = 0;                // at the engine, of other clients; as of the last load
  std::optional<double> counted_tier_tokens_ = {};  // of the engine's own count; none: not told yet
  bool was_away_ = false;
  StepReport report_;  // under construction
  bool report_due_ = true;
};

}  // namespace roost::worker::adapters
