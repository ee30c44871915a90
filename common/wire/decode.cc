#include <capnp/message.h>
#include <capnp/serialize.h>
#include <kj/exception.h>

#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "common/base/trace_context.h"
#include "common/wire/codec.h"
#include "common/wire/decode_prefixes.h"
#include "common/wire/decode_sampling.h"
#include "common/wire/decode_tokens.h"
#include "common/wire/decode_values.h"
#include "schema/roost.capnp.h"

// Cap'n Proto throws kj::Exception from any read of a malformed message; Decode catches it at the bottom of this file.
// Read each pointer once: each read counts against the traversal limit.
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

// The same three fields in Hello and Welcome.
template <typename Reader>
Result<PeerVersion> ReadVersion(Reader in) {
  PeerVersion version{.major = in.getProtocolVersion(), .minor = in.getProtocolMinor()};
  ROOST_ASSIGN_OR_RETURN(version.release, ReadLine(in.getRelease(), "release", kMaxReleaseBytes));
  return version;
}

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
  hello.cordons = in.getCordons();
  ROOST_ASSIGN_OR_RETURN(hello.adapters, ReadAdapters(in.getAdapters()));
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

Result<Welcome> ReadWelcome(schema::Welcome::Reader in) {
  Welcome welcome;
  welcome.router_instance = in.getRouterInstance();
  ROOST_ASSIGN_OR_RETURN(welcome.epoch, ReadNonZero(in.getEpoch(), "epoch"));
  ROOST_ASSIGN_OR_RETURN(welcome.version, ReadVersion(in));
  return welcome;
}

Result<Refused> ReadRefused(schema::Refused::Reader in) {
  Refused refused;
  ROOST_ASSIGN_OR_RETURN(refused.epoch, ReadNonZero(in.getEpoch(), "epoch"));
  ROOST_ASSIGN_OR_RETURN(refused.reason, ReadLine(in.getReason(), "reason", WireLimits::kMaxTextBytes));
  if (in.getCause() <= schema::RefusalCause::FULL) refused.cause = static_cast<RefusalCause>(in.getCause());
  return refused;
}

Result<Retention> ReadRetention(schema::Retention::Reader in) {
  Retention retention;
  ROOST_ASSIGN_OR_RETURN(retention.prompt_priority, ReadPriority(in.getPromptPriority(), "retention.promptPriority"));
  ROOST_ASSIGN_OR_RETURN(retention.prompt_duration_ms,
                         ReadKeepMs(in.getPromptDurationMs(), "retention.promptDurationMs"));
  ROOST_ASSIGN_OR_RETURN(retention.decode_priority, ReadPriority(in.getDecodePriority(), "retention.decodePriority"));
  ROOST_ASSIGN_OR_RETURN(retention.decode_duration_ms,
                         ReadKeepMs(in.getDecodeDurationMs(), "retention.decodeDurationMs"));
  return retention;
}

// How the request uses the cache and the queue.
Result<void> ReadWishes(schema::Generate::Reader in, Generate& generate) {
  ROOST_ASSIGN_OR_RETURN(generate.tenant, ReadText(in.getTenant(), "tenant", WireLimits::kMaxTenantBytes));
  ROOST_ASSIGN_OR_RETURN(generate.adapter, ReadLine(in.getAdapter(), "adapter", WireLimits::kMaxAdapterBytes));
  if (in.getOwnFirstBlock() > 0) generate.own = OwnScope{in.getOwnFirstBlock(), ReadHash(in.getOwnRoot())};
  // `off` is right for a mode of a newer router too: it only costs time.
  generate.cache_mode = in.getCacheMode() == schema::CacheMode::ON ? CacheMode::kOn : CacheMode::kOff;
  ROOST_ASSIGN_OR_RETURN(generate.priority, ReadPriority(in.getPriority(), "priority"));
  if (in.hasRetention()) {
    ROOST_ASSIGN_OR_RETURN(generate.retention, ReadRetention(in.getRetention()));
  }
  generate.session_hash = in.getSessionHash();
  ROOST_ASSIGN_OR_RETURN(generate.expect_return_ms, ReadKeepMs(in.getExpectReturnMs(), "expectReturnMs"));
  return {};
}

Result<void> ReadConstraint(schema::Constraint::Reader in, Generate& generate) {
  Constraint constraint;
  ROOST_ASSIGN_OR_RETURN(constraint.text, ReadText(in.getText(), "constraint.text", kMaxConstraintBytes));
  ROOST_ASSIGN_OR_RETURN(constraint.field, ReadLine(in.getField(), "constraint.field", WireLimits::kMaxTextBytes));
  const auto kind = in.getKind();
  if (kind > schema::ConstraintKind::STRUCTURAL_TAG) {
    generate.refusal = Error{
        ErrorCode::kInvalidArgument,
        fmt::format("the worker does not know this kind of constraint ({})", static_cast<int>(kind)), constraint.field};
    return {};
  }
  constraint.kind = static_cast<ConstraintKind>(kind);
  generate.constraint = std::move(constraint);
  return {};
}

Result<Generate> ReadGenerate(schema::Generate::Reader in) {
  Generate generate;
  generate.request_id = RequestId(in.getRequestId());
  ROOST_ASSIGN_OR_RETURN(generate.prompt, ReadTokens(in.getPrompt(), "prompt", WireLimits::kMaxPromptTokens));
  if (generate.prompt.empty()) return DataLoss("prompt", "empty");
  generate.root = ReadHash(in.getRoot());
  const std::size_t most_hashes = generate.prompt.size() / kMinBlockTokens;
  ROOST_ASSIGN_OR_RETURN(generate.block_hashes, ReadHashes(in.getBlockHashes(), "blockHashes", most_hashes));
  ROOST_ASSIGN_OR_RETURN(generate.sampling, ReadSampling(in));
  generate.max_output_tokens = in.getMaxOutputTokens();
  generate.first_output_index = in.getFirstOutputIndex();
  ROOST_ASSIGN_OR_RETURN(generate.stop_tokens,
                         ReadTokens(in.getStopTokens(), "stopTokens", WireLimits::kMaxStopTokens));
  generate.ignore_eos = in.getIgnoreEos();
  generate.expected_cached_tokens = in.getExpectedCachedTokens();
  generate.deadline_ms = in.getDeadlineMs();
  generate.sample_count = in.getSampleCount();
  if (generate.sample_count == 0 || generate.sample_count > kMaxSampleCount) {
    return DataLoss("sampleCount", "{} is not from 1 to {}", generate.sample_count, kMaxSampleCount);
  }
  generate.min_output_tokens = in.getMinOutputTokens();
  ROOST_RETURN_IF_ERROR(ReadWantedLogprobs(in, generate));
  ROOST_ASSIGN_OR_RETURN(generate.trace_parent, ReadText(in.getTraceParent(), "traceParent", kMaxTraceParentBytes));
  if (!generate.trace_parent.empty() && !IsTraceParent(generate.trace_parent)) {
    return DataLoss("traceParent", "is not a trace parent");
  }
  if (in.hasConstraint()) ROOST_RETURN_IF_ERROR(ReadConstraint(in.getConstraint(), generate));
  ROOST_RETURN_IF_ERROR(ReadWishes(in, generate));
  return generate;
}

// Turns the Result<T> of one message into what Decode returns.
template <typename Message, typename T>
Result<std::optional<Message>> Known(Result<T> read) {
  if (!read.ok()) return std::move(read).error();
  return std::optional<Message>(std::move(read).value());
}

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

Ping ReadPing(schema::Ping::Reader in) {
  Ping ping;
  if (in.getGenerateDigest().isDigest()) ping.generate_digest = in.getGenerateDigest().getDigest();
  return ping;
}

Result<std::optional<RouterMessage>> ReadMessage(schema::RouterMessage::Reader in) {
  switch (in.which()) {
    case schema::RouterMessage::NONE: return DataLoss("message", "empty");
    case schema::RouterMessage::WELCOME: return Known<RouterMessage>(ReadWelcome(in.getWelcome()));
    case schema::RouterMessage::GENERATE: return Known<RouterMessage>(ReadGenerate(in.getGenerate()));
    case schema::RouterMessage::CANCEL:
      return std::optional<RouterMessage>(Cancel{RequestId(in.getCancel().getRequestId())});
    case schema::RouterMessage::WANT_HELLO: return std::optional<RouterMessage>(WantHello{});
    case schema::RouterMessage::WANT_SNAPSHOT: return std::optional<RouterMessage>(WantSnapshot{});
    case schema::RouterMessage::WANT_TOKENIZER: return std::optional<RouterMessage>(WantTokenizer{});
    case schema::RouterMessage::PING: return std::optional<RouterMessage>(ReadPing(in.getPing()));
    case schema::RouterMessage::PIN: return Known<RouterMessage>(ReadPin(in.getPin()));
    case schema::RouterMessage::UNPIN: return Known<RouterMessage>(ReadUnpin(in.getUnpin()));
    case schema::RouterMessage::REFUSED: return Known<RouterMessage>(ReadRefused(in.getRefused()));
    case schema::RouterMessage::WANT_PREFIXES: return Known<RouterMessage>(ReadWantPrefixes(in.getWantPrefixes()));
    case schema::RouterMessage::EVICT: {
      ROOST_ASSIGN_OR_RETURN(std::optional<Evict> evict, ReadEvict(in.getEvict()));
      if (!evict) break;
      return std::optional<RouterMessage>(*std::move(evict));
    }
    case schema::RouterMessage::CORDON:
      return std::optional<RouterMessage>(Cordon{.in_force = in.getCordon().getInForce()});
  }
  return std::optional<RouterMessage>();
}

// Only a Tokenizer may be large. The size of other messages is checked before anything is copied out of them.
bool IsOverPlainLimit(schema::WorkerMessage::Reader in, std::size_t size) {
  return size > WireLimits::kMaxPlainFrameBytes && in.which() != schema::WorkerMessage::TOKENIZER;
}
bool IsOverPlainLimit(schema::RouterMessage::Reader, std::size_t size) {
  return size > WireLimits::kMaxPlainFrameBytes;
}

// The frame as aligned words: the frame itself if it is aligned, else a copy.
kj::ArrayPtr<const capnp::word> AlignedWords(std::span<const std::byte> frame, kj::Array<capnp::word>& copy) {
  const std::size_t word_count = frame.size() / sizeof(capnp::word);
  if (reinterpret_cast<std::uintptr_t>(frame.data()) % alignof(std::uint64_t) == 0) {
    return {reinterpret_cast<const capnp::word*>(frame.data()), word_count};
  }
  copy = kj::heapArray<capnp::word>(word_count);
  std::memcpy(copy.begin(), frame.data(), frame.size());
  return copy;
}

template <typename Message, typename Schema>
Result<std::optional<Message>> Decode(std::span<const std::byte> frame) {
  if (frame.empty() || frame.size() % sizeof(capnp::word) != 0 || frame.size() > WireLimits::kMaxFrameBytes) {
    return DataLoss("frame", "{} bytes", frame.size());
  }
  try {
    kj::Array<capnp::word> copy;
    const auto words = AlignedWords(frame, copy);
    capnp::ReaderOptions options;
    options.traversalLimitInWords = 2 * words.size() + 1024;
    options.nestingLimit = WireLimits::kMaxNesting;
    capnp::FlatArrayMessageReader reader(words, options);
    const auto root = reader.getRoot<Schema>();
    if (IsOverPlainLimit(root, frame.size())) return DataLoss("frame", "{} bytes", frame.size());
    return ReadMessage(root);
  } catch (const kj::Exception& exception) {
    return DataLoss("frame", "{}", exception.getDescription().cStr());
  }
}

}  // namespace

Result<std::optional<WorkerMessage>> DecodeWorkerMessage(std::span<const std::byte> frame) {
  return Decode<WorkerMessage, schema::WorkerMessage>(frame);
}

Result<std::optional<RouterMessage>> DecodeRouterMessage(std::span<const std::byte> frame) {
  return Decode<RouterMessage, schema::RouterMessage>(frame);
}

}  // namespace roost::wire
