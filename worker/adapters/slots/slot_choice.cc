#include "worker/adapters/slots/slot_choice.h"

#include <algorithm>
#include <iterator>

#include "worker/adapters/engine_protocol.h"
#include "worker/adapters/slots/slot_shelf.h"

namespace roost::worker::adapters {
namespace {

// The way of a sequence from memory costs this share of computing it.
constexpr double kMemoryCost = 0.25;

}  // namespace

std::uint32_t SlotChoice::FoundAt(Rules rules, const HeldSequence& held, std::size_t common,
                                  std::uint32_t prompt_tokens) {
  const std::uint32_t most = std::max(prompt_tokens, 1U) - 1;  // the last token is computed always
  const auto whole = static_cast<std::uint32_t>(common) * kGrainTokens;
  if (!rules.goes_on_at_points || common == 0) return std::min(whole, most);
  const bool is_end = common == held.hashes.size() && held.tokens <= most;
  if (is_end && !held.has_more && held.tokens > rules.window) return held.tokens;
  const std::uint32_t reached = std::min({whole + kGrainTokens - 1, held.tokens, most});
  const auto beyond = std::upper_bound(held.points.begin(), held.points.end(), reached);
  return beyond == held.points.begin() ? 0 : *std::prev(beyond);
}

std::uint32_t SlotChoice::FoundIn(Rules rules, const Prompt& prompt, const HeldSequence& held) {
  if (!prompt.finds_prefix || held.root != prompt.root) return 0;
  return FoundAt(rules, held, CommonBlocks(prompt.hashes, held.hashes), prompt.tokens);
}

std::optional<std::size_t> SlotChoice::InMemory(Rules rules, const Prompt& prompt,
                                                const std::deque<HeldSequence>& memory) {
  std::optional<std::size_t> best;
  std::uint32_t most = 0;
  for (std::size_t i = 0; i < memory.size(); ++i) {
    const std::uint32_t found = FoundIn(rules, prompt, memory[i]);
    if (found <= most || !IsTaken(memory[i], found)) continue;
    most = found;
    best = i;
  }
  return best;
}

double SlotChoice::LossOf(std::size_t slot, std::uint32_t found) const {
  const Offer& offer = offers_[slot];
  const HeldSequence& held = *offer.held;
  if (held.tokens <= found) return 0;
  const bool is_kept = memory_.has_shown && LosesMost(held, found);
  const double lost = static_cast<double>(held.tokens - found) * (is_kept ? kMemoryCost : 1);
  return offer.chance * std::min(lost, offer.most_loss);
}

// After another tenant's request all is computed anew.
SlotChoice::Best SlotChoice::Price(const Prompt& prompt, std::size_t slot, std::uint32_t found,
                                   std::uint32_t remembered) const {
  const HeldSequence& held = *offers_[slot].held;
  const bool uses_memory = held.root == prompt.root && LosesMost(held, found);
  const std::uint32_t expected = uses_memory ? std::max(found, remembered) : found;
  return {.slot = slot,
          .price = static_cast<double>(prompt.tokens - expected) + LossOf(slot, found),
          .found = found,
          .expected = expected};
}

std::optional<SlotChoice::Best> SlotChoice::Of(const Prompt& prompt, Among among) const {
  const std::optional<std::size_t> entry =
      memory_.has_shown ? InMemory(rules_, prompt, memory_.sequences) : std::optional<std::size_t>();
  const std::uint32_t remembered = entry ? FoundIn(rules_, prompt, memory_.sequences[*entry]) : 0;
  std::optional<Best> best;
  for (std::size_t i = 0; i < offers_.size(); ++i) {
    if (among == Among::kIdle && !offers_[i].is_idle) continue;
    const Best one = Price(prompt, i, FoundIn(rules_, prompt, *offers_[i].held), remembered);
    if (!best || one.price < best->price) best = one;
  }
  return best;
}

}  // namespace roost::worker::adapters
