// Any bytes as an event message of vLLM or SGLang: decoders refuse it or agree on its bounds, and what the book makes
// of it keeps the contract of wire::CacheEvent.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/check.h"
#include "worker/adapters/events/block_book.h"
#include "worker/adapters/events/cache_change.h"
#include "worker/link/snapshot_mirror.h"

namespace {

using roost::worker::SnapshotMirror;
using roost::worker::adapters::BlockBook;
using roost::worker::adapters::EventDecoder;

constexpr std::uint32_t kBlocks = 40;
constexpr std::uint32_t kMaxInOneChange = 2 * kBlocks;  // in the mirror, before an overflow empties the book

void Follow(EventDecoder decode, std::span<const std::byte> payload) {
  const auto changes = decode(payload);
  if (!changes.ok()) return;
  BlockBook book({.block_tokens = 32, .default_root = {1, 2}, .max_blocks = kBlocks});
  SnapshotMirror mirror(kMaxInOneChange);
  for (const auto& change : changes.value()) {
    const auto outcome = book.Apply(change);
    book.Settle();
    std::vector<roost::wire::CacheEvent> events;
    book.TakeEvents(events);
    mirror.Apply(events);  // stops the process where an event makes no sense
    ROOST_CHECK(mirror.digest() == book.digest() && mirror.ready_count() == book.block_count());
    ROOST_CHECK(mirror.resumable_digest() == book.resume_points().digest());
    ROOST_CHECK(outcome != BlockBook::Outcome::kOverflow || book.block_count() == 0);
  }
  SnapshotMirror again(kBlocks);
  again.Assign(book.Snapshot(), book.resume_points().All());
  ROOST_CHECK(again.digest() == book.digest() && again.resumable_digest() == book.resume_points().digest());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto payload = std::as_bytes(std::span(data, size));
  Follow(roost::worker::adapters::DecodeVllmEvents, payload);
  Follow(roost::worker::adapters::DecodeSglangEvents, payload);
  return 0;
}
