// The ops of a transformer's layers and of its logits.
#include "worker/model/transformer.h"

namespace roost::worker {

using kernels::DeviceBuffer;

void Transformer::WriteKv(std::uint32_t layer) {
  const LayerWeights& weights = weights_.layers[layer];
  // The first layer has no earlier output to add.
  Norm(weights.input_norm, layer == 0 ? nullptr : &work_.delta);
  Multiply(*weights.qkv, work_.normed.data(), work_.qkv.data());
  backend_.ops().rope_to_cache(backend_.device(), {.qkv = work_.qkv.data(),
                                                   .cos = work_.cos.as<float>(),
                                                   .sin = work_.sin.as<float>(),
                                                   .q_norm = weights.q_norm.as<float>(),
                                                   .k_norm = weights.k_norm.as<float>(),
                                                   .epsilon = config_.norm_epsilon,
                                                   .rows = rows_,
                                                   .query_head_count = config_.query_head_count,
                                                   .q = work_.q.data(),
                                                   .kv = kv_,
                                                   .layer = layer,
                                                   .slots = work_.inputs.At(inputs_.slots),
                                                   .activation_dtype = activation_dtype_});
}

void Transformer::Attend(std::uint32_t layer) {
  backend_.ops().attention(backend_.device(), {.q = work_.q.data(),
                                               .q_dtype = activation_dtype_,
                                               .scale = score_scale_,
                                               .query_head_count = config_.query_head_count,
                                               .kv = kv_,
                                               .layer = layer,
                                               .blocks = work_.inputs.At(inputs_.blocks),
                                               .rows = work_.inputs.At(inputs_.rows),
                                               .items = work_.inputs.At(inputs_.items),
                                               .item_count = static_cast<std::uint32_t>(plan_.attention.items.size()),
                                               .merges = work_.inputs.At(inputs_.merges),
                                               .merge_count = static_cast<std::uint32_t>(plan_.attention.merges.size()),
                                               .parts = work_.inputs.At(inputs_.parts),
                                               .partials = work_.partials.as<float>(),
                                               .out = work_.attended.data(),
                                               .out_dtype = dtype_});
  Pulse();
  Multiply(*weights_.layers[layer].o, work_.attended.data(), work_.delta.data());
  SumOverRanks(work_.delta.data(), activation_dtype_);
}

void Transformer::FeedForward(const LayerWeights& layer) {
  Norm(layer.post_attention_norm, &work_.delta);
  Multiply(*layer.gate_up, work_.normed.data(), work_.gate_up.data());
  backend_.ops().silu_mul(backend_.device(), {.gate_up = work_.gate_up.data(),
                                              .rows = rows_,
                                              .width = config_.intermediate_size,
                                              .out = work_.activated.data(),
                                              .out_dtype = dtype_,
                                              .gate_up_dtype = activation_dtype_});
  Multiply(*layer.down, work_.activated.data(), work_.delta.data());
  SumOverRanks(work_.delta.data(), activation_dtype_);
}

void Transformer::Norm(const DeviceBuffer& weight, const DeviceBuffer* delta) {
  backend_.ops().rms_norm(backend_.device(), {.hidden = work_.hidden.as<float>(),
                                              .delta = delta != nullptr ? delta->data() : nullptr,
                                              .weight = weight.as<float>(),
                                              .epsilon = config_.norm_epsilon,
                                              .rows = rows_,
                                              .width = config_.hidden_size,
                                              .out = work_.normed.data(),
                                              .out_dtype = dtype_,
                                              .delta_dtype = activation_dtype_});
}

void Transformer::Multiply(const kernels::MatmulWeights& weights, const void* x, void* y) const {
  backend_.ops().matmul(backend_.device(), {&weights, x, rows_, y, activation_dtype_});
  Pulse();
}

void Transformer::SumOverRanks(void* values, kernels::DType dtype) {
  if (peers_ == nullptr) return;
  backend_.ops().all_reduce(
      backend_.device(),
      {.communicator = peers_, .values = values, .count = std::size_t{rows_} * config_.hidden_size, .dtype = dtype});
}

void Transformer::ComputeLogits() {
  const auto wanted = static_cast<std::uint32_t>(plan_.logits_rows.size());
  backend_.ops().rms_norm(backend_.device(), {.hidden = work_.hidden.as<float>(),
                                              .delta = work_.delta.data(),
                                              .weight = weights_.final_norm.as<float>(),
                                              .row_indices = work_.inputs.At(inputs_.logits_rows),
                                              .epsilon = config_.norm_epsilon,
                                              .rows = wanted,
                                              .width = config_.hidden_size,
                                              .out = work_.normed.data(),
                                              .out_dtype = dtype_,
                                              .delta_dtype = activation_dtype_});
  MultiplyLogits(wanted);
  if (peers_ != nullptr) GatherLogits();
}

void Transformer::MultiplyLogits(std::uint32_t rows) const {
  const DeviceBuffer& logits = communicator_ ? work_.logits_part : work_.logits;
  backend_.ops().matmul(backend_.device(),
                        {weights_.output.get(), work_.normed.data(), rows, logits.data(), kernels::DType::kF32});
  Pulse();
}

// Rank 0 needs whole rows to draw: 4 · rows · vocab_size bytes, of which (ranks - 1) / ranks are transferred. For 64
// rows of 128,256 tokens that is 33 MB, against gigabytes of bf16 weights that a step reads.
void Transformer::GatherLogits() {
  backend_.ops().gather_columns(backend_.device(), {.communicator = peers_,
                                                    .part = work_.logits_part.as<float>(),
                                                    .rows = static_cast<std::uint32_t>(plan_.logits_rows.size()),
                                                    .width = config_.vocab_size,
                                                    .out = work_.logits.as<float>(),
                                                    .scratch = work_.arriving.as<float>()});
}

}  // namespace roost::worker
