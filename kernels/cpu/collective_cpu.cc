#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/collective.h"

namespace roost::kernels {
namespace {

// The pointers that ranks show each other. A rank writes its own place before a barrier; the others read it after the
// barrier.
struct Board {
  struct Place {
    void* values = nullptr;
    std::size_t size = 0;
  };
  std::vector<Place> places;
};

class CpuCommunicator final : public Communicator {
 public:
  CpuCommunicator(std::uint32_t rank, std::uint32_t rank_count, std::shared_ptr<RankBarrier> barrier,
                  std::shared_ptr<Board> board)
      : Communicator(rank, rank_count, std::move(barrier)), board_(std::move(board)) {}

  [[nodiscard]] static CpuCommunicator& Of(Communicator& communicator) {
    return static_cast<CpuCommunicator&>(communicator);
  }

  // The places of all ranks, valid until the next barrier. `size` must be the same on all ranks.
  [[nodiscard]] std::span<const Board::Place> Exchange(void* values, std::size_t size) {
    board_->places[rank()] = {values, size};
    AwaitPeers();
    for (const Board::Place& place : board_->places) {
      ROOST_CHECK(place.size == size, "ranks of one collective op have {} and {}", place.size, size);
    }
    return board_->places;
  }

 private:
  const std::shared_ptr<Board> board_;
};

// Replaces elements begin … end - 1 of every place by their sum over the places.
void SumPlaces(std::span<const Board::Place> places, DType dtype, std::size_t begin, std::size_t end) {
  constexpr std::size_t kPiece = 512;
  std::array<float, kPiece> sums{};
  for (std::size_t first = begin; first < end; first += kPiece) {
    const std::size_t count = std::min(kPiece, end - first);
    for (std::size_t i = 0; i < count; ++i) sums[i] = LoadElement(places[0].values, dtype, first + i);
    for (const Board::Place& place : places.subspan(1)) {
      for (std::size_t i = 0; i < count; ++i) sums[i] += LoadElement(place.values, dtype, first + i);
    }
    for (const Board::Place& place : places) {
      for (std::size_t i = 0; i < count; ++i) StoreElement(place.values, dtype, first + i, sums[i]);
    }
  }
}

}  // namespace

Result<Communicators> ConnectCpu(std::span<Device* const> devices) {
  const auto rank_count = static_cast<std::uint32_t>(devices.size());
  const auto barrier = std::make_shared<RankBarrier>(rank_count);
  const auto board = std::make_shared<Board>(Board{std::vector<Board::Place>(rank_count)});
  Communicators communicators;
  for (std::uint32_t rank = 0; rank < rank_count; ++rank) {
    communicators.push_back(std::make_unique<CpuCommunicator>(rank, rank_count, barrier, board));
  }
  return communicators;
}

// Each rank sums its part of the elements, for all ranks.
void AllReduceCpu(Device& /*device*/, const AllReduceArgs& args) {
  CpuCommunicator& communicator = CpuCommunicator::Of(*args.communicator);
  const std::span<const Board::Place> places = communicator.Exchange(args.values, args.count);
  const std::size_t ranks = communicator.rank_count();
  const std::size_t rank = communicator.rank();
  SumPlaces(places, args.dtype, args.count * rank / ranks, args.count * (rank + 1) / ranks);
  communicator.AwaitPeers();
}

// Each rank writes its columns into rank 0's matrix.
void GatherColumnsCpu(Device& /*device*/, const GatherColumnsArgs& args) {
  CpuCommunicator& communicator = CpuCommunicator::Of(*args.communicator);
  const std::size_t size = std::size_t{args.rows} * args.width;
  auto* out = static_cast<float*>(communicator.Exchange(args.out, size)[0].values);
  const std::uint32_t begin = ColumnsBegin(args.width, communicator.rank(), communicator.rank_count());
  const std::size_t columns = ColumnsBegin(args.width, communicator.rank() + 1, communicator.rank_count()) - begin;
  for (std::size_t row = 0; row < args.rows; ++row) {
    std::copy_n(args.part + row * columns, columns, out + row * args.width + begin);
  }
  communicator.AwaitPeers();
}

void BroadcastCpu(Device& /*device*/, const BroadcastArgs& args) {
  CpuCommunicator& communicator = CpuCommunicator::Of(*args.communicator);
  const void* from = communicator.Exchange(args.values, args.bytes)[0].values;
  if (communicator.rank() != 0 && args.bytes > 0) std::memcpy(args.values, from, args.bytes);
  communicator.AwaitPeers();
}

}  // namespace roost::kernels
