#include "worker/model/block_part.h"

#include <cstring>
#include <utility>

#include "common/base/check.h"

namespace roost::worker {
namespace {

class PartsReader final : public BlockReader {
 public:
  explicit PartsReader(std::vector<BlockPart> parts) : parts_(std::move(parts)) { ROOST_CHECK(!parts_.empty()); }

  [[nodiscard]] std::size_t block_bytes() const override { return parts_.front().WholeBytes(); }

  [[nodiscard]] std::optional<kernels::DType> dtype() const override { return parts_.front().layout.dtype; }

  void Read(BlockId block, std::span<std::byte> to, const std::function<void()>& may_change) const override {
    ROOST_CHECK(to.size() == block_bytes(), "{} bytes of {}", to.size(), block_bytes());
    for (const BlockPart& part : parts_) {
      ROOST_CHECK(block.value() < part.layout.block_count, "block {} of {}", block.value(), part.layout.block_count);
      const auto* const from =
          static_cast<const std::byte*>(part.layout.base) + block.value() * part.layout.BlockBytes();
      part.VisitPieces([&](std::size_t of_rank, std::size_t of_whole, std::size_t bytes) {
        std::memcpy(to.data() + of_whole, from + of_rank, bytes);
      });
    }
    may_change();
  }

 private:
  const std::vector<BlockPart> parts_;
};

}  // namespace

std::unique_ptr<BlockReader> MakePartsReader(std::vector<BlockPart> parts) {
  return std::make_unique<PartsReader>(std::move(parts));
}

}  // namespace roost::worker
