// The slots that are saved, restored and erased.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "worker/adapters/slots/slot_table.h"

namespace roost::worker::adapters {
namespace {

// Computing a prompt, before anything was computed: that of a small GPU.
constexpr double kFirstTokenSeconds = 1e-3;
// Fewer new tokens are not worth a file.
constexpr std::uint32_t kLeastSavedTokens = 64;

}  // namespace

// ---- slots on disk ----

std::uint32_t SlotTable::busy_count() const {
  return static_cast<std::uint32_t>(std::count_if(slots_.begin(), slots_.end(), [](const Slot& slot) {
    return slot.use == SlotUse::kOurs || slot.use == SlotUse::kForeign;
  }));
}

double SlotTable::TokensOf(double seconds, double seconds_per_token) const {
  return seconds / (seconds_per_token > 0 ? seconds_per_token : kFirstTokenSeconds) * (1 + busy_count());
}

// After a start the engine's pace is that of when the sequence was saved.
double SlotTable::RestorePrice(const SavedSlot& saved, Instant now) const {
  const double then = saved.tokens > 0 ? saved.compute_seconds / saved.tokens : 0;
  return TokensOf(shelf_->RestoreSeconds(saved.bytes, now), seconds_per_token_ > 0 ? seconds_per_token_ : then);
}

void SlotTable::ConsiderShelf(const Prompt& prompt, const SlotChoice& choices, Instant now,
                              std::optional<Choice>& best) const {
  if (shelf_ == nullptr || !best || !prompt.finds_prefix) return;
  const SlotShelf::Match match = shelf_->Find(prompt.root, prompt.hashes, prompt.tokens);
  if (match.saved == nullptr) return;
  const double price = static_cast<double>(prompt.tokens - match.tokens) + RestorePrice(*match.saved, now);
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].use != SlotUse::kIdle) continue;
    const Choice choice{.slot = i, .price = price + choices.LossOf(i, 0), .found = match.tokens, .saved = match.saved};
    if (choice.price < best->price) best = choice;
  }
}

SlotTable::Saving SlotTable::SavingOf(std::size_t slot, std::uint32_t found, Instant now) const {
  const Held& held = slots_[slot].held;
  const std::uint32_t there = std::max(found, shelf_->Holds(held.root, held.hashes, held.tokens));
  if (held.hashes.empty() || held.tokens < there + kLeastSavedTokens) return Saving::kNo;
  if (!shelf_->takes_saves(now)) return Saving::kNotNow;
  const double cost = TokensOf(shelf_->SaveSeconds(held.tokens, now), seconds_per_token_);
  const double gain = Choices(now).LossOf(slot, found) * (held.tokens - there) / (held.tokens - found);
  return gain >= cost ? Saving::kYes : Saving::kNotNow;
}

std::optional<SavedSlot> SlotTable::SaveOf(const Held& held) {
  std::optional<SavedSlot> saved = shelf_->Announce(held.root, held.hashes, held.tokens, seconds_per_token_);
  if (saved) saved->tenant = held.tenant;
  return saved;
}

std::optional<SlotMove> SlotTable::NextSave(Instant now) {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (slot.use != SlotUse::kIdle || !slot.save_due || now < *slot.save_due) continue;
    const Saving saving = SavingOf(i, 0, now);
    slot.save_due.reset();
    if (saving == Saving::kNotNow) slot.save_due = now + shelf_->options().save_after;
    if (saving != Saving::kYes) continue;
    SlotMove move{.slot = static_cast<std::uint32_t>(i), .save = SaveOf(slot.held)};
    if (!move.save) continue;
    SetUse(slot, SlotUse::kMoving);
    return move;
  }
  return std::nullopt;
}

std::optional<Instant> SlotTable::next_save() const {
  std::optional<Instant> next;
  for (const Slot& slot : slots_) {
    if (slot.use == SlotUse::kIdle && slot.save_due && (!next || *slot.save_due < *next)) next = slot.save_due;
  }
  return next;
}

void SlotTable::OnRestored(std::uint32_t slot, const SavedSlot& saved, std::uint32_t tokens, Instant now) {
  Replace(
      slots_[slot].held,
      {.root = saved.root, .tenant = saved.tenant, .hashes = saved.hashes, .tokens = tokens, .hits = 1, .used = now});
}

void SlotTable::OnCleared(std::uint32_t slot) { Replace(slots_[slot].held, {}); }

std::optional<SlotTable::Grant> SlotTable::OnMoved(std::uint32_t slot, Instant now) {
  Slot& moved = slots_[slot];
  SetUse(moved, SlotUse::kIdle);
  now_ = now;
  moved.changed = now;
  if (!moved.request) return std::nullopt;
  Wanted wanted = *std::exchange(moved.request, std::nullopt);
  return Place(slot, std::move(wanted), now);
}

// ---- orders to evict ----

// The blocks that only those of `held` have are free once it is gone.
SlotTable::Erased SlotTable::Erase(const SlotErasure& erasure) {
  Erased erased;
  const auto take = [&](Held& held, std::uint32_t& count) {
    const std::size_t before = blocks_.size();
    Replace(held, {});
    count += static_cast<std::uint32_t>(before - blocks_.size());
  };
  for (Wanted& wanted : queue_) wanted.is_erased = wanted.is_erased || erasure.Names(wanted);
  for (auto held = memory_.begin(); held != memory_.end();) {
    const bool is_named = erasure.Names(*held);
    if (is_named) take(*held, erased.free_blocks);
    held = is_named ? memory_.erase(held) : held + 1;
  }
  erased.may_stay = memory_has_shown_;
  for (Slot& slot : slots_) {
    const bool is_held = erasure.Names(slot.held);
    if (slot.request && (erasure.Names(*slot.request) || (is_held && slot.use == SlotUse::kOurs))) {
      slot.request->is_erased = true;
    }
    if (!is_held) continue;
    const bool is_ours = slot.use == SlotUse::kOurs;
    take(slot.held, is_ours ? erased.busy_blocks : erased.free_blocks);
    slot.save_due.reset();
    slot.to_erase = slot.to_erase || (!is_ours && slot.use != SlotUse::kMoving);
  }
  return erased;
}

bool SlotTable::Holds(std::uint32_t slot, const SlotErasure& erasure) const { return erasure.Names(slots_[slot].held); }

void SlotTable::Teach(SlotErasure& erasure) const {
  for (const Slot& slot : slots_) {
    erasure.Learn(slot.held.hashes);
    if (slot.request) erasure.Learn(slot.request->hashes);
  }
  for (const Held& held : memory_) erasure.Learn(held.hashes);
  for (const Wanted& wanted : queue_) erasure.Learn(wanted.hashes);
}

std::optional<SlotMove> SlotTable::NextErase() {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (!slot.to_erase || slot.use == SlotUse::kOurs || slot.use == SlotUse::kMoving) continue;
    slot.to_erase = false;
    SetUse(slot, SlotUse::kMoving);
    return SlotMove{.slot = static_cast<std::uint32_t>(i), .erases = true};
  }
  return std::nullopt;
}

}  // namespace roost::worker::adapters
