#include "common/wire/made_codec.h"

#include <fmt/format.h>

#include <string_view>

#include "common/base/trace_context.h"
#include "common/base/utf8.h"
#include "common/wire/endpoint.h"
#include "common/wire/messages.h"
#include "common/wire/transfer_ticket.h"

namespace roost::wire {

namespace {

static_assert(kMaxTraceParentBytes == 55 && kMaxBlockTokens == 256, "bounds that the schema repeats");
static_assert(kTransferSecretBytes == kTransferSecretTextBytes && kTransferTicketBytes == kTransferTicketTextBytes);
static_assert(WireLimits::kMaxHeldHashes <= WireLimits::kMaxPromptHashes);
static_assert(WireLimits::kMaxPromptHashes == WireLimits::kMaxPromptTokens / kMinBlockTokens);
static_assert(WireLimits::kMaxPromptTokens * (sizeof(TokenId) + sizeof(BlockHash) / kMinBlockTokens) <
              WireLimits::kMaxPlainFrameBytes);

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

// All hashes of a list of runs or prompts together.
template <typename List>
Result<void> CheckHashes(const List& list, std::size_t most, const char* field) {
  std::size_t count = 0;
  for (const auto& each : list) count += each.hashes.size();
  if (count > most) return DataLoss(field, "{} items in all, limit {}", count, most);
  return {};
}

Result<void> CheckBlockCount(std::size_t hashes, std::size_t tokens) {
  if (hashes > tokens / kMinBlockTokens) return DataLoss("blockHashes", "{} for {} tokens", hashes, tokens);
  return {};
}

// Names that a peer chose are never looked up.
Result<void> CheckNumeric(const std::string& address, const char* field) {
  if (ParseNumericAddress(address).ok()) return {};
  return DataLoss(field, "is not a numeric address HOST:PORT");
}

// A kind that a newer router sent.
void RefuseUnknownKinds(schema::Generate::Reader in, Generate& generate) {
  const auto output = in.getOutputLogprobs();
  const auto prompt = in.getPromptLogprobs();
  if ((!output.isAbsent() && !output.isTopCount()) || (!prompt.isAbsent() && !prompt.isTopCount())) {
    generate.refusal =
        Error{ErrorCode::kInvalidArgument, "the worker does not know this kind of log probabilities", "logprobs"};
  }
  if (!generate.constraint) return;
  const auto kind = static_cast<std::size_t>(in.getConstraint().getKind());
  if (kind < kConstraintKindNames.size()) return;
  generate.refusal =
      Error{ErrorCode::kInvalidArgument, fmt::format("the worker does not know this kind of constraint ({})", kind),
            generate.constraint->field};
  generate.constraint.reset();
}

}  // namespace

Result<void> Check(schema::Hello::Reader, const Hello& hello) {
  if (!IsValidBlockTokens(hello.block_tokens)) return DataLoss("blockTokens", "{}", hello.block_tokens);
  if (hello.engine_block_tokens % hello.block_tokens != 0) {
    return DataLoss("engineBlockTokens", "{}: no multiple of {}", hello.engine_block_tokens, hello.block_tokens);
  }
  if (!hello.transfer.secret.empty() && !TransferSecret::Parse(hello.transfer.secret).ok()) {
    return DataLoss("transfer.secret", "is none");
  }
  if (hello.transfer.address.empty()) return {};
  return CheckNumeric(hello.transfer.address, "transfer.address");
}

Result<void> Check(schema::TokenEvent::Reader in, TokenEvent& event) {
  if (!event.logprobs.empty() && event.logprobs.size() != event.tokens.size()) {
    return DataLoss("logprobs", "{} of {} tokens", event.logprobs.size(), event.tokens.size());
  }
  // A newer worker's reason can not be told to a client: its request fails.
  if (event.finish && static_cast<std::size_t>(in.getFinish().getFinished()) >= kFinishReasonNames.size()) {
    event.finish = FinishReason::kError;
    event.stop_token.reset();
    event.error = Error{ErrorCode::kInternal,
                        fmt::format("the worker ended the request for a reason that this router does not know ({})",
                                    static_cast<int>(in.getFinish().getFinished())),
                        ""};
    return {};
  }
  if (event.stop_token && event.finish != FinishReason::kStop) {
    return DataLoss("stopToken", "is set, but the finish reason is not stop");
  }
  if ((event.finish == FinishReason::kError) != event.error.has_value()) {
    return DataLoss("error", "must be there if, and only if, the finish reason is error");
  }
  return {};
}

Result<void> Check(schema::Load::Reader, const Load& load) {
  ROOST_RETURN_IF_ERROR(CheckStep(load));
  return CheckHashes(load.other_prompts, kMaxOtherHashes, "otherPrompts.hashes");
}

Result<void> Check(schema::Snapshot::Reader, const Snapshot& snapshot) {
  return CheckHashes(snapshot.runs, WireLimits::kMaxSnapshotHashes, "run.hashes");
}

Result<void> Check(schema::UsedPrefix::Reader, const UsedPrefix& prefix) {
  if (prefix.hashes.empty()) return {};
  if (prefix.hashes.size() != prefix.block_count || prefix.hashes.back() != prefix.hash) {
    return DataLoss("prefixes.hashes", "are not those of its {} blocks", prefix.block_count);
  }
  if (!prefix.own || prefix.own->first_block < prefix.block_count) return {};
  return DataLoss("prefixes.own.firstBlock", "{} of {} blocks", prefix.own->first_block, prefix.block_count);
}

Result<void> Check(schema::Prefixes::Reader, const Prefixes& answer) {
  return CheckHashes(answer.prefixes, kMaxUsedHashes, "prefixes.hashes");
}

Result<void> Check(schema::Generate::Reader in, Generate& generate) {
  ROOST_RETURN_IF_ERROR(CheckBlockCount(generate.block_hashes.size(), generate.prompt.size()));
  const std::vector<LogitBias>& biases = generate.sampling.logit_bias;
  for (std::size_t i = 1; i < biases.size(); ++i) {
    if (biases[i].token > biases[i - 1].token) continue;
    return DataLoss("logitBias", "token {} after token {}", biases[i].token, biases[i - 1].token);
  }
  if (!generate.trace_parent.empty() && !IsTraceParent(generate.trace_parent)) {
    return DataLoss("traceParent", "is not a trace parent");
  }
  RefuseUnknownKinds(in, generate);
  return {};
}

Result<void> Check(schema::Evict::What::Prompt::Reader, const PromptToEvict& prompt) {
  return CheckBlockCount(prompt.block_hashes.size(), prompt.tokens.size());
}

Result<void> Check(schema::Hold::Reader, const Hold& hold) {
  if (hold.first_position > WireLimits::kMaxPromptHashes - hold.hashes.size()) {
    return DataLoss("firstPosition", "{}, with {} blocks behind it", hold.first_position, hold.hashes.size());
  }
  if (hold.first_position == 0 && hold.parent != hold.root) {
    return DataLoss("parent", "is not the root, though firstPosition is 0");
  }
  if (!hold.source.ticket.empty() && !TransferTicket::Parse(hold.source.ticket).ok()) {
    return DataLoss("source.ticket", "is none");
  }
  return CheckNumeric(hold.source.address, "source.address");
}

Result<void> ReadText(capnp::Text::Reader text, TextRule rule, const char* field, std::string& out) {
  if (rule.kind == TextKind::kLabel && text.size() == 0) return DataLoss(field, "empty");
  if (text.size() > rule.most) return DataLoss(field, "{} bytes of text, limit {}", text.size(), rule.most);
  const std::string_view view(text.cStr(), text.size());
  if (!IsValidUtf8(view)) return DataLoss(field, "text is not UTF-8");
  if (rule.kind != TextKind::kAny && HasControlCharacter(view)) return DataLoss(field, "holds a control character");
  if (rule.kind == TextKind::kLabel && HasInvisibleCharacter(view)) {
    return DataLoss(field, "holds a character that nobody sees");
  }
  out = view;
  return {};
}

Result<void> ReadData(capnp::Data::Reader data, std::size_t most, const char* field, std::string& out) {
  if (data.size() > most) return DataLoss(field, "{} bytes, limit {}", data.size(), most);
  out.assign(reinterpret_cast<const char*>(data.begin()), data.size());
  return {};
}

// A third of the limit, because a replaced byte becomes three.
std::string BoundedText(const std::string& text) {
  std::string front = text.substr(0, WireLimits::kMaxTextBytes / 3);
  front.resize(front.size() - IncompleteUtf8Suffix(front));
  return ReplaceInvalidUtf8(front);
}

}  // namespace roost::wire
