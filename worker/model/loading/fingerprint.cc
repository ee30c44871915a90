#include "worker/model/loading/fingerprint.h"

#include <fmt/core.h>

#include "common/base/parts_digest.h"

namespace roost::worker {
namespace {

std::string_view BytesOf(const TensorHash& hash) { return {reinterpret_cast<const char*>(hash.data()), hash.size()}; }

}  // namespace

std::string ModelFingerprint(const ModelFiles& files, std::span<const TensorRecord> tensors) {
  PartsDigest digest;
  digest.Add("config").Add(files.config).Add("tokenizer").Add(files.tokenizer);
  for (const TensorRecord& tensor : tensors) {
    digest.Add("tensor").Add(tensor.name).Add(tensor.dtype).Add(tensor.shape).Add(BytesOf(tensor.hash));
  }
  return digest.Hex();
}

std::string TextFingerprint(const ModelFiles& files, std::string_view chat_template) {
  PartsDigest digest;
  digest.Add("config").Add(files.config).Add("tokenizer").Add(files.tokenizer).Add("template").Add(chat_template);
  return digest.Hex();
}

std::string EngineFingerprint(std::string_view engine, std::string_view version, std::span<const std::string> names) {
  PartsDigest digest;
  digest.Add("engine").Add(engine).Add("version").Add(version);
  for (const std::string& name : names) digest.Add("name").Add(name);
  return digest.Hex();
}

std::string SyntheticFingerprint(const HfConfig& config, std::uint64_t seed) {
  PartsDigest digest;
  digest.Add("synthetic").Add(config.architecture).Add("bf16").Add(fmt::format("{}", seed));
  for (const std::uint32_t size : {config.vocab_size, config.hidden_size, config.intermediate_size, config.layer_count,
                                   config.query_head_count, config.kv_head_count, config.head_dim}) {
    digest.Add(fmt::format("{}", size));
  }
  return digest.Add(fmt::format("{}", config.rope.theta)).Hex();
}

}  // namespace roost::worker
