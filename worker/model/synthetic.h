// Models without files, for benchmarks and tests: known shapes with random weights, and a tokenizer for any text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "worker/model/hf_config.h"

namespace roost::worker {

// "llama-3.1-8b", "qwen3-0.6b", "qwen3-8b", "tiny".
[[nodiscard]] std::optional<HfConfig> SyntheticConfig(std::string_view preset);

// The preset in "synthetic:PRESET", which stands where a model folder is wanted. Nothing if it is a folder.
[[nodiscard]] std::optional<std::string_view> SyntheticPresetOf(std::string_view location);

// kInvalidArgument (model), with the names of the presets.
[[nodiscard]] Error UnknownPreset(std::string_view preset);

// For error messages.
inline constexpr std::string_view kSyntheticPresets = "llama-3.1-8b, qwen3-0.6b, qwen3-8b, tiny";

// The synthetic tokenizer: ids 0 … 255 are bytes, then come the special tokens. Higher ids decode to nothing.
inline constexpr TokenId kSyntheticEndOfText = 256;
inline constexpr TokenId kSyntheticTurnBegin = 257;
inline constexpr TokenId kSyntheticTurnEnd = 258;

// A tokenizer.json.
[[nodiscard]] std::string SyntheticTokenizerJson();

[[nodiscard]] std::string_view SyntheticChatTemplate();

}  // namespace roost::worker
