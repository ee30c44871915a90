#include "tests/router/fleet/fake_worker.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/wire/tokenizer_digest.h"

namespace roost::router {

namespace {

constexpr TokenId kVocabulary = 1000;
constexpr TokenId kStopToken = 0;  // one token in thirty

constexpr double kSecondsPerPrefillToken = 1e-4;
constexpr double kSecondsPerDecode = 1e-3;

}  // namespace

TokenId NextToken(const std::vector<TokenId>& tokens, std::uint64_t seed, StopTokens stops) {
  std::uint64_t state = 1 + seed;
  for (const TokenId token : tokens) state = Mix64(state + token);
  const bool is_stop = state % 30 == 0 && stops == StopTokens::kAllowed;
  return is_stop ? kStopToken : static_cast<TokenId>(1 + state % kVocabulary);
}

std::vector<TokenId> ExpectedOutput(std::vector<TokenId> prompt, std::uint32_t max_output_tokens, std::uint64_t seed,
                                    std::uint32_t min_output_tokens) {
  std::vector<TokenId> output;
  while (output.size() < max_output_tokens) {
    const TokenId token =
        NextToken(prompt, seed, output.size() < min_output_tokens ? StopTokens::kBanned : StopTokens::kAllowed);
    if (token == kStopToken) break;
    prompt.push_back(token);
    output.push_back(token);
  }
  return output;
}

std::vector<wire::TokenLogprobs> ExpectedLogprobs(const std::vector<TokenId>& text, std::size_t first,
                                                  std::uint32_t top_count) {
  std::vector<wire::TokenLogprobs> told;
  std::uint64_t state = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    state = Mix64(state + text[i]);
    if (i < first) continue;
    const float logprob = -static_cast<float>(state % 1000) / 100;
    wire::TokenLogprobs& position = told.emplace_back(
        wire::TokenLogprobs{.logprob = logprob, .rank = 1 + static_cast<std::uint32_t>(state % 7), .top = {}});
    for (std::uint32_t k = 0; k < top_count; ++k) position.top.push_back({.token = k, .logprob = logprob / 2});
  }
  return told;
}

FakeWorker::FakeWorker(std::string id, std::uint64_t seed) : rng_(seed), identity_(id) {
  hello_.worker_id = std::move(id);
  hello_.process_id = rng_() | 1U;
  hello_.epoch = 1 + rng_() / 2;
  hello_.model = "demo";
  hello_.fingerprint = "f";
  hello_.kv_dtype = "f32";
  hello_.block_tokens = kBlockTokens;
  hello_.block_count = kBlockCount;
  hello_.max_context_tokens = 4096;
  hello_.max_running_requests = 8;
  hello_.max_sample_count = wire::kMaxSampleCount;
  using wire::Feature;
  hello_.features = {Feature::kFullSampling, Feature::kLogprobs, Feature::kMinOutputTokens, Feature::kConstrainsOutput,
                     Feature::kAnswers,      Feature::kEvicts,   Feature::kEvictsBlocks,    Feature::kCordons};
  hello_.tokenizer_digest = wire::DigestOf(Bundle());
}

void FakeWorker::NewEpoch() {
  ++hello_.epoch;
  sequence_ = 0;
  welcomed_ = false;
  running_.clear();
  answers_.clear();
  events_.clear();
}

wire::Tokenizer FakeWorker::Bundle() const { return {hello_.tokenizer_digest, "{}", "", "", ""}; }

void FakeWorker::Restart() {
  NewEpoch();
  hello_.process_id = rng_() | 1U;
  load_.cordoned = load_.draining = false;
  parents_.clear();
  outbox_.clear();
}

void FakeWorker::SetAdapters(std::vector<std::string> names) {
  hello_.adapters = std::move(names);
  outbox_.emplace_back(wire::Adapters{hello_.epoch, hello_.adapters});
}

void FakeWorker::SayHello() { outbox_.emplace_back(hello_); }

void FakeWorker::SayBye() {
  outbox_.emplace_back(wire::Bye{hello_.epoch});
  NewEpoch();
}

void FakeWorker::Receive(const wire::RouterMessage& message) {
  if (const auto* const welcome = std::get_if<wire::Welcome>(&message)) {
    if (welcome->epoch != hello_.epoch) return;
    crowding_ = welcome->crowding;
    if (std::exchange(welcomed_, true)) return;
    if (hello_.sends_cache_events) SendSnapshot();
  } else if (const auto* const refused = std::get_if<wire::Refused>(&message)) {
    if (refused->epoch == hello_.epoch) refusals_.push_back(*refused);
  } else if (const auto* const request = std::get_if<wire::Generate>(&message)) {
    received_.push_back(*request);
    Admit(*request);
  } else if (const auto* const pin = std::get_if<wire::Pin>(&message)) {
    pins_.push_back(*pin);
    AnswerPin(pin->answer_id, pin->hashes);
  } else if (const auto* const unpin = std::get_if<wire::Unpin>(&message)) {
    unpins_.push_back(*unpin);
    AnswerPin(unpin->answer_id, {});
  } else if (const auto* const evict = std::get_if<wire::Evict>(&message)) {
    evictions_.push_back(*evict);
    CarryOut(*evict);
  } else if (const auto* const hold = std::get_if<wire::Hold>(&message)) {
    holds_.push_back(*hold);
    requests_before_holds_.push_back(received_.size());
    CarryOut(*hold);
  } else if (const auto* const cordon = std::get_if<wire::Cordon>(&message)) {
    CarryOut(*cordon);
  } else if (const auto* const want = std::get_if<wire::WantPrefixes>(&message)) {
    questions_.push_back(*want);
    if (!mute_) outbox_.emplace_back(wire::Prefixes{want->answer_id, used_prefixes_});
  } else if (std::holds_alternative<wire::HandedOver>(message)) {
    ++handed_over_count_;
  } else if (const auto* const forward = std::get_if<wire::Forward>(&message)) {
    passed_[forward->request_id] = {*forward, forward->body};
  } else if (const auto* const body = std::get_if<wire::ForwardBody>(&message)) {
    passed_[body->request_id].body += body->body;
  } else if (const auto* const credit = std::get_if<wire::ForwardCredit>(&message)) {
    passed_[credit->request_id].credit += credit->bytes;
  } else if (const auto* const cancel = std::get_if<wire::Cancel>(&message)) {
    cancelled_.push_back(cancel->request_id);
    if (running_.erase(cancel->request_id) == 0) return;
    wire::TokenEvent event;
    event.request_id = cancel->request_id;
    event.finish = wire::FinishReason::kCancelled;
    answers_.push_back(std::move(event));
  } else if (std::holds_alternative<wire::WantHello>(message)) {
    NewEpoch();
    SayHello();
  } else if (std::holds_alternative<wire::WantSnapshot>(message)) {
    ++snapshot_requests_;
    if (welcomed_ && hello_.sends_cache_events) SendSnapshot();
  } else if (std::holds_alternative<wire::WantTokenizer>(message)) {
    ++tokenizer_requests_;
    outbox_.emplace_back(Bundle());
  }
}

// Pins the blocks that it has, and awaits the others.
void FakeWorker::AnswerPin(std::uint64_t answer_id, const std::vector<BlockHash>& hashes) {
  if (answer_id == 0 || mute_) return;
  const std::uint32_t kept = Held(hashes);
  outbox_.emplace_back(wire::PinAnswer{answer_id, kept, static_cast<std::uint32_t>(hashes.size()) - kept, 0});
}

void FakeWorker::Admit(const wire::Generate& request) {
  wire::TokenEvent refusal;
  refusal.request_id = request.request_id;
  refusal.finish = wire::FinishReason::kError;
  if (load_.draining) {
    refusal.error = Error{ErrorCode::kUnavailable, "draining", ""};
  } else if (broken_) {
    refusal.error = Error{ErrorCode::kInternal, "the device is broken", ""};
  } else if (lacks_adapters_ && !request.adapter.empty()) {
    refusal.error = Error{ErrorCode::kModelNotFound, "no such adapter", "model"};
  } else if (full_) {
    refusal.error = Error{ErrorCode::kOverloaded, "queue is full", ""};
  } else {
    Running running{.request = request, .choices = {}, .cached_tokens = {}};
    running.choices.assign(request.sample_count, Choice{request.prompt, 0, false});
    running_.emplace(request.request_id, std::move(running));
    return;
  }
  answers_.push_back(std::move(refusal));
}

void FakeWorker::Step() {
  if (hung_) return Heartbeat();
  if (!welcomed_) return;
  ++load_.progress;
  if (silent_) return SendStep({});
  std::vector<wire::TokenEvent> tokens = std::exchange(answers_, {});
  load_.step_decode_tokens = static_cast<std::uint32_t>(running_.size());
  for (auto entry = running_.begin(); entry != running_.end();) {
    const bool ended = Advance(entry->second, tokens);
    entry = ended ? running_.erase(entry) : std::next(entry);
  }
  load_.step_seconds =
      slowness_ * (load_.step_prefill_tokens * kSecondsPerPrefillToken + load_.step_decode_tokens * kSecondsPerDecode);
  load_.step_under_way_seconds = 0;
  SendStep(std::move(tokens));
  load_.step_prefill_tokens = 0;
  load_.step_decode_tokens = 0;
  load_.step_seconds = 0;
}

void FakeWorker::GiveUp(RequestId request_id, Error error) {
  running_.erase(request_id);
  wire::TokenEvent event;
  event.request_id = request_id;
  event.finish = wire::FinishReason::kError;
  event.error = std::move(error);
  SendStep({std::move(event)});
}

void FakeWorker::AddResumable(const std::vector<BlockHash>& hashes) {
  wire::CacheEvent& event = events_.emplace_back();
  event.kind = wire::CacheEvent::Kind::kResumable;
  event.resumable = hashes;
  for (const BlockHash hash : hashes) load_.resumable_digest = load_.resumable_digest ^ hash;
}

void FakeWorker::Heartbeat() {
  if (welcomed_) SendStep({});
}

void FakeWorker::SendStep(std::vector<wire::TokenEvent> tokens) {
  wire::Step step;
  step.tokens = std::move(tokens);
  step.events = std::exchange(events_, {});
  if (!hello_.sends_cache_events) step.events.clear();
  step.epoch = hello_.epoch;
  step.sequence = ++sequence_;
  load_.running_requests = static_cast<std::uint32_t>(running_.size());
  load_.free_block_count = kBlockCount - static_cast<std::uint32_t>(parents_.size());
  load_.cached_block_count = static_cast<std::uint32_t>(parents_.size());
  // Beside an engine that gets requests unread, any block may hold something.
  if (hello_.tokenizer_digest.empty()) load_.cached_block_count = hello_.block_count;
  load_.digest = digest();
  load_.disk_block_count = static_cast<std::uint32_t>(on_disk_.size());
  load_.disk_digest = {};
  for (const auto& [hash, parent] : on_disk_) load_.disk_digest = load_.disk_digest ^ hash;
  step.load = load_;
  outbox_.emplace_back(std::move(step));
}

bool FakeWorker::Advance(Running& running, std::vector<wire::TokenEvent>& events) {
  const wire::Generate& request = running.request;
  if (drips_ && running.choices.front().output_count > 0) return false;
  if (awaits_blocks_ && !request.kv_transfer.empty()) return false;
  if (request.prompt_logprobs && running.scored_tokens < request.prompt.size() && !tells_no_logprobs_) {
    events.push_back(ScorePrompt(running));
    if (running.scored_tokens < request.prompt.size()) return false;
  }
  if (running.choices.front().output_count == 0 && !running.choices.front().ended) {
    const std::uint32_t restored = load_.disk_bytes_per_second > 0 ? OnDisk(request.block_hashes) : 0;
    running.cached_tokens = hitless_ ? 0 : std::max(Held(request.block_hashes), restored) * kBlockTokens;
    load_.step_prefill_tokens += static_cast<std::uint32_t>(request.prompt.size()) - *running.cached_tokens;
    Store(request.root, request.block_hashes);
  }
  bool ended = true;
  for (std::uint32_t i = 0; i < running.choices.size(); ++i) {
    if (!running.choices[i].ended) events.push_back(AdvanceChoice(running, i));
    ended = ended && running.choices[i].ended;
  }
  return ended;
}

wire::TokenEvent FakeWorker::AdvanceChoice(Running& running, std::uint32_t index) {
  const wire::Generate& request = running.request;
  Choice& choice = running.choices[index];
  wire::TokenEvent event;
  event.request_id = request.request_id;
  event.choice = index;
  for (std::uint64_t left = 1 + rng_.Below(3); left > 0 && !event.finish.has_value(); --left) {
    const bool is_early = request.first_output_index + choice.output_count < request.min_output_tokens;
    const TokenId token =
        NextToken(choice.tokens, request.sampling.seed + index, is_early ? StopTokens::kBanned : StopTokens::kAllowed);
    if (token == kStopToken) {
      event.finish = wire::FinishReason::kStop;
      event.stop_token = kStopToken;
      break;
    }
    choice.tokens.push_back(token);
    event.tokens.push_back(token);
    if (++choice.output_count == request.max_output_tokens) event.finish = wire::FinishReason::kLength;
  }
  if (request.output_logprobs && !tells_no_logprobs_) {
    event.logprobs =
        ExpectedLogprobs(choice.tokens, choice.tokens.size() - event.tokens.size(), *request.output_logprobs);
  }
  choice.ended = event.finish.has_value();
  const bool lends = request.part == wire::RequestPart::kPrompt && hello_.features.contains(wire::Feature::kConnector);
  if (lends && choice.ended) event.kv_transfer = kTransfer;
  if (event.finish.has_value() || (!event.tokens.empty() && !tells_cached_late_)) {
    event.cached_token_count = std::exchange(running.cached_tokens, std::nullopt);
  }
  return event;
}

wire::TokenEvent FakeWorker::ScorePrompt(Running& running) {
  const std::vector<TokenId>& prompt = running.request.prompt;
  wire::TokenEvent event;
  event.request_id = running.request.request_id;
  const std::size_t end = std::min(prompt.size(), running.scored_tokens + 1 + rng_.Below(30));
  event.prompt_logprobs = ExpectedLogprobs({prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(end)},
                                           running.scored_tokens, *running.request.prompt_logprobs);
  running.scored_tokens = end;
  return event;
}

wire::StoredRun FakeWorker::Add(BlockHash root, const std::vector<BlockHash>& chain, Blocks& blocks) {
  wire::StoredRun run{.first_position = Leading(chain, blocks), .hashes = {}};
  for (std::size_t i = run.first_position; i < chain.size(); ++i) {
    blocks.emplace(chain[i], i == 0 ? root : chain[i - 1]);
    run.hashes.push_back(chain[i]);
  }
  return run;
}

std::vector<BlockHash> FakeWorker::TakeLeaves(std::size_t count, Blocks& blocks) {
  std::vector<BlockHash> removed;
  while (count-- > 0 && !blocks.empty()) {
    std::set<BlockHash> inner;
    for (const auto& [hash, parent] : blocks) inner.insert(parent);
    const auto leaf =
        std::find_if(blocks.begin(), blocks.end(), [&](const auto& entry) { return !inner.contains(entry.first); });
    removed.push_back(leaf->first);
    blocks.erase(leaf);
  }
  return removed;
}

void FakeWorker::Store(BlockHash root, const std::vector<BlockHash>& chain) {
  wire::CacheEvent event;
  event.stored = Add(root, chain, parents_);
  if (!event.stored.hashes.empty()) events_.push_back(std::move(event));
}

void FakeWorker::Evict(std::size_t count) {
  wire::CacheEvent event;
  event.kind = wire::CacheEvent::Kind::kRemoved;
  event.removed = TakeLeaves(count, parents_);
  if (!event.removed.empty()) events_.push_back(std::move(event));
}

void FakeWorker::WriteToDisk(const std::vector<BlockHash>& chain) {
  wire::CacheEvent event;
  event.kind = wire::CacheEvent::Kind::kDiskStored;
  event.disk_stored = Add(RootHash({}), chain, on_disk_);
  if (!event.disk_stored.hashes.empty()) events_.push_back(std::move(event));
}

void FakeWorker::DropFromDisk(std::size_t count, Telling telling) {
  wire::CacheEvent event;
  event.kind = wire::CacheEvent::Kind::kDiskRemoved;
  event.disk_removed = TakeLeaves(count, on_disk_);
  if (!event.disk_removed.empty() && telling == Telling::kTells) events_.push_back(std::move(event));
}

void FakeWorker::EraseTree(BlockHash hash, Blocks& blocks, std::vector<BlockHash>& removed) {
  std::vector<BlockHash> children;
  for (const auto& [child, parent] : blocks) {
    if (parent == hash) children.push_back(child);
  }
  for (const BlockHash child : children) EraseTree(child, blocks, removed);
  if (blocks.erase(hash) > 0) removed.push_back(hash);
}

void FakeWorker::CarryOut(const wire::Evict& order) {
  wire::CacheEvent event;
  event.kind = wire::CacheEvent::Kind::kRemoved;
  wire::CacheEvent of_disk;
  of_disk.kind = wire::CacheEvent::Kind::kDiskRemoved;
  const auto erase = [&](BlockHash hash) {
    EraseTree(hash, parents_, event.removed);
    EraseTree(hash, on_disk_, of_disk.disk_removed);
  };
  if (const auto* const prompt = std::get_if<wire::PromptToEvict>(&order.what)) {
    if (!prompt->block_hashes.empty()) erase(prompt->block_hashes.back());
  } else if (const auto* const block = std::get_if<wire::BlockToEvict>(&order.what)) {
    erase(block->hash);
  } else {
    for (const wire::Generate& request : received_) {
      if (request.tenant != std::get<wire::TenantToEvict>(order.what).tenant) continue;
      for (const BlockHash hash : request.block_hashes) erase(hash);
    }
  }
  const wire::EvictAnswer answer{.answer_id = order.answer_id,
                                 .evicted_block_count = static_cast<std::uint32_t>(event.removed.size()),
                                 .disk_block_count = static_cast<std::uint32_t>(of_disk.disk_removed.size())};
  if (!event.removed.empty()) events_.push_back(std::move(event));
  if (!of_disk.disk_removed.empty()) events_.push_back(std::move(of_disk));
  if (mute_) return;
  Heartbeat();
  outbox_.emplace_back(answer);
}

void FakeWorker::CarryOut(const wire::Cordon& order) {
  ++cordon_count_;
  if (mute_) return;
  load_.cordoned = order.in_force;
  load_.draining = order.in_force;
  Heartbeat();
}

void FakeWorker::SetTransfers(std::string address) {
  hello_.features.insert(wire::Feature::kHolds);
  hello_.features.insert(wire::Feature::kFollows);
  hello_.transfer = {.address = std::move(address), .layout = 7, .numerics = 9};
  hello_.compute.machine = 5;
  hello_.host = "host";
}

void FakeWorker::SetHoldResult(wire::HoldOutcome outcome, std::uint32_t arriving_blocks, wire::HoldCause cause) {
  hold_outcome_ = outcome;
  hold_cause_ = cause;
  arriving_blocks_ = arriving_blocks;
}

void FakeWorker::CarryOut(const wire::Hold& order) {
  if (mute_) return;
  const auto all = static_cast<std::uint32_t>(order.hashes.size());
  const std::uint32_t held = Held(order.hashes);
  const std::uint32_t arrived = std::min(arriving_blocks_, all - held);
  Store(order.root, {order.hashes.begin(), order.hashes.begin() + held + arrived});
  Heartbeat();
  outbox_.emplace_back(wire::HoldAnswer{.answer_id = order.answer_id,
                                        .held_block_count = held,
                                        .arrived_block_count = arrived,
                                        .missing_block_count = all - held - arrived,
                                        .bytes = 1000 * arrived,
                                        .first_frame_microseconds = 100,
                                        .microseconds = 2000,
                                        .outcome = hold_outcome_,
                                        .cause = hold_cause_});
}

void FakeWorker::EvictSilently(std::size_t count) {
  const std::size_t before = events_.size();
  Evict(count);
  events_.resize(before);
}

std::vector<wire::StoredRun> FakeWorker::RunsOf(const Blocks& blocks) {
  std::vector<wire::StoredRun> runs;
  std::set<BlockHash> sent;
  while (sent.size() < blocks.size()) {  // parents first
    for (const auto& [hash, parent] : blocks) {
      if (sent.contains(hash) || (blocks.contains(parent) && !sent.contains(parent))) continue;
      sent.insert(hash);
      runs.push_back({0, {hash}});
    }
  }
  return runs;
}

void FakeWorker::SendSnapshot() {
  const std::vector<wire::StoredRun> runs = RunsOf(parents_);
  const std::vector<wire::StoredRun> disk_runs = RunsOf(on_disk_);
  events_.clear();  // the snapshot includes them
  const auto half_of = [](const std::vector<wire::StoredRun>& all, std::uint32_t chunk) {
    const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
    return std::vector(chunk == 0 ? all.begin() : middle, chunk == 0 ? middle : all.end());
  };
  for (std::uint32_t chunk = 0; chunk < 2; ++chunk) {
    wire::Snapshot snapshot;
    snapshot.epoch = hello_.epoch;
    snapshot.sequence = ++sequence_;
    snapshot.chunk_index = chunk;
    snapshot.last = chunk == 1;
    snapshot.runs = half_of(runs, chunk);
    snapshot.disk_runs = half_of(disk_runs, chunk);
    outbox_.emplace_back(std::move(snapshot));
  }
}

void FakeWorker::SetOtherPrompts(std::vector<wire::OtherPrompt> prompts) {
  load_.queued_prefill_tokens = 0;
  for (const wire::OtherPrompt& prompt : prompts) load_.queued_prefill_tokens += prompt.uncached_tokens;
  load_.other_prompts = std::move(prompts);
}

BlockHash FakeWorker::digest() const {
  BlockHash digest;
  for (const auto& [hash, parent] : parents_) digest = digest ^ hash;
  return digest;
}

std::uint32_t FakeWorker::Leading(const std::vector<BlockHash>& chain, const Blocks& blocks) {
  std::uint32_t held = 0;
  while (held < chain.size() && blocks.contains(chain[held])) ++held;
  return held;
}

}  // namespace roost::router
