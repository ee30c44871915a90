// Any bytes as an event message of vLLM or SGLang: decoders refuse it or agree on its bounds, and what the book makes
// of it keeps the contract of wire::CacheEvent. Bytes that begin with kProgram, which no message does, are changes of
// an engine with up to four groups of layers instead: few names, so that they meet in any order.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
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

using roost::worker::adapters::Attention;
using roost::worker::adapters::CacheChange;
using roost::worker::adapters::Cleared;
using roost::worker::adapters::ExtraKeys;
using roost::worker::adapters::Removed;
using roost::worker::adapters::Stored;
using roost::worker::adapters::UnknownEvent;

constexpr std::byte kProgram{0xc1};  // never used in MessagePack

// Zeros behind the end.
class Program {
 public:
  explicit Program(std::span<const std::byte> bytes) : bytes_(bytes) {}

  [[nodiscard]] bool has_more() const { return next_ < bytes_.size(); }
  std::uint32_t Below(std::uint32_t bound) { return Byte() % bound; }
  bool Flag() { return Below(2) == 1; }
  std::string Name() { return "name" + std::to_string(10 + Below(30)); }
  CacheChange Change() {
    switch (Below(8)) {
      case 0: return Cleared{};
      case 1: return UnknownEvent();
      case 2:
      case 3:
      case 4: return Removal();
      default: return Store();
    }
  }

 private:
  std::uint32_t Byte() { return has_more() ? std::to_integer<std::uint32_t>(bytes_[next_++]) : 0; }
  Removed Removal() {
    Removed removed{.place = {.group = Below(4)}, .hashes = {}};
    for (std::uint32_t count = Below(5); count > 0; --count) removed.hashes.push_back(Name());
    return removed;
  }
  Stored Store() {
    constexpr std::uint32_t kSizes[] = {1, 8, 16, 32, 64, 96, 128, 448};
    Stored stored;
    stored.place.group = Below(4);
    stored.attention = static_cast<Attention>(stored.place.group == 0 ? 0 : Below(4));
    if (stored.attention == Attention::kWindow) stored.window_tokens = Below(256);
    stored.block_tokens = kSizes[Below(8)];
    for (std::uint32_t count = Below(6); count > 0; --count) stored.hashes.push_back(Name());
    if (Flag()) stored.parent = Name();
    const std::uint32_t spare = Below(4) == 0 ? Below(64) : 0;
    stored.token_ids.assign(stored.hashes.size() * stored.block_tokens + spare, Below(3));
    if (Below(8) == 0) stored.extra_keys = {static_cast<ExtraKeys>(Below(3))};
    return stored;
  }

  const std::span<const std::byte> bytes_;
  std::size_t next_ = 0;
};

void Follow(const std::vector<CacheChange>& changes, bool tells_each_copy, bool finds_runs) {
  BlockBook book(
      {.block_tokens = 32, .default_root = {1, 2}, .max_blocks = kBlocks, .tells_each_copy = tells_each_copy});
  book.ExpectFoundRuns(finds_runs);
  SnapshotMirror mirror(kMaxInOneChange);
  for (const auto& change : changes) {
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

void Follow(EventDecoder decode, std::span<const std::byte> payload) {
  const auto changes = decode(payload);
  if (changes.ok()) Follow(changes.value(), false, false);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto payload = std::as_bytes(std::span(data, size));
  if (size > 1 && payload[0] == kProgram) {
    Program program(payload.subspan(1));
    const bool tells_each_copy = program.Flag();
    const bool finds_runs = program.Flag();
    std::vector<CacheChange> changes;
    while (program.has_more()) changes.push_back(program.Change());
    Follow(changes, tells_each_copy, finds_runs);
    return 0;
  }
  Follow(roost::worker::adapters::DecodeVllmEvents, payload);
  Follow(roost::worker::adapters::DecodeSglangEvents, payload);
  return 0;
}
