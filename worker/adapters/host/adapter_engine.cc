#include "worker/adapters/host/adapter_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

#include "worker/adapters/answer_json.h"
#include "worker/adapters/forward_calls.h"

namespace roost::worker::adapters {
namespace {

constexpr std::size_t kMaxErrorBytes = std::size_t{64} << 10U;

std::optional<Instant> DeadlineOf(const wire::Generate& generate, Instant received) {
  if (generate.deadline_ms == 0) return std::nullopt;
  // Far beyond any request; a larger sum would wrap around.
  const std::uint64_t most = wire::kMaxKeepMs;
  return received + std::chrono::milliseconds(std::min(generate.deadline_ms, most));
}

// The router then takes a worker that has it, and no longer this one.
Error NoAdapter(const std::string& name) {
  return {ErrorCode::kModelNotFound, fmt::format("the engine has no adapter '{}'", name), "model"};
}

// Engines name no parameter in what they say of a grammar.
bool IsAboutConstraint(const std::string& message) {
  for (const char* const word : {"rammar", "regex", "schema", "tructured", "tructural"}) {
    if (message.find(word) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

std::uint32_t MaxRunning(const EngineFacts& facts, const AdapterOptions& options) {
  return facts.max_running_requests.value_or(options.max_running_requests);
}

AdapterEngine::AdapterEngine(const EngineProtocol& protocol, EngineFacts facts, AdapterOptions options,
                             const Clock& clock, HttpPort& port, BlockSource* blocks)
    : protocol_(protocol),
      options_(std::move(options)),
      clock_(clock),
      port_(port),
      blocks_(blocks),
      slots_(blocks == nullptr ? nullptr : blocks->slots()),
      watch_(protocol, std::move(facts), options_.times, clock, ids_, port) {
  if (slots_ != nullptr && slots_->shelf() != nullptr) moves_.emplace(*slots_, clock_, ids_, port_);
}

AdapterEngine::~AdapterEngine() {
  for (const auto& [id, call] : calls_) port_.Close(id);
  for (const auto& [id, since] : draining_) port_.Close(id);
}

// ---- requests ----

Result<void> AdapterEngine::Check(RequestKey key, const wire::Generate& generate) const {
  if (generate.refusal) return *generate.refusal;
  if (requests_.contains(key)) return InvalidArgument("request_id", "{} is in use", key.request.value());
  if (generate.prompt.empty()) return InvalidArgument("prompt", "it has no token");
  if (generate.max_output_tokens == 0) return InvalidArgument("max_output_tokens", "must be at least 1");
  if (generate.sample_count == 0 || generate.sample_count > wire::kMaxSampleCount) {
    return InvalidArgument("sample_count", "must be from 1 to {}", wire::kMaxSampleCount);
  }
  const std::uint32_t context = watch_.facts().max_context_tokens;
  if (generate.prompt.size() >= context) {
    return Error{ErrorCode::kContextTooLong,
                 fmt::format("the prompt has {} tokens, the engine's context {}", generate.prompt.size(), context),
                 "prompt"};
  }
  if (!generate.adapter.empty() && !watch_.facts().adapters.contains(generate.adapter)) {
    return NoAdapter(generate.adapter);
  }
  if (!generate.kv_transfer.empty() && !options_.has_connector) {
    return InvalidArgument("kv_transfer", "the engine has no connector");
  }
  if (generate.constraint && generate.first_output_index > 0) {
    return Unavailable("the engine can not continue an output under a constraint");
  }
  return CheckRoom(generate.sample_count);
}

Result<void> AdapterEngine::CheckRoom(std::size_t call_count) const {
  if (watch_.is_away()) return Unavailable(fmt::format("the engine is away: {}", watch_.why()));
  const std::size_t limit =
      std::size_t{MaxRunning(watch_.facts(), options_)} + std::size_t{options_.max_waiting_requests};
  const std::size_t open = calls_.size() + forward_count_;
  if (open + call_count <= limit) return {};
  return Error{ErrorCode::kOverloaded, fmt::format("the engine has {} requests of {}", open, limit), ""};
}

void AdapterEngine::NoteForwards(const ForwardCalls& forwards) { forward_count_ = forwards.open_count(); }

void AdapterEngine::NoteLostForward(const HttpEnd& end) {
  watch_.OnLostCall(end);
  FollowWatch();
}

Result<void> AdapterEngine::Submit(LinkId link, wire::Generate request, std::optional<Instant> received) {
  const RequestKey key{link, request.request_id};
  ++submit_count_;
  ROOST_RETURN_IF_ERROR(Check(key, request));
  const Instant at = received.value_or(clock_.Now());
  const std::optional<Instant> deadline = DeadlineOf(request, at);
  const HitGuess guess = GuessOf(request);
  if (slots_ == nullptr) request.block_hashes = {};
  if (calls_.empty()) watch_.OnLife();  // its silence begins now
  const auto [entry, is_new] = requests_.emplace(key, Request{.generate = std::move(request),
                                                              .order = submit_count_,
                                                              .received = at,
                                                              .deadline = deadline,
                                                              .guess = guess});
  if (Result<void> begun = Begin(key, entry->second); !begun.ok()) {
    CloseCalls(key);
    requests_.erase(entry);
    return begun;
  }
  entry->second.generate.block_hashes = {};
  report_due_ = true;
  FillSlots();
  return {};
}

Result<void> AdapterEngine::Begin(RequestKey key, Request& request) {
  const wire::Generate& generate = request.generate;
  request.open_choices = generate.sample_count;
  if (generate.cache_mode == wire::CacheMode::kOff) ++report_.counts.uncached_requests;
  const std::uint32_t first_calls = generate.prompt_logprobs ? 1 : generate.sample_count;
  for (std::uint32_t choice = 0; choice < first_calls; ++choice) {
    ROOST_RETURN_IF_ERROR(StartCall(key, request, choice));
  }
  return {};
}

Result<void> AdapterEngine::StartCall(RequestKey key, const Request& request, std::uint32_t choice) {
  const CallId id = ids_.Next();
  calls_.emplace(id,
                 Call{.key = key, .choice = choice, .engine_id = fmt::format("{}-{}", options_.id_prefix, id.value())});
  if (slots_ == nullptr) return Send(id, std::nullopt);
  slots_->Enqueue(id, request.generate);
  return {};
}

void AdapterEngine::FillSlots() {
  if (slots_ == nullptr) return;
  constexpr std::uint64_t kMany = 1024;
  slots_->SetPace(meter_.PromptSeconds(kMany) / kMany);
  for (;;) {
    if (moves_) {
      for (const std::uint32_t slot : moves_->TakeMoved()) {
        if (const auto grant = slots_->OnMoved(slot, clock_.Now())) SendInSlot(*grant);
      }
      while (std::optional<SlotMove> move = slots_->NextErase()) moves_->Begin(*std::move(move));
    }
    const std::optional<SlotTable::Grant> grant = slots_->Next(clock_.Now());
    if (!grant) return;
    if (grant->move) {
      moves_->Begin(*grant->move);
    } else {
      SendInSlot(*grant);
    }
  }
}

void AdapterEngine::SendInSlot(const SlotTable::Grant& grant) {
  const RequestKey key = calls_.at(grant.call).key;
  if (Result<void> sent = Send(grant.call, grant); !sent.ok()) Fail(key, std::move(sent).error());
}

Result<void> AdapterEngine::Send(CallId id, std::optional<SlotTable::Grant> grant) {
  Call& call = calls_.at(id);
  const wire::Generate& generate = requests_.at(call.key).generate;
  const std::string salt = SaltOf(generate, call.engine_id);
  const auto prompt_size = static_cast<std::uint32_t>(generate.prompt.size());
  const bool scores_prompt = generate.prompt_logprobs.has_value() && call.choice == 0;
  const bool lends_blocks = options_.has_connector && generate.part == wire::RequestPart::kPrompt;
  const CallPlan plan{
      .generate = generate,
      .facts = watch_.facts(),
      .id = call.engine_id,
      .salt = salt,
      .choice = call.choice,
      .max_tokens = std::min(generate.max_output_tokens, watch_.facts().max_context_tokens - prompt_size),
      .scores_prompt = scores_prompt,
      .is_streamed = !scores_prompt && !lends_blocks,
      .asks_found_runs = watch_.facts().tells_found_runs && blocks_ != nullptr && blocks_->wants_found_runs(),
      .slot = grant ? std::optional(grant->slot) : std::nullopt,
      .finds_prefix = grant ? grant->finds_prefix : generate.cache_mode != wire::CacheMode::kOff,
      .lends_blocks = lends_blocks,
      .tokenizer = options_.tokenizer.get()};
  ROOST_ASSIGN_OR_RETURN(HttpCall built, protocol_.BuildRequest(plan));
  call.reader = protocol_.NewReader(plan);
  call.is_streamed = plan.is_streamed;
  call.sent = clock_.Now();
  call.is_sent = true;
  if (generate.kv_transfer.empty()) meter_.OnSent(id, call.sent);
  port_.Start(id, std::move(built));
  return {};
}

// A request with CacheMode::kOff has a salt that no other one has, so no block of it is found again.
std::string AdapterEngine::SaltOf(const wire::Generate& generate, std::string_view engine_id) const {
  std::string salt = options_.salt_of ? options_.salt_of(generate) : std::string();
  if (generate.cache_mode == wire::CacheMode::kOff) salt += fmt::format("-off-{}", engine_id);
  return salt;
}

void AdapterEngine::StartOtherChoices(RequestKey key) {
  const auto found = requests_.find(key);
  if (found == requests_.end()) return;
  for (std::uint32_t choice = 1; choice < found->second.generate.sample_count; ++choice) {
    if (Result<void> started = StartCall(key, found->second, choice); !started.ok()) return Fail(key, started.error());
  }
}

void AdapterEngine::Evict(LinkId link, const wire::Evict& order) {
  moves_->Evict(link, order);
  FillSlots();
}

std::vector<EngineAnswer> AdapterEngine::TakeAnswers() {
  return moves_ ? moves_->TakeAnswers() : std::vector<EngineAnswer>();
}

void AdapterEngine::Cancel(RequestKey key) { EndRequest(key, wire::FinishReason::kCancelled, std::nullopt); }

void AdapterEngine::CancelLink(LinkId link) {
  std::erase_if(report_.tokens, [link](const RequestEvent& event) { return event.link == link; });
  for (auto next = requests_.begin(); next != requests_.end();) {
    const auto request = next++;
    if (request->first.link == link) Drop(request);
  }
  report_due_ = true;
}

// ---- answers ----

void AdapterEngine::OnHttp(const HttpEvent& event) {
  if (watch_.OnHttp(event)) {
    FollowWatch();
  } else if (!moves_ || !moves_->OnHttp(event)) {
    OnCallEvent(event);
  }
  FillSlots();
}

void AdapterEngine::OnCallEvent(const HttpEvent& event) {
  const bool has_ended = std::holds_alternative<HttpEnd>(event.what);
  if (has_ended) draining_.erase(event.call);
  const auto found = calls_.find(event.call);
  if (found == calls_.end()) return;
  if (const auto* const status = std::get_if<HttpStatus>(&event.what)) found->second.status = status->status;
  if (const auto* const bytes = std::get_if<HttpBytes>(&event.what)) OnBytes(event.call, bytes->bytes);
  if (const auto* const end = std::get_if<HttpEnd>(&event.what)) OnCallEnd(event.call, *end);
}

void AdapterEngine::OnBytes(CallId id, const std::string& bytes) {
  Call& call = calls_.at(id);
  if (call.status == 200 && call.is_streamed) return OnStreamed(id, bytes);
  // The port bounds a whole answer.
  const std::size_t room =
      call.status == 200 ? bytes.size() : kMaxErrorBytes - std::min(kMaxErrorBytes, call.body.size());
  call.body.append(bytes, 0, room);
}

// All events are cut out before the first is looked at: it may end the call, and its reader with it.
void AdapterEngine::OnStreamed(CallId id, const std::string& bytes) {
  std::vector<std::string> events;
  Call& call = calls_.at(id);
  const Result<void> read = call.events.Read(bytes, [&events](std::string_view data) -> Result<void> {
    events.emplace_back(data);
    return {};
  });
  if (!read.ok()) return Fail(call.key, Unreadable(read.error().message));
  for (const std::string& data : events) {
    const auto found = calls_.find(id);
    if (found == calls_.end()) return;
    Result<AnswerPiece> piece = found->second.reader->ReadEvent(parser_, data);
    if (!piece.ok()) return Fail(found->second.key, std::move(piece).error());
    OnPiece(id, *std::move(piece));
  }
}

void AdapterEngine::OnCallEnd(CallId id, const HttpEnd& end) {
  Call& call = calls_.at(id);
  const RequestKey key = call.key;
  if (end.how != CallEnd::kComplete) {
    Fail(key, ErrorOf(end));
    watch_.OnLostCall(end);
    return FollowWatch();
  }
  if (call.status != 200) {
    return OnComplaint(key, ReadRefusal(parser_, call.status, call.body));
  }
  if (call.is_streamed) return OnAnswered(id, false);
  Result<AnswerPiece> piece = call.reader->ReadWhole(parser_, call.body);
  if (!piece.ok()) return Fail(key, std::move(piece).error());
  OnPiece(id, *std::move(piece));
}

void AdapterEngine::OnPiece(CallId id, AnswerPiece piece) {
  const RequestKey key = calls_.at(id).key;
  Request& request = requests_.at(key);
  if (piece.complaint) return OnComplaint(key, *piece.complaint);
  if (piece.cached_tokens && calls_.at(id).choice == 0) request.cached_tokens = piece.cached_tokens;
  if (piece.cached_tokens && slots_ != nullptr) {
    slots_->OnFound(id, *piece.cached_tokens);
    watch_.OnLife();
  }
  calls_.at(id).kv_transfer = std::move(piece.kv_transfer);
  for (ChoicePiece& choice : piece.choices) {
    if (choice.index != 0) continue;  // each call asks for one
    if (choice.end && choice.end->error) return Fail(key, *std::move(choice.end->error));
    OnChoicePiece(id, std::move(choice));
  }
  if (piece.is_last) OnAnswered(id, piece.is_cut);
}

void AdapterEngine::OnChoicePiece(CallId id, ChoicePiece piece) {
  Call& call = calls_.at(id);
  Request& request = requests_.at(call.key);
  if (call.last_event) return;  // nothing follows an end
  if (!piece.prompt_logprobs.empty()) TellPrompt(call.key, std::move(piece.prompt_logprobs));
  wire::TokenEvent event;
  event.request_id = call.key.request;
  event.choice = call.choice;
  event.tokens.assign(piece.tokens.begin(), piece.tokens.end());
  event.logprobs = std::move(piece.logprobs);
  // A stop token counts too: its step was computed.
  const std::size_t token_count = event.tokens.size() + (piece.end && piece.end->stop_token ? 1 : 0);
  if (token_count > 0) NoteTokens(id, call, request, token_count);
  if (slots_ != nullptr && token_count > 0) {
    slots_->OnComputed(id);
    call.has_untold = call.has_untold || piece.has_untold;
  }
  if (slots_ != nullptr && !call.has_untold) {
    call.output.insert(call.output.end(), event.tokens.begin(), event.tokens.end());
    if (piece.end && piece.end->stop_token) call.output.push_back(*piece.end->stop_token);
  }
  if (piece.end) {
    event.finish = piece.end->reason;
    event.stop_token = piece.end->stop_token;
    call.last_event = std::move(event);
  } else if (!event.tokens.empty()) {
    TellCached(call, request, event);
    Push(call.key.link, std::move(event));
  }
}

// The answer is complete; its connection may need a moment to be free for another one.
void AdapterEngine::OnAnswered(CallId id, bool is_cut) {
  const auto found = calls_.find(id);
  if (found == calls_.end()) return;
  if (!found->second.last_event) {
    return Fail(found->second.key, Unavailable("the engine ended its answer too early"));
  }
  Call call = std::move(found->second);
  calls_.erase(found);
  if (is_cut) {
    port_.Close(id);
  } else {
    draining_.emplace(id, clock_.Now());
  }
  if (slots_ != nullptr) {
    const auto whole = call.has_untold ? SlotTable::EndKind::kLonger : SlotTable::EndKind::kComplete;
    slots_->OnEnd(id, call.output, is_cut ? SlotTable::EndKind::kCut : whole, clock_.Now());
  }
  meter_.OnEnd(id);
  watch_.OnLife();
  Request& request = requests_.at(call.key);
  TellCached(call, request, *call.last_event);
  call.last_event->kv_transfer = std::move(call.kv_transfer);
  if (call.first_tokens) {
    report_.counts.decode_seconds.push_back(ToSeconds(call.last_tokens - *call.first_tokens));
  }
  Push(call.key.link, *std::move(call.last_event));
  if (request.generate.prompt_logprobs && call.choice == 0) StartOtherChoices(call.key);
  EndChoice(call.key);
}

// An engine that fails may be dying: its health page tells.
void AdapterEngine::OnComplaint(RequestKey key, const Complaint& complaint) {
  std::string field(protocol_.FieldOf(complaint.parameter));
  const auto& constraint = requests_.at(key).generate.constraint;
  if (field.empty() && constraint && IsAboutConstraint(complaint.message)) field = constraint->field;
  if (complaint.code >= 500) watch_.AskHealthNow();
  const std::string adapter = requests_.at(key).generate.adapter;
  if (complaint.code != 404 || adapter.empty()) return Fail(key, ErrorOf(complaint, std::move(field)));
  watch_.OnUnknownAdapter(adapter);
  Fail(key, NoAdapter(adapter));
}

// ---- ends ----

void AdapterEngine::EndChoice(RequestKey key) {
  const auto found = requests_.find(key);
  if (found == requests_.end() || --found->second.open_choices > 0) return;
  Drop(found);
}

void AdapterEngine::Fail(RequestKey key, Error error) { EndRequest(key, wire::FinishReason::kError, std::move(error)); }

void AdapterEngine::EndRequest(RequestKey key, wire::FinishReason reason, std::optional<Error> error) {
  const auto found = requests_.find(key);
  if (found == requests_.end()) return;
  wire::TokenEvent event;
  event.request_id = key.request;
  event.finish = reason;
  event.error = std::move(error);
  Push(key.link, std::move(event));
  Drop(found);
}

void AdapterEngine::Drop(Requests::iterator request) {
  CloseCalls(request->first);
  if (request->second.has_tokens) {
    StepCounts& counts = report_.counts;
    const wire::Generate& generate = request->second.generate;
    const std::uint64_t prompt = generate.prompt.size();
    const std::uint64_t cached = std::min<std::uint64_t>(request->second.cached_tokens.value_or(0), prompt);
    const bool disabled = generate.cache_mode == wire::CacheMode::kOff || generate.prompt_logprobs.has_value();
    if (generate.part != wire::RequestPart::kAnswer) {
      counts.prompt_tokens += prompt;
      counts.cached_prompt_tokens += cached;
      counts.saved_prefill_seconds += meter_.PromptSeconds(cached);
      counts.computed_prefill_seconds += meter_.PromptSeconds(prompt - cached);
      counts.computed_prompt_tokens[IndexOf(disabled ? MissReason::kDisabled : MissReason::kCold)] += prompt - cached;
    }
    // A prompt that a connector brought says nothing of the engine's own cache.
    if (!disabled && generate.kv_transfer.empty() && request->second.cached_tokens) NoteHit(request->second);
  }
  requests_.erase(request);
  report_due_ = true;
}

void AdapterEngine::CloseCalls(RequestKey key) {
  for (auto next = calls_.begin(); next != calls_.end();) {
    const auto call = next++;
    if (call->second.key != key) continue;
    if (slots_ != nullptr) {
      // A router needs no more than the last token: the engine is done with it, too.
      const bool computes =
          call->second.is_sent && call->second.output.size() < requests_.at(key).generate.max_output_tokens;
      slots_->OnEnd(call->first, call->second.output,
                    computes ? SlotTable::EndKind::kCut : SlotTable::EndKind::kComplete, clock_.Now());
    }
    if (!call->second.is_sent) {
      calls_.erase(call);
      continue;
    }
    port_.Close(call->first);
    meter_.OnEnd(call->first);
    if (std::optional<HttpCall> abort = protocol_.BuildAbort(call->second.engine_id)) {
      port_.Start(ids_.Next(), *std::move(abort));
    }
    calls_.erase(call);
  }
}

}  // namespace roost::worker::adapters
