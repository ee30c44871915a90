#include "worker/model/transformer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "common/base/byte_size.h"
#include "common/prefix/block_hash.h"
#include "kernels/ops.h"
#include "worker/model/pad_plan.h"

namespace roost::worker {

StepWidths StepWidthsOf(const HfConfig& config, const LogitsSource& logits, kernels::DType input,
                        kernels::DType result) {
  const std::size_t q_width = std::size_t{config.query_head_count} * config.head_dim;
  const std::size_t kv_width = std::size_t{config.kv_head_count} * config.head_dim;
  const std::size_t input_bytes = SizeOf(input);
  const std::size_t result_bytes = SizeOf(result);
  const std::size_t logits_bytes = config.vocab_size * sizeof(float);
  return {.angles = config.head_dim / 2 * sizeof(float),
          .hidden = config.hidden_size * sizeof(float),
          .delta = config.hidden_size * result_bytes,
          .normed = config.hidden_size * input_bytes,
          .qkv = (q_width + 2 * kv_width) * result_bytes,
          .q = q_width * result_bytes,
          .attended = q_width * input_bytes,
          .gate_up = 2 * std::size_t{config.intermediate_size} * result_bytes,
          .activated = config.intermediate_size * input_bytes,
          .partial = kernels::PartialFloats(config.head_dim) * sizeof(float),
          .logits = logits.is_first_rank ? logits_bytes : 0,
          .logits_part = logits.has_communicator ? logits.vocabulary_part * sizeof(float) : 0,
          .arriving = logits.is_first_rank && logits.has_communicator ? logits_bytes : 0,
          .counts = logits.is_first_rank ? config.vocab_size * sizeof(kernels::TokenCount) : 0,
          .mask = logits.is_first_rank ? kernels::MaskWords(config.vocab_size) * sizeof(std::uint32_t) : 0};
}

StepMemory::StepMemory(const kernels::Backend& backend, const StepWidths& widths)
    : inputs(backend),
      masks(backend),
      cos(backend),
      sin(backend),
      hidden(backend),
      delta(backend),
      normed(backend),
      qkv(backend),
      q(backend),
      attended(backend),
      gate_up(backend),
      activated(backend),
      partials(backend),
      logits(backend),
      logits_part(backend),
      arriving(backend),
      sampled(backend),
      adjusted(backend),
      counts(backend),
      backend_(backend),
      widths_(widths) {}

bool StepMemory::TryReserveAtLoad(const StepSize& largest) {
  // Reserves for all that can come back, because the previous batch's draws are still needed when the next one begins,
  // and growing would lose them.
  if (!sampled.TryReserve(kernels::kMaxReadbackBytes)) return false;
  if (largest.rows == 0) return true;
  reserved_ = largest;
  return TryReserve(largest);
}

void StepMemory::Reserve(const StepSize& step) {
  if (step.FitsInto(reserved_)) return;
  ++growth_count_;
  reserved_ = Grown(reserved_, step);
  if (TryReserve(reserved_)) return;
  backend_.ops().fail(backend_.device(), "allocate",
                      fmt::format("no memory for a step of {} tokens, {} rows of logits, {} partial results", step.rows,
                                  step.logits_rows, step.partials));
}

// Every rank counts the attempt, because each decides by the same numbers; only a step that comes changes these.
bool StepMemory::TryGrowInputs(std::size_t bytes) {
  if (bytes <= reserved_.input_bytes) return true;
  ++growth_count_;
  return inputs.TryReserve(Grown(reserved_, {.input_bytes = bytes}).input_bytes);
}

bool StepMemory::TryReserve(const StepSize& step) {
  bool enough = inputs.TryReserve(step.input_bytes);
  if (widths_.mask > 0) enough = enough && masks.TryReserve(step.adjusted_rows * widths_.mask);
  const auto reserve = [&enough](kernels::DeviceBuffer& buffer, std::size_t rows, std::size_t row_bytes) {
    enough = enough && (row_bytes == 0 || buffer.TryReserve(rows * row_bytes));
  };
  reserve(cos, step.rows, widths_.angles);
  reserve(sin, step.rows, widths_.angles);
  reserve(hidden, step.rows, widths_.hidden);
  reserve(delta, step.rows, widths_.delta);
  reserve(normed, std::max(step.rows, step.logits_rows), widths_.normed);
  reserve(qkv, step.rows, widths_.qkv);
  reserve(q, step.rows, widths_.q);
  reserve(attended, step.rows, widths_.attended);
  reserve(gate_up, step.rows, widths_.gate_up);
  reserve(activated, step.rows, widths_.activated);
  reserve(partials, step.partials, widths_.partial);
  reserve(logits_part, step.logits_rows, widths_.logits_part);
  reserve(logits, step.logits_rows, widths_.logits);
  reserve(adjusted, step.adjusted_rows, widths_.logits);
  enough = enough && TryReserveCounts(step.counts_rows);
  reserve(arriving, step.logits_rows, widths_.arriving);
  return enough;
}

// Growing keeps the counts of the outputs so far. Within the step bounds this is called once, at load.
bool StepMemory::TryReserveCounts(std::size_t row_count) {
  if (widths_.counts == 0 || row_count <= counts_row_count_) return true;
  std::vector<std::uint8_t> kept(counts_row_count_ * widths_.counts);
  if (!kept.empty()) backend_.ops().copy_to_host(backend_.device(), kept.data(), counts.data(), kept.size());
  if (!counts.TryReserve(row_count * widths_.counts)) return false;
  if (!kept.empty()) backend_.ops().copy_to_device(backend_.device(), counts.data(), kept.data(), kept.size());
  counts_row_count_ = row_count;
  return true;
}

namespace {

using kernels::DType;

kernels::KvLayout LayoutOf(const HfConfig& config, std::uint32_t block_tokens, std::uint32_t block_count, DType dtype) {
  return {.base = nullptr,
          .dtype = dtype,
          .block_count = block_count,
          .layer_count = config.layer_count,
          .kv_head_count = config.kv_head_count,
          .block_tokens = block_tokens,
          .head_dim = config.head_dim};
}

AttentionPlanOptions AttentionOptionsOf(const kernels::Backend& backend, const HfConfig& config,
                                        const TransformerOptions& options) {
  AttentionPlanOptions attention{.block_tokens = options.block_tokens,
                                 .query_head_count = config.query_head_count,
                                 .kv_head_count = config.kv_head_count,
                                 .profile = backend.ops().attention_profile(backend.device(), config.head_dim)};
  // As many rows as decodes can share if they share everything that can be shared.
  const std::uint32_t requests = options.step_bounds.request_count;
  if (requests > 0) attention.max_shared_rows = kMaxBranchings * requests;
  return attention;
}

}  // namespace

std::size_t KvBlockBytes(const HfConfig& config, std::uint32_t block_tokens, DType dtype) {
  return LayoutOf(config, block_tokens, 1, dtype).BlockBytes();
}

Result<std::unique_ptr<Transformer>> Transformer::Create(kernels::Backend backend, const HfConfig& config,
                                                         const WeightSource& source, const TransformerOptions& options,
                                                         TensorRank rank) {
  if (!IsValidBlockTokens(options.block_tokens)) {
    return InvalidArgument("block_tokens", "must be a power of two from {} to {}, is {}", kMinBlockTokens,
                           kMaxBlockTokens, options.block_tokens);
  }
  if (!options.kv_share && options.block_count == 0) {
    return InvalidArgument("block_count", "a model needs KV blocks");
  }
  if (options.block_count > std::numeric_limits<std::uint32_t>::max() / options.block_tokens) {
    return InvalidArgument("block_count", "{} blocks of {} tokens are not supported", options.block_count,
                           options.block_tokens);
  }
  if (!backend.ops().supports_dtype(backend.device(), options.compute_dtype)) {
    return InvalidArgument("compute_dtype", "{} is not supported by this machine", NameOf(options.compute_dtype));
  }
  ROOST_RETURN_IF_ERROR(backend.ops().check_model(
      backend.device(), {.kv = LayoutOf(config, options.block_tokens, options.block_count, options.compute_dtype),
                         .vocab_size = config.vocab_size,
                         .hidden_size = config.hidden_size}));
  std::unique_ptr<Transformer> transformer(new Transformer(std::move(backend), config, options, std::move(rank)));
  ROOST_RETURN_IF_ERROR(transformer->Load(config, source, options));
  return transformer;
}

Transformer::Transformer(kernels::Backend backend, const HfConfig& config, const TransformerOptions& options,
                         TensorRank rank)
    : backend_(std::move(backend)),
      shard_(rank.shard),
      communicator_(std::move(rank.communicator)),
      peers_(communicator_.get()),
      first_kv_head_(RangesOf(config, shard_).kv.begin / config.head_dim),
      vocabulary_(RangesOf(config, shard_).vocabulary),
      config_(ConfigOf(config, shard_)),
      attention_options_(AttentionOptionsOf(backend_, config_, options)),
      score_scale_(static_cast<float>(ScoreFactor(config.rope) / std::sqrt(static_cast<double>(config.head_dim)))),
      dtype_(options.compute_dtype),
      activation_dtype_(backend_.ops().activation_dtype(backend_.device(), options.compute_dtype)),
      shape_{.vocab_size = config.vocab_size,
             .layer_count = config.layer_count,
             .hidden_size = config.hidden_size,
             .intermediate_size = config.intermediate_size,
             .query_head_count = config.query_head_count,
             .kv_head_count = config.kv_head_count,
             .head_dim = config.head_dim,
             .max_context_tokens = options.max_context_tokens},
      weights_(backend_),
      inverse_frequencies_(backend_),
      kv_memory_(backend_),
      kv_(LayoutOf(config_, options.block_tokens, options.block_count, options.compute_dtype)),
      slab_(backend_.ops().has_host_memory ? nullptr : options.slab),
      staging_(backend_),
      work_(backend_, StepWidthsOf(config_,
                                   {.is_first_rank = shard_.rank == 0,
                                    .has_communicator = communicator_ != nullptr,
                                    .vocabulary_part = vocabulary_.size()},
                                   dtype_, activation_dtype_)),
      recorder_(backend_, communicator_.get()),
      readbacks_(backend_) {}

// A fixed number of blocks is tried before the weights are read, which may take long; a share of the free memory is
// taken afterwards. The code of the products takes device memory too, and so do the recordings, which need the pool's
// address and so are made behind it.
Result<void> Transformer::Load(const HfConfig& whole, const WeightSource& source, const TransformerOptions& options) {
  if (!options.kv_share) ROOST_RETURN_IF_ERROR(ReserveKv());
  ROOST_RETURN_IF_ERROR(ReserveStaging());
  ROOST_RETURN_IF_ERROR(ReserveSteps(options.step_bounds));
  const std::vector<float> frequencies = InverseFrequencies(config_.rope, config_.head_dim);
  inverse_frequencies_.Upload(std::span<const float>(frequencies));
  ROOST_ASSIGN_OR_RETURN(weights_, LoadTransformerWeights(backend_, whole, shard_, source, dtype_));
  WarmUpProducts();
  if (options.kv_share) {
    ROOST_RETURN_IF_ERROR(CountBlocks(*options.kv_share, MeasureRecordings(options.step_bounds)));
    ROOST_RETURN_IF_ERROR(ReserveKv());
  }
  WarmUpSteps(options.step_bounds);
  return MakeCopyEngine();
}

Result<void> Transformer::ReserveStaging() {
  if (slab_ == nullptr) return {};
  const std::size_t bytes = slab_->count() * kv_.BlockBytes();
  if (staging_.TryReserve(bytes)) return {};
  return InvalidArgument("transfer-memory", "the device has no memory for {} blocks on their way, {} bytes ({})",
                         slab_->count(), bytes, ByteSizeText(bytes));
}

// Ranks share a head when there are more of them than heads; then the first of these sends it.
Result<void> Transformer::MakeCopyEngine() {
  if (slab_ == nullptr) return {};
  const std::uint32_t sharing = shard_.rank_count * kv_.kv_head_count / shape_.kv_head_count;
  const CopyEngine::Part own{.block = part(), .sends = shard_.rank % std::max(1U, sharing) == 0};
  ROOST_ASSIGN_OR_RETURN(copy_engine_, CopyEngine::Make(backend_, *slab_, own, staging_.data()));
  if (shard_.rank_count == 1) {
    block_copies_ = std::make_unique<BlockCopies>(*slab_, std::vector<CopyEngine*>{copy_engine_.get()}, part());
  }
  return {};
}

Result<void> Transformer::CountBlocks(double kv_share, std::size_t recording_bytes) {
  const std::optional<kernels::MemoryUse> memory = backend_.ops().memory_use(backend_.device());
  if (!memory) {
    return InvalidArgument("kv_memory",
                           "a share needs a CUDA device, which reports its free memory; give a number of bytes");
  }
  // Where memory is scarce, blocks matter more: steps can do without recordings.
  const std::size_t free_bytes = memory->free_bytes - std::min(memory->free_bytes / 2, recording_bytes);
  const double bytes = kv_share * static_cast<double>(free_bytes);
  const std::uint32_t most = std::numeric_limits<std::uint32_t>::max() / kv_.block_tokens;
  kv_.block_count = static_cast<std::uint32_t>(std::min<double>(bytes / static_cast<double>(kv_.BlockBytes()), most));
  if (kv_.block_count > 0) return {};
  return InvalidArgument("kv_memory", "{} of {} free bytes hold no KV block of this model: one has {} bytes", kv_share,
                         free_bytes, kv_.BlockBytes());
}

Result<void> Transformer::ReserveKv() {
  // Padding tokens write behind the real blocks.
  const std::size_t spare_blocks = recorder_.enabled() ? (kMaxPadding + kv_.block_tokens - 1) / kv_.block_tokens : 0;
  const std::size_t kv_bytes = kv_.BlockBytes() * (kv_.block_count + spare_blocks);
  const std::optional<kernels::MemoryUse> memory = backend_.ops().memory_use(backend_.device());
  if (memory && kv_bytes > memory->free_bytes) {
    return InvalidArgument("kv-memory", "{} KV blocks have {} bytes ({}), and the device has {} bytes free ({})",
                           kv_.block_count, kv_bytes, ByteSizeText(kv_bytes), memory->free_bytes,
                           ByteSizeText(memory->free_bytes));
  }
  if (!kv_memory_.TryReserve(kv_bytes)) {
    return Error{ErrorCode::kInternal, fmt::format("no memory for {} KV blocks, {} bytes", kv_.block_count, kv_bytes),
                 "block_count"};
  }
  kv_.base = kv_memory_.data();
  return {};
}

kernels::Arithmetic Transformer::arithmetic() const {
  kernels::Arithmetic arithmetic = backend_.ops().arithmetic(backend_.device());
  if (!arithmetic.name.empty()) arithmetic.name += fmt::format(", {}", NameOf(dtype_));
  return arithmetic;
}

std::size_t Transformer::InputBytesWith(const DrawLists& lists) const {
  return fixed_input_bytes_ == 0 ? 0 : fixed_input_bytes_ + ListBytes(lists);
}

bool Transformer::HasRoomFor(const DrawLists& lists) const {
  return InputBytesWith(lists) <= work_.reserved().input_bytes;
}

bool Transformer::MakeRoomFor(const DrawLists& lists) { return work_.TryGrowInputs(InputBytesWith(lists)); }

void Transformer::Compute(const Batch& batch, const Draws& draws) {
  wanted_count_ = 0;
  if (copy_engine_ != nullptr) copy_engine_->HoldOps();
  if (batch.tokens.empty()) {
    Poison(batch);
    WriteBlocks(batch);
    CopyRows(batch);
  } else {
    ComputeBatch(batch, draws);
  }
  Sample(draws);
}

void Transformer::ComputeBatch(const Batch& batch, const Draws& draws) {
  Check(batch);
  backend_.ops().begin_batch(backend_.device(), {.request_count = static_cast<std::uint32_t>(batch.slices.size()),
                                                 .token_count = static_cast<std::uint32_t>(batch.tokens.size())});
  Poison(batch);
  WriteBlocks(batch);
  CopyRows(batch);
  Plan(batch);
  Upload(batch, draws);
  PlaceSampled(batch);
  if (recorder_.enabled() && IsDecode(batch)) {
    recorder_.Run(StepShape(), [this] { RunOps(); });
  } else {
    RunOps();
  }
}

void Transformer::RunOps() {
  backend_.ops().rope_angles(backend_.device(), {.inverse_frequencies = inverse_frequencies_.as<float>(),
                                                 .positions = work_.inputs.At(inputs_.positions),
                                                 .rows = rows_,
                                                 .half_dim = config_.head_dim / 2,
                                                 .cos = work_.cos.as<float>(),
                                                 .sin = work_.sin.as<float>()});
  backend_.ops().gather_embedding(backend_.device(), {.table = weights_.embedding.data(),
                                                      .table_dtype = weights_.embedding_dtype,
                                                      .first_token = vocabulary_.begin,
                                                      .token_count = vocabulary_.size(),
                                                      .tokens = work_.inputs.At(inputs_.tokens),
                                                      .rows = rows_,
                                                      .width = config_.hidden_size,
                                                      .out = work_.hidden.as<float>()});
  SumOverRanks(work_.hidden.data(), DType::kF32);
  for (std::uint32_t layer = 0; layer < config_.layer_count; ++layer) {
    WriteKv(layer);
    // The rest of the last layer is needed only for logits.
    if (layer + 1 == config_.layer_count && plan_.logits_rows.empty()) return;
    Attend(layer);
    FeedForward(weights_.layers[layer]);
  }
  ComputeLogits();
}

// Other ranks have no logits; rank 0 tells them what was drawn. Their readbacks bring nothing: they show that the rank
// has finished the batch.
void Transformer::Sample(const Draws& draws) {
  Check(draws);
  const std::size_t bytes = draws.rows.size() * sizeof(kernels::SampledToken);
  // The first call of an op may wait for all work that devices have begun, and a collective op among that work may wait
  // for a rank that has yet to begin it. So all ranks begin their work before this.
  if (communicator_ && CountsOf(draws).bytes() > 0) communicator_->AwaitPeers();
  if (shard_.rank == 0 && draws.mask_count > 0) FillMasks(draws);
  if (shard_.rank == 0 && !draws.rows.empty()) Draw(draws);
  if (shard_.rank == 0 && !draws.scored.empty()) Score(draws);
  feeding_draw_count_ = draws.feed_next_batch ? draws.rows.size() : 0;
  if (communicator_ && feeding_draw_count_ > 0) {
    communicator_->AwaitPeers();
    backend_.ops().broadcast(backend_.device(),
                             {.communicator = communicator_.get(), .values = work_.sampled.data(), .bytes = bytes});
  }
  readbacks_.Begin(work_.sampled.data(), shard_.rank == 0 ? CountsOf(draws) : DrawCounts());
}

std::unique_ptr<BlockReader> Transformer::MakeBlockReader() const {
  if (has_host_memory()) return MakePartsReader({part()});
  return block_copies_ ? block_copies_->MakeReader() : nullptr;
}

std::span<const kernels::SampledToken> Transformer::AwaitSampled() { return readbacks_.Await(); }

void Transformer::FillMasks(const Draws& draws) {
  masks_.resize(std::size_t{draws.mask_count} * kernels::MaskWords(config_.vocab_size));
  draws.fill_masks(masks_);
  work_.masks.Clear();
  draw_masks_ = work_.masks.Add(masks_);
  work_.masks.Upload();
}

void Transformer::Draw(const Draws& draws) {
  backend_.ops().sample(backend_.device(), {.logits = work_.logits.as<float>(),
                                            .vocab_size = config_.vocab_size,
                                            .rows = work_.inputs.At(inputs_.draws),
                                            .row_count = static_cast<std::uint32_t>(draws.rows.size()),
                                            .biases = work_.inputs.At(inputs_.biases),
                                            .counted = work_.inputs.At(inputs_.counted),
                                            .counts = work_.counts.as<kernels::TokenCount>(),
                                            .tokens = work_.inputs.At(inputs_.tokens),
                                            .masks = draws.mask_count > 0 ? work_.masks.At(draw_masks_) : nullptr,
                                            .adjusted = work_.adjusted.as<float>(),
                                            .out = work_.sampled.as<kernels::SampledToken>()});
}

// The results are behind the drawn tokens, so that one copy brings both.
void Transformer::Score(const Draws& draws) {
  auto* const sampled = work_.sampled.as<kernels::SampledToken>();
  const DrawCounts counts = CountsOf(draws);
  backend_.ops().logprobs(backend_.device(), {.logits = work_.logits.as<float>(),
                                              .vocab_size = config_.vocab_size,
                                              .rows = work_.inputs.At(inputs_.scored),
                                              .row_count = static_cast<std::uint32_t>(draws.scored.size()),
                                              .sampled = sampled,
                                              .out = ScoredBehind(sampled, counts),
                                              .top = TopBehind(sampled, counts)});
}

std::span<const float> Transformer::Logits() {
  logits_.resize(wanted_count_ * std::size_t{config_.vocab_size});
  backend_.ops().copy_to_host(backend_.device(), logits_.data(), work_.logits.data(), logits_.size() * sizeof(float));
  return logits_;
}

std::vector<kernels::MemoryUse> Transformer::DeviceMemory() {
  const std::optional<kernels::MemoryUse> use = backend_.ops().memory_use(backend_.device());
  return use ? std::vector{*use} : std::vector<kernels::MemoryUse>();
}

void Transformer::Check(const Batch& batch) const {
  for (const TokenId token : batch.tokens) {
    ROOST_CHECK(token < config_.vocab_size, "token {} of {}", token, config_.vocab_size);
  }
  for (const kernels::SampledPlace& place : batch.sampled_places) {
    ROOST_CHECK(place.index < batch.tokens.size() && place.draw < feeding_draw_count_, "token {} is draw {} of {}",
                place.index, place.draw, feeding_draw_count_);
  }
  for (const BatchSlice& slice : batch.slices) {
    ROOST_CHECK(slice.first_position + slice.token_count <= config_.max_positions);
  }
}

void Transformer::Check(const Draws& draws) const {
  const std::size_t bytes = CountsOf(draws).bytes();
  ROOST_CHECK(bytes <= kernels::kMaxReadbackBytes, "{} bytes of draws, limit {}", bytes, kernels::kMaxReadbackBytes);
  for (const kernels::SampleRow& draw : draws.rows) {
    ROOST_CHECK(draw.row < wanted_count_, "a draw from row {} of {}", draw.row, wanted_count_);
    ROOST_CHECK(!draw.has_newest || draw.newest < rows_, "a draw after token {} of {}", draw.newest, rows_);
  }
  for (const kernels::LogprobsRow& row : draws.scored) {
    ROOST_CHECK(row.row < wanted_count_ && row.top_count <= config_.vocab_size, "row {} of {}, {} likeliest", row.row,
                wanted_count_, row.top_count);
    ROOST_CHECK(row.is_drawn ? row.draw < draws.rows.size() : row.token < config_.vocab_size);
  }
  for (const kernels::SampleRow& draw : draws.rows) {
    ROOST_CHECK(!draw.has_mask || draw.mask_row < draws.mask_count, "mask {} of {}", draw.mask_row, draws.mask_count);
  }
  for (const kernels::LogitBias& bias : draws.biases) {
    ROOST_CHECK(bias.token < config_.vocab_size, "token {} of {}", bias.token, config_.vocab_size);
  }
  for (const kernels::CountedToken& counted : draws.counted) {
    ROOST_CHECK(counted.token < config_.vocab_size, "token {} of {}", counted.token, config_.vocab_size);
  }
}

// Bytes that are all ones are NaN in every dtype of the cache.
void Transformer::Poison(const Batch& batch) {
  if (batch.poisoned.empty()) return;
  poison_.assign(kv_.BlockBytes(), 0xFF);
  for (const BlockId block : batch.poisoned) {
    ROOST_CHECK(block.value() < kv_.block_count, "block {} of {}", block.value(), kv_.block_count);
    void* bytes = static_cast<std::uint8_t*>(kv_.base) + block.value() * kv_.BlockBytes();
    backend_.ops().copy_to_device(backend_.device(), bytes, poison_.data(), poison_.size());
  }
}

// The bytes are all heads'; this rank takes its own.
void Transformer::WriteBlocks(const Batch& batch) {
  if (copy_engine_ != nullptr && !batch.writes.empty()) {
    backend_.ops().scatter_blocks(backend_.device(), copy_engine_->Scatter(batch.writes));
    return;
  }
  for (const BlockWrite& write : batch.writes) {
    ROOST_CHECK(has_host_memory() && write.to.value() < kv_.block_count, "a write to block {} of {}", write.to.value(),
                kv_.block_count);
    const BlockPart part = this->part();
    ROOST_CHECK(write.bytes.size() == part.WholeBytes(), "{} bytes of {}", write.bytes.size(), part.WholeBytes());
    std::byte* const block = static_cast<std::byte*>(kv_.base) + write.to.value() * kv_.BlockBytes();
    part.VisitPieces([&](std::size_t to, std::size_t from, std::size_t bytes) {
      backend_.ops().copy_to_device(backend_.device(), block + to, write.bytes.data() + from, bytes);
    });
  }
}

void Transformer::CopyRows(const Batch& batch) {
  if (batch.copies.empty()) return;
  copies_.clear();
  for (const BlockCopy& copy : batch.copies) {
    ROOST_CHECK(copy.from.value() < kv_.block_count && copy.to.value() < kv_.block_count && copy.from != copy.to &&
                copy.row_count <= kv_.block_tokens);
    copies_.push_back({copy.from.value(), copy.to.value(), copy.row_count});
  }
  backend_.ops().copy_block_rows(
      backend_.device(),
      {.kv = kv_, .copies = copies_.data(), .copy_count = static_cast<std::uint32_t>(copies_.size())});
}

}  // namespace roost::worker
