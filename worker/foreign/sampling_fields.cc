#include "worker/foreign/sampling_fields.h"

#include <fmt/format.h>

#include <cmath>
#include <string>

namespace roost::worker::foreign {
namespace {

// As short as it reads back equal: 0.8 and not 0.800000011920929.
void WriteFloat(JsonWriter& json, float value) {
  if (!std::isfinite(value)) {
    json.Null();
  } else {
    json.Raw(fmt::format("{}", value));
  }
}

void WriteBiases(JsonWriter& json, const wire::Sampling& sampling) {
  json.BeginObject();
  for (const wire::LogitBias& bias : sampling.logit_bias) {
    json.Key(std::to_string(bias.token));
    WriteFloat(json, bias.bias);
  }
  json.EndObject();
}

std::uint32_t MinTokens(const wire::Generate& generate) {
  const std::uint32_t before = generate.first_output_index;
  return generate.min_output_tokens > before ? generate.min_output_tokens - before : 0;
}

// Does the field say something that an engine would not do anyway?
bool IsSaid(SamplingField field, const wire::Generate& generate) {
  switch (field) {
    case SamplingField::kMinTokens: return MinTokens(generate) > 0;
    case SamplingField::kLogitBias: return !generate.sampling.logit_bias.empty();
    case SamplingField::kStopTokens: return !generate.stop_tokens.empty();
    case SamplingField::kIgnoreEos: return generate.ignore_eos;
    default: return true;
  }
}

void WriteTopK(JsonWriter& json, std::uint32_t top_k, int no_limit) {
  if (top_k == 0) {
    json.Number(no_limit);
  } else {
    json.Number(top_k);
  }
}

void WriteStopTokens(JsonWriter& json, const wire::Generate& generate) {
  json.BeginArray();
  for (const TokenId token : generate.stop_tokens) json.Number(token);
  json.EndArray();
}

void WriteValue(JsonWriter& json, SamplingField field, const CallPlan& plan, int top_k_of_no_limit) {
  const wire::Sampling& sampling = plan.generate.sampling;
  switch (field) {
    case SamplingField::kMaxTokens: json.Number(plan.max_tokens); return;
    case SamplingField::kMinTokens: json.Number(MinTokens(plan.generate)); return;
    case SamplingField::kTemperature: WriteFloat(json, sampling.temperature); return;
    case SamplingField::kTopP: WriteFloat(json, sampling.top_p); return;
    case SamplingField::kTopK: WriteTopK(json, sampling.top_k, top_k_of_no_limit); return;
    case SamplingField::kMinP: WriteFloat(json, sampling.min_p); return;
    case SamplingField::kSeed: json.Number(plan.seed()); return;
    case SamplingField::kRepetitionPenalty: WriteFloat(json, sampling.repetition_penalty); return;
    case SamplingField::kPresencePenalty: WriteFloat(json, sampling.presence_penalty); return;
    case SamplingField::kFrequencyPenalty: WriteFloat(json, sampling.frequency_penalty); return;
    case SamplingField::kLogitBias: WriteBiases(json, sampling); return;
    case SamplingField::kStopTokens: WriteStopTokens(json, plan.generate); return;
    case SamplingField::kIgnoreEos: json.Bool(plan.generate.ignore_eos); return;
  }
}

}  // namespace

void WriteSamplingFields(JsonWriter& json, const CallPlan& plan, const SamplingFieldNames& names) {
  for (const SamplingFieldName& row : names.rows) {
    if (!IsSaid(row.field, plan.generate)) continue;
    json.Key(row.engine_name);
    WriteValue(json, row.field, plan, names.top_k_of_no_limit);
  }
}

std::string_view RequestNameOf(std::span<const SamplingFieldName> rows, std::string_view engine_name) {
  for (const SamplingFieldName& row : rows) {
    if (row.engine_name == engine_name) return row.request_name;
  }
  return {};
}

}  // namespace roost::worker::foreign
