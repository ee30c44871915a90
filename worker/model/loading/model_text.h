// The contents of a model folder beside the weights: the text that routers need, and the model's identity.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/json/json_node.h"
#include "common/wire/messages.h"

namespace roost::worker {

inline constexpr std::size_t kMaxTokenizerBytes = std::size_t{256} << 20U;

struct ModelText {
  std::string name;              // the folder's or the preset's
  std::uint32_t vocab_size = 0;  // all token ids are below
  std::vector<TokenId> stop_tokens;
  wire::SamplingDefaults sampling;
  std::string tokenizer_json;
  std::string chat_template;  // of several, one that chooses (generation_config.h); empty when the model has none
  std::string bos_token;      // text; may be empty
  std::string eos_token;
};

// `config` is the folder's config.json; stop tokens are below `vocab_size`. `template_name`: of the chat template,
// empty for the default. tokenizer.json is only checked to be JSON; the tokenizer checks its content. An error names
// the file.
[[nodiscard]] Result<ModelText> ReadModelText(const std::filesystem::path& directory, const JsonNode& config,
                                              std::uint32_t vocab_size, std::string_view template_name);

// The chat template: of the files' the one with this name, the default if that is empty; or this source in their place.
struct TemplateChoice {
  std::string_view name = {};
  std::string_view source = {};
};

// A fingerprint covers the weights too, or config.json, tokenizer.json and the chat template alone.
enum class FingerprintOf : std::uint8_t { kWeights, kText };

struct DescribedModel {
  ModelText text;
  std::string fingerprint;        // of kWeights LoadModel's of a folder with the same files; see PrefixScope
  bool has_layer_groups = false;  // some layers have a window or a recurrent state, as far as config.json tells
  std::uint32_t window = 0;       // of those layers, in tokens; 0: they have none, or it is not told
};

// kNotFound (model) if there is no such folder.
[[nodiscard]] Result<void> CheckModelFolder(const std::filesystem::path& directory);

// A name ORGANISATION/NAME of a model in the Hugging Face cache ($HF_HUB_CACHE, $HF_HOME/hub or
// ~/.cache/huggingface/hub) becomes the folder of its snapshot of `main`; anything else stays. kNotFound (model) says
// what to give instead.
[[nodiscard]] Result<std::filesystem::path> FindModelFolder(const std::string& model);

// A file of llama.cpp's format, whose name ends in .gguf, as DescribeModel has a folder. Its fingerprint covers how the
// weights are stored: other quantisations of a model are other models. The text has no name. An error names the file,
// or what of it is not supported.
[[nodiscard]] Result<DescribedModel> DescribeGguf(const std::filesystem::path& path, const TemplateChoice& choice);

// A folder of any architecture, or a GGUF file, whose weights are not loaded: another program computes the model. With
// kWeights they are hashed, which takes as long as reading them once; kNotFound if there are none.
[[nodiscard]] Result<DescribedModel> DescribeModel(const std::filesystem::path& directory, FingerprintOf fingerprint,
                                                   const TemplateChoice& choice = {});

}  // namespace roost::worker
