#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/wire/codec.h"
#include "common/wire/decode_messages.h"
#include "common/wire/decode_prefixes.h"
#include "common/wire/decode_sampling.h"
#include "common/wire/decode_tokens.h"
#include "common/wire/decode_values.h"

namespace roost::wire {
namespace {

// The figures of a step, from which rates are fitted. Values that no engine can reach are refused.
Result<void> CheckStep(const Load& load) {
  if (load.step_seconds == 0) return {};
  if (load.step_seconds < WireLimits::kMinStepSeconds || load.step_seconds > WireLimits::kMaxStepSeconds) {
    return DataLoss("stepSeconds", "{} is not from {} to {}", load.step_seconds, WireLimits::kMinStepSeconds,
                    WireLimits::kMaxStepSeconds);
  }
  const double tokens = static_cast<double>(load.step_prefill_tokens) + static_cast<double>(load.step_decode_tokens);
  if (tokens <= WireLimits::kMaxTokensPerSecond * load.step_seconds) return {};
  return DataLoss("stepPrefillTokens", "{} tokens in {} s are more than {} per second", tokens, load.step_seconds,
                  WireLimits::kMaxTokensPerSecond);
}

Result<std::uint64_t> ReadTokenCount(std::uint64_t count, const char* field) {
  if (count > WireLimits::kMaxTokensOfAWorker)
    return DataLoss(field, "{}, limit {}", count, WireLimits::kMaxTokensOfAWorker);
  return count;
}

Result<StoredRun> ReadRun(schema::StoredRun::Reader in, std::size_t limit) {
  StoredRun run;
  run.first_position = in.getFirstPosition();
  ROOST_ASSIGN_OR_RETURN(run.hashes, ReadHashes(in.getHashes(), "run.hashes", limit));
  return run;
}

// Nothing for an event of a newer worker: if it has changed the set of blocks, the load's digest shows that, and a
// snapshot repairs the view.
Result<std::optional<CacheEvent>> ReadCacheEvent(schema::CacheEvent::Reader in) {
  CacheEvent event;
  switch (in.which()) {
    case schema::CacheEvent::STORED: {
      event.kind = CacheEvent::Kind::kStored;
      ROOST_ASSIGN_OR_RETURN(event.stored, ReadRun(in.getStored(), WireLimits::kMaxHashesPerRun));
      return std::optional(std::move(event));
    }
    case schema::CacheEvent::REMOVED: {
      event.kind = CacheEvent::Kind::kRemoved;
      ROOST_ASSIGN_OR_RETURN(event.removed, ReadHashes(in.getRemoved(), "removed", WireLimits::kMaxHashesPerRun));
      return std::optional(std::move(event));
    }
  }
  return std::optional<CacheEvent>();
}

Result<std::vector<OtherPrompt>> ReadOtherPrompts(capnp::List<schema::OtherPrompt>::Reader list) {
  ROOST_RETURN_IF_ERROR(CheckCount(list, "otherPrompts", kMaxOtherPrompts));
  std::vector<OtherPrompt> prompts;
  prompts.reserve(list.size());
  std::size_t hashes_left = kMaxOtherHashes;
  for (const auto in : list) {
    OtherPrompt prompt{in.getUncachedTokens(), in.getWaitedMs(), in.getId()};
    ROOST_ASSIGN_OR_RETURN(prompt.hashes, ReadHashes(in.getHashes(), "otherPrompts.hashes", hashes_left));
    hashes_left -= prompt.hashes.size();
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

Result<Load> ReadLoad(schema::Load::Reader in) {
  Load load;
  load.waiting_requests = in.getWaitingRequests();
  load.running_requests = in.getRunningRequests();
  ROOST_ASSIGN_OR_RETURN(load.queued_prefill_tokens,
                         ReadTokenCount(in.getQueuedPrefillTokens(), "queuedPrefillTokens"));
  ROOST_ASSIGN_OR_RETURN(load.running_context_tokens,
                         ReadTokenCount(in.getRunningContextTokens(), "runningContextTokens"));
  load.free_block_count = in.getFreeBlockCount();
  load.cached_block_count = in.getCachedBlockCount();
  load.digest = ReadHash(in.getDigest());
  load.step_prefill_tokens = in.getStepPrefillTokens();
  load.step_decode_tokens = in.getStepDecodeTokens();
  ROOST_ASSIGN_OR_RETURN(load.step_seconds, ReadSeconds(in.getStepSeconds(), "stepSeconds"));
  ROOST_RETURN_IF_ERROR(CheckStep(load));
  load.draining = in.getDraining();
  load.pinned_block_count = in.getPinnedBlockCount();
  load.progress = in.getProgress();
  load.router_count = in.getRouterCount();
  load.cordoned = in.getCordoned();
  load.cache_unknown = in.getCacheUnknown();
  ROOST_ASSIGN_OR_RETURN(load.saved_prefill_seconds, ReadSeconds(in.getSavedPrefillSeconds(), "savedPrefillSeconds"));
  ROOST_ASSIGN_OR_RETURN(load.step_under_way_seconds, ReadSeconds(in.getStepUnderWaySeconds(), "stepUnderWaySeconds"));
  if (load.router_count == 0 || load.router_count > kMaxRouters)
    return DataLoss("routerCount", "{} is not 1 to {}", load.router_count, kMaxRouters);
  ROOST_ASSIGN_OR_RETURN(load.other_prompts, ReadOtherPrompts(in.getOtherPrompts()));
  return load;
}

Result<std::vector<std::string>> ReadAdapters(capnp::List<capnp::Text>::Reader list) {
  ROOST_RETURN_IF_ERROR(CheckCount(list, "adapters", kMaxAdapters));
  std::vector<std::string> names;
  names.reserve(list.size());
  for (const auto name : list) {
    names.emplace_back();
    ROOST_ASSIGN_OR_RETURN(names.back(), ReadName(name, "adapters", WireLimits::kMaxAdapterBytes));
  }
  return names;
}

// ---- one Read per message ----

Result<Hello> ReadHello(schema::Hello::Reader in) {
  constexpr std::size_t kText = WireLimits::kMaxTextBytes;
  Hello hello;
  ROOST_ASSIGN_OR_RETURN(hello.version, ReadVersion(in));
  ROOST_ASSIGN_OR_RETURN(hello.worker_id, ReadName(in.getWorkerId(), "workerId", WireLimits::kMaxWorkerIdBytes));
  ROOST_ASSIGN_OR_RETURN(hello.epoch, ReadNonZero(in.getEpoch(), "epoch"));
  if (hello.version.major != kProtocolMajor) return hello;
  hello.process_id = in.getProcessId();
  ROOST_ASSIGN_OR_RETURN(hello.model, ReadName(in.getModel(), "model", kText));
  ROOST_ASSIGN_OR_RETURN(hello.fingerprint, ReadLine(in.getFingerprint(), "fingerprint", kText));
  ROOST_ASSIGN_OR_RETURN(hello.kv_dtype, ReadLine(in.getKvDtype(), "kvDtype", kText));
  hello.block_tokens = in.getBlockTokens();
  if (!IsValidBlockTokens(hello.block_tokens)) return DataLoss("blockTokens", "{}", hello.block_tokens);
  hello.block_count = in.getBlockCount();
  ROOST_RETURN_IF_ERROR(ReadNonZero(hello.block_count, "blockCount"));
  hello.max_context_tokens = in.getMaxContextTokens();
  ROOST_RETURN_IF_ERROR(ReadNonZero(hello.max_context_tokens, "maxContextTokens"));
  hello.max_running_requests = in.getMaxRunningRequests();
  ROOST_ASSIGN_OR_RETURN(hello.tokenizer_digest, ReadLine(in.getTokenizerDigest(), "tokenizerDigest", kText));
  ROOST_ASSIGN_OR_RETURN(hello.sampling, ReadSamplingDefaults(in));
  hello.max_batch_tokens = in.getMaxBatchTokens();
  hello.ageing_tokens = in.getAgeingTokens();
  hello.max_sample_count = in.getMaxSampleCount();
  ROOST_RETURN_IF_ERROR(ReadNonZero(hello.max_sample_count, "maxSampleCount"));
  hello.sends_cache_events = in.getSendsCacheEvents();
  hello.keeps_prefixes = in.getKeepsPrefixes();
  hello.full_sampling = in.getFullSampling();
  hello.logprobs = in.getLogprobs();
  hello.min_output_tokens = in.getMinOutputTokens();
  hello.answers = in.getAnswers();
  hello.constrains_output = in.getConstrainsOutput();
  hello.evicts = in.getEvicts();
  hello.evicts_blocks = in.getEvictsBlocks();
  hello.cordons = in.getCordons();
  ROOST_ASSIGN_OR_RETURN(hello.adapters, ReadAdapters(in.getAdapters()));
  ROOST_ASSIGN_OR_RETURN(hello.host, ReadLine(in.getHost(), "host", kMaxHostBytes));
  hello.compute = {.threads = in.getComputeThreads(),
                   .machine = in.getMachine(),
                   .machine_cores = in.getMachineCores(),
                   .cpu_group = in.getCpuGroup(),
                   .cpu_group_cores = in.getCpuGroupCores()};
  return hello;
}

Result<Adapters> ReadAdaptersMessage(schema::Adapters::Reader in) {
  Adapters adapters;
  ROOST_ASSIGN_OR_RETURN(adapters.epoch, ReadNonZero(in.getEpoch(), "epoch"));
  ROOST_ASSIGN_OR_RETURN(adapters.names, ReadAdapters(in.getNames()));
  return adapters;
}

Result<Step> ReadStep(schema::Step::Reader in) {
  Step step;
  ROOST_ASSIGN_OR_RETURN(step.epoch, ReadNonZero(in.getEpoch(), "epoch"));
  ROOST_ASSIGN_OR_RETURN(step.sequence, ReadNonZero(in.getSequence(), "sequence"));
  const auto tokens = in.getTokens();
  ROOST_RETURN_IF_ERROR(CheckCount(tokens, "tokens", WireLimits::kMaxListItems));
  step.tokens.reserve(tokens.size());
  for (const auto event : tokens) {
    ROOST_ASSIGN_OR_RETURN(TokenEvent read, ReadTokenEvent(event));
    step.tokens.push_back(std::move(read));
  }
  const auto events = in.getEvents();
  ROOST_RETURN_IF_ERROR(CheckCount(events, "events", WireLimits::kMaxListItems));
  step.events.reserve(events.size());
  for (const auto event : events) {
    ROOST_ASSIGN_OR_RETURN(std::optional<CacheEvent> read, ReadCacheEvent(event));
    if (read) step.events.push_back(*std::move(read));
  }
  ROOST_ASSIGN_OR_RETURN(step.load, ReadLoad(in.getLoad()));
  return step;
}

Result<Snapshot> ReadSnapshot(schema::Snapshot::Reader in) {
  Snapshot snapshot;
  ROOST_ASSIGN_OR_RETURN(snapshot.epoch, ReadNonZero(in.getEpoch(), "epoch"));
  ROOST_ASSIGN_OR_RETURN(snapshot.sequence, ReadNonZero(in.getSequence(), "sequence"));
  snapshot.chunk_index = in.getChunkIndex();
  snapshot.last = in.getLast();
  const auto runs = in.getRuns();
  ROOST_RETURN_IF_ERROR(CheckCount(runs, "runs", WireLimits::kMaxSnapshotHashes));
  snapshot.runs.reserve(runs.size());
  std::size_t hashes_left = WireLimits::kMaxSnapshotHashes;
  for (const auto run : runs) {
    ROOST_ASSIGN_OR_RETURN(StoredRun read, ReadRun(run, hashes_left));
    hashes_left -= read.hashes.size();
    snapshot.runs.push_back(std::move(read));
  }
  return snapshot;
}

Result<Tokenizer> ReadTokenizer(schema::Tokenizer::Reader in) {
  constexpr std::size_t kLarge = WireLimits::kMaxTokenizerBytes;
  Tokenizer tokenizer;
  ROOST_ASSIGN_OR_RETURN(tokenizer.digest, ReadName(in.getDigest(), "digest", WireLimits::kMaxTextBytes));
  ROOST_ASSIGN_OR_RETURN(tokenizer.tokenizer_json, ReadText(in.getTokenizerJson(), "tokenizerJson", kLarge));
  ROOST_ASSIGN_OR_RETURN(tokenizer.chat_template, ReadText(in.getChatTemplate(), "chatTemplate", kLarge));
  ROOST_ASSIGN_OR_RETURN(tokenizer.bos_token, ReadText(in.getBosToken(), "bosToken", WireLimits::kMaxTextBytes));
  ROOST_ASSIGN_OR_RETURN(tokenizer.eos_token, ReadText(in.getEosToken(), "eosToken", WireLimits::kMaxTextBytes));
  return tokenizer;
}

Result<Bye> ReadBye(schema::Bye::Reader in) {
  Bye bye;
  ROOST_ASSIGN_OR_RETURN(bye.epoch, ReadNonZero(in.getEpoch(), "epoch"));
  return bye;
}

}  // namespace

Result<std::optional<WorkerMessage>> ReadMessage(schema::WorkerMessage::Reader in) {
  switch (in.which()) {
    case schema::WorkerMessage::NONE: return DataLoss("message", "empty");
    case schema::WorkerMessage::HELLO: return Known<WorkerMessage>(ReadHello(in.getHello()));
    case schema::WorkerMessage::STEP: return Known<WorkerMessage>(ReadStep(in.getStep()));
    case schema::WorkerMessage::SNAPSHOT: return Known<WorkerMessage>(ReadSnapshot(in.getSnapshot()));
    case schema::WorkerMessage::TOKENIZER: return Known<WorkerMessage>(ReadTokenizer(in.getTokenizer()));
    case schema::WorkerMessage::BYE: return Known<WorkerMessage>(ReadBye(in.getBye()));
    case schema::WorkerMessage::PIN_ANSWER: return std::optional<WorkerMessage>(ReadPinAnswer(in.getPinAnswer()));
    case schema::WorkerMessage::PREFIXES: return Known<WorkerMessage>(ReadPrefixes(in.getPrefixes()));
    case schema::WorkerMessage::EVICT_ANSWER: return std::optional<WorkerMessage>(ReadEvictAnswer(in.getEvictAnswer()));
    case schema::WorkerMessage::ADAPTERS: return Known<WorkerMessage>(ReadAdaptersMessage(in.getAdapters()));
  }
  return std::optional<WorkerMessage>();
}

}  // namespace roost::wire
