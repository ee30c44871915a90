#include <capnp/message.h>
#include <capnp/serialize.h>
#include <kj/io.h>

#include <string>
#include <variant>

#include "common/base/check.h"
#include "common/base/trace_context.h"
#include "common/base/utf8.h"
#include "common/wire/codec.h"
#include "schema/roost.capnp.h"

namespace roost::wire {
namespace {

using HashList = capnp::List<schema::BlockHash>::Builder;

// Cap'n Proto counts lists in 32 bits; the limits are far below that.
unsigned Count(std::size_t count, std::size_t limit, const char* what) {
  ROOST_CHECK(count <= limit, "{} {}, limit {}", count, what, limit);
  return static_cast<unsigned>(count);
}

kj::StringPtr Text(const std::string& text) { return {text.c_str(), text.size()}; }

// Errors may quote long input. Only the front of a long text is sent, always as UTF-8. A replaced byte becomes three.
std::string BoundedText(const std::string& text) {
  std::string front = text.substr(0, WireLimits::kMaxTextBytes / 3);
  front.resize(front.size() - IncompleteUtf8Suffix(front));
  return ReplaceInvalidUtf8(front);
}

void FillError(const Error& error, schema::Error::Builder out) {
  static_assert(kErrorCodeCount == static_cast<int>(schema::ErrorCode::RATE_LIMITED) + 1);
  const std::string message = BoundedText(error.message);
  const std::string field = BoundedText(error.field);
  out.setCode(static_cast<schema::ErrorCode>(error.code));
  out.setMessage(Text(message));
  out.setField(Text(field));
}

void FillHash(BlockHash hash, schema::BlockHash::Builder out) {
  out.setHigh(hash.high);
  out.setLow(hash.low);
}

void FillHashes(std::span<const BlockHash> hashes, HashList out) {
  for (unsigned i = 0; i < out.size(); ++i) FillHash(hashes[i], out[i]);
}

void FillTokens(std::span<const TokenId> tokens, capnp::List<std::uint32_t>::Builder out) {
  for (unsigned i = 0; i < out.size(); ++i) out.set(i, tokens[i]);
}

void FillRun(const StoredRun& run, schema::StoredRun::Builder out) {
  out.setFirstPosition(run.first_position);
  FillHashes(run.hashes, out.initHashes(Count(run.hashes.size(), WireLimits::kMaxHashesPerRun, "hashes in a run")));
}

void FillLogprobs(const std::vector<TokenLogprobs>& positions, capnp::List<schema::TokenLogprobs>::Builder out) {
  for (unsigned i = 0; i < out.size(); ++i) {
    const TokenLogprobs& position = positions[i];
    out[i].setLogprob(position.logprob);
    out[i].setRank(position.rank);
    if (position.top.empty()) continue;
    const unsigned top_count = Count(position.top.size(), kMaxTopLogprobs, "likeliest tokens");
    auto tokens = out[i].initTopTokens(top_count);
    auto logprobs = out[i].initTopLogprobs(top_count);
    for (unsigned k = 0; k < top_count; ++k) {
      tokens.set(k, position.top[k].token);
      logprobs.set(k, position.top[k].logprob);
    }
  }
}

void FillLogprobs(const TokenEvent& event, schema::TokenEvent::Builder out) {
  if (!event.logprobs.empty()) {
    ROOST_CHECK(event.logprobs.size() == event.tokens.size());
    FillLogprobs(event.logprobs, out.initLogprobs(static_cast<unsigned>(event.logprobs.size())));
  }
  if (!event.prompt_logprobs.empty()) {
    FillLogprobs(event.prompt_logprobs,
                 out.initPromptLogprobs(Count(event.prompt_logprobs.size(), WireLimits::kMaxPromptLogprobsPerEvent,
                                              "log probabilities of a prompt")));
  }
}

void FillTokenEvent(const TokenEvent& event, schema::TokenEvent::Builder out) {
  static_assert(static_cast<int>(FinishReason::kError) == static_cast<int>(schema::FinishReason::ERROR));
  out.setRequestId(event.request_id.value());
  out.setChoice(event.choice);
  FillTokens(event.tokens,
             out.initTokens(Count(event.tokens.size(), WireLimits::kMaxTokensPerEvent, "tokens in an event")));
  if (event.cached_token_count) out.initCachedTokenCount().setCount(*event.cached_token_count);
  if (event.queue_wait_seconds) out.initQueueWaitSeconds().setSeconds(*event.queue_wait_seconds);
  if (event.finish) out.initState().setFinished(static_cast<schema::FinishReason>(*event.finish));
  if (event.stop_token) out.initStopToken().setToken(*event.stop_token);
  if (event.error) FillError(*event.error, out.initError());
  FillLogprobs(event, out);
}

void FillCacheEvent(const CacheEvent& event, schema::CacheEvent::Builder out) {
  switch (event.kind) {
    case CacheEvent::Kind::kStored: FillRun(event.stored, out.initStored()); return;
    case CacheEvent::Kind::kRemoved:
      FillHashes(event.removed,
                 out.initRemoved(Count(event.removed.size(), WireLimits::kMaxHashesPerRun, "removed hashes")));
      return;
  }
}

void FillLoad(const Load& load, schema::Load::Builder out) {
  out.setWaitingRequests(load.waiting_requests);
  out.setRunningRequests(load.running_requests);
  out.setQueuedPrefillTokens(load.queued_prefill_tokens);
  out.setRunningContextTokens(load.running_context_tokens);
  out.setFreeBlockCount(load.free_block_count);
  out.setCachedBlockCount(load.cached_block_count);
  FillHash(load.digest, out.initDigest());
  out.setStepPrefillTokens(load.step_prefill_tokens);
  out.setStepDecodeTokens(load.step_decode_tokens);
  out.setStepSeconds(load.step_seconds);
  out.setDraining(load.draining);
  out.setPinnedBlockCount(load.pinned_block_count);
  out.setProgress(load.progress);
  out.setRouterCount(load.router_count);
  out.setCordoned(load.cordoned);
  out.setCacheUnknown(load.cache_unknown);
  auto others = out.initOtherPrompts(Count(load.other_prompts.size(), kMaxOtherPrompts, "other prompts"));
  std::size_t hashes_left = kMaxOtherHashes;
  for (unsigned i = 0; i < others.size(); ++i) {
    const OtherPrompt& other = load.other_prompts[i];
    others[i].setUncachedTokens(other.uncached_tokens);
    others[i].setWaitedMs(other.waited_ms);
    others[i].setId(other.id);
    if (other.hashes.empty()) continue;
    FillHashes(other.hashes, others[i].initHashes(Count(other.hashes.size(), hashes_left, "hashes of other prompts")));
    hashes_left -= other.hashes.size();
  }
}

void FillRetention(const Retention& retention, schema::Retention::Builder out) {
  ROOST_CHECK(retention.prompt_priority <= kMaxPriority && retention.decode_priority <= kMaxPriority);
  out.setPromptPriority(static_cast<std::uint8_t>(retention.prompt_priority));
  out.setPromptDurationMs(retention.prompt_duration_ms);
  out.setDecodePriority(static_cast<std::uint8_t>(retention.decode_priority));
  out.setDecodeDurationMs(retention.decode_duration_ms);
}

// The same three fields in Hello and Welcome.
template <typename Builder>
void FillVersion(const PeerVersion& version, Builder out) {
  ROOST_CHECK(version.release.size() <= kMaxReleaseBytes);
  out.setProtocolVersion(version.major);
  out.setProtocolMinor(version.minor);
  if (!version.release.empty()) out.setRelease(Text(version.release));
}

void FillAdapters(const std::vector<std::string>& names, capnp::List<capnp::Text>::Builder out) {
  for (unsigned i = 0; i < out.size(); ++i) {
    ROOST_CHECK(names[i].size() <= WireLimits::kMaxAdapterBytes);
    out.set(i, Text(names[i]));
  }
}

// ---- one overload of Fill per message ----

void Fill(const Hello& hello, schema::WorkerMessage::Builder message) {
  auto out = message.initHello();
  FillVersion(hello.version, out);
  out.setWorkerId(Text(hello.worker_id));
  out.setProcessId(hello.process_id);
  out.setEpoch(hello.epoch);
  out.setModel(Text(hello.model));
  out.setFingerprint(Text(hello.fingerprint));
  out.setKvDtype(Text(hello.kv_dtype));
  out.setBlockTokens(hello.block_tokens);
  out.setBlockCount(hello.block_count);
  out.setMaxContextTokens(hello.max_context_tokens);
  out.setMaxRunningRequests(hello.max_running_requests);
  out.setTokenizerDigest(Text(hello.tokenizer_digest));
  out.setDefaultTemperature(hello.sampling.temperature);
  out.setDefaultTopP(hello.sampling.top_p);
  out.setDefaultTopK(hello.sampling.top_k);
  out.setDefaultMinP(hello.sampling.min_p);
  out.setDefaultRepetitionPenalty(hello.sampling.repetition_penalty);
  out.setMaxBatchTokens(hello.max_batch_tokens);
  out.setAgeingTokens(hello.ageing_tokens);
  out.setMaxSampleCount(hello.max_sample_count);
  out.setSendsCacheEvents(hello.sends_cache_events);
  out.setKeepsPrefixes(hello.keeps_prefixes);
  out.setFullSampling(hello.full_sampling);
  out.setLogprobs(hello.logprobs);
  out.setMinOutputTokens(hello.min_output_tokens);
  out.setAnswers(hello.answers);
  out.setConstrainsOutput(hello.constrains_output);
  out.setEvicts(hello.evicts);
  out.setCordons(hello.cordons);
  if (hello.adapters.empty()) return;
  FillAdapters(hello.adapters, out.initAdapters(Count(hello.adapters.size(), kMaxAdapters, "adapters")));
}

void Fill(const Adapters& adapters, schema::WorkerMessage::Builder message) {
  auto out = message.initAdapters();
  out.setEpoch(adapters.epoch);
  FillAdapters(adapters.names, out.initNames(Count(adapters.names.size(), kMaxAdapters, "adapters")));
}

void Fill(const Step& step, schema::WorkerMessage::Builder message) {
  auto out = message.initStep();
  out.setEpoch(step.epoch);
  out.setSequence(step.sequence);
  auto tokens = out.initTokens(Count(step.tokens.size(), WireLimits::kMaxListItems, "token events"));
  for (unsigned i = 0; i < tokens.size(); ++i) FillTokenEvent(step.tokens[i], tokens[i]);
  auto events = out.initEvents(Count(step.events.size(), WireLimits::kMaxListItems, "cache events"));
  for (unsigned i = 0; i < events.size(); ++i) FillCacheEvent(step.events[i], events[i]);
  FillLoad(step.load, out.initLoad());
}

void Fill(const Snapshot& snapshot, schema::WorkerMessage::Builder message) {
  auto out = message.initSnapshot();
  out.setEpoch(snapshot.epoch);
  out.setSequence(snapshot.sequence);
  out.setChunkIndex(snapshot.chunk_index);
  out.setLast(snapshot.last);
  auto runs = out.initRuns(Count(snapshot.runs.size(), WireLimits::kMaxSnapshotHashes, "runs"));
  for (unsigned i = 0; i < runs.size(); ++i) FillRun(snapshot.runs[i], runs[i]);
}

void Fill(const Tokenizer& tokenizer, schema::WorkerMessage::Builder message) {
  auto out = message.initTokenizer();
  out.setDigest(Text(tokenizer.digest));
  out.setTokenizerJson(Text(tokenizer.tokenizer_json));
  out.setChatTemplate(Text(tokenizer.chat_template));
  out.setBosToken(Text(tokenizer.bos_token));
  out.setEosToken(Text(tokenizer.eos_token));
}

void Fill(const Bye& bye, schema::WorkerMessage::Builder message) { message.initBye().setEpoch(bye.epoch); }

void Fill(const PinAnswer& answer, schema::WorkerMessage::Builder message) {
  auto out = message.initPinAnswer();
  out.setAnswerId(answer.answer_id);
  out.setKeptBlocks(answer.kept_block_count);
  out.setAwaitedBlocks(answer.awaited_block_count);
  out.setRefusedBlocks(answer.refused_block_count);
}

void Fill(const EvictAnswer& answer, schema::WorkerMessage::Builder message) {
  auto out = message.initEvictAnswer();
  out.setAnswerId(answer.answer_id);
  out.setEvictedBlocks(answer.evicted_block_count);
  out.setBusyBlocks(answer.busy_block_count);
  out.setRefused(answer.outcome == EvictOutcome::kRefused);
}

void FillUsedPrefix(const UsedPrefix& prefix, schema::UsedPrefix::Builder out) {
  FillHash(prefix.hash, out.initHash());
  out.setBlockCount(prefix.block_count);
  out.setHits(prefix.hits);
  FillTokens(prefix.first_tokens,
             out.initFirstTokens(Count(prefix.first_tokens.size(), kMaxBlockTokens, "tokens of a block")));
  FillTokens(prefix.last_tokens,
             out.initLastTokens(Count(prefix.last_tokens.size(), kMaxBlockTokens, "tokens of a block")));
}

void Fill(const Prefixes& answer, schema::WorkerMessage::Builder message) {
  auto out = message.initPrefixes();
  out.setAnswerId(answer.answer_id);
  auto prefixes = out.initPrefixes(Count(answer.prefixes.size(), kMaxUsedPrefixes, "prefixes"));
  for (unsigned i = 0; i < prefixes.size(); ++i) FillUsedPrefix(answer.prefixes[i], prefixes[i]);
}

void Fill(const Welcome& welcome, schema::RouterMessage::Builder message) {
  auto out = message.initWelcome();
  out.setRouterInstance(welcome.router_instance);
  out.setEpoch(welcome.epoch);
  FillVersion(welcome.version, out);
}

void Fill(const Refused& refused, schema::RouterMessage::Builder message) {
  auto out = message.initRefused();
  static_assert(static_cast<int>(RefusalCause::kFull) == static_cast<int>(schema::RefusalCause::FULL));
  const std::string reason = BoundedText(refused.reason);
  out.setEpoch(refused.epoch);
  out.setReason(Text(reason));
  out.setCause(static_cast<schema::RefusalCause>(refused.cause));
}

// How the request uses the cache and the queue.
void FillWishes(const Generate& generate, schema::Generate::Builder out) {
  static_assert(static_cast<int>(CacheMode::kOff) == static_cast<int>(schema::CacheMode::OFF));
  ROOST_CHECK(generate.tenant.size() <= WireLimits::kMaxTenantBytes && generate.priority <= kMaxPriority);
  if (!generate.tenant.empty()) out.setTenant(Text(generate.tenant));
  ROOST_CHECK(generate.adapter.size() <= WireLimits::kMaxAdapterBytes);
  if (!generate.adapter.empty()) out.setAdapter(Text(generate.adapter));
  if (generate.own) {
    ROOST_CHECK(generate.own->first_block > 0);
    out.setOwnFirstBlock(generate.own->first_block);
    FillHash(generate.own->root, out.initOwnRoot());
  }
  out.setCacheMode(static_cast<schema::CacheMode>(generate.cache_mode));
  out.setPriority(static_cast<std::uint8_t>(generate.priority));
  if (generate.retention) FillRetention(*generate.retention, out.initRetention());
  out.setSessionHash(generate.session_hash);
  out.setExpectReturnMs(generate.expect_return_ms);
}

void FillSampling(const Sampling& sampling, schema::Generate::Builder out) {
  out.setTemperature(sampling.temperature);
  out.setTopP(sampling.top_p);
  out.setTopK(sampling.top_k);
  out.setSeed(sampling.seed);
  out.setMinP(sampling.min_p);
  out.setRepetitionPenalty(sampling.repetition_penalty);
  out.setPresencePenalty(sampling.presence_penalty);
  out.setFrequencyPenalty(sampling.frequency_penalty);
  if (sampling.logit_bias.empty()) return;
  auto biases = out.initLogitBias(Count(sampling.logit_bias.size(), WireLimits::kMaxLogitBiases, "logit biases"));
  for (unsigned i = 0; i < biases.size(); ++i) {
    biases[i].setToken(sampling.logit_bias[i].token);
    biases[i].setBias(sampling.logit_bias[i].bias);
  }
}

void FillConstraint(const Constraint& constraint, schema::Constraint::Builder out) {
  static_assert(static_cast<int>(ConstraintKind::kStructuralTag) ==
                static_cast<int>(schema::ConstraintKind::STRUCTURAL_TAG));
  ROOST_CHECK(constraint.text.size() <= kMaxConstraintBytes && constraint.field.size() <= WireLimits::kMaxTextBytes);
  out.setKind(static_cast<schema::ConstraintKind>(constraint.kind));
  out.setText(Text(constraint.text));
  out.setField(Text(constraint.field));
}

// Which reports about its tokens the request asks for.
void FillWantedLogprobs(const Generate& generate, schema::Generate::Builder out) {
  ROOST_CHECK(generate.output_logprobs.value_or(0) <= kMaxTopLogprobs &&
              generate.prompt_logprobs.value_or(0) <= kMaxTopLogprobs);
  if (generate.output_logprobs) {
    out.initOutputLogprobs().setTopCount(static_cast<std::uint8_t>(*generate.output_logprobs));
  }
  if (generate.prompt_logprobs) {
    out.initPromptLogprobs().setTopCount(static_cast<std::uint8_t>(*generate.prompt_logprobs));
  }
}

void Fill(const Generate& generate, schema::RouterMessage::Builder message) {
  auto out = message.initGenerate();
  out.setRequestId(generate.request_id.value());
  FillTokens(generate.prompt,
             out.initPrompt(Count(generate.prompt.size(), WireLimits::kMaxPromptTokens, "prompt tokens")));
  FillHash(generate.root, out.initRoot());
  FillHashes(generate.block_hashes,
             out.initBlockHashes(Count(generate.block_hashes.size(), WireLimits::kMaxPromptHashes, "block hashes")));
  FillSampling(generate.sampling, out);
  out.setMaxOutputTokens(generate.max_output_tokens);
  out.setFirstOutputIndex(generate.first_output_index);
  FillTokens(generate.stop_tokens,
             out.initStopTokens(Count(generate.stop_tokens.size(), WireLimits::kMaxStopTokens, "stop tokens")));
  out.setIgnoreEos(generate.ignore_eos);
  out.setExpectedCachedTokens(generate.expected_cached_tokens);
  out.setDeadlineMs(generate.deadline_ms);
  out.setSampleCount(generate.sample_count);
  out.setMinOutputTokens(generate.min_output_tokens);
  FillWantedLogprobs(generate, out);
  ROOST_CHECK(generate.trace_parent.size() <= kMaxTraceParentBytes);
  out.setTraceParent(Text(generate.trace_parent));
  if (generate.constraint) FillConstraint(*generate.constraint, out.initConstraint());
  FillWishes(generate, out);
}

void Fill(const Cancel& cancel, schema::RouterMessage::Builder message) {
  message.initCancel().setRequestId(cancel.request_id.value());
}

void Fill(const Pin& pin, schema::RouterMessage::Builder message) {
  auto out = message.initPin();
  FillHash(pin.root, out.initRoot());
  FillHashes(pin.hashes, out.initHashes(Count(pin.hashes.size(), WireLimits::kMaxPromptHashes, "pinned hashes")));
  out.setDurationMs(pin.duration_ms);
  out.setAnswerId(pin.answer_id);
}

void Fill(const Unpin& unpin, schema::RouterMessage::Builder message) {
  auto out = message.initUnpin();
  FillHash(unpin.root, out.initRoot());
  FillHashes(unpin.hashes, out.initHashes(Count(unpin.hashes.size(), WireLimits::kMaxPromptHashes, "unpinned hashes")));
  out.setAnswerId(unpin.answer_id);
}

void FillWhat(const PromptToEvict& prompt, schema::Evict::What::Builder what) {
  auto out = what.initPrompt();
  FillHash(prompt.root, out.initRoot());
  if (prompt.own) {
    out.setOwnFirstBlock(prompt.own->first_block);
    FillHash(prompt.own->root, out.initOwnRoot());
  }
  FillTokens(prompt.tokens,
             out.initTokens(Count(prompt.tokens.size(), WireLimits::kMaxPromptTokens, "tokens to evict")));
  FillHashes(prompt.block_hashes,
             out.initBlockHashes(Count(prompt.block_hashes.size(), WireLimits::kMaxPromptHashes, "hashes to evict")));
  if (!prompt.own) return;
  out.setOwnFirstBlock(prompt.own->first_block);
  FillHash(prompt.own->root, out.initOwnRoot());
}

void FillWhat(const TenantToEvict& tenant, schema::Evict::What::Builder what) {
  ROOST_CHECK(tenant.tenant.size() <= WireLimits::kMaxTenantBytes);
  what.setTenant(Text(tenant.tenant));
}

void Fill(const Evict& evict, schema::RouterMessage::Builder message) {
  auto out = message.initEvict();
  out.setAnswerId(evict.answer_id);
  std::visit([&out](const auto& what) { FillWhat(what, out.initWhat()); }, evict.what);
}

void Fill(const WantPrefixes& want, schema::RouterMessage::Builder message) {
  auto out = message.initWantPrefixes();
  ROOST_CHECK(want.most >= 1 && want.most <= kMaxUsedPrefixes, "{} prefixes", want.most);
  out.setAnswerId(want.answer_id);
  out.setMost(want.most);
  out.setWithTokens(want.tokens == PrefixTokens::kTell);
}

void Fill(const Cordon& cordon, schema::RouterMessage::Builder message) {
  message.initCordon().setInForce(cordon.in_force);
}

void Fill(const WantHello&, schema::RouterMessage::Builder message) { message.setWantHello(); }
void Fill(const WantSnapshot&, schema::RouterMessage::Builder message) { message.setWantSnapshot(); }
void Fill(const WantTokenizer&, schema::RouterMessage::Builder message) { message.setWantTokenizer(); }
void Fill(const Ping& ping, schema::RouterMessage::Builder message) {
  auto out = message.initPing();
  if (ping.generate_digest) out.getGenerateDigest().setDigest(*ping.generate_digest);
}

template <typename Schema, typename Message>
Bytes EncodeAs(const Message& message) {
  capnp::MallocMessageBuilder builder;
  auto root = builder.initRoot<Schema>();
  std::visit([&root](const auto& value) { Fill(value, root); }, message);
  Bytes bytes(capnp::computeSerializedSizeInWords(builder) * sizeof(capnp::word));
  kj::ArrayOutputStream stream(kj::arrayPtr(reinterpret_cast<kj::byte*>(bytes.data()), bytes.size()));
  capnp::writeMessage(stream, builder);
  return bytes;
}

}  // namespace

Bytes Encode(const WorkerMessage& message) {
  Bytes bytes = EncodeAs<schema::WorkerMessage>(message);
  const bool large = std::holds_alternative<Tokenizer>(message);
  ROOST_CHECK(bytes.size() <= (large ? WireLimits::kMaxFrameBytes : WireLimits::kMaxPlainFrameBytes));
  return bytes;
}

Bytes Encode(const RouterMessage& message) {
  Bytes bytes = EncodeAs<schema::RouterMessage>(message);
  ROOST_CHECK(bytes.size() <= WireLimits::kMaxPlainFrameBytes);
  return bytes;
}

}  // namespace roost::wire
