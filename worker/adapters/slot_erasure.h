// Says which sequences of slots an order to evict names. A slot and a file hold one sequence, which goes as a whole.
//
//   prompt  all that continue its last full block, and those that hold nothing but its front. Of a prompt without a
//   full
//           block all in its scope, because the tokens of a sequence are not kept.
//   tenant  all that its requests have left
//   block   all that have it, and those that hold nothing but what is before it
//
// A sequence that is a front of what is named goes too where more of it may be there than is known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "common/prefix/block_hash.h"
#include "common/wire/messages.h"

namespace roost::worker::adapters {

// Stands for a tenant's name.
[[nodiscard]] BlockHash SlotTenant(std::string_view tenant);

class SlotErasure {
 public:
  explicit SlotErasure(const wire::Evict& order);

  // Takes what is before the block that the order names from a sequence that has it.
  void Learn(std::span<const BlockHash> hashes);
  [[nodiscard]] bool Names(BlockHash root, BlockHash tenant, std::span<const BlockHash> hashes) const;
  // The same for a sequence that is held or saved.
  template <typename Sequence>
  [[nodiscard]] bool Names(const Sequence& sequence) const {
    return Names(sequence.root, sequence.tenant, sequence.hashes);
  }

 private:
  std::optional<BlockHash> tenant_ = {};
  std::optional<BlockHash> root_ = {};  // of a prompt
  std::optional<BlockHash> last_ = {};  // a prompt's last full block, or the block
  std::vector<BlockHash> chain_ = {};   // up to it, as far as it is known
};

}  // namespace roost::worker::adapters
