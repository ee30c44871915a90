// 128-bit hashes of tensors' bytes, which distinguish a model from a fine-tune of the same shape. The read-ahead
// threads compute them while the tensors are read, in any order of pieces:
//
//   tensor      [ piece 0 | piece 1 | … | rest ]     pieces as ReadAhead cuts them
//   its hash    XXH3_128(XXH3_128(piece 0) ‖ XXH3_128(piece 1) ‖ …)
//
// A hash depends only on the tensor's bytes and on the size of pieces: not on the file, the tensor's place in it, or
// threads. It detects accidental differences, not forgery: write access to a model's files decides its answers anyway.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace roost::worker {

using TensorHash = std::array<std::uint8_t, 16>;

class TensorHashes {
 public:
  // The sizes of tensors, in the order of ReadAhead's ranges.
  TensorHashes(std::span<const std::size_t> tensor_bytes, std::size_t piece_bytes);

  // May be called from any thread; once for each piece. See ReadPiece for the index.
  void AddPiece(std::size_t index, std::span<const std::byte> bytes);

  // Call it after all threads are done. Empty unless all pieces of the tensor were added.
  [[nodiscard]] std::optional<TensorHash> HashOf(std::size_t tensor) const;

 private:
  std::vector<std::size_t> first_piece_;           // of each tensor, and one past the last
  std::vector<std::optional<TensorHash>> pieces_;  // each written by the thread that hashes it
};

}  // namespace roost::worker
