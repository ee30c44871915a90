// The table of sampling fields: what each means in a Generate, and what an engine calls it. Every field whose default
// an engine may take from elsewhere (the model's generation_config.json) is always written; the others only when they
// say something.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "common/base/json_writer.h"
#include "worker/foreign/dialect.h"

namespace roost::worker::foreign {

enum class SamplingField : std::uint8_t {
  kMaxTokens,
  kMinTokens,  // of this call: a continued request has the earlier ones already
  kTemperature,
  kTopP,
  kTopK,
  kMinP,
  kSeed,
  kRepetitionPenalty,
  kPresencePenalty,
  kFrequencyPenalty,
  kLogitBias,
  kStopTokens,
  kIgnoreEos,
};

struct SamplingFieldName {
  SamplingField field;
  std::string_view engine_name;
  std::string_view request_name;  // in a client's request to Roost, for errors
};

struct SamplingFieldNames {
  std::span<const SamplingFieldName> rows;
  int top_k_of_no_limit = 0;
};

// Writes keys and values into the object that is open.
void WriteSamplingFields(JsonWriter& json, const CallPlan& plan, const SamplingFieldNames& names);

// Empty if no row has this name.
[[nodiscard]] std::string_view RequestNameOf(std::span<const SamplingFieldName> rows, std::string_view engine_name);

}  // namespace roost::worker::foreign
