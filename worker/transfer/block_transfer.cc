#include "worker/transfer/block_transfer.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <vector>

#include "common/base/byte_size.h"

namespace roost::worker {
namespace {

constexpr std::uint64_t kPartOfMemory = 16;

std::uint64_t HashOf(std::span<const std::byte> bytes) {
  return std::max<std::uint64_t>(1, XXH3_64bits(bytes.data(), bytes.size()));
}

}  // namespace

Result<std::size_t> FrameCountOf(FrameSizes sizes, std::uint64_t bytes, std::optional<std::uint64_t> available) {
  const std::size_t frame_bytes = sizes.frame_bytes();
  if (bytes == 0) {
    bytes = std::min(kDefaultTransferBytes, available.value_or(kDefaultTransferBytes * kPartOfMemory) / kPartOfMemory);
    return std::max<std::size_t>(kMinFrames, bytes / frame_bytes);
  }
  if (bytes / frame_bytes >= kMinFrames) return bytes / frame_bytes;
  return InvalidArgument("transfer-memory",
                         "{} bytes ({}) hold fewer than {} blocks of this model: one has {} bytes on its way ({})",
                         bytes, ByteSizeText(bytes), kMinFrames, frame_bytes, ByteSizeText(frame_bytes));
}

std::size_t FrameCountOf(const TransferSetup& setup) {
  return (setup.pull_count == 0 ? 0 : setup.frame_count) + setup.reader_count;
}

BlockTransfer::BlockTransfer(const Model& model, TransferSetup setup, const Clock& clock, std::function<void()> wake)
    : access_(setup.access),
      pull_count_(setup.pull_count),
      layout_(setup.layout),
      readable_(model.MakeBlockReader(), model.block_count(), model.block_tokens()),
      inbox_(std::move(wake)),
      memory_(std::make_shared<FrameMemory>(readable_.sizes(), setup.pull_count == 0 ? 0 : setup.frame_count,
                                            model.frame_staging())),
      peers_(inbox_, readable_, memory_,
             {.worker_id = setup.worker_id, .layout = layout_, .access = access_, .most_peers = setup.pull_count},
             clock) {
  if (!setup.listener.is_open()) return;
  server_ = std::make_unique<BlockServer>(readable_,
                                          BlockServerOptions{.worker_id = setup.worker_id,
                                                             .layout = layout_,
                                                             .address = setup.address,
                                                             .advertised = setup.advertised,
                                                             .access = access_,
                                                             .secret = secret_,
                                                             .most_readers = setup.reader_count,
                                                             .staging = model.frame_staging()},
                                          std::move(setup.listener));
}

wire::Transfer BlockTransfer::Describe() const {
  return {
      .address = server_ == nullptr ? "" : server_->address(), .layout = layout_.layout, .numerics = layout_.numerics};
}

std::vector<std::shared_ptr<FrameMemory>> BlockTransfer::memories() const {
  if (server_ == nullptr) return {memory_};
  return {memory_, server_->memory()};
}

std::optional<wire::TransferSecret> BlockTransfer::secret() const {
  const bool has_tickets = access_ == TransferAccess::kTicketsOnly && server_ != nullptr;
  return has_tickets ? std::optional(secret_) : std::nullopt;
}

TransferCounts BlockTransfer::counts() const {
  return {.served = server_ == nullptr ? BlockServerCounts() : server_->counts(),
          .waiting_bytes = std::uint64_t{memory_->used()} * memory_->sizes().frame_bytes()};
}

TravellingBytes BlockTransfer::travelling_bytes() const {
  return {.arriving = peers_.awaited_bytes(), .leaving = counts().served.leaving_bytes};
}

std::uint64_t LayoutHash(const Model& model, std::string_view fingerprint, std::string_view kv_dtype) {
  const ModelShape& shape = model.shape();
  const std::string text = fmt::format("{}\n{}\n{} layers, {} KV heads of {}, {} tokens, frame {}, peers {}",
                                       fingerprint, kv_dtype, shape.layer_count, shape.kv_head_count, shape.head_dim,
                                       model.block_tokens(), kFrameVersion, wire::kPeerMessageVersion);
  return HashOf(std::as_bytes(std::span(text)));
}

std::uint64_t NumericsHash(Model& model, std::uint32_t most_tokens) {
  constexpr std::uint32_t kStride = 7919;  // between the ids of the fixed tokens
  const std::uint32_t count = model.block_tokens();
  if (model.shape().max_context_tokens < count) return 0;
  if (const std::string name = model.arithmetic().name; !name.empty()) return HashOf(std::as_bytes(std::span(name)));
  const std::vector<BlockId> blocks{BlockId(0)};
  for (std::uint32_t first = 0; first < count;) {
    const std::uint32_t taken = std::min(count - first, std::max(1U, most_tokens));
    Batch batch;
    for (std::uint32_t i = first; i < first + taken; ++i) {
      batch.tokens.push_back(static_cast<TokenId>(std::uint64_t{i} * kStride % model.shape().vocab_size));
    }
    batch.slices.push_back({.blocks = blocks, .first_position = first, .token_count = taken});
    model.Compute(batch, {});
    (void)model.AwaitSampled();
    model.AwaitFinished();
    first += taken;
  }
  const std::unique_ptr<BlockReader> reader = model.MakeBlockReader();
  std::vector<std::byte> bytes(reader->block_bytes());
  reader->Read(blocks.front(), bytes, [] {});
  return HashOf(bytes);
}

std::string_view NumericsPromise(const Model& model) {
  return model.arithmetic().name.empty() ? "same" : "like: equal up to rounding";
}

}  // namespace roost::worker
