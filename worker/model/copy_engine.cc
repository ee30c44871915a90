#include "worker/model/copy_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

#include "common/base/byte_size.h"
#include "common/base/check.h"

namespace roost::worker {

using kernels::CopyWay;

// ---- FrameSlab ----

Result<std::unique_ptr<FrameSlab>> FrameSlab::Pin(const kernels::Backend& backend, FrameRoom room,
                                                  std::size_t data_bytes) {
  constexpr std::size_t kAlignment = 64;
  const std::size_t frame_bytes = room.head_bytes + data_bytes + room.tail_bytes;
  const std::size_t stride = (frame_bytes + kAlignment - 1) / kAlignment * kAlignment;
  const std::size_t bytes = stride * room.count;
  auto* const memory = static_cast<std::byte*>(backend.ops().pin(backend.device(), bytes));
  if (memory == nullptr) {
    return InvalidArgument("transfer-memory", "there is no pinned memory for {} blocks on their way, {} bytes ({})",
                           room.count, bytes, ByteSizeText(bytes));
  }
  return std::unique_ptr<FrameSlab>(new FrameSlab(room, data_bytes, stride, memory, backend.ops().unpin));
}

std::size_t FrameSlab::IndexOfFrame(const std::byte* frame) const {
  const auto offset = static_cast<std::size_t>(frame - memory_);
  ROOST_CHECK(offset % stride_ == 0 && offset / stride_ < room_.count, "memory that is not a frame's");
  return offset / stride_;
}

std::size_t FrameSlab::IndexOf(std::span<const std::byte> data) const {
  ROOST_CHECK(data.size() == data_bytes_, "{} bytes of {}", data.size(), data_bytes_);
  return IndexOfFrame(data.data() - room_.head_bytes);
}

// ---- CopyEngine ----

Result<std::unique_ptr<CopyEngine>> CopyEngine::Make(const kernels::Backend& backend, const FrameSlab& slab, Part part,
                                                     void* staging) {
  auto streams = backend.ops().open_copy_streams(backend.device());
  if (streams == nullptr) return Error{ErrorCode::kInternal, "no memory for streams of copies", "transfer-memory"};
  return std::unique_ptr<CopyEngine>(new CopyEngine(slab, part, staging, std::move(streams)));
}

CopyEngine::CopyEngine(const FrameSlab& slab, const Part& part, void* staging,
                       std::unique_ptr<kernels::CopyStreams> streams)
    : slab_(slab), part_(part.block), staging_(static_cast<std::byte*>(staging)), streams_(std::move(streams)) {
  WayOf(CopyWay::kIn).pieces = PiecesOf(part_);
  if (part.sends) WayOf(CopyWay::kOut).pieces = WayOf(CopyWay::kIn).pieces;
}

// Its heads of each (layer, K or V) are a row, unless they are all heads: then the block is one row.
std::vector<CopyEngine::Piece> CopyEngine::PiecesOf(const BlockPart& part) {
  std::vector<Piece> pieces;
  part.VisitPieces([&](std::size_t of_rank, std::size_t of_whole, std::size_t bytes) {
    for (std::size_t done = 0; done < bytes; done += kMostCopyBytes) {
      const std::size_t width = std::min(kMostCopyBytes, bytes - done);
      Piece* const last = pieces.empty() ? nullptr : &pieces.back();
      if (last != nullptr && width == bytes && last->width == bytes && (last->rows + 1) * bytes <= kMostCopyBytes) {
        ++last->rows;
      } else {
        pieces.push_back({of_rank + done, of_whole + done, width, 1});
      }
    }
  });
  return pieces;
}

void CopyEngine::Gather(BlockId block, std::size_t frame) {
  if (WayOf(CopyWay::kOut).pieces.empty()) return;
  ROOST_CHECK(block.value() < part_.layout.block_count, "block {} of {}", block.value(), part_.layout.block_count);
  const kernels::BlockMove move{.block = block.value(), .place = static_cast<std::uint32_t>(frame)};
  const std::lock_guard lock(gathering_);
  streams_->Gather({.kv = part_.layout, .moves = &move, .count = 1, .buffer = staging_});
  has_gathered_ = true;
}

std::optional<std::size_t> CopyEngine::TryBegin(CopyWay direction, std::size_t frame, std::size_t index) {
  Way& way = WayOf(direction);
  const Piece& piece = way.pieces[index];
  const std::lock_guard lock(way.mutex);
  const auto free = std::find(way.is_taken.begin(), way.is_taken.end(), false);
  if (free == way.is_taken.end()) return std::nullopt;
  *free = true;
  const auto place = static_cast<std::size_t>(free - way.is_taken.begin());
  const std::size_t whole_row = piece.width / part_.layout.kv_head_count * part_.whole_head_count;
  streams_->Begin(direction, place,
                  {.device = PlaceOf(frame) + piece.of_rank,
                   .device_pitch = piece.width,
                   .host = slab_.Data(frame) + piece.of_whole,
                   .host_pitch = piece.rows == 1 ? piece.width : whole_row,
                   .width = piece.width,
                   .rows = piece.rows});
  return place;
}

void CopyEngine::Await(CopyWay direction, std::size_t place) {
  streams_->Await(direction, place);
  Way& way = WayOf(direction);
  {
    const std::lock_guard lock(way.mutex);
    way.is_taken[place] = false;
  }
  way.freed.notify_one();
}

void CopyEngine::AwaitPlace(CopyWay direction) {
  Way& way = WayOf(direction);
  std::unique_lock lock(way.mutex);
  way.freed.wait(lock,
                 [&] { return std::find(way.is_taken.begin(), way.is_taken.end(), false) != way.is_taken.end(); });
}

// A block may come twice, when what came first has left again; the last one stays. The op moves all at the same time.
kernels::MoveBlocksArgs CopyEngine::Scatter(std::span<const BlockWrite> writes) {
  moves_.clear();
  for (const BlockWrite& write : writes) {
    ROOST_CHECK(write.to.value() < part_.layout.block_count, "a write to block {} of {}", write.to.value(),
                part_.layout.block_count);
    moves_.push_back({write.to.value(), static_cast<std::uint32_t>(slab_.IndexOf(write.bytes))});
  }
  const auto by_block = [](const kernels::BlockMove& a, const kernels::BlockMove& b) { return a.block < b.block; };
  std::stable_sort(moves_.begin(), moves_.end(), by_block);
  const auto is_same = [](const kernels::BlockMove& a, const kernels::BlockMove& b) { return a.block == b.block; };
  const auto kept = std::unique(moves_.rbegin(), moves_.rend(), is_same);
  moves_.erase(moves_.begin(), kept.base());
  return {.kv = part_.layout,
          .moves = moves_.data(),
          .count = static_cast<std::uint32_t>(moves_.size()),
          .buffer = staging_};
}

// ---- BlockCopies ----

class BlockCopies::Reader final : public BlockReader {
 public:
  explicit Reader(BlockCopies& copies) : copies_(copies) {}

  [[nodiscard]] std::size_t block_bytes() const override { return copies_.block_bytes_; }
  [[nodiscard]] std::optional<kernels::DType> dtype() const override { return copies_.dtype_; }

  void Read(BlockId block, std::span<std::byte> to, const std::function<void()>& may_change) const override {
    const std::size_t frame = copies_.slab_.IndexOf(to);
    for (CopyEngine* const engine : copies_.engines_) engine->Gather(block, frame);
    may_change();
    copies_.Copy(CopyWay::kOut, frame);
  }

 private:
  BlockCopies& copies_;
};

std::unique_ptr<BlockReader> BlockCopies::MakeReader() { return std::make_unique<Reader>(*this); }

std::vector<std::byte*> BlockCopies::Take(std::size_t count) {
  const std::size_t first = taken_count_.fetch_add(count);
  ROOST_CHECK(first + count <= slab_.count(), "{} and {} frames of {}", first, count, slab_.count());
  std::vector<std::byte*> frames;
  frames.reserve(count);
  for (std::size_t i = first; i < first + count; ++i) frames.push_back(slab_.Frame(i));
  return frames;
}

void BlockCopies::Clear(std::byte* frame) {
  std::memset(frame, 0, slab_.frame_bytes());
  const std::size_t index = slab_.IndexOfFrame(frame);
  for (CopyEngine* const engine : engines_) engine->Clear(index);
}

// A thread that waits for a place holds none, so that those who hold some can always go on.
void BlockCopies::Copy(CopyWay way, std::size_t frame) {
  struct Begun {
    CopyEngine* engine = nullptr;
    std::size_t place = 0;
  };
  std::deque<Begun> begun;
  std::vector<std::size_t> next(engines_.size());
  while (true) {
    CopyEngine* waits = nullptr;
    for (std::size_t rank = 0; rank < engines_.size(); ++rank) {
      CopyEngine* const engine = engines_[rank];
      while (next[rank] < engine->piece_count(way)) {
        const std::optional<std::size_t> place = engine->TryBegin(way, frame, next[rank]);
        if (!place) {
          waits = engine;
          break;
        }
        begun.push_back({engine, *place});
        ++next[rank];
      }
    }
    if (!begun.empty()) {
      begun.front().engine->Await(way, begun.front().place);
      begun.pop_front();
    } else if (waits != nullptr) {
      waits->AwaitPlace(way);
    } else {
      return;
    }
  }
}

}  // namespace roost::worker
