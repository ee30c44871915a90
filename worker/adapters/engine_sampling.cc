#include "worker/adapters/engine_sampling.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string>

namespace roost::worker::adapters {
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

struct SamplingValue {
  JsonWriter& json;
  const CallPlan& plan;
  int top_k_of_no_limit;
  std::uint32_t seed_bits;
};

template <float wire::Sampling::*kField>
void WriteReal(const SamplingValue& value) {
  WriteFloat(value.json, value.plan.generate.sampling.*kField);
}

struct SamplingRow {
  std::string_view name;  // in a client's request
  void (*write)(const SamplingValue& value);
  std::optional<wire::Feature> feature = {};  // that requests with this field need
  bool (*is_said)(const wire::Generate& generate) = [](const wire::Generate&) { return true; };
};

constexpr SamplingRow kSamplingRows[] = {
    {"max_tokens", [](const SamplingValue& value) { value.json.Number(value.plan.max_tokens); }},
    // The rest of the minimum: a continued request has the earlier ones already.
    {"min_tokens", [](const SamplingValue& value) { value.json.Number(MinTokens(value.plan.generate)); },
     wire::Feature::kMinOutputTokens, [](const wire::Generate& generate) { return MinTokens(generate) > 0; }},
    {"temperature", &WriteReal<&wire::Sampling::temperature>},
    {"top_p", &WriteReal<&wire::Sampling::top_p>},
    {"top_k",
     [](const SamplingValue& value) {
       WriteTopK(value.json, value.plan.generate.sampling.top_k, value.top_k_of_no_limit);
     }},
    {"min_p", &WriteReal<&wire::Sampling::min_p>, wire::Feature::kFullSampling},
    {"seed",
     [](const SamplingValue& value) {
       value.json.Number(value.plan.seed() & ((std::uint64_t{1} << value.seed_bits) - 1));
     }},
    {"repetition_penalty", &WriteReal<&wire::Sampling::repetition_penalty>, wire::Feature::kFullSampling},
    {"presence_penalty", &WriteReal<&wire::Sampling::presence_penalty>, wire::Feature::kFullSampling},
    {"frequency_penalty", &WriteReal<&wire::Sampling::frequency_penalty>, wire::Feature::kFullSampling},
    {"logit_bias", [](const SamplingValue& value) { WriteBiases(value.json, value.plan.generate.sampling); },
     wire::Feature::kFullSampling,
     [](const wire::Generate& generate) { return !generate.sampling.logit_bias.empty(); }},
    {"stop_token_ids",
     [](const SamplingValue& value) { WriteStopTokens(value.json, value.plan.generate); },
     {},
     [](const wire::Generate& generate) { return !generate.stop_tokens.empty(); }},
    {"ignore_eos",
     [](const SamplingValue& value) { value.json.Bool(true); },
     {},
     [](const wire::Generate& generate) { return generate.ignore_eos; }},
};

std::string_view EngineNameOf(const SamplingFieldNames& names, std::string_view name) {
  for (const SamplingFieldName& other : names.other_names) {
    if (other.request_name == name) return other.engine_name;
  }
  return name;
}

}  // namespace

void WriteSamplingFields(JsonWriter& json, const CallPlan& plan, const SamplingFieldNames& names) {
  const SamplingValue value{json, plan, names.top_k_of_no_limit, names.seed_bits};
  for (const SamplingRow& field : kSamplingRows) {
    if (!field.is_said(plan.generate)) continue;
    json.Key(EngineNameOf(names, field.name));
    field.write(value);
  }
}

wire::Features SamplingFeatures() {
  wire::Features features;
  for (const SamplingRow& field : kSamplingRows) {
    if (field.feature) features.insert(*field.feature);
  }
  return features;
}

std::string_view RequestNameOf(const SamplingFieldNames& names, std::string_view engine_name) {
  for (const SamplingRow& field : kSamplingRows) {
    if (EngineNameOf(names, field.name) == engine_name) return field.name;
  }
  return {};
}

}  // namespace roost::worker::adapters
