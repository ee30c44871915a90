#include "worker/model/loading/model_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "worker/model/loading/fingerprint.h"
#include "worker/model/loading/generation_config.h"
#include "worker/model/loading/hf_config.h"
#include "worker/model/loading/safetensors.h"
#include "worker/model/loading/weights.h"

namespace roost::worker {
namespace {

std::string DirectoryName(const std::filesystem::path& directory) {
  std::error_code error;
  const auto absolute = std::filesystem::weakly_canonical(directory, error);
  return (error ? directory : absolute).filename().string();
}

// Models of text and images keep the size of the vocabulary with the rest of the text model.
Result<std::uint32_t> VocabSizeOf(const JsonNode& config) {
  ROOST_ASSIGN_OR_RETURN(const auto size, config.Find<std::uint32_t>("vocab_size"));
  if (size) return *size;
  ROOST_ASSIGN_OR_RETURN(const auto text_config, config.Object("text_config"));
  if (text_config) return text_config->GetCount("vocab_size");
  return config.GetCount("vocab_size");
}

// Engines keep the caches of such layers in groups of their own.
bool HasLayerGroups(const JsonNode& config) {
  if (const auto types = config.Array("layer_types"); types.ok() && !types->empty()) {
    return std::any_of(types->begin(), types->end(), [](simdjson::dom::element type) {
      std::string_view name;
      return type.get(name) == simdjson::SUCCESS && name != "full_attention";
    });
  }
  for (const char* const key :
       {"full_attention_interval", "hybrid_override_pattern", "layers_block_type", "attn_layer_indices",
        "attn_layer_period", "mamba_d_state", "ssm_state_size", "linear_num_key_heads", "linear_attn_config"}) {
    if (const auto member = config.Find(key); member.ok() && *member) return true;
  }
  const auto window = config.Find<std::uint32_t>("sliding_window");
  const auto is_used = config.Or("use_sliding_window", true);
  return window.ok() && window->value_or(0) > 0 && is_used.ok() && *is_used;
}

std::uint32_t WindowOf(const JsonNode& config) {
  for (const char* const key : {"sliding_window", "attention_chunk_size"}) {
    const auto window = config.Find<std::uint32_t>(key);
    if (window.ok() && window->value_or(0) > 0) return **window;
  }
  return 0;
}

// The folder of the Hugging Face cache; empty when the process has no home.
std::filesystem::path HubCache() {
  const auto variable = [](const char* name) {
    return std::string(std::getenv(name) == nullptr ? "" : std::getenv(name));
  };
  if (const std::string cache = variable("HF_HUB_CACHE"); !cache.empty()) return cache;
  if (const std::string home = variable("HF_HOME"); !home.empty()) return std::filesystem::path(home) / "hub";
  const std::string home = variable("HOME");
  return home.empty() ? std::filesystem::path() : std::filesystem::path(home) / ".cache/huggingface/hub";
}

// ORGANISATION/NAME
bool IsHubName(std::string_view model) {
  const std::size_t slash = model.find('/');
  return slash != std::string_view::npos && slash > 0 && slash + 1 < model.size() && model.front() != '.' &&
         model.find('/', slash + 1) == std::string_view::npos;
}

bool IsGguf(const std::filesystem::path& path) { return path.extension() == ".gguf"; }

Result<std::vector<TensorRecord>> HashWeights(const std::filesystem::path& directory) {
  ROOST_ASSIGN_OR_RETURN(SafetensorsDirectory files, SafetensorsDirectory::Open(directory));
  return SafetensorsWeights(std::move(files)).FinishRecords();
}

}  // namespace

Result<ModelText> ReadModelText(const std::filesystem::path& directory, const JsonNode& config,
                                std::uint32_t vocab_size, std::string_view template_name) {
  ModelText text;
  text.vocab_size = vocab_size;
  text.name = DirectoryName(directory);
  ROOST_ASSIGN_OR_RETURN(const JsonFile tokenizer, JsonFile::Load(directory / "tokenizer.json", kMaxTokenizerBytes));
  text.tokenizer_json = tokenizer.text();
  ROOST_ASSIGN_OR_RETURN(GenerationConfig generation, LoadGenerationConfig(directory, config, vocab_size));
  text.stop_tokens = std::move(generation.stop_tokens);
  text.sampling = generation.sampling;
  ROOST_ASSIGN_OR_RETURN(ChatFormat chat, LoadChatFormat(directory, template_name));
  text.chat_template = std::move(chat.combined_template);
  text.bos_token = std::move(chat.bos_token);
  text.eos_token = std::move(chat.eos_token);
  return text;
}

Result<void> CheckModelFolder(const std::filesystem::path& directory) {
  std::error_code error;
  if (std::filesystem::is_directory(directory, error)) return {};
  return Error{ErrorCode::kNotFound,
               fmt::format("'{}' is not a folder on this host; models are not downloaded", directory.string()),
               "model"};
}

Result<std::filesystem::path> FindModelFolder(const std::string& model) {
  std::error_code error;
  if (std::filesystem::is_directory(model, error) || !IsHubName(model) || IsGguf(model))
    return std::filesystem::path(model);
  const std::filesystem::path cache = HubCache();
  const std::size_t slash = model.find('/');
  const std::filesystem::path own =
      cache / fmt::format("models--{}--{}", model.substr(0, slash), model.substr(slash + 1));
  std::string commit;
  std::ifstream(own / "refs/main") >> commit;
  std::filesystem::path snapshot = own / "snapshots" / commit;
  if (!commit.empty() && std::filesystem::is_directory(snapshot, error)) return snapshot;
  return Error{
      ErrorCode::kNotFound,
      fmt::format("'{}' is no folder on this host, and not in the Hugging Face cache {}: fetch it there, or give "
                  "a folder; models are not downloaded",
                  model, cache.string()),
      "model"};
}

Result<DescribedModel> DescribeModel(const std::filesystem::path& directory, FingerprintOf fingerprint,
                                     const TemplateChoice& choice) {
  if (IsGguf(directory)) {
    if (fingerprint == FingerprintOf::kText) return DescribeGguf(directory, choice);
    return InvalidArgument("fingerprint", "weights are hashed in folders alone, not in {}", directory.string());
  }
  ROOST_RETURN_IF_ERROR(CheckModelFolder(directory));
  ROOST_ASSIGN_OR_RETURN(const JsonFile config, JsonFile::Load(directory / "config.json", kMaxConfigBytes));
  ROOST_ASSIGN_OR_RETURN(const std::uint32_t vocab_size, VocabSizeOf(config.root()));
  DescribedModel model;
  ROOST_ASSIGN_OR_RETURN(model.text, ReadModelText(directory, config.root(), vocab_size, choice.name));
  if (!choice.source.empty()) model.text.chat_template = choice.source;
  const auto text_config = config.root().Object("text_config");
  const bool is_nested = text_config.ok() && *text_config;
  const JsonNode& layers = is_nested ? **text_config : config.root();
  model.has_layer_groups = HasLayerGroups(layers);
  model.window = model.has_layer_groups ? WindowOf(layers) : 0;
  const ModelFiles files{config.text(), model.text.tokenizer_json};
  if (fingerprint == FingerprintOf::kText) {
    model.fingerprint = TextFingerprint(files, model.text.chat_template);
  } else {
    ROOST_ASSIGN_OR_RETURN(const std::vector<TensorRecord> tensors, HashWeights(directory));
    model.fingerprint = ModelFingerprint(files, tensors);
  }
  return model;
}

}  // namespace roost::worker
