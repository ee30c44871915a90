// Identifies a model by 64 hexadecimal digits, a SHA-256. Workers with the same fingerprint share KV blocks and
// continue each other's streams, so it covers everything that affects a token. See PrefixScope.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "worker/model/loading/hf_config.h"
#include "worker/model/loading/weights.h"

namespace roost::worker {

struct ModelFiles {
  std::string_view config;     // the text of config.json
  std::string_view tokenizer;  // the text of tokenizer.json
};

// Covers both files and each tensor's name, dtype, shape and bytes. `tensors` are ordered by name; how they are
// distributed over files makes no difference.
[[nodiscard]] std::string ModelFingerprint(const ModelFiles& files, std::span<const TensorRecord> tensors);

// For a model that another program computes: its weights are not read.
[[nodiscard]] std::string TextFingerprint(const ModelFiles& files, std::string_view chat_template);

// For a model of which nothing can be read: what the engine that computes it says of itself.
[[nodiscard]] std::string EngineFingerprint(std::string_view engine, std::string_view version,
                                            std::span<const std::string> names);

// For a model with random weights, which follow from the seed and the shape; see synthetic.h.
[[nodiscard]] std::string SyntheticFingerprint(const HfConfig& config, std::uint64_t seed);

}  // namespace roost::worker
