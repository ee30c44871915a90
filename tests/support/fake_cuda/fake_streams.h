// Work of the double's streams: copies and moves of blocks, which end at once or late.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/fake_cuda/fake_cuda.h"
#include "tests/support/late_device.h"

namespace roost::fake_cuda {

// Until Reset, after EndLate.
inline bool ends_late = false;

inline testing_support::LateStreams& Queues() { return testing_support::LateStreams::All(); }

// Work of a stream: it fills so many rows.
struct Filled {
  void* memory = nullptr;
  std::size_t pitch = 0;
  std::size_t width = 0;
  std::size_t rows = 1;
};
inline void Add(testing_support::LateStreams::Stream* stream, const std::vector<Filled>& filled,
                std::function<void()> work) {
  testing_support::LateStreams::Entry entry;
  entry.parts.push_back([filled] {
    for (const Filled& each : filled) {
      for (std::size_t row = 0; row < each.rows; ++row) {
        if (each.width > 0) std::memset(static_cast<std::byte*>(each.memory) + row * each.pitch, 0xFF, each.width);
      }
    }
  });
  entry.parts.push_back(std::move(work));
  Queues().Add(stream, std::move(entry));
  if (!ends_late) Queues().Await(stream, Queues().Mark(stream));
}

// As launched by MoveBlocksKernel; see move_blocks_cuda.cu.
struct LaunchedMoves {
  std::byte* pool;
  std::byte* buffer;
  std::size_t block_vectors;
  struct {
    std::uint32_t block;
    std::uint32_t place;
  } moves[256];
};

// Runs a launch of MoveBlocksKernel whose pool is not null.
inline void MoveBlocks(const Launch& launch, const void* argument, testing_support::LateStreams::Stream* stream) {
  LaunchedMoves list;
  std::memcpy(&list, argument, sizeof(list));
  if (list.pool == nullptr) return;
  const bool is_gather = launch.kernel.find("DirectionE0E") != std::string::npos;
  const std::size_t bytes = list.block_vectors * 16;
  std::vector<Filled> filled;
  const auto block_of = [list, bytes](unsigned i) { return list.pool + list.moves[i].block * bytes; };
  const auto place_of = [list, bytes](unsigned i) { return list.buffer + list.moves[i].place * bytes; };
  for (unsigned i = 0; i < launch.grid.x; ++i) {
    filled.push_back({.memory = is_gather ? place_of(i) : block_of(i), .width = bytes});
  }
  Add(stream, filled, [=, count = launch.grid.x] {
    for (unsigned i = 0; i < count; ++i) {
      std::memcpy(is_gather ? place_of(i) : block_of(i), is_gather ? block_of(i) : place_of(i), bytes);
    }
  });
}

}  // namespace roost::fake_cuda
