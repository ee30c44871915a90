#include "router/fleet/evicted.h"

#include <algorithm>
#include <vector>

namespace roost::router {
namespace {

bool Continues(std::span<const BlockHash> chain, const wire::PromptToEvict& prompt) {
  const std::size_t count = prompt.block_hashes.size();
  return count > 0 && chain.size() >= count && chain[count - 1] == prompt.block_hashes.back();
}

bool Continues(const GenerateSpec& spec, const wire::PromptToEvict& prompt) {
  if (spec.generate.root != prompt.root) return false;
  if (!prompt.block_hashes.empty()) return Continues(spec.generate.block_hashes, prompt);
  return spec.generate.prompt.size() >= prompt.tokens.size() &&
         std::equal(prompt.tokens.begin(), prompt.tokens.end(), spec.generate.prompt.begin());
}

bool Holds(std::span<const BlockHash> chain, BlockHash block) {
  return std::find(chain.begin(), chain.end(), block) != chain.end();
}

}  // namespace

bool IsNamed(const EvictOrder& order, const GenerateSpec& spec) {
  const bool is_of_model = spec.model->name == order.model || spec.model->base == order.model;
  if (!order.model.empty() && !is_of_model) return false;
  if (const auto* const tenant = std::get_if<wire::TenantToEvict>(&order.what))
    return spec.generate.tenant == tenant->tenant;
  if (const auto* const block = std::get_if<wire::BlockToEvict>(&order.what)) {
    return Holds(spec.generate.block_hashes, block->hash);
  }
  const auto& prompts = std::get<std::vector<PromptOfRevision>>(order.what);
  return std::any_of(prompts.begin(), prompts.end(),
                     [&spec](const PromptOfRevision& each) { return Continues(spec, each.prompt); });
}

bool MayBeNamed(const EvictOrder& order, std::span<const BlockHash> chain) {
  if (const auto* const block = std::get_if<wire::BlockToEvict>(&order.what)) return Holds(chain, block->hash);
  const auto* const prompts = std::get_if<std::vector<PromptOfRevision>>(&order.what);
  if (prompts == nullptr) return true;
  return std::any_of(prompts->begin(), prompts->end(),
                     [chain](const PromptOfRevision& each) { return Continues(chain, each.prompt); });
}

std::optional<wire::Evict> MessageFor(const EvictOrder& order, std::string_view revision) {
  if (const auto* const tenant = std::get_if<wire::TenantToEvict>(&order.what)) return wire::Evict{.what = *tenant};
  if (const auto* const block = std::get_if<wire::BlockToEvict>(&order.what)) return wire::Evict{.what = *block};
  for (const PromptOfRevision& each : std::get<std::vector<PromptOfRevision>>(order.what)) {
    if (each.model->revision == revision) return wire::Evict{.what = each.prompt};
  }
  return std::nullopt;
}

}  // namespace roost::router
