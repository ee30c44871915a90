// The small files beside the weights: generation_config.json, tokenizer_config.json, chat_template.jinja. All are
// optional, but those that exist must be valid.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/wire/messages.h"
#include "worker/model/json_file.h"

namespace roost::worker {

inline constexpr std::size_t kMaxTokenizerConfigBytes = std::size_t{16} << 20U;
inline constexpr std::size_t kMaxChatTemplateBytes = std::size_t{1} << 20U;

struct GenerationConfig {
  wire::SamplingDefaults sampling;
  std::vector<TokenId> stop_tokens;  // eos_token_id, one or several, without repetition
};

// Reads generation_config.json; takes the stop tokens from config.json if it has none. Ids must be below `vocab_size`.
[[nodiscard]] Result<GenerationConfig> LoadGenerationConfig(const std::filesystem::path& directory,
                                                            const JsonObject& model_config, std::uint32_t vocab_size);

struct ChatFormat {
  std::string chat_template;  // chat_template.jinja, else tokenizer_config.json's; empty when there is none
  std::string bos_token;      // text; empty when there is none
  std::string eos_token;
};

[[nodiscard]] Result<ChatFormat> LoadChatFormat(const std::filesystem::path& directory);

}  // namespace roost::worker
