// The slots of an engine that answers each request in one of a few, where the caller names the slot (llama.cpp's
// server). A slot holds one sequence: the prompt and the output of its last request. The next one there goes on behind
// what both have in common, and the rest is lost.
//
//   queue  r5 r4 ──► slot 0  busy: r3
//                    slot 1  idle, holds ABCDEF     r4 = ABCxy: 3 grains are found, DEF is lost
//                    slot 2  idle, empty
//
// Beside its slots the server may keep sequences that they would lose in memory, the oldest of which go first
// (--cache-ram). How much it keeps it does not tell: what it finds and what it does not says so.
//
// The table is also the block source of the host: routers see what slots and memory hold as blocks of kGrainTokens. It
// is what the requests of this worker should have left there, corrected by what each of them found; other clients'
// tasks are seen on the server's page.
//
// Where layers have windows or a recurrent state (`goes_on_at_points`), the server goes on only at the end of what a
// slot holds or at one of its checkpoints. As resumable routers are told of those for which a prompt would get that
// slot, not of those in a slot that holds too much else; of full attention likewise, block by block (open_blocks.h).
//
// With a shelf (slot_shelf.h) sequences are also on disk. A slot is saved once it was idle for a while, or before a
// request takes it, where what that may spare is more than the time in which the server does nothing else. A request
// whose prefix lies there gets it restored first, where that is quicker than computing it. While a slot moves so, it is
// taken; the caller moves it and says when it is done.
//
// Sequences that an order to evict names (SlotErasure) leave at once, and their slots are taken until the server has
// erased them. Requests that are named go on, and their slots are erased behind them.
//
// Not thread-safe. A call costs O((slots + entries of the shelf) · blocks of a prompt).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/prefix/block_hash.h"
#include "common/wire/messages.h"
#include "worker/adapters/block_source.h"
#include "worker/adapters/engine_protocol.h"
#include "worker/adapters/http_port.h"
#include "worker/adapters/slots/slot_choice.h"
#include "worker/adapters/slots/slot_files.h"
#include "worker/adapters/slots/slot_shelf.h"

namespace roost::worker::adapters {

// Steps of the server with a slot: it saves the sequence there, then restores another one, or erases what it holds.
struct SlotMove {
  std::uint32_t slot = 0;
  std::optional<SavedSlot> save = {};
  std::optional<SavedSlot> restore = {};
  bool erases = false;
};

class SlotTable final : public BlockSource {
 public:
  // So many times the slots' room is told of at most: the server's memory has the rest.
  static constexpr std::uint32_t kRoomFactor = 4;

  struct Options {
    std::uint32_t slot_count = 1;
    std::uint32_t context_tokens = 0;  // of each
    bool goes_on_at_points = false;
    std::uint32_t window = 0;  // a slot with no more tokens is gone on with at checkpoints alone
  };
  // Without a shelf nothing is saved.
  explicit SlotTable(Options options, std::unique_ptr<SlotShelf> shelf = nullptr);

  // ---- requests ----
  // A call that is to be sent. Its tokens are taken from the Generate.
  void Enqueue(CallId call, const wire::Generate& generate);
  struct Grant {
    CallId call{0};
    std::uint32_t slot = 0;
    bool finds_prefix = true;  // false: what the slot holds is of another scope
    // Before it is sent: then OnMoved has the grant that counts.
    std::optional<SlotMove> move = {};
  };
  // The next call to send, if a slot is idle. It is busy from now on.
  [[nodiscard]] std::optional<Grant> Next(Instant now);
  // So many tokens of the prompt were there.
  void OnFound(CallId call, std::uint32_t tokens);
  // The prompt is computed.
  void OnComputed(CallId call);
  // After kCut the server may need a moment to notice. After kLonger there are tokens behind `output`.
  enum class EndKind { kComplete, kLonger, kCut };
  // `output` has the tokens that came. Unknown calls are ignored.
  void OnEnd(CallId call, std::span<const TokenId> output, EndKind how, Instant now);
  // The server's page, and when it was asked for.
  void OnSlots(std::span<const SlotState> states, Instant asked);

  // ---- slots on disk ----
  [[nodiscard]] SlotShelf* shelf() const { return shelf_.get(); }
  // The time that the engine takes for a token of a prompt; 0: not known.
  void SetPace(double seconds_per_token) { seconds_per_token_ = seconds_per_token; }
  // The next idle slot to save, which is taken until OnMoved.
  [[nodiscard]] std::optional<SlotMove> NextSave(Instant now);
  // When there may be one.
  [[nodiscard]] std::optional<Instant> next_save() const;
  // The slot holds what was saved, with so many tokens.
  void OnRestored(std::uint32_t slot, const SavedSlot& saved, std::uint32_t tokens, Instant now);
  // It holds nothing.
  void OnCleared(std::uint32_t slot);
  // The move is over. The call that waits for it, if it still does.
  [[nodiscard]] std::optional<Grant> OnMoved(std::uint32_t slot, Instant now);

  // ---- orders to evict ----
  struct Erased {
    std::uint32_t free_blocks = 0;  // that are gone once the slots are erased
    std::uint32_t busy_blocks = 0;  // that requests still use
    bool may_stay = false;          // the server may have some in its memory, of which it erases nothing
  };
  // The slots that hold it are those of NextErase from now on.
  [[nodiscard]] Erased Erase(const SlotErasure& erasure);
  [[nodiscard]] bool Holds(std::uint32_t slot, const SlotErasure& erasure) const;
  void Teach(SlotErasure& erasure) const;
  // The next slot to erase, which is taken until OnMoved.
  [[nodiscard]] std::optional<SlotMove> NextErase();

  [[nodiscard]] std::size_t waiting_count() const { return queue_.size(); }
  // Slots where other clients' tasks run.
  [[nodiscard]] std::uint32_t foreign_count() const;

  // ---- BlockSource ----
  [[nodiscard]] std::vector<int> fds() override { return {}; }
  [[nodiscard]] std::optional<Instant> deadline() const override { return std::nullopt; }
  [[nodiscard]] bool Poll(Instant) override { return false; }
  [[nodiscard]] std::vector<wire::CacheEvent> TakeEvents() override;
  [[nodiscard]] bool exact() const override { return true; }
  [[nodiscard]] std::vector<wire::StoredRun> Snapshot() const override;
  [[nodiscard]] BlockHash digest() const override { return digest_; }
  [[nodiscard]] std::size_t block_count() const override { return blocks_.size(); }
  [[nodiscard]] bool has_checkpoints() const override { return true; }
  [[nodiscard]] std::vector<BlockHash> Resumable() const override;
  [[nodiscard]] BlockHash resumable_digest() const override { return resumable_digest_; }
  [[nodiscard]] DiskView disk(Instant now) const override { return shelf_ ? shelf_->view(now) : DiskView(); }
  [[nodiscard]] std::vector<wire::StoredRun> DiskSnapshot() const override;
  void OnEngineRestart(Instant now) override;
  [[nodiscard]] SlotTable* slots() override { return this; }

 private:
  using Held = HeldSequence;
  using Prompt = SlotChoice::Prompt;
  using Among = SlotChoice::Among;
  struct Wanted {
    CallId call{0};
    BlockHash root;
    BlockHash tenant = {};
    std::optional<OwnScope> own = {};
    std::vector<BlockHash> hashes = {};
    std::vector<TokenId> tail = {};  // behind the last whole block
    std::uint32_t tokens = 0;
    bool finds_prefix = true;  // its cache mode allows it
    bool is_erased = false;    // nothing of it stays
    std::uint32_t priority = 0;
    std::uint32_t overtaken = 0;
    Duration return_time = {};  // from its end; 0: not known
  };
  enum class SlotUse { kIdle, kOurs, kEnding, kForeign, kMoving };
  struct Slot {
    Held held;
    SlotUse use = SlotUse::kIdle;
    std::optional<Wanted> request = {};  // of kOurs; of kMoving, if one waits
    std::uint32_t promised = 0;
    std::uint32_t before_its_end = 0;                  // fewer tokens are in the middle of what it held before
    std::optional<std::uint64_t> younger_tokens = {};  // in memory than the entry that it is to find there
    bool is_computed = false;
    int idle_pages = 0;    // of kEnding
    Instant changed = {};  // by a request of ours
    std::optional<std::uint32_t> task = {};
    std::optional<Instant> save_due = {};  // none: what it holds was looked at, or is not known
    bool to_erase = false;                 // by the server, once no request of ours is there
  };
  struct Choice {
    std::size_t slot = 0;
    double price = 0;
    std::uint32_t found = 0;           // in the slot
    const SavedSlot* saved = nullptr;  // to restore first
  };

  [[nodiscard]] static Prompt PromptOf(const Wanted& wanted);
  [[nodiscard]] std::uint32_t FoundIn(const Prompt& prompt, const Held& held) const {
    return SlotChoice::FoundIn(rules_, prompt, held);
  }
  // All slots as they are now.
  [[nodiscard]] SlotChoice Choices(Instant now) const;
  [[nodiscard]] std::optional<Choice> Best(const Prompt& prompt, Instant now) const;
  [[nodiscard]] std::uint32_t busy_count() const;
  // In tokens to compute, for all requests that wait meanwhile.
  [[nodiscard]] double TokensOf(double seconds, double seconds_per_token) const;
  [[nodiscard]] double RestorePrice(const SavedSlot& saved, Instant now) const;
  void ConsiderShelf(const Prompt& prompt, const SlotChoice& choices, Instant now, std::optional<Choice>& best) const;
  enum class Saving { kNo, kNotNow, kYes };
  [[nodiscard]] Saving SavingOf(std::size_t slot, std::uint32_t found, Instant now) const;
  [[nodiscard]] std::optional<SavedSlot> SaveOf(const Held& held);
  // Places it, after a move if there is one to make.
  [[nodiscard]] Grant Begin(const Choice& choice, Wanted wanted, Instant now);
  [[nodiscard]] Grant Place(std::size_t index, Wanted wanted, Instant now);
  [[nodiscard]] Held PrefixOf(const Wanted& wanted, const Held& before, std::uint32_t tokens, Instant now) const;
  void KeepIdle(std::size_t except);
  void Keep(const Held& held);
  void TrimMemory();
  [[nodiscard]] std::uint64_t MostMemory() const;  // in tokens
  [[nodiscard]] Slot* SlotOf(CallId call);
  void OnForeign(Slot& slot, const SlotState& state);
  void SetUse(Slot& slot, SlotUse use);

  // Blocks of which routers are told follow the sequences that are held.
  void Enter(Held& held);
  void Leave(const Held& held);
  void Replace(Held& held, Held next);
  void TellOpen();
  void Tell(wire::CacheEvent::Kind kind, std::span<const BlockHash> hashes, std::size_t position = 0);

  struct Block {
    std::uint32_t holders = 0;
    std::uint32_t ends = 0;  // of those that end or have a checkpoint there
    bool is_open = false;    // told as resumable
  };

  const Options options_;
  const SlotChoice::Rules rules_;
  std::vector<Slot> slots_;
  std::deque<Wanted> queue_;
  std::deque<Held> memory_;  // the oldest first
  std::uint64_t memory_limit_;
  bool has_memory_ = true;
  bool memory_has_shown_ = false;           // something was found there
  const std::unique_ptr<SlotShelf> shelf_;  // may be null
  double seconds_per_token_ = 0;

  Instant now_ = {};              // of the last change
  bool open_may_differ_ = false;  // from what is told
  std::unordered_map<BlockHash, Block, BlockHashHasher> blocks_;
  std::vector<wire::CacheEvent> events_;  // since the last TakeEvents
  BlockHash digest_;
  BlockHash resumable_digest_;
};

}  // namespace roost::worker::adapters
