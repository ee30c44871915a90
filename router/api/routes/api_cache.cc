// The Api's part of the prompt cache: sessions by headers, lifetimes, and comparisons with earlier requests. On text
// threads.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "common/text/tokenizer.h"
#include "router/api/diagnosis_memory.h"
#include "router/api/routes/api_call.h"

namespace roost::router {
namespace {

void AppendCanonical(const jinja::Value& value, std::string& text) {
  using jinja::Kind;
  switch (value.kind()) {
    case Kind::kBool: text += value.AsBool() ? 't' : 'f'; break;
    case Kind::kInt: fmt::format_to(std::back_inserter(text), "i{}", value.AsInt()); break;
    case Kind::kFloat: text += value.FloatText(); break;
    case Kind::kString:
      fmt::format_to(std::back_inserter(text), "s{}:{}", value.AsString().size(), value.AsString());
      break;
    case Kind::kSequence:
      text += '[';
      for (const jinja::Value& item : value.AsSequence().items) AppendCanonical(item, text);
      text += ']';
      break;
    case Kind::kDict:
      text += '{';
      for (const auto& [key, member] : value.AsDict().entries()) {
        AppendCanonical(key, text);
        AppendCanonical(member, text);
      }
      text += '}';
      break;
    case Kind::kUndefined:
    case Kind::kNone:
    case Kind::kObject: text += 'n'; break;
  }
}

// Equal for equal values of JSON alone. Requests nest little (kMaxJsonDepth).
std::string CanonicalText(const jinja::Value& value) {
  std::string text;
  AppendCanonical(value, text);
  return text;
}

}  // namespace

Result<void> Api::CompleteCacheFields(const Call& call, CacheFields& fields) const {
  if (fields.session_id.empty()) fields.session_id = options_.session_headers.NameIn(call.request);
  const std::uint64_t most = MostRetentionMs(call);
  fields.longest_retention_ms = most;
  fields.expect_return_ms = std::min(fields.expect_return_ms, most);
  if (fields.retention) {
    fields.retention->prompt_duration_ms = std::min(fields.retention->prompt_duration_ms, most);
    fields.retention->decode_duration_ms = std::min(fields.retention->decode_duration_ms, most);
  }
  return HoldToPriority(call, fields);
}

std::uint64_t Api::MostRetentionMs(const Call& call) {
  return call.admission == nullptr ? wire::kMaxKeepMs : call.admission->key().max_retention_ms;
}

std::shared_ptr<const Api::PromptParts> Api::PartsOf(const ChatRequest& chat, const jinja::TracedText& text,
                                                     const PromptPlaces& places) const {
  const DiagnosisMemory& memory = *options_.diagnosis_memory;
  const auto bytes = [&text](const ByteRange& range) {
    return std::string_view(text.bytes).substr(range.begin, range.end - range.begin);
  };
  auto parts = std::make_shared<PromptParts>();
  std::string front;
  std::string instructions;
  std::size_t begin = 0;
  for (const ByteRange& range : places.Instructions()) {
    front += bytes({begin, range.begin});
    (instructions += bytes(range)) += '\n';
    begin = range.end;
  }
  front += bytes({begin, std::max(begin, places.EndOfFront())});
  parts->tools = memory.Hash(CanonicalText(chat.tools));
  parts->front = memory.Hash(front);
  parts->system = memory.Hash(instructions);
  parts->effort = memory.Hash(chat.reasoning_effort);
  for (const ByteRange& range : places.Conversation()) {
    parts->messages.push_back(memory.Hash(bytes(range)));
    parts->begins.push_back(range.begin);
  }
  parts->text_bytes = text.size();
  return parts;
}

void Api::CompareAndKeep(const Call& call, const CacheFields& cache, const PromptParts* chat,
                         std::span<GenerateSpec> specs, const std::string& answer_id) const {
  GenerateSpec& spec = specs.front();
  const bool is_named = !cache.compare_with.empty();
  if (is_named) spec.comparison = {.before = PromptComparison::Before::kUnknown, .is_named = true};
  if (chat == nullptr || specs.size() != 1 || cache.mode == wire::CacheMode::kOff) return;
  DiagnosisMemory& memory = *options_.diagnosis_memory;
  const PromptParts& parts = *chat;
  const Instant now = services_.clock.Now();
  const auto print = std::make_shared<const PromptPrint>(
      PromptPrint{.model = memory.Hash(fmt::format("{}\n{}\n{}", spec.model->model_name(), spec.model->fingerprint,
                                                   spec.model->adapter())),
                  .scope = memory.Hash(spec.salt),
                  .cache_key = memory.Hash(cache.prompt_cache_key),
                  .effort = parts.effort,
                  .tools = parts.tools,
                  .front = parts.front,
                  .system = parts.system,
                  .messages = parts.messages,
                  .blocks = BlocksOf(spec.generate.block_hashes),
                  .prompt_tokens = static_cast<std::uint32_t>(spec.generate.prompt.size()),
                  .block_tokens = spec.model->block_tokens,
                  .at = now});
  spec.computed_by = std::shared_ptr<const ComputedBy>(print, &print->computed_by);
  const std::string tenant = TenantOf(call.admission);
  const DiagnosisMemory::Owner owner{tenant, cache.session_id};
  const auto before = is_named ? memory.Find(tenant, cache.compare_with, now) : memory.LastOf(owner, now);
  if (before != nullptr) {
    spec.comparison = Compare(*before, *print, [&](std::size_t message) {
      return TokensUpTo(*spec.model->tokenizer, spec.generate.prompt, {parts.begins[message], parts.text_bytes});
    });
    spec.comparison.is_named = is_named;
  }
  memory.Keep(owner, answer_id, print, now);
}

// The worker draws one token, which no client sees, so it may be any.
void Api::SetPrewarm(SamplingFields& fields) {
  if (!fields.cache.options.prewarm) return;
  fields.max_output_tokens = 0;
  wire::Generate& generate = fields.generate;
  generate.sample_count = 1;
  generate.min_output_tokens = 0;
  generate.constraint.reset();
  generate.output_logprobs.reset();
}

void Api::SetLifetimes(const Call& call, std::size_t prompt_tokens, std::span<const PlacedBreakpoint> breakpoints,
                       CacheFields& fields) {
  fields.lifetimes = LifetimesOf(fields, breakpoints, static_cast<std::uint32_t>(prompt_tokens));
  for (wire::Lifetime& lifetime : fields.lifetimes) {
    lifetime.duration_ms = std::min(lifetime.duration_ms, MostRetentionMs(call));
  }
  std::erase_if(fields.lifetimes, [](const wire::Lifetime& lifetime) { return lifetime.duration_ms == 0; });
}

}  // namespace roost::router
