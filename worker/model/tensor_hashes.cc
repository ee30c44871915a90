#include "worker/model/tensor_hashes.h"

#include <xxhash.h>

#include <algorithm>

#include "common/base/check.h"

namespace roost::worker {
namespace {

// In the canonical form, which is the same on any machine.
TensorHash HashBytes(const void* bytes, std::size_t size) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes, size));
  TensorHash hash;
  static_assert(sizeof(canonical.digest) == sizeof(hash));
  std::copy(std::begin(canonical.digest), std::end(canonical.digest), hash.begin());
  return hash;
}

}  // namespace

TensorHashes::TensorHashes(std::span<const std::size_t> tensor_bytes, std::size_t piece_bytes) {
  ROOST_CHECK(piece_bytes > 0);
  std::size_t piece_count = 0;
  for (const std::size_t bytes : tensor_bytes) {
    first_piece_.push_back(piece_count);
    piece_count += (bytes + piece_bytes - 1) / piece_bytes;
  }
  first_piece_.push_back(piece_count);
  pieces_.resize(piece_count);
}

void TensorHashes::AddPiece(std::size_t index, std::span<const std::byte> bytes) {
  ROOST_CHECK(index < pieces_.size());
  pieces_[index] = HashBytes(bytes.data(), bytes.size());
}

std::optional<TensorHash> TensorHashes::HashOf(std::size_t tensor) const {
  ROOST_CHECK(tensor + 1 < first_piece_.size());
  std::vector<TensorHash> pieces;
  for (std::size_t i = first_piece_[tensor]; i < first_piece_[tensor + 1]; ++i) {
    if (!pieces_[i]) return std::nullopt;
    pieces.push_back(*pieces_[i]);
  }
  return HashBytes(pieces.data(), pieces.size() * sizeof(TensorHash));
}

}  // namespace roost::worker
