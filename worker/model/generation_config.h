// The small files beside the weights: generation_config.json, tokenizer_config.json, chat templates. All are optional,
// but those that exist must be valid.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/wire/messages.h"
#include "worker/model/chat_templates.h"
#include "worker/model/json_file.h"

namespace roost::worker {

inline constexpr std::size_t kMaxTokenizerConfigBytes = std::size_t{16} << 20U;
struct GenerationConfig {
  wire::SamplingDefaults sampling;
  std::vector<TokenId> stop_tokens;  // eos_token_id of both files, one or several each, without repetition
};

// Reads generation_config.json, and the stop tokens of config.json too. Ids must be below `vocab_size`; -1
// means none.
[[nodiscard]] Result<GenerationConfig> LoadGenerationConfig(const std::filesystem::path& directory,
                                                            const JsonObject& model_config, std::uint32_t vocab_size);

struct ChatFormat {
  std::string chat_template;      // the one that is chosen, or the default; empty when there is none
  std::string combined_template;  // the same among several, as one source that chooses; see chat_templates.h
  std::string bos_token;          // text; empty when there is none
  std::string eos_token;
};

// `template_name`: as in ChooseTemplate.
[[nodiscard]] Result<ChatFormat> LoadChatFormat(const std::filesystem::path& directory,
                                                std::string_view template_name = {});

}  // namespace roost::worker
