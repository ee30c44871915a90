#include <optional>
#include <utility>

#include "common/base/trace_context.h"
#include "common/wire/codec.h"
#include "common/wire/decode_messages.h"
#include "common/wire/decode_prefixes.h"
#include "common/wire/decode_sampling.h"
#include "common/wire/decode_tokens.h"
#include "common/wire/decode_values.h"

namespace roost::wire {
namespace {

Result<Welcome> ReadWelcome(schema::Welcome::Reader in) {
  Welcome welcome;
  welcome.router_instance = in.getRouterInstance();
  ROOST_ASSIGN_OR_RETURN(welcome.epoch, ReadNonZero(in.getEpoch(), "epoch"));
  ROOST_ASSIGN_OR_RETURN(welcome.version, ReadVersion(in));
  welcome.crowding = {in.getCrowdedWorkers(), in.getCrowdedThreads(), in.getCrowdedCores()};
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

// Reads the request's wishes on cache and queue.
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

Ping ReadPing(schema::Ping::Reader in) {
  Ping ping;
  if (in.getGenerateDigest().isDigest()) ping.generate_digest = in.getGenerateDigest().getDigest();
  return ping;
}

}  // namespace

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

}  // namespace roost::wire
