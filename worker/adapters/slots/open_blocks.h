// Finds the blocks behind which a prompt goes on: those of which it would find all, by the choice of its slot. Routers
// are told of these as resumable (wire::Hello::checkpoints).
//
//   slot 0  S S A A A A A A A A     a new chat behind S S gets the empty slot, so it finds nothing: S is not open.
//   slot 1                          A's next turn gets slot 0: A is open.
//
// A prompt is told by its blocks alone, so the answer is the same for all sequences that share them. Asked are the
// blocks in which a sequence ends or has a checkpoint, or, where the server goes on anywhere, all of them.
//
// SlotChoice::Of would compare each question with all sequences. Sorted by their blocks, those that share them are
// neighbours, and only they can have as much; a part that several share is asked once, and where the server goes on
// anywhere the answer changes at most once between two blocks at which others part, so it is searched for.
#pragma once

#include <cstddef>
#include <vector>

#include "worker/adapters/slots/slot_choice.h"

namespace roost::worker::adapters {

// Adds blocks behind those of ascending runs.
void AddRun(std::vector<BlockRun>& runs, BlockRun more);

// The blocks that are asked for sequences with checkpoints: their numbers from 1 on, ascending.
[[nodiscard]] std::vector<std::size_t> EndsOf(const HeldSequence& held);

// The open blocks of each slot's sequence, then of each in memory; runs ascend.
[[nodiscard]] std::vector<std::vector<BlockRun>> FindOpen(const SlotChoice& choice);

}  // namespace roost::worker::adapters
