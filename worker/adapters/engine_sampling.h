// The sampling fields of a Generate as an engine's API has them. Every field whose default an engine may take from
// elsewhere (the model's generation_config.json) is always written; the others only when they say something.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "common/base/json_writer.h"
#include "common/wire/messages.h"
#include "worker/adapters/engine_protocol.h"

namespace roost::worker::adapters {

// A field that an engine calls differently from a client's request to Roost.
struct SamplingFieldName {
  std::string_view request_name;
  std::string_view engine_name;
};

struct SamplingFieldNames {
  std::span<const SamplingFieldName> other_names = {};
  int top_k_of_no_limit = 0;
  std::uint32_t seed_bits = 63;
};

// Writes keys and values into the object that is open.
void WriteSamplingFields(JsonWriter& json, const CallPlan& plan, const SamplingFieldNames& names);

// The features of requests whose fields it writes.
[[nodiscard]] wire::Features SamplingFeatures();

// The client's name for the field, for errors. Empty if it is none of these.
[[nodiscard]] std::string_view RequestNameOf(const SamplingFieldNames& names, std::string_view engine_name);

}  // namespace roost::worker::adapters
