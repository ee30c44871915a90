// A temporary model directory that a test writes and then damages.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "common/base/json_writer.h"
#include "common/base/rng.h"
#include "kernels/dtype.h"

namespace roost::worker {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "roost-model-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  std::filesystem::path Write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

inline std::string SafetensorsBytes(const std::string& header, const std::string& data) {
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(header.size() >> (8 * i));
  return length + header + data;
}

struct NamedShape {
  std::string name;
  std::vector<std::uint64_t> shape;
};

// All tensors of a one-layer Llama with hidden size 8, two heads of 4, intermediate size 12 and 16 tokens.
inline std::vector<NamedShape> SmallLlamaTensors() {
  const std::string layer = "model.layers.0.";
  return {{"model.embed_tokens.weight", {16, 8}},
          {layer + "input_layernorm.weight", {8}},
          {layer + "self_attn.q_proj.weight", {8, 8}},
          {layer + "self_attn.k_proj.weight", {8, 8}},
          {layer + "self_attn.v_proj.weight", {8, 8}},
          {layer + "self_attn.o_proj.weight", {8, 8}},
          {layer + "post_attention_layernorm.weight", {8}},
          {layer + "mlp.gate_proj.weight", {12, 8}},
          {layer + "mlp.up_proj.weight", {12, 8}},
          {layer + "mlp.down_proj.weight", {8, 12}},
          {"model.norm.weight", {8}},
          {"lm_head.weight", {16, 8}}};
}

// The size of all of them in f32; the embedding comes first and lm_head last.
inline std::size_t SmallLlamaDataBytes() {
  std::size_t elements = 0;
  for (const NamedShape& tensor : SmallLlamaTensors()) {
    elements += std::accumulate(tensor.shape.begin(), tensor.shape.end(), std::uint64_t{1}, std::multiplies<>());
  }
  return elements * sizeof(float);
}

inline std::string SmallLlamaConfig() {
  return R"({"architectures": ["LlamaForCausalLM"], "vocab_size": 16, "hidden_size": 8, "intermediate_size": 12,
             "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 64, "eos_token_id": 3})";
}

// Random f32 weights for `tensors`; each tensor's values depend on its name and size.
inline std::string WeightsFile(const std::vector<NamedShape>& tensors) {
  JsonWriter json;
  json.BeginObject();
  std::string data;
  for (const NamedShape& tensor : tensors) {
    Rng rng(std::hash<std::string>()(tensor.name));
    std::uint64_t elements = 1;
    json.Key(tensor.name).BeginObject().Key("dtype").String("F32").Key("shape").BeginArray();
    for (const std::uint64_t dim : tensor.shape) {
      json.Number(dim);
      elements *= dim;
    }
    const std::size_t begin = data.size();
    for (std::uint64_t i = 0; i < elements; ++i) {
      const auto value = static_cast<float>(rng.Uniform() - 0.5);
      data.append(reinterpret_cast<const char*>(&value), sizeof(value));
    }
    json.EndArray().Key("data_offsets").BeginArray().Number(std::uint64_t{begin}).Number(std::uint64_t{data.size()});
    json.EndArray().EndObject();
  }
  json.EndObject();
  return SafetensorsBytes(json.Take(), data);
}

// A directory that loads.
inline void WriteSmallLlama(const TemporaryDirectory& directory) {
  directory.Write("config.json", SmallLlamaConfig());
  directory.Write("tokenizer.json", R"({"version": "1.0"})");
  directory.Write("model.safetensors", WeightsFile(SmallLlamaTensors()));
}

// The same weights in two files, so that no tensor is next to the one before it.
inline void WriteSmallLlamaInShards(const TemporaryDirectory& directory) {
  std::vector<NamedShape> shards[2];
  JsonWriter index;
  index.BeginObject().Key("weight_map").BeginObject();
  for (const NamedShape& tensor : SmallLlamaTensors()) {
    const std::size_t shard = shards[0].size() > shards[1].size() ? 1 : 0;
    shards[shard].push_back(tensor);
    index.Key(tensor.name).String(shard == 0 ? "one.safetensors" : "two.safetensors");
  }
  index.EndObject().EndObject();
  directory.Write("one.safetensors", WeightsFile(shards[0]));
  directory.Write("two.safetensors", WeightsFile(shards[1]));
  directory.Write("model.safetensors.index.json", index.Take());
}

}  // namespace roost::worker
