#include "router/api/sampling_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <system_error>
#include <utility>

namespace roost::router {
namespace {

using Accepts = NeutralField::Accepts;

constexpr std::int64_t kMaxTokens = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMaxTokenId = std::numeric_limits<TokenId>::max();

constexpr std::array kNeutralOfBoth{
    NeutralField{"include_stop_str_in_output", Accepts::kFalse},
    NeutralField{"skip_special_tokens", Accepts::kTrue},
    NeutralField{"use_beam_search", Accepts::kFalse},
    NeutralField{"prompt_logprobs", Accepts::kNothing},
    NeutralField{"return_token_ids", Accepts::kFalse},
    NeutralField{"structured_outputs", Accepts::kNothing},
    NeutralField{"guided_json", Accepts::kNothing},
    NeutralField{"guided_regex", Accepts::kNothing},
    NeutralField{"guided_choice", Accepts::kNothing},
    NeutralField{"guided_grammar", Accepts::kNothing},
};

bool IsNumber(JsonElement element, double wanted) {
  double value = 0;
  return element.get(value) == simdjson::SUCCESS && value == wanted;
}

bool IsBool(JsonElement element, bool wanted) {
  bool value = false;
  return element.get(value) == simdjson::SUCCESS && value == wanted;
}

bool IsEmpty(JsonElement element) {
  if (element.is_array()) return simdjson::dom::array(element).size() == 0;
  if (element.is_object()) return simdjson::dom::object(element).size() == 0;
  return element.is_string() && std::string_view(element).empty();
}

bool IsNeutral(JsonElement element, Accepts accepts) {
  switch (accepts) {
    case Accepts::kNothing: return false;
    case Accepts::kFalse: return IsBool(element, false);
    case Accepts::kTrue: return IsBool(element, true);
    case Accepts::kZero: return IsNumber(element, 0);
    case Accepts::kEmpty: return IsEmpty(element);
  }
  return false;
}

std::string_view NeutralText(Accepts accepts) {
  switch (accepts) {
    case Accepts::kNothing: return "leave it out";
    case Accepts::kFalse: return "leave it out or send false";
    case Accepts::kTrue: return "leave it out or send true";
    case Accepts::kZero: return "leave it out or send 0";
    case Accepts::kEmpty: return "leave it out or send it empty";
  }
  return "leave it out";
}

struct Range {
  float low;
  float high;
  enum class Low { kIncluded, kExcluded } low_end;
};
constexpr Range Between(float low, float high) { return {low, high, Range::Low::kIncluded}; }

Result<std::optional<float>> ParseReal(const JsonObject& body, std::string_view name, Range range) {
  ROOST_ASSIGN_OR_RETURN(const std::optional<double> value, body.Number(name));
  if (!value) return std::optional<float>();
  const bool excluded = range.low_end == Range::Low::kExcluded;
  const bool above_low = excluded ? *value > range.low : *value >= range.low;
  if (!above_low || *value > range.high) {
    return InvalidArgument(body.PathOf(name), "must be {} {} and at most {}, not {}",
                           excluded ? "greater than" : "at least", range.low, range.high, *value);
  }
  // What is above zero stays above zero.
  const float least = excluded ? std::numeric_limits<float>::min() : std::numeric_limits<float>::lowest();
  return std::optional<float>(std::max(least, static_cast<float>(*value)));
}

Result<void> ParseLimits(const JsonObject& body, SamplingFields& fields) {
  // Both names are checked; the newer one wins.
  for (const std::string_view name : {"max_tokens", "max_completion_tokens"}) {
    ROOST_ASSIGN_OR_RETURN(const std::optional<std::int64_t> value, body.Integer(name, 1, kMaxTokens));
    if (!value) continue;
    fields.max_output_tokens = static_cast<std::uint32_t>(*value);
    fields.max_output_tokens_field = name;
  }
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::int64_t> least, body.Integer("min_tokens", 0, kMaxTokens));
  fields.min_output_tokens = static_cast<std::uint32_t>(least.value_or(0));
  return {};
}

Result<void> ParseSampling(const JsonObject& body, SamplingFields& fields) {
  ROOST_ASSIGN_OR_RETURN(fields.temperature, ParseReal(body, "temperature", Between(0, 2)));
  ROOST_ASSIGN_OR_RETURN(fields.top_p, ParseReal(body, "top_p", {0, 1, Range::Low::kExcluded}));
  ROOST_ASSIGN_OR_RETURN(fields.min_p, ParseReal(body, "min_p", Between(0, 1)));
  // -1 is how some clients say "no limit".
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::int64_t> top_k, body.Integer("top_k", -1, kMaxTokens));
  if (top_k) fields.top_k = *top_k < 0 ? 0 : static_cast<std::uint32_t>(*top_k);
  ROOST_ASSIGN_OR_RETURN(
      const std::optional<std::int64_t> seed,
      body.Integer("seed", std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()));
  if (seed) fields.seed = static_cast<std::uint64_t>(*seed);
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::int64_t> n, body.Integer("n", 1, kMaxChoices));
  fields.choice_count = static_cast<std::uint32_t>(n.value_or(1));
  return {};
}

// The key of logit_bias is a token id in decimal.
std::optional<TokenId> TokenIdOf(std::string_view text) {
  TokenId id = 0;
  const char* const end = text.data() + text.size();
  const auto [read_to, error] = std::from_chars(text.data(), end, id);
  if (error != std::errc() || read_to != end || (text.size() > 1 && text.front() == '0')) return std::nullopt;
  return id;
}

Result<void> ParseLogitBias(const JsonObject& body, SamplingFields& fields) {
  ROOST_ASSIGN_OR_RETURN(const std::optional<JsonObject> biases, body.Object("logit_bias"));
  if (!biases) return {};
  if (biases->members().size() > kMaxLogitBiases) {
    return InvalidArgument("logit_bias", "must hold at most {} tokens, not {}", kMaxLogitBiases,
                           biases->members().size());
  }
  for (const auto& member : biases->members()) {
    const std::optional<TokenId> token = TokenIdOf(member.first);
    if (!token) return InvalidArgument(biases->PathOf(member.first), "must be named by a token id");
    ROOST_ASSIGN_OR_RETURN(const std::optional<float> bias,
                           ParseReal(*biases, member.first, Between(-wire::kMaxLogitBias, wire::kMaxLogitBias)));
    fields.logit_bias.push_back({.token = *token, .bias = bias.value_or(0)});
  }
  std::sort(fields.logit_bias.begin(), fields.logit_bias.end(),
            [](const wire::LogitBias& a, const wire::LogitBias& b) { return a.token < b.token; });
  return {};
}

Result<void> ParsePenalties(const JsonObject& body, SamplingFields& fields) {
  ROOST_ASSIGN_OR_RETURN(
      fields.repetition_penalty,
      ParseReal(body, "repetition_penalty", Between(wire::kMinRepetitionPenalty, wire::kMaxRepetitionPenalty)));
  const Range range = Between(-wire::kMaxPenalty, wire::kMaxPenalty);
  ROOST_ASSIGN_OR_RETURN(const std::optional<float> presence, ParseReal(body, "presence_penalty", range));
  ROOST_ASSIGN_OR_RETURN(const std::optional<float> frequency, ParseReal(body, "frequency_penalty", range));
  fields.presence_penalty = presence.value_or(0);
  fields.frequency_penalty = frequency.value_or(0);
  return ParseLogitBias(body, fields);
}

Result<void> AddStop(JsonElement element, const std::string& path, SamplingFields& fields) {
  ROOST_ASSIGN_OR_RETURN(const std::string_view text, StringOf(element, path));
  if (text.empty() || text.size() > kMaxStopStringBytes) {
    return InvalidArgument(path, "must be 1 to {} bytes long, not {}", kMaxStopStringBytes, text.size());
  }
  fields.stop.emplace_back(text);
  return {};
}

Result<void> ParseStop(const JsonObject& body, SamplingFields& fields) {
  const std::optional<JsonElement> stop = body.Find("stop");
  if (stop && stop->is_string()) return AddStop(*stop, "stop", fields);
  if (stop && !stop->is_array()) {
    return InvalidArgument("stop", "must be a string or an array of strings, not {}", TypeName(*stop));
  }
  ROOST_ASSIGN_OR_RETURN(const auto strings, body.Array("stop"));
  if (!strings) return {};
  if (strings->size() > kMaxStopStrings) {
    return InvalidArgument("stop", "must hold at most {} strings, not {}", kMaxStopStrings, strings->size());
  }
  for (std::size_t i = 0; i < strings->size(); ++i) {
    ROOST_RETURN_IF_ERROR(AddStop((*strings)[i], fmt::format("stop[{}]", i), fields));
  }
  return {};
}

Result<void> ParseStopTokens(const JsonObject& body, SamplingFields& fields) {
  ROOST_ASSIGN_OR_RETURN(const auto ids, body.Array("stop_token_ids"));
  if (!ids) return {};
  if (ids->size() > kMaxStopTokens) {
    return InvalidArgument("stop_token_ids", "must hold at most {} ids, not {}", kMaxStopTokens, ids->size());
  }
  for (std::size_t i = 0; i < ids->size(); ++i) {
    const std::string path = fmt::format("stop_token_ids[{}]", i);
    ROOST_ASSIGN_OR_RETURN(const std::int64_t id, IntegerOf((*ids)[i], path, 0, kMaxTokenId));
    fields.stop_tokens.push_back(static_cast<TokenId>(id));
  }
  return {};
}

// stream_options without stream is harmless and some clients send it always, so it is checked but means nothing.
Result<void> ParseDelivery(const JsonObject& body, SamplingFields& fields) {
  ROOST_ASSIGN_OR_RETURN(const std::optional<bool> stream, body.Bool("stream"));
  if (stream.value_or(false)) fields.delivery = Delivery::kStream;
  ROOST_ASSIGN_OR_RETURN(const std::optional<JsonObject> options, body.Object("stream_options"));
  if (!options) return {};
  ROOST_ASSIGN_OR_RETURN(const std::optional<bool> at_end, options->Bool("include_usage"));
  ROOST_ASSIGN_OR_RETURN(const std::optional<bool> every_chunk, options->Bool("continuous_usage_stats"));
  if (at_end.value_or(false)) {
    fields.usage_report = every_chunk.value_or(false) ? UsageReport::kEveryChunk : UsageReport::kAtEnd;
  }
  return {};
}

Result<void> ParseResponseFormat(const JsonObject& body) {
  ROOST_ASSIGN_OR_RETURN(const std::optional<JsonObject> format, body.Object("response_format"));
  if (!format) return {};
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> type, format->String("type"));
  if (type == "text") return {};
  return InvalidArgument("response_format", "this server answers in plain text only: leave it out or send type text");
}

Result<void> ParseNames(const JsonObject& body, SamplingFields& fields) {
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> model, body.String("model"));
  fields.model = model.value_or("");
  ROOST_ASSIGN_OR_RETURN(fields.cache, ParseCacheFields(body));
  return {};
}

}  // namespace

Result<void> CheckNeutralFields(const JsonObject& body, std::span<const NeutralField> fields) {
  for (const NeutralField& field : fields) {
    const std::optional<JsonElement> element = body.Find(field.name);
    if (element && !IsNeutral(*element, field.accepts)) {
      return InvalidArgument(body.PathOf(field.name), "'{}' is not supported with this value: {}", field.name,
                             NeutralText(field.accepts));
    }
  }
  return {};
}

Result<SamplingFields> ParseSamplingFields(const JsonObject& body) {
  SamplingFields fields;
  ROOST_RETURN_IF_ERROR(ParseNames(body, fields));
  ROOST_RETURN_IF_ERROR(ParseDelivery(body, fields));
  ROOST_RETURN_IF_ERROR(ParseLimits(body, fields));
  ROOST_RETURN_IF_ERROR(ParseSampling(body, fields));
  ROOST_RETURN_IF_ERROR(ParsePenalties(body, fields));
  ROOST_RETURN_IF_ERROR(ParseStop(body, fields));
  ROOST_RETURN_IF_ERROR(ParseStopTokens(body, fields));
  ROOST_ASSIGN_OR_RETURN(const std::optional<bool> ignore_eos, body.Bool("ignore_eos"));
  fields.ignore_eos = ignore_eos.value_or(false);
  ROOST_RETURN_IF_ERROR(ParseResponseFormat(body));
  ROOST_RETURN_IF_ERROR(CheckNeutralFields(body, kNeutralOfBoth));
  return fields;
}

}  // namespace roost::router
