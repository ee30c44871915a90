// Random batches for attention: requests with cached tokens; some requests share their first blocks with another one.
// An implementation gets a batch as the work list that its profile asks for, and is compared with the reference, which
// gets one whole item for each row.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/device_memory.h"
#include "tests/kernels/kernels_testing.h"
#include "worker/model/attention_plan.h"

namespace roost::kernels {

struct AttentionBatchShape {
  std::uint32_t kv_heads = 1;
  std::uint32_t group = 4;
  std::uint32_t head_dim = 128;
  std::uint32_t block_tokens = 16;
  // kNone: a token attends to all tokens of its request.
  enum class Mask : std::uint8_t { kCausal, kNone } mask = Mask::kCausal;
};

class AttentionBatch {
 public:
  AttentionBatch(const AttentionBatchShape& shape, std::uint64_t seed) : shape_(shape), rng_(seed) {}

  // Adds a request with `cached` tokens and `count` new ones; the whole blocks within the first `shared` tokens are
  // request `parent`'s.
  void Add(std::uint32_t cached, std::uint32_t count, std::size_t parent = 0, std::uint32_t shared = 0) {
    std::vector<BlockId> blocks;
    const std::uint32_t of_parent =
        parent < requests_.size() ? std::min({shared, cached, requests_[parent].cached}) : 0;
    while (blocks.size() * shape_.block_tokens < cached + count) {
      const bool is_parents = (blocks.size() + 1) * shape_.block_tokens <= of_parent;
      blocks.push_back(is_parents ? requests_[parent].blocks[blocks.size()] : BlockId(block_count_++));
    }
    requests_.push_back({cached, count, std::move(blocks)});
    token_count_ += count;
  }

  // Adds random requests: cached tokens up to `most_cached`, chunks up to `most_new`, shared prefixes.
  void AddRandom(std::size_t requests, std::uint32_t most_cached, std::uint32_t most_new) {
    for (std::size_t i = 0; i < requests; ++i) {
      const auto cached = static_cast<std::uint32_t>(rng_.Below(most_cached + 1));
      const std::uint32_t count = rng_.Below(3) == 0 ? 1 + static_cast<std::uint32_t>(rng_.Below(most_new)) : 1;
      const std::size_t parent = i > 0 ? rng_.Below(i) : 0;
      Add(cached, count, parent, rng_.Below(2) == 0 ? cached : 0);
    }
  }

  // Fills q, K and V, once all requests are added. Rows that belong to no position are NaN.
  void Fill() {
    kv_ = {nullptr, DType::kBF16, block_count_, kLayers, shape_.kv_heads, shape_.block_tokens, shape_.head_dim};
    storage_.assign(kv_.BlockBytes() * block_count_, std::byte{0xFF});
    for (const Request& request : requests_) {
      for (std::uint32_t position = 0; position < request.cached + request.count; ++position) {
        for (std::uint32_t head = 0; head < shape_.kv_heads; ++head) FillRow(request, position, head);
      }
    }
    const std::vector<float> q = RandomFloats(rng_, std::size_t{token_count_} * query_heads() * shape_.head_dim, 3);
    q_f32_ = Tensor(DType::kF32, q);
    q_bf16_ = Tensor(DType::kBF16, q);
    // Both have the same values.
    for (std::size_t i = 0; i < q.size(); ++i) StoreElement(q_f32_.data(), DType::kF32, i, q_bf16_.at(i));
  }

  // The reference's result: each row separately.
  [[nodiscard]] Tensor Wanted() const {
    worker::AttentionPlan plan;
    AttentionProfile alone;
    alone.lane_tiles = {1, 1, 1};
    MakePlan(alone, plan);
    return Run(Backend::Open(ReferenceOps(), {}).value(), plan, q_f32_, DType::kF32);
  }

  // The result of a device with this many places.
  [[nodiscard]] Tensor Run(const OpTable& ops, std::uint32_t places, const DeviceOptions& options = {}) const {
    const Backend backend = Backend::Open(ops, options).value();
    return Run(backend, ProfileOf(backend, places));
  }

  [[nodiscard]] Tensor Run(const Backend& backend, const AttentionProfile& profile) const {
    worker::AttentionPlan plan;
    MakePlan(profile, plan);
    const DType q_dtype = backend.ops().activation_dtype(backend.device(), DType::kBF16);
    return Run(backend, plan, q_dtype == DType::kBF16 ? q_bf16_ : q_f32_, DType::kBF16);
  }

  [[nodiscard]] worker::AttentionPlan PlanOf(const OpTable& ops, std::uint32_t places) const {
    worker::AttentionPlan plan;
    MakePlan(ProfileOf(Backend::Open(ops, {}).value(), places), plan);
    return plan;
  }

  void MakePlan(const AttentionProfile& profile, worker::AttentionPlan& plan) const {
    std::vector<worker::BatchSlice> slices;
    for (const Request& request : requests_) {
      slices.push_back({.blocks = request.blocks, .first_position = request.cached, .token_count = request.count});
    }
    worker::PlanAttention(slices,
                          {.block_tokens = shape_.block_tokens,
                           .query_head_count = query_heads(),
                           .kv_head_count = shape_.kv_heads,
                           .profile = profile},
                          plan);
    if (shape_.mask == AttentionBatchShape::Mask::kNone) Unmask(plan);
  }

  // |a - wanted| ≤ 1/128 of the largest |v|, which is 1, and the rounding of the result.
  static void ExpectNear(const Tensor& a, const Tensor& wanted) {
    ASSERT_EQ(a.size(), wanted.size());
    for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a.at(i), wanted.at(i), 1.0 / 128) << "element " << i;
  }

 private:
  struct Request {
    std::uint32_t cached;
    std::uint32_t count;
    std::vector<BlockId> blocks;
  };
  static constexpr std::uint32_t kLayers = 2;
  static constexpr std::uint32_t kLayer = 1;

  void FillRow(const Request& request, std::uint32_t position, std::uint32_t head) {
    const std::uint32_t block = request.blocks[position / shape_.block_tokens].value();
    const std::size_t row = std::size_t{position % shape_.block_tokens} * shape_.head_dim;
    for (std::uint32_t d = 0; d < shape_.head_dim; ++d) {
      const auto value = [this] { return static_cast<float>(rng_.Uniform() * 2 - 1); };
      StoreElement(storage_.data(), DType::kBF16, kv_.KOffset(block, kLayer, head) + row + d, value());
      StoreElement(storage_.data(), DType::kBF16, kv_.VOffset(block, kLayer, head) + row + d, value());
    }
  }

  [[nodiscard]] std::uint32_t query_heads() const { return shape_.kv_heads * shape_.group; }

  [[nodiscard]] AttentionProfile ProfileOf(const Backend& backend, std::uint32_t places) const {
    AttentionProfile profile = backend.ops().attention_profile(backend.device(), shape_.head_dim);
    profile.concurrent_items = places;
    return profile;
  }

  // Lets rows see their requests' last positions: items that end with their rows, whole ones or last parts, grow to
  // them.
  void Unmask(worker::AttentionPlan& plan) const {
    std::vector<std::uint32_t> last_of_token;
    for (const Request& request : requests_) {
      last_of_token.insert(last_of_token.end(), request.count, request.cached + request.count - 1);
    }
    for (AttentionItem& item : plan.items) {
      const AttentionRow& last = plan.rows[item.first_row + item.row_count - 1];
      if (item.first_position + item.position_count != last.position + 1) continue;
      item.position_count = last_of_token[last.token] + 1 - item.first_position;
    }
    for (AttentionRow& row : plan.rows) row.position = last_of_token[row.token];
  }

  [[nodiscard]] Tensor Run(const Backend& backend, const worker::AttentionPlan& plan, const Tensor& q,
                           DType out_dtype) const {
    const auto upload = [&backend](const auto& values) {
      DeviceBuffer buffer(backend);
      buffer.Upload(std::span(values.data(), values.size()));
      return buffer;
    };
    const DeviceBuffer q_memory = upload(q.bytes);
    const DeviceBuffer kv_memory = upload(storage_);
    const DeviceBuffer blocks = upload(plan.blocks);
    const DeviceBuffer rows = upload(plan.rows);
    const DeviceBuffer items = upload(plan.items);
    const DeviceBuffer merges = upload(plan.merges);
    const DeviceBuffer parts = upload(plan.parts);
    // Results that are not written stay NaN.
    const DeviceBuffer partials =
        upload(std::vector<float>(std::size_t{plan.partial_count} * PartialFloats(shape_.head_dim), std::nanf("")));
    Tensor result(out_dtype, q.size());
    std::fill(result.bytes.begin(), result.bytes.end(), std::byte{0xFF});
    const DeviceBuffer out = upload(result.bytes);
    KvLayout kv = kv_;
    kv.base = kv_memory.data();
    backend.ops().attention(backend.device(), {.q = q_memory.data(),
                                               .q_dtype = q.dtype,
                                               .scale = 1 / std::sqrt(static_cast<float>(shape_.head_dim)),
                                               .query_head_count = query_heads(),
                                               .kv = kv,
                                               .layer = kLayer,
                                               .blocks = blocks.as<std::uint32_t>(),
                                               .rows = rows.as<AttentionRow>(),
                                               .items = items.as<AttentionItem>(),
                                               .item_count = static_cast<std::uint32_t>(plan.items.size()),
                                               .merges = merges.as<AttentionMerge>(),
                                               .merge_count = static_cast<std::uint32_t>(plan.merges.size()),
                                               .parts = parts.as<std::uint32_t>(),
                                               .partials = partials.as<float>(),
                                               .out = out.data(),
                                               .out_dtype = out_dtype});
    backend.ops().copy_to_host(backend.device(), result.data(), out.data(), result.bytes.size());
    return result;
  }

  const AttentionBatchShape shape_;
  Rng rng_;
  std::vector<Request> requests_;
  std::uint32_t block_count_ = 0;
  std::uint32_t token_count_ = 0;
  KvLayout kv_;
  std::vector<std::byte> storage_;
  Tensor q_f32_{DType::kF32, 0};
  Tensor q_bf16_{DType::kBF16, 0};
};

}  // namespace roost::kernels
