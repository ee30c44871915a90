// Tells a worker beside an engine which blocks the engine's cache holds. The events part implements it; the engine's
// thread polls it. A worker without one sends no cache events.
//
// One thread (the engine's), from construction on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/base/clock.h"
#include "common/prefix/block_hash.h"
#include "common/wire/messages.h"
#include "worker/adapters/events/block_book.h"

namespace roost::worker::adapters {

class SlotTable;

// The blocks on disk beside an engine's cache: see the fields of wire::Load.
struct DiskView {
  std::uint32_t blocks = 0;
  BlockHash digest;
  double bytes_per_second = 0;  // 0: there is no disk
  std::uint64_t block_bytes = 0;
};

class BlockSource {
 public:
  virtual ~BlockSource() = default;

  // Become readable when Poll has something to do. They may differ after each Poll.
  [[nodiscard]] virtual std::vector<int> fds() = 0;
  // The time at which Poll has something to do although nothing becomes readable; nothing: never.
  [[nodiscard]] virtual std::optional<Instant> deadline() const = 0;
  // Takes what has come, up to a bound. True: there may be more, so call it again before waiting.
  [[nodiscard]] virtual bool Poll(Instant now) = 0;
  // The changes since the last call, in order. After each one, every stored block's parent is stored.
  [[nodiscard]] virtual std::vector<wire::CacheEvent> TakeEvents() = 0;
  // False while it may have missed events, so that its blocks differ from the engine's, and nothing is under way that
  // brings them.
  [[nodiscard]] virtual bool exact() const = 0;
  // All blocks after the events that were taken, parents before children. O(blocks).
  [[nodiscard]] virtual std::vector<wire::StoredRun> Snapshot() const = 0;
  [[nodiscard]] virtual BlockHash digest() const = 0;  // xor of the hashes of these blocks
  [[nodiscard]] virtual std::size_t block_count() const = 0;
  // Those of these blocks behind which a request can go on, where that is not any; see wire::Hello::checkpoints.
  [[nodiscard]] virtual bool has_checkpoints() const { return false; }
  [[nodiscard]] virtual std::vector<BlockHash> Resumable() const { return {}; }
  [[nodiscard]] virtual BlockHash resumable_digest() const { return {}; }

  // Guesses how much a prompt with these blocks finds.
  [[nodiscard]] virtual HitGuess Guess(std::span<const BlockHash> /*hashes*/, std::uint32_t /*prompt_tokens*/) const {
    return {};
  }
  // So much was found in the engine's own cache.
  virtual void NoteHit(const HitGuess& /*guess*/, std::uint32_t /*found_tokens*/) {}
  // The size of the engine's blocks; 0: not known yet.
  [[nodiscard]] virtual std::uint32_t engine_block_tokens() const { return 0; }
  // Should requests ask the engine to tell again of the blocks that they find? See EventFeed.
  [[nodiscard]] virtual bool wants_found_runs() const { return false; }
  [[nodiscard]] virtual double told_share() const { return 0; }  // see wire::Load

  [[nodiscard]] virtual DiskView disk(Instant /*now*/) const { return {}; }
  [[nodiscard]] virtual std::vector<wire::StoredRun> DiskSnapshot() const { return {}; }  // parents before children

  // Where requests wait for a slot of the engine; null: they do not.
  [[nodiscard]] virtual SlotTable* slots() { return nullptr; }

  // The engine is another process, with an empty cache. The removals are in the next TakeEvents.
  virtual void OnEngineRestart(Instant now) = 0;
};

}  // namespace roost::worker::adapters
