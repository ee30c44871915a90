#include <string>
#include <variant>
#include <vector>

#include "common/base/check.h"
#include "common/wire/codec.h"
#include "common/wire/encode_messages.h"
#include "common/wire/encode_values.h"
#include "schema/roost.capnp.h"

namespace roost::wire {
namespace {

void FillError(const Error& error, schema::Error::Builder out) {
  static_assert(kErrorCodeCount == static_cast<int>(schema::ErrorCode::RATE_LIMITED) + 1);
  const std::string message = BoundedText(error.message);
  const std::string field = BoundedText(error.field);
  out.setCode(static_cast<schema::ErrorCode>(error.code));
  out.setMessage(Text(message));
  out.setField(Text(field));
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
  out.setSavedPrefillSeconds(load.saved_prefill_seconds);
  out.setStepUnderWaySeconds(load.step_under_way_seconds);
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
  out.setEvictsBlocks(hello.evicts_blocks);
  out.setCordons(hello.cordons);
  ROOST_CHECK(hello.host.size() <= kMaxHostBytes);
  if (!hello.host.empty()) out.setHost(Text(hello.host));
  out.setMachine(hello.compute.machine);
  out.setComputeThreads(hello.compute.threads);
  out.setMachineCores(hello.compute.machine_cores);
  out.setCpuGroup(hello.compute.cpu_group);
  out.setCpuGroupCores(hello.compute.cpu_group_cores);
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

}  // namespace

void FillMessage(const WorkerMessage& message, schema::WorkerMessage::Builder out) {
  std::visit([out](const auto& value) { Fill(value, out); }, message);
}

}  // namespace roost::wire
