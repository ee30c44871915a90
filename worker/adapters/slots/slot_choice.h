// The slot that a prompt gets, by price: the tokens that are to be computed there, and what the slot's own sequence
// loses.
//
// A slot or the server's memory holds a sequence, known by its whole blocks. The server goes on in the middle of it,
// or, where layers have windows or a recurrent state (`goes_on_at_points`), only at its end or at a checkpoint. A
// prompt that parts from a sequence within a block is taken to have all of a checkpoint in that block: the tokens are
// not known.
//
// A view of the moment: it refers to the sequences, and ends before they change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/prefix/block_hash.h"

namespace roost::worker::adapters {

// Blocks of a sequence: the first, counted from 1, and the last.
struct BlockRun {
  std::size_t first = 1;
  std::size_t last = 0;

  bool operator==(const BlockRun&) const = default;
};

struct HeldSequence {
  BlockHash root;
  BlockHash tenant = {};
  std::vector<BlockHash> hashes = {};
  std::uint32_t tokens = 0;
  std::vector<std::uint32_t> points = {};  // token counts of checkpoints, ascending
  bool has_more = false;                   // there may be more tokens behind those that are known
  std::uint32_t hits = 0;
  Instant used = {};
  std::optional<Instant> returns = {};  // when its session should
  std::vector<BlockRun> told = {};      // as resumable; SlotTable's own
};

class SlotChoice {
 public:
  // The part of a request that decides where it goes.
  struct Prompt {
    BlockHash root;
    std::span<const BlockHash> hashes = {};
    std::uint32_t tokens = 0;
    bool finds_prefix = true;
  };
  struct Rules {
    bool goes_on_at_points = false;
    std::uint32_t window = 0;  // a slot with no more tokens is gone on with at checkpoints alone
  };
  struct Offer {
    const HeldSequence* held = nullptr;
    double chance = 0;  // that its sequence is asked for again
    double most_loss = std::numeric_limits<double>::infinity();
    bool is_idle = true;
  };
  struct Memory {
    const std::deque<HeldSequence>& sequences;
    bool has_shown = false;  // until then it does not count: the server may have none
  };
  struct Best {
    std::size_t slot = 0;
    double price = 0;
    std::uint32_t found = 0;     // in the slot
    std::uint32_t expected = 0;  // there or in memory
  };

  SlotChoice(Rules rules, Memory memory, std::vector<Offer> offers)
      : rules_(rules), memory_(memory), offers_(std::move(offers)) {}

  // So much of a prompt of more tokens is found in a sequence with which it has so many blocks in common.
  [[nodiscard]] static std::uint32_t FoundAt(Rules rules, const HeldSequence& held, std::size_t common,
                                             std::uint32_t prompt_tokens);
  [[nodiscard]] static std::uint32_t FoundIn(Rules rules, const Prompt& prompt, const HeldSequence& held);
  // The entry of memory that has most of it; its index.
  [[nodiscard]] static std::optional<std::size_t> InMemory(Rules rules, const Prompt& prompt,
                                                           const std::deque<HeldSequence>& memory);
  // The server takes no sequence from memory of which it would use less than a quarter.
  [[nodiscard]] static bool IsTaken(const HeldSequence& held, std::uint32_t found) {
    return 4 * std::uint64_t{found} >= held.tokens;
  }
  // The server keeps such a sequence in memory before it is lost, and then looks there.
  [[nodiscard]] static bool LosesMost(const HeldSequence& held, std::uint32_t found) {
    return held.tokens > 0 && 2 * std::uint64_t{found} < held.tokens;
  }

  enum class Among { kIdle, kAll };
  [[nodiscard]] std::optional<Best> Of(const Prompt& prompt, Among among) const;
  // The same for one slot, where so much was found in memory.
  [[nodiscard]] Best Price(const Prompt& prompt, std::size_t slot, std::uint32_t found, std::uint32_t remembered) const;
  // The price of losing all beyond `found`, in tokens to compute.
  [[nodiscard]] double LossOf(std::size_t slot, std::uint32_t found) const;

  [[nodiscard]] const Rules& rules() const { return rules_; }
  [[nodiscard]] const Memory& memory() const { return memory_; }
  [[nodiscard]] const std::vector<Offer>& offers() const { return offers_; }

 private:
  const Rules rules_;
  const Memory memory_;
  const std::vector<Offer> offers_;
};

}  // namespace roost::worker::adapters
