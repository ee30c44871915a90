#include <string>
#include <variant>

#include "common/base/check.h"
#include "common/base/trace_context.h"
#include "common/wire/codec.h"
#include "common/wire/encode_messages.h"
#include "common/wire/encode_values.h"
#include "schema/roost.capnp.h"

namespace roost::wire {
namespace {

void FillRetention(const Retention& retention, schema::Retention::Builder out) {
  ROOST_CHECK(retention.prompt_priority <= kMaxPriority && retention.decode_priority <= kMaxPriority);
  out.setPromptPriority(static_cast<std::uint8_t>(retention.prompt_priority));
  out.setPromptDurationMs(retention.prompt_duration_ms);
  out.setDecodePriority(static_cast<std::uint8_t>(retention.decode_priority));
  out.setDecodeDurationMs(retention.decode_duration_ms);
}

// ---- one overload of Fill per message ----

void Fill(const Welcome& welcome, schema::RouterMessage::Builder message) {
  auto out = message.initWelcome();
  out.setRouterInstance(welcome.router_instance);
  out.setEpoch(welcome.epoch);
  FillVersion(welcome.version, out);
  out.setCrowdedWorkers(welcome.crowding.workers);
  out.setCrowdedThreads(welcome.crowding.threads);
  out.setCrowdedCores(welcome.crowding.cores);
}

void Fill(const Refused& refused, schema::RouterMessage::Builder message) {
  auto out = message.initRefused();
  static_assert(static_cast<int>(RefusalCause::kFull) == static_cast<int>(schema::RefusalCause::FULL));
  const std::string reason = BoundedText(refused.reason);
  out.setEpoch(refused.epoch);
  out.setReason(Text(reason));
  out.setCause(static_cast<schema::RefusalCause>(refused.cause));
}

// Writes the request's wishes on cache and queue.
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

// Writes the kinds of reports about its tokens that the request asks for.
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
}

void FillWhat(const TenantToEvict& tenant, schema::Evict::What::Builder what) {
  ROOST_CHECK(tenant.tenant.size() <= WireLimits::kMaxTenantBytes);
  what.setTenant(Text(tenant.tenant));
}

void FillWhat(const BlockToEvict& block, schema::Evict::What::Builder what) { FillHash(block.hash, what.initBlock()); }

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

}  // namespace

void FillMessage(const RouterMessage& message, schema::RouterMessage::Builder out) {
  std::visit([out](const auto& value) { Fill(value, out); }, message);
}

}  // namespace roost::wire
