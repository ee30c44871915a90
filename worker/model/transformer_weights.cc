#include "worker/model/transformer_weights.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>

#include "common/base/log.h"

namespace roost::worker {
namespace {

using kernels::DeviceBuffer;
using kernels::DType;
using kernels::MatmulPart;
using kernels::MatmulWeights;

struct Projection {
  std::string name;  // without ".weight" and ".bias"
  std::uint32_t outputs = 0;
  WeightRange rows;  // this rank's outputs
};

// Columns of the weights of projections that share their input.
struct ProjectionInputs {
  std::uint32_t size = 0;
  WeightRange columns;
};

class Loader {
 public:
  Loader(const kernels::Backend& backend, const HfConfig& config, const Shard& shard, const WeightSource& source,
         DType compute_dtype)
      : backend_(backend),
        config_(config),
        shard_(shard),
        ranges_(RangesOf(config, shard)),
        source_(source),
        compute_dtype_(compute_dtype) {}

  Result<TransformerWeights> Load() {
    TransformerWeights weights(backend_);
    ROOST_RETURN_IF_ERROR(LoadEmbedding(weights));  // and the output matrix of a tied model
    for (std::uint32_t layer = 0; layer < config_.layer_count; ++layer) {
      weights.layers.emplace_back(backend_);
      ROOST_RETURN_IF_ERROR(LoadLayer(fmt::format("model.layers.{}.", layer), weights.layers.back()));
    }
    ROOST_RETURN_IF_ERROR(LoadVector("model.norm.weight", config_.hidden_size, weights.final_norm));
    if (config_.tie == EmbeddingTie::kUntied) {
      ROOST_ASSIGN_OR_RETURN(weights.output, LoadProjections({{"lm_head", config_.vocab_size, ranges_.vocabulary}},
                                                             All(config_.hidden_size), Bias::kNone));
    }
    LogRounding();
    return weights;
  }

 private:
  // The rows of this rank's vocabulary. They are also the output matrix of a tied model; a device that computes from
  // such rows keeps one copy.
  Result<void> LoadEmbedding(TransformerWeights& weights) {
    const std::array<std::uint64_t, 2> shape{config_.vocab_size, config_.hidden_size};
    ROOST_ASSIGN_OR_RETURN(const Weight table, source_.GetPart("model.embed_tokens.weight", shape,
                                                               {ranges_.vocabulary, {0, config_.hidden_size}}));
    weights.embedding_dtype = table.dtype;
    const std::size_t bytes = table.elements * SizeOf(table.dtype);
    if (!weights.embedding.TryReserve(bytes)) return NoMemory("model.embed_tokens.weight", bytes);
    backend_.ops().copy_to_device(backend_.device(), weights.embedding.data(), table.data, bytes);
    if (config_.tie == EmbeddingTie::kUntied) return {};
    const MatmulPart part{table.data, table.dtype, nullptr, ranges_.vocabulary.size()};
    NoteRounding(table.dtype);
    ROOST_ASSIGN_OR_RETURN(weights.output,
                           backend_.ops().prepare_matmul(backend_.device(), {.parts = {&part, 1},
                                                                             .inputs = config_.hidden_size,
                                                                             .compute_dtype = compute_dtype_,
                                                                             .resident = weights.embedding.data()}));
    return {};
  }

  Result<void> LoadLayer(const std::string& prefix, LayerWeights& layer) {
    const std::uint32_t hidden = config_.hidden_size;
    const std::uint32_t q_width = config_.query_head_count * config_.head_dim;
    const std::uint32_t kv_width = config_.kv_head_count * config_.head_dim;
    const std::string attention = prefix + "self_attn.";
    const std::string mlp = prefix + "mlp.";
    ROOST_RETURN_IF_ERROR(LoadVector(prefix + "input_layernorm.weight", hidden, layer.input_norm));
    ROOST_RETURN_IF_ERROR(LoadVector(prefix + "post_attention_layernorm.weight", hidden, layer.post_attention_norm));
    if (config_.qk_norm == QkNorm::kNormed) {
      ROOST_RETURN_IF_ERROR(LoadVector(attention + "q_norm.weight", config_.head_dim, layer.q_norm));
      ROOST_RETURN_IF_ERROR(LoadVector(attention + "k_norm.weight", config_.head_dim, layer.k_norm));
    }
    ROOST_ASSIGN_OR_RETURN(layer.qkv, LoadProjections({{attention + "q_proj", q_width, ranges_.q},
                                                       {attention + "k_proj", kv_width, ranges_.kv},
                                                       {attention + "v_proj", kv_width, ranges_.kv}},
                                                      All(hidden), config_.qkv_bias));
    ROOST_ASSIGN_OR_RETURN(layer.o, LoadProjections({{attention + "o_proj", hidden, {0, hidden}}}, {q_width, ranges_.q},
                                                    OfOneRank(config_.o_bias)));
    const std::uint32_t inner = config_.intermediate_size;
    ROOST_ASSIGN_OR_RETURN(layer.gate_up, LoadProjections({{mlp + "gate_proj", inner, ranges_.intermediate},
                                                           {mlp + "up_proj", inner, ranges_.intermediate}},
                                                          All(hidden), config_.mlp_bias));
    ROOST_ASSIGN_OR_RETURN(layer.down, LoadProjections({{mlp + "down_proj", hidden, {0, hidden}}},
                                                       {inner, ranges_.intermediate}, OfOneRank(config_.mlp_bias)));
    return {};
  }

  // A norm's weight, widened to f32.
  Result<void> LoadVector(const std::string& name, std::uint64_t length, DeviceBuffer& to) {
    ROOST_ASSIGN_OR_RETURN(const Weight weight, source_.Get(name, {&length, 1}));
    const std::vector<float> values = Widened(weight);
    if (!to.TryReserve(values.size() * sizeof(float))) return NoMemory(name, values.size() * sizeof(float));
    to.Upload(std::span<const float>(values));
    return {};
  }

  void NoteRounding(DType dtype) {
    if (compute_dtype_ == DType::kBF16 && dtype != DType::kBF16) ++rounded_[dtype];
  }

  // This is not an error, because bf16 devices can do no better. But answers may differ a little from those in the
  // file's precision.
  void LogRounding() const {
    if (shard_.rank != 0) return;
    for (const auto& [dtype, count] : rounded_) {
      LogWarning(
          "weights are rounded",
          {{"from", std::string(NameOf(dtype))}, {"to", std::string(NameOf(compute_dtype_))}, {"tensors", count}});
    }
  }

  // If results are summed over ranks, only one rank adds the bias.
  [[nodiscard]] Bias OfOneRank(Bias bias) const { return shard_.rank == 0 ? bias : Bias::kNone; }

  static ProjectionInputs All(std::uint32_t size) { return {size, {0, size}}; }

  // Loads projections that share their input, fused into one product.
  Result<std::unique_ptr<MatmulWeights>> LoadProjections(std::initializer_list<Projection> projections,
                                                         const ProjectionInputs& inputs, Bias biased) {
    std::vector<MatmulPart> parts;
    std::vector<Weight> loaded;  // alive until the weights are prepared
    for (const Projection& projection : projections) {
      const std::array<std::uint64_t, 2> shape{projection.outputs, inputs.size};
      ROOST_ASSIGN_OR_RETURN(Weight weight,
                             source_.GetPart(projection.name + ".weight", shape, {projection.rows, inputs.columns}));
      MatmulPart part{weight.data, weight.dtype, nullptr, projection.rows.size()};
      NoteRounding(weight.dtype);
      if (biased == Bias::kBiased) {
        ROOST_ASSIGN_OR_RETURN(
            Weight bias, source_.GetPart(projection.name + ".bias", {shape.data(), 1}, {projection.rows, {0, 1}}));
        if (bias.dtype != weight.dtype) {
          return DataLoss(projection.name, "weight is {}, bias {}: they must agree", NameOf(weight.dtype),
                          NameOf(bias.dtype));
        }
        part.bias = bias.data;
        loaded.push_back(std::move(bias));
      }
      loaded.push_back(std::move(weight));
      parts.push_back(part);
    }
    return backend_.ops().prepare_matmul(backend_.device(), {parts, inputs.columns.size(), compute_dtype_});
  }

  static std::vector<float> Widened(const Weight& weight) {
    std::vector<float> values(weight.elements);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = kernels::LoadElement(weight.data, weight.dtype, i);
    return values;
  }

  static Error NoMemory(std::string_view name, std::size_t bytes) {
    return Error{ErrorCode::kInternal, fmt::format("no memory for the {} bytes of {}", bytes, name), {}};
  }

  const kernels::Backend& backend_;
  const HfConfig& config_;
  const Shard shard_;
  const ShardRanges ranges_;
  const WeightSource& source_;
  const DType compute_dtype_;
  std::map<DType, std::size_t> rounded_;  // number of matrices that are more precise than the compute dtype, by dtype
};

constexpr std::string_view kEmbedding = "model.embed_tokens.weight";
constexpr std::string_view kOutput = "lm_head.weight";

// Is it the embedding under a different name?
bool IsTheEmbedding(const TensorRecord& tensor, std::span<const TensorRecord> tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [&tensor](const TensorRecord& other) {
    return other.name == kEmbedding && other.dtype == tensor.dtype && other.shape == tensor.shape &&
           other.hash == tensor.hash;
  });
}

bool IsNeededByNobody(const TensorRecord& tensor) { return tensor.name.ends_with(".rotary_emb.inv_freq"); }

}  // namespace

Result<void> CheckAllRead(const HfConfig& config, std::span<const TensorRecord> tensors) {
  for (const TensorRecord& tensor : tensors) {
    if (tensor.was_read || IsNeededByNobody(tensor)) continue;
    if (tensor.name == kOutput && config.tie == EmbeddingTie::kTied) {
      if (IsTheEmbedding(tensor, tensors)) continue;
      return InvalidArgument(tensor.file,
                             "tensor '{}' differs from {}, but tie_word_embeddings in config.json says that they are "
                             "one",
                             tensor.name, kEmbedding);
    }
    return InvalidArgument(
        tensor.file,
        "tensor '{}' is not used: {} as config.json describes it does not read it from this file, and "
        "answers without it may be wrong",
        tensor.name, config.architecture);
  }
  return {};
}

Result<TransformerWeights> LoadTransformerWeights(const kernels::Backend& backend, const HfConfig& config,
                                                  const Shard& shard, const WeightSource& source, DType compute_dtype) {
  return Loader(backend, config, shard, source, compute_dtype).Load();
}

}  // namespace roost::worker
