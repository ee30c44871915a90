// A transformer's weights on its device: the tensors that Hugging Face names q_proj, k_proj, …, in the form that the
// ops take.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "common/base/result.h"
#include "kernels/device_memory.h"
#include "worker/model/loading/hf_config.h"
#include "worker/model/loading/shard.h"
#include "worker/model/loading/weights.h"

namespace roost::worker {

struct LayerWeights {
  explicit LayerWeights(const kernels::Backend& backend)
      : input_norm(backend), q_norm(backend), k_norm(backend), post_attention_norm(backend) {}

  kernels::DeviceBuffer input_norm;           // [hidden_size] f32
  kernels::DeviceBuffer q_norm, k_norm;       // [head_dim] f32, empty without q/k norm
  kernels::DeviceBuffer post_attention_norm;  // [hidden_size] f32
  std::unique_ptr<kernels::MatmulWeights> qkv, o, gate_up, down;
};

struct TransformerWeights {
  explicit TransformerWeights(const kernels::Backend& backend) : embedding(backend), final_norm(backend) {}

  kernels::DeviceBuffer embedding;  // [vocabulary of the shard][hidden_size] in embedding_dtype
  kernels::DType embedding_dtype = kernels::DType::kF32;
  std::vector<LayerWeights> layers;
  kernels::DeviceBuffer final_norm;  // [hidden_size] f32
  // For the shard's vocabulary. In a tied model it may be a view of the embedding, which outlives it.
  std::unique_ptr<kernels::MatmulWeights> output;
};

// Reads only the shard's part of each tensor; see shard.h. `config` is the whole model's.
[[nodiscard]] Result<TransformerWeights> LoadTransformerWeights(const kernels::Backend& backend, const HfConfig& config,
                                                                const Shard& shard, const WeightSource& source,
                                                                kernels::DType compute_dtype);

// An Error that names the tensor and its file if a tensor of the files was not read: config.json and the weights then
// do not belong together, and the answers would be wrong. Two kinds are allowed: an output matrix that repeats the
// embedding, if config.json ties the two, and the rotary frequencies of old files, which follow from config.json.
[[nodiscard]] Result<void> CheckAllRead(const HfConfig& config, std::span<const TensorRecord> tensors);

}  // namespace roost::worker
