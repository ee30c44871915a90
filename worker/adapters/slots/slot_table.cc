#include "worker/adapters/slots/slot_table.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <utility>

#include "worker/adapters/slots/open_blocks.h"

namespace roost::worker::adapters {
namespace {

// So many waiting calls are looked at for the slot that the first would take, and so often it is overtaken.
constexpr std::size_t kLookedAt = 16;
constexpr std::uint32_t kMostOvertaken = 4;
// A server that tells nothing of its slots has noticed the end of a call after this long.
constexpr Duration kLongestEnd = std::chrono::seconds(5);
constexpr int kIdlePages = 2;
// The chance that a sequence is asked for again halves within this time.
constexpr double kHalfLifeSeconds = 60;
constexpr std::size_t kMaxMemoryEntries = 256;
constexpr std::uint64_t kMemoryGrowth = 32;
// The server keeps a checkpoint before each of the batches that end a prompt: the last has 4 tokens, the one before at
// most a physical batch of its default size.
constexpr std::uint32_t kLastBatch = 4;
constexpr std::uint32_t kBatchBefore = 512;
constexpr std::size_t kMostPoints = 32;   // of a slot, by default
constexpr std::size_t kMaxHashes = 1024;  // of an event

// Calls it for each block of these runs that is in none of those.
template <typename Call>
void ForBlocksBeyond(const std::vector<BlockRun>& these, const std::vector<BlockRun>& those, const Call& call) {
  auto other = those.begin();
  for (const BlockRun& run : these) {
    for (std::size_t block = run.first; block <= run.last; ++block) {
      while (other != those.end() && other->last < block) ++other;
      if (other != those.end() && other->first <= block) {
        block = other->last;  // at most beyond the run
      } else {
        call(block);
      }
    }
  }
}

// The checkpoints of a prompt of `end` tokens of which `found` were there. A full list loses those that are closer than
// --checkpoint-min-step, which it does not tell: all but the first may go.
void AddPoints(std::vector<std::uint32_t>& points, std::uint32_t found, std::uint32_t end) {
  const std::uint32_t last = end > kLastBatch ? end - kLastBatch : 0;
  const std::uint32_t before = last > kBatchBefore ? last - kBatchBefore : 0;
  if (points.size() + 2 >= kMostPoints) points.resize(1);
  for (const std::uint32_t point : {std::max(found, before), std::max(found, last)}) {
    if (point > 0 && (points.empty() || points.back() < point)) points.push_back(point);
  }
}

}  // namespace

SlotTable::SlotTable(Options options, std::unique_ptr<SlotShelf> shelf)
    : options_(options),
      rules_{.goes_on_at_points = options.goes_on_at_points, .window = options.window},
      slots_(options.slot_count),
      memory_limit_(MostMemory()),
      shelf_(std::move(shelf)) {}

std::uint64_t SlotTable::MostMemory() const {
  // Blocks that come are counted before those that go.
  return (kRoomFactor - 2) * std::uint64_t{options_.slot_count} * std::max<std::uint64_t>(options_.context_tokens, 1);
}

// ---- the queue ----

void SlotTable::Enqueue(CallId call, const wire::Generate& generate) {
  const std::size_t whole = generate.prompt.size() / kGrainTokens;
  Wanted wanted{.call = call,
                .root = generate.root,
                .tenant = SlotTenant(generate.tenant),
                .own = generate.own,
                .tokens = static_cast<std::uint32_t>(generate.prompt.size()),
                .finds_prefix = generate.cache_mode != wire::CacheMode::kOff,
                .priority = generate.priority,
                .return_time = std::chrono::milliseconds(std::min(generate.expect_return_ms, wire::kMaxKeepMs))};
  wanted.hashes = generate.block_hashes.size() == whole
                      ? generate.block_hashes
                      : HashBlocks(generate.root, generate.own, generate.prompt, kGrainTokens);
  wanted.tail.assign(generate.prompt.begin() + static_cast<std::ptrdiff_t>(whole * kGrainTokens),
                     generate.prompt.end());
  const auto place = std::find_if(queue_.begin(), queue_.end(),
                                  [&wanted](const Wanted& other) { return other.priority < wanted.priority; });
  queue_.insert(place, std::move(wanted));
}

std::optional<SlotTable::Grant> SlotTable::Next(Instant now) {
  for (Slot& slot : slots_) {
    if (slot.use == SlotUse::kEnding && now - slot.changed >= kLongestEnd) SetUse(slot, SlotUse::kIdle);
  }
  now_ = now;
  if (queue_.empty()) return std::nullopt;
  std::optional<Choice> best = Best(PromptOf(queue_.front()), now);
  if (!best) return std::nullopt;
  // A call that finds more in the slot of the first goes before it.
  std::size_t pick = 0;
  if (queue_.front().overtaken < kMostOvertaken) {
    std::uint32_t most = best->found;
    for (std::size_t i = 1; i < std::min(queue_.size(), kLookedAt); ++i) {
      const std::uint32_t found = FoundIn(PromptOf(queue_[i]), slots_[best->slot].held);
      if (found <= most) continue;
      most = found;
      pick = i;
    }
  }
  if (pick > 0) {
    ++queue_.front().overtaken;
    best = Best(PromptOf(queue_[pick]), now);
  }
  Wanted wanted = std::move(queue_[pick]);
  queue_.erase(queue_.begin() + static_cast<std::ptrdiff_t>(pick));
  return Begin(*best, std::move(wanted), now);
}

// ---- which slot ----

SlotTable::Prompt SlotTable::PromptOf(const Wanted& wanted) {
  return {.root = wanted.root, .hashes = wanted.hashes, .tokens = wanted.tokens, .finds_prefix = wanted.finds_prefix};
}

SlotChoice SlotTable::Choices(Instant now) const {
  std::vector<SlotChoice::Offer> offers;
  offers.reserve(slots_.size());
  for (const Slot& slot : slots_) {
    const Held& held = slot.held;
    const double age = ToSeconds(std::max(now - held.used, Duration(0)));
    // One that is expected back is as good as used just now until then.
    const double unused = held.returns && now < *held.returns ? 0 : age;
    const double used_again = (held.hits + 2.0) / (held.hits + 3.0);
    SlotChoice::Offer& offer = offers.emplace_back();
    offer = {.held = &held,
             .chance = used_again * kHalfLifeSeconds / (kHalfLifeSeconds + unused),
             .is_idle = slot.use == SlotUse::kIdle};
    if (shelf_ != nullptr && shelf_->Holds(held.root, held.hashes, held.tokens) == held.tokens) {
      offer.most_loss = TokensOf(shelf_->RestoreSeconds(shelf_->BytesOf(held.tokens), now), seconds_per_token_);
    }
  }
  return {rules_, {.sequences = memory_, .has_shown = memory_has_shown_}, std::move(offers)};
}

std::optional<SlotTable::Choice> SlotTable::Best(const Prompt& prompt, Instant now) const {
  const SlotChoice choices = Choices(now);
  const std::optional<SlotChoice::Best> slot = choices.Of(prompt, Among::kIdle);
  if (!slot) return std::nullopt;
  std::optional<Choice> best = Choice{.slot = slot->slot, .price = slot->price, .found = slot->found};
  ConsiderShelf(prompt, choices, now, best);
  return best;
}

// ---- a request in its slot ----

SlotTable::Grant SlotTable::Begin(const Choice& choice, Wanted wanted, Instant now) {
  Slot& slot = slots_[choice.slot];
  SlotMove move{.slot = static_cast<std::uint32_t>(choice.slot)};
  if (choice.saved != nullptr) move.restore = *choice.saved;
  const std::uint32_t kept = choice.saved != nullptr ? 0 : choice.found;
  if (shelf_ != nullptr && slot.save_due && SavingOf(choice.slot, kept, now) == Saving::kYes) {
    move.save = SaveOf(slot.held);
  }
  if (!move.save && !move.restore) return Place(choice.slot, std::move(wanted), now);
  SetUse(slot, SlotUse::kMoving);
  slot.save_due.reset();
  Grant grant{.call = wanted.call, .slot = static_cast<std::uint32_t>(choice.slot), .move = std::move(move)};
  slot.request = std::move(wanted);
  return grant;
}

SlotTable::Held SlotTable::PrefixOf(const Wanted& wanted, const Held& before, std::uint32_t tokens, Instant now) const {
  Held held{.root = wanted.root, .tenant = wanted.tenant, .tokens = tokens, .hits = before.hits, .used = now};
  const std::size_t whole = std::min<std::size_t>(tokens / kGrainTokens, wanted.hashes.size());
  held.hashes.assign(wanted.hashes.begin(), wanted.hashes.begin() + static_cast<std::ptrdiff_t>(whole));
  // A window goes on one token before its checkpoint.
  for (const std::uint32_t point : before.points) {
    if (point <= tokens + (options_.window > 0 ? 1 : 0)) held.points.push_back(point);
  }
  return held;
}

SlotTable::Grant SlotTable::Place(std::size_t index, Wanted wanted, Instant now) {
  Slot& slot = slots_[index];
  const Held before = slot.held;
  const Prompt prompt = PromptOf(wanted);
  std::uint32_t found = FoundIn(prompt, before);
  slot.younger_tokens.reset();
  Held next = PrefixOf(wanted, before, found, now);
  if (has_memory_ && SlotChoice::LosesMost(before, found)) {
    const std::optional<std::size_t> entry =
        before.root == prompt.root ? SlotChoice::InMemory(rules_, prompt, memory_) : std::optional<std::size_t>();
    if (entry && FoundIn(prompt, memory_[*entry]) > found) {
      found = FoundIn(prompt, memory_[*entry]);
      slot.younger_tokens = 0;
      for (std::size_t i = *entry + 1; i < memory_.size(); ++i) *slot.younger_tokens += memory_[i].tokens;
      next = PrefixOf(wanted, memory_[*entry], found, now);
      Enter(next);
      Leave(memory_[*entry]);
      memory_.erase(memory_.begin() + static_cast<std::ptrdiff_t>(*entry));
    } else {
      Enter(next);
    }
    Keep(before);
    Leave(before);
    slot.held = std::move(next);
  } else {
    Replace(slot.held, std::move(next));
  }
  KeepIdle(index);
  const bool is_own = before.tokens == 0 || before.root == wanted.root;
  Grant grant{
      .call = wanted.call, .slot = static_cast<std::uint32_t>(index), .finds_prefix = wanted.finds_prefix && is_own};
  SetUse(slot, SlotUse::kOurs);
  slot.save_due.reset();
  slot.promised = found;
  const std::size_t common = before.root == wanted.root ? CommonBlocks(wanted.hashes, before.hashes) : 0;
  slot.before_its_end =
      common > 0 ? std::min((static_cast<std::uint32_t>(common) + 1) * kGrainTokens, before.tokens) : 0;
  slot.is_computed = false;
  slot.task.reset();
  slot.changed = now;
  slot.request = std::move(wanted);
  return grant;
}

// ---- the server's memory ----

// It copies idle slots whenever a task begins.
void SlotTable::KeepIdle(std::size_t except) {
  if (!has_memory_) return;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (i != except && slots_[i].use == SlotUse::kIdle) Keep(slots_[i].held);
  }
}

void SlotTable::Keep(const Held& held) {
  if (held.hashes.empty()) return;
  const auto is_within = [](const Held& part, const Held& whole) {
    return part.root == whole.root && CommonBlocks(part.hashes, whole.hashes) == part.hashes.size();
  };
  for (const Held& entry : memory_) {
    if (is_within(held, entry)) return;
  }
  memory_.push_back(held);
  Enter(memory_.back());
  for (std::size_t i = 0; i + 1 < memory_.size();) {
    if (!is_within(memory_[i], held)) {
      ++i;
      continue;
    }
    Leave(memory_[i]);
    memory_.erase(memory_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  TrimMemory();
}

void SlotTable::TrimMemory() {
  std::uint64_t tokens = 0;
  for (const Held& held : memory_) tokens += held.tokens;
  while (!memory_.empty() && (tokens > memory_limit_ || memory_.size() > kMaxMemoryEntries)) {
    tokens -= memory_.front().tokens;
    Leave(memory_.front());
    memory_.pop_front();
  }
}

// ---- what the server tells ----

SlotTable::Slot* SlotTable::SlotOf(CallId call) {
  for (Slot& slot : slots_) {
    if (slot.request && slot.request->call == call) return &slot;
  }
  return nullptr;
}

void SlotTable::OnFound(CallId call, std::uint32_t tokens) {
  Slot* const slot = SlotOf(call);
  if (slot == nullptr || slot->is_computed) return;
  const Wanted& wanted = *slot->request;
  tokens = std::min(tokens, wanted.tokens);
  if (tokens >
      std::max(slot->promised + kGrainTokens, slot->before_its_end)) {  // from memory of which nothing was known
    // Where there seemed to be none, nothing is known of its room.
    memory_limit_ = has_memory_ ? std::min(std::max<std::uint64_t>(memory_limit_, tokens), MostMemory()) : MostMemory();
    has_memory_ = true;
    memory_has_shown_ = true;
  } else if (slot->younger_tokens && tokens + kGrainTokens > slot->promised) {
    memory_limit_ = std::min(memory_limit_ + memory_limit_ / kMemoryGrowth, MostMemory());
    memory_has_shown_ = true;
  } else if (slot->younger_tokens) {
    // The oldest go first: there is no room for it beside the younger ones. Or there is no memory.
    memory_limit_ = memory_has_shown_ ? *slot->younger_tokens : 0;
    has_memory_ = memory_limit_ > 0;
    TrimMemory();
  }
  slot->younger_tokens.reset();
  if (tokens > slot->promised) ++slot->held.hits;
  if (wanted.is_erased) tokens = std::min(tokens, slot->held.tokens);
  Held next = PrefixOf(wanted, slot->held, tokens, slot->changed);
  // The server went on in the middle of what was there, so it has a checkpoint there; a window may do without.
  const bool has_points = options_.goes_on_at_points && options_.window == 0;
  const bool is_point = has_points && tokens > 0 && tokens < slot->before_its_end;
  if (is_point && (next.points.empty() || next.points.back() < tokens)) next.points.push_back(tokens);
  Replace(slot->held, std::move(next));
}

void SlotTable::OnComputed(CallId call) {
  Slot* const slot = SlotOf(call);
  if (slot == nullptr || std::exchange(slot->is_computed, true) || slot->request->is_erased) return;
  const Wanted& wanted = *slot->request;
  Held next = PrefixOf(wanted, slot->held, wanted.tokens, slot->changed);
  if (options_.goes_on_at_points) AddPoints(next.points, slot->held.tokens, wanted.tokens);
  if (slot->promised > 0) ++next.hits;
  Replace(slot->held, std::move(next));
}

// The last token that was drawn is not computed.
void SlotTable::OnEnd(CallId call, std::span<const TokenId> output, EndKind how, Instant now) {
  std::erase_if(queue_, [call](const Wanted& wanted) { return wanted.call == call; });
  Slot* const slot = SlotOf(call);
  if (slot == nullptr) return;
  if (slot->use == SlotUse::kMoving) return slot->request.reset();
  const Wanted& wanted = *slot->request;
  if (wanted.is_erased) {
    Replace(slot->held, {});
    slot->to_erase = true;
  } else if (slot->is_computed && !output.empty()) {
    Held next = slot->held;
    std::vector<TokenId> tail = wanted.tail;
    tail.insert(tail.end(), output.begin(), output.end() - 1);
    next.tokens = wanted.tokens + static_cast<std::uint32_t>(output.size()) - 1;
    for (std::size_t at = 0; at + kGrainTokens <= tail.size(); at += kGrainTokens) {
      const BlockHash last = next.hashes.empty() ? BlockHash() : next.hashes.back();
      const auto index = static_cast<std::uint32_t>(next.hashes.size());
      next.hashes.push_back(ChainHash(ParentOf(index, wanted.root, wanted.own, last),
                                      std::span<const TokenId>(tail).subspan(at, kGrainTokens)));
    }
    if (wanted.return_time > Duration(0)) next.returns = now + wanted.return_time;
    Replace(slot->held, std::move(next));
  }
  slot->held.used = now;
  SetUse(*slot, how == EndKind::kCut ? SlotUse::kEnding : SlotUse::kIdle);
  now_ = now;
  slot->idle_pages = 0;
  slot->held.has_more = how != EndKind::kComplete;
  const bool can_be_saved = how == EndKind::kComplete || (how == EndKind::kLonger && !options_.goes_on_at_points);
  if (shelf_ != nullptr && can_be_saved && !slot->to_erase) {
    slot->save_due = now + shelf_->options().save_after;
  }
  slot->changed = now;
  slot->request.reset();
}

// A page that was asked for after a slot's last request had ended shows what that has left, or another client's task.
void SlotTable::OnSlots(std::span<const SlotState> states, Instant asked) {
  for (std::size_t i = 0; i < std::min(states.size(), slots_.size()); ++i) {
    Slot& slot = slots_[i];
    const SlotState& state = states[i];
    if (slot.use == SlotUse::kOurs || slot.use == SlotUse::kMoving || asked <= slot.changed) continue;
    if (slot.use == SlotUse::kEnding) {
      slot.idle_pages = state.is_busy ? 0 : slot.idle_pages + 1;
      if (slot.idle_pages >= kIdlePages) SetUse(slot, SlotUse::kIdle);
      continue;
    }
    const std::optional<std::uint32_t> task_before = std::exchange(slot.task, state.task);
    const bool is_new = task_before && state.task && *task_before != *state.task;
    const bool goes_on = slot.held.has_more && state.held_tokens > slot.held.tokens;
    const bool is_odd = state.task && state.held_tokens != slot.held.tokens && !goes_on;
    if (slot.use == SlotUse::kForeign && !state.is_busy) SetUse(slot, SlotUse::kIdle);
    const bool is_busy = state.is_busy && slot.use == SlotUse::kIdle;
    if (is_new || is_busy || (is_odd && !state.is_busy)) OnForeign(slot, state);
  }
}

std::uint32_t SlotTable::foreign_count() const {
  return static_cast<std::uint32_t>(
      std::count_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.use == SlotUse::kForeign; }));
}

void SlotTable::SetUse(Slot& slot, SlotUse use) {
  slot.use = use;
  open_may_differ_ = true;
}

// The slot keeps what the task found there. A task that is over no longer tells it.
void SlotTable::OnForeign(Slot& slot, const SlotState& state) {
  SetUse(slot, state.is_busy ? SlotUse::kForeign : SlotUse::kIdle);
  slot.save_due.reset();
  const std::uint32_t kept = state.is_busy ? std::min(state.kept_tokens, slot.held.tokens) : 0;
  if (has_memory_ && state.is_busy && SlotChoice::LosesMost(slot.held, kept)) Keep(slot.held);
  Held next = slot.held;
  next.has_more = true;
  next.tokens = kept;
  next.hashes.resize(std::min<std::size_t>(next.hashes.size(), kept / kGrainTokens));
  std::erase_if(next.points, [kept](std::uint32_t point) { return point > kept; });
  Replace(slot.held, std::move(next));
}

void SlotTable::OnEngineRestart(Instant) {
  for (Slot& slot : slots_) {
    if (slot.use == SlotUse::kOurs) continue;  // since the engine is back
    Leave(slot.held);
    slot = {};
  }
  for (const Held& held : memory_) Leave(held);
  memory_.clear();
  has_memory_ = true;
  memory_has_shown_ = false;
  memory_limit_ = MostMemory();
}

// ---- what routers are told ----

void SlotTable::Enter(Held& held) {
  std::size_t first = held.hashes.size();  // of the new ones
  held.told.clear();
  for (std::size_t i = 0; i < held.hashes.size(); ++i) {
    Block& block = blocks_[held.hashes[i]];
    if (block.is_open && !options_.goes_on_at_points) AddRun(held.told, {i + 1, i + 1});
    if (block.holders++ > 0) continue;
    first = std::min(first, i);
    digest_ = digest_ ^ held.hashes[i];
  }
  for (const std::size_t end : options_.goes_on_at_points ? EndsOf(held) : std::vector<std::size_t>()) {
    Block& block = blocks_.at(held.hashes[end - 1]);
    ++block.ends;
    if (block.is_open) AddRun(held.told, {end, end});
  }
  open_may_differ_ = true;
  // A holder of a block holds all before it, so the new ones are the last.
  Tell(wire::CacheEvent::Kind::kStored, std::span(held.hashes).subspan(first), first);
}

void SlotTable::Leave(const Held& held) {
  std::vector<BlockHash> removed;
  std::vector<BlockHash> closed;
  for (const std::size_t end : options_.goes_on_at_points ? EndsOf(held) : std::vector<std::size_t>()) {
    Block& block = blocks_.at(held.hashes[end - 1]);
    if (--block.ends > 0 || block.holders == 1 || !std::exchange(block.is_open, false)) continue;
    closed.push_back(held.hashes[end - 1]);
  }
  for (std::size_t i = held.hashes.size(); i-- > 0;) {
    const auto block = blocks_.find(held.hashes[i]);
    if (--block->second.holders > 0) continue;
    digest_ = digest_ ^ held.hashes[i];
    if (block->second.is_open) resumable_digest_ = resumable_digest_ ^ held.hashes[i];
    removed.push_back(held.hashes[i]);
    blocks_.erase(block);
  }
  for (const BlockHash hash : closed) resumable_digest_ = resumable_digest_ ^ hash;
  open_may_differ_ = true;
  Tell(wire::CacheEvent::Kind::kUnresumable, closed);
  Tell(wire::CacheEvent::Kind::kRemoved, removed);
}

void SlotTable::Replace(Held& held, Held next) {
  Enter(next);
  Leave(held);
  held = std::move(next);
}

// Only blocks whose answer differs from what is told are looked up.
void SlotTable::TellOpen() {
  if (!std::exchange(open_may_differ_, false)) return;
  std::vector<std::vector<BlockRun>> open = FindOpen(Choices(now_));
  std::vector<BlockHash> opened;
  std::vector<BlockHash> closed;
  std::size_t number = 0;
  const auto tell = [&](Held& held) {
    std::vector<BlockRun>& runs = open[number++];
    if (runs == held.told) return;
    const auto set = [&](std::size_t block, bool is_open, std::vector<BlockHash>& changed) {
      const BlockHash hash = held.hashes[block - 1];
      if (std::exchange(blocks_.at(hash).is_open, is_open) == is_open) return;
      changed.push_back(hash);
      resumable_digest_ = resumable_digest_ ^ hash;
    };
    ForBlocksBeyond(held.told, runs, [&](std::size_t block) { set(block, false, closed); });
    ForBlocksBeyond(runs, held.told, [&](std::size_t block) { set(block, true, opened); });
    held.told = std::move(runs);
  };
  for (Slot& slot : slots_) tell(slot.held);
  for (Held& held : memory_) tell(held);
  Tell(wire::CacheEvent::Kind::kUnresumable, closed);
  Tell(wire::CacheEvent::Kind::kResumable, opened);
}

void SlotTable::Tell(wire::CacheEvent::Kind kind, std::span<const BlockHash> hashes, std::size_t position) {
  for (std::size_t begin = 0; begin < hashes.size(); begin += kMaxHashes) {
    const std::span<const BlockHash> part = hashes.subspan(begin, std::min(kMaxHashes, hashes.size() - begin));
    wire::CacheEvent& event = events_.emplace_back();
    event.kind = kind;
    const std::vector<BlockHash> list(part.begin(), part.end());
    switch (kind) {
      case wire::CacheEvent::Kind::kStored:
        event.stored = {.first_position = static_cast<std::uint32_t>(position + begin), .hashes = list};
        break;
      case wire::CacheEvent::Kind::kRemoved: event.removed = list; break;
      case wire::CacheEvent::Kind::kResumable: event.resumable = list; break;
      case wire::CacheEvent::Kind::kUnresumable: event.unresumable = list; break;
      case wire::CacheEvent::Kind::kDiskStored:
      case wire::CacheEvent::Kind::kDiskRemoved: break;
    }
  }
}

std::vector<wire::CacheEvent> SlotTable::TakeEvents() {
  TellOpen();
  std::vector<wire::CacheEvent> events = std::exchange(events_, {});
  if (shelf_ == nullptr) return events;
  std::vector<wire::CacheEvent> shelved = shelf_->TakeEvents();
  std::move(shelved.begin(), shelved.end(), std::back_inserter(events));
  return events;
}

std::vector<wire::StoredRun> SlotTable::DiskSnapshot() const {
  return shelf_ == nullptr ? std::vector<wire::StoredRun>() : shelf_->Snapshot();
}

std::vector<wire::StoredRun> SlotTable::Snapshot() const {
  std::vector<wire::StoredRun> runs;
  std::unordered_map<BlockHash, bool, BlockHashHasher> told;
  const auto add = [&](const Held& held) {
    std::size_t first = 0;
    while (first < held.hashes.size() && told[held.hashes[first]]) ++first;
    for (std::size_t begin = first; begin < held.hashes.size(); begin += kMaxHashes) {
      const std::size_t count = std::min(kMaxHashes, held.hashes.size() - begin);
      const auto from = held.hashes.begin() + static_cast<std::ptrdiff_t>(begin);
      runs.push_back({.first_position = static_cast<std::uint32_t>(begin),
                      .hashes = {from, from + static_cast<std::ptrdiff_t>(count)}});
    }
    for (const BlockHash hash : held.hashes) told[hash] = true;
  };
  for (const Slot& slot : slots_) add(slot.held);
  for (const Held& held : memory_) add(held);
  return runs;
}

std::vector<BlockHash> SlotTable::Resumable() const {
  std::vector<BlockHash> open;
  for (const auto& [hash, block] : blocks_) {
    if (block.is_open) open.push_back(hash);
  }
  return open;
}

}  // namespace roost::worker::adapters
