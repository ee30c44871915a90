// Models without files, for benchmarks and tests: known shapes with random weights, and a tokenizer for any text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "worker/model/loading/hf_config.h"

namespace roost::worker {

// "llama-3.1-8b", "qwen3-0.6b", "qwen3-8b", "small", "tiny".
[[nodiscard]] std::optional<HfConfig> SyntheticConfig(std::string_view preset);

// The preset in "synthetic:PRESET", which stands where a model folder is wanted. Nothing if it is a folder.
[[nodiscard]] std::optional<std::string_view> SyntheticPresetOf(std::string_view location);

// kInvalidArgument (model), with the names of the presets.
[[nodiscard]] Error UnknownPreset(std::string_view preset);

// For error messages.
inline constexpr std::string_view kSyntheticPresets = "llama-3.1-8b, qwen3-0.6b, qwen3-8b, small, tiny";

// The synthetic tokenizer: ids 0 … 255 are bytes, then come the special tokens. All higher ids are words of two or
// three syllables with a space before them, each another one. Text is encoded to bytes alone.
inline constexpr TokenId kSyntheticEndOfText = 256;
inline constexpr TokenId kSyntheticTurnBegin = 257;
inline constexpr TokenId kSyntheticTurnEnd = 258;

// A tokenizer.json for a model with this many ids.
[[nodiscard]] std::string SyntheticTokenizerJson(std::uint32_t vocab_size);

[[nodiscard]] std::string_view SyntheticChatTemplate();

}  // namespace roost::worker
