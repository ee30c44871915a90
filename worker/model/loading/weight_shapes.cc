#include "worker/model/loading/weight_shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "common/base/check.h"
#include "worker/model/loading/weights.h"

namespace roost::worker {
namespace {

using Each = std::function<Result<void>(const std::string&, std::span<const std::uint64_t>)>;

class Tensors {
 public:
  Tensors(const HfConfig& config, const Each& each) : config_(config), each_(each) {}

  Result<void> All() const {
    ROOST_RETURN_IF_ERROR(Matrix("model.embed_tokens.weight", config_.vocab_size, config_.hidden_size));
    for (std::uint32_t layer = 0; layer < config_.layer_count; ++layer) {
      ROOST_RETURN_IF_ERROR(Layer(fmt::format("model.layers.{}.", layer)));
    }
    ROOST_RETURN_IF_ERROR(Vector("model.norm.weight", config_.hidden_size));
    if (config_.tie == EmbeddingTie::kTied) return {};
    return Matrix("lm_head.weight", config_.vocab_size, config_.hidden_size);
  }

 private:
  Result<void> Layer(const std::string& prefix) const {
    const std::uint32_t hidden = config_.hidden_size;
    const std::uint32_t inner = config_.intermediate_size;
    const std::uint32_t q_width = config_.query_head_count * config_.head_dim;
    const std::uint32_t kv_width = config_.kv_head_count * config_.head_dim;
    const std::string attention = prefix + "self_attn.";
    const std::string mlp = prefix + "mlp.";
    ROOST_RETURN_IF_ERROR(Vector(prefix + "input_layernorm.weight", hidden));
    ROOST_RETURN_IF_ERROR(Vector(prefix + "post_attention_layernorm.weight", hidden));
    if (config_.qk_norm == QkNorm::kNormed) {
      ROOST_RETURN_IF_ERROR(Vector(attention + "q_norm.weight", config_.head_dim));
      ROOST_RETURN_IF_ERROR(Vector(attention + "k_norm.weight", config_.head_dim));
    }
    ROOST_RETURN_IF_ERROR(Projection(attention + "q_proj", q_width, hidden, config_.qkv_bias));
    ROOST_RETURN_IF_ERROR(Projection(attention + "k_proj", kv_width, hidden, config_.qkv_bias));
    ROOST_RETURN_IF_ERROR(Projection(attention + "v_proj", kv_width, hidden, config_.qkv_bias));
    ROOST_RETURN_IF_ERROR(Projection(attention + "o_proj", hidden, q_width, config_.o_bias));
    ROOST_RETURN_IF_ERROR(Projection(mlp + "gate_proj", inner, hidden, config_.mlp_bias));
    ROOST_RETURN_IF_ERROR(Projection(mlp + "up_proj", inner, hidden, config_.mlp_bias));
    return Projection(mlp + "down_proj", hidden, inner, config_.mlp_bias);
  }

  Result<void> Projection(const std::string& name, std::uint32_t outputs, std::uint32_t inputs, Bias bias) const {
    ROOST_RETURN_IF_ERROR(Matrix(name + ".weight", outputs, inputs));
    return bias == Bias::kBiased ? Vector(name + ".bias", outputs) : Result<void>();
  }
  Result<void> Matrix(const std::string& name, std::uint64_t rows, std::uint64_t columns) const {
    return each_(name, std::array<std::uint64_t, 2>{rows, columns});
  }
  Result<void> Vector(const std::string& name, std::uint64_t length) const { return each_(name, {&length, 1}); }

  const HfConfig& config_;
  const Each& each_;
};

}  // namespace

Result<void> ForEachTensor(const HfConfig& config, const Each& each) { return Tensors(config, each).All(); }

std::uint64_t ElementCount(const HfConfig& config) {
  std::uint64_t count = 0;
  const Result<void> all = ForEachTensor(config, [&count](const std::string&, std::span<const std::uint64_t> shape) {
    count += ElementsOf(shape);
    return Result<void>();
  });
  ROOST_CHECK(all.ok());
  return count;
}

Result<void> CheckShape(const SafetensorsDirectory::Found& found, std::string_view name,
                        std::span<const std::uint64_t> shape) {
  if (std::equal(shape.begin(), shape.end(), found.info->shape.begin(), found.info->shape.end())) return {};
  TensorInfo wanted;
  wanted.shape.assign(shape.begin(), shape.end());
  return DataLoss(found.file->path(), "tensor '{}': shape is {}, config.json asks for {}", name,
                  found.info->ShapeText(), wanted.ShapeText());
}

Result<void> CheckTensors(const HfConfig& config, const SafetensorsDirectory& files) {
  return ForEachTensor(config, [&files](const std::string& name, std::span<const std::uint64_t> shape) -> Result<void> {
    ROOST_ASSIGN_OR_RETURN(const auto found, files.Find(name));
    ROOST_RETURN_IF_ERROR(ComputableDType(found, name));
    return CheckShape(found, name, shape);
  });
}

}  // namespace roost::worker
