#include "worker/adapters/slot_erasure.h"

#include <algorithm>
#include <string>
#include <variant>

#include "worker/adapters/engine_protocol.h"
#include "worker/adapters/slot_shelf.h"

namespace roost::worker::adapters {

BlockHash SlotTenant(std::string_view tenant) {
  return RootHash({.fingerprint = "", .adapter = "", .tenant = std::string(tenant), .salt = "", .kv_dtype = ""});
}

SlotErasure::SlotErasure(const wire::Evict& order) {
  if (const auto* const tenant = std::get_if<wire::TenantToEvict>(&order.what)) {
    tenant_ = SlotTenant(tenant->tenant);
  } else if (const auto* const block = std::get_if<wire::BlockToEvict>(&order.what)) {
    last_ = block->hash;
  } else if (const auto* const prompt = std::get_if<wire::PromptToEvict>(&order.what)) {
    root_ = prompt->root;
    chain_ = prompt->block_hashes.size() == prompt->tokens.size() / kGrainTokens
                 ? prompt->block_hashes
                 : HashBlocks(prompt->root, prompt->own, prompt->tokens, kGrainTokens);
    if (!chain_.empty()) last_ = chain_.back();
  }
}

void SlotErasure::Learn(std::span<const BlockHash> hashes) {
  if (!last_ || !chain_.empty()) return;
  const auto found = std::find(hashes.begin(), hashes.end(), *last_);
  if (found != hashes.end()) chain_.assign(hashes.begin(), found + 1);
}

bool SlotErasure::Names(BlockHash root, BlockHash tenant, std::span<const BlockHash> hashes) const {
  if (tenant_) return tenant == *tenant_;
  if (!last_) return root == *root_;
  if (std::find(hashes.begin(), hashes.end(), *last_) != hashes.end()) return true;
  const bool is_front = CommonBlocks(hashes, chain_) == hashes.size();
  return is_front && (root_ ? root == *root_ : root != BlockHash());
}

}  // namespace roost::worker::adapters
