// The sequences on disk that llama.cpp's server can take back into a slot: which are there, which serves a prompt best,
// which go, and how long it takes.
//
// At most so many bytes and blocks: those used longest ago go first, other models' too. A sequence that a
// longer one contains goes with the longer one's arrival. Those of another origin are neither used nor told of.
//
// Routers are told of the blocks as of a worker's disk, but where layers have windows or a recurrent state: from there
// a request goes on behind the last token only, which a set of blocks can not say.
//
// Not thread-safe. A call costs O(entries · blocks of a prompt).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/prefix/block_hash.h"
#include "common/wire/messages.h"
#include "worker/adapters/block_source.h"
#include "worker/adapters/engine_protocol.h"
#include "worker/adapters/slots/slot_files.h"
#include "worker/engine_api/worker_engine.h"

namespace roost::worker::adapters {

// Where llama.cpp's server saves slots (its --slot-save-path), as this host sees it.
struct SlotDirectory {
  std::filesystem::path folder;
  std::uint64_t bytes = 0;                     // that its slots may take there
  Duration save_after = {};                    // of idleness
  std::filesystem::path model;                 // the model's file or folder, if the server's own can not be seen
  std::shared_ptr<const void> hold = nullptr;  // keeps other processes from the folder
};

// Stands for the model (`model`), context and release of the server, and the state of the file that it has read its
// model from. Its type of KV it does not tell: it refuses files of another one.
[[nodiscard]] BlockHash OriginOf(const SlotDirectory& directory, BlockHash model, const EngineFacts& facts);

// The number of blocks at the front that both have. O(log blocks): chains that are equal at a block are so before it.
[[nodiscard]] std::size_t CommonBlocks(std::span<const BlockHash> a, std::span<const BlockHash> b);

// Stands for a tenant's name.
[[nodiscard]] BlockHash SlotTenant(std::string_view tenant);

// Says which sequences of slots an order to evict names. A slot and a file hold one sequence, which goes as a whole.
//
//   prompt  all that continue its last full block, and those that hold nothing but its front. Of a prompt without a
//           full block all in its scope, because the tokens of a sequence are not kept.
//   tenant  all that its requests have left
//   block   all that have it, and those that hold nothing but what is before it
//
// A sequence that is a front of what is named goes too where more of it may be there than is known.
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

class SlotShelf {
 public:
  struct Options {
    std::uint64_t bytes = 0;
    Duration save_after = {};  // of idleness
    bool goes_on_at_points = false;
  };
  // `there` has the one used last at the end. What does not fit goes.
  SlotShelf(Options options, std::unique_ptr<SlotFiles> files, BlockHash origin, std::vector<SavedSlot> there);

  // Reads what is there, and starts the thread of its files, which calls `on_done` after each job.
  [[nodiscard]] static Result<std::unique_ptr<SlotShelf>> Open(const SlotDirectory& directory, bool goes_on_at_points,
                                                               BlockHash origin, std::function<void()> on_done);

  // The most blocks of it that routers are told of.
  [[nodiscard]] static std::uint32_t MostBlocks(std::uint64_t bytes);

  // ---- the set ----
  // The sequence that has most of the prompt, as far as the server can go on in it. Null: none has any.
  struct Match {
    const SavedSlot* saved = nullptr;
    std::uint32_t tokens = 0;
  };
  [[nodiscard]] Match Find(BlockHash root, std::span<const BlockHash> hashes, std::uint32_t prompt_tokens) const;
  // Null: it is gone.
  [[nodiscard]] const SavedSlot* Named(const std::string& name) const;
  // So many of these tokens need not be saved.
  [[nodiscard]] std::uint32_t Holds(BlockHash root, std::span<const BlockHash> hashes, std::uint32_t tokens) const;
  // Names what is about to be saved, and gives it space. Nothing: it is larger than all of it.
  [[nodiscard]] std::optional<SavedSlot> Announce(BlockHash root, std::span<const BlockHash> hashes,
                                                  std::uint32_t tokens, double seconds_per_token);
  void Add(SavedSlot saved);
  // For a minute nothing should be saved: the disk may be full.
  void PauseSaves(Instant now);
  [[nodiscard]] bool takes_saves(Instant now) const { return now >= paused_until_; }
  void Remove(const std::string& name);
  void Use(const std::string& name);
  // Takes out the sequences that an order names. Their files are the caller's to erase, who tells when that is done.
  struct Erased {
    std::vector<std::string> names;
    std::uint32_t block_count = 0;  // that no other has
  };
  [[nodiscard]] Erased Erase(const SlotErasure& erasure);
  void Teach(SlotErasure& erasure) const;
  // The server may compute otherwise from now on.
  void SetOrigin(BlockHash origin);

  // ---- speeds ----
  void NoteSaved(std::uint32_t tokens, std::uint64_t bytes, Duration time, Instant now);
  void NoteRestored(std::uint64_t bytes, Duration time, Instant now);
  // 0: nothing was saved yet.
  [[nodiscard]] std::uint64_t BytesOf(std::uint32_t tokens) const {
    return static_cast<std::uint64_t>(bytes_per_token_ * tokens);
  }
  [[nodiscard]] double SaveSeconds(std::uint32_t tokens, Instant now) const;
  [[nodiscard]] double RestoreSeconds(std::uint64_t bytes, Instant now) const;

  // ---- what routers are told ----
  [[nodiscard]] DiskView view(Instant now) const;
  [[nodiscard]] DiskStart start() const;  // before the first save
  [[nodiscard]] std::vector<wire::StoredRun> Snapshot() const;
  [[nodiscard]] std::vector<wire::CacheEvent> TakeEvents();

  [[nodiscard]] const Options& options() const { return options_; }
  [[nodiscard]] SlotFiles& files() { return *files_; }
  [[nodiscard]] std::uint64_t used_bytes() const { return used_bytes_; }
  [[nodiscard]] std::size_t entry_count() const { return entries_.size(); }

 private:
  // Bytes and seconds, of which the older count less. What it says is believed for a while only: where moving is not
  // worth it nothing new is learned.
  struct Rate {
    double bytes = 0;
    double seconds = 0;
    Instant noted = {};
    void Note(std::uint64_t more_bytes, Duration time, Instant now);
    [[nodiscard]] double bytes_per_second(Instant now) const;
  };
  using Entries = std::list<SavedSlot>;  // the one used last at the end

  [[nodiscard]] Entries::iterator At(const std::string& name);
  [[nodiscard]] bool IsTold(const SavedSlot& saved) const;
  void MakeRoom(std::uint64_t bytes, std::size_t blocks);
  void Drop(Entries::iterator entry);
  void TakeOut(Entries::iterator entry);
  void Enter(const SavedSlot& saved);
  void Leave(const SavedSlot& saved);

  const Options options_;
  const std::unique_ptr<SlotFiles> files_;
  BlockHash origin_;
  Entries entries_;
  std::uint64_t used_bytes_ = 0;
  std::size_t used_blocks_ = 0;  // of all entries, without regard to those that are equal
  double bytes_per_token_ = 0;
  Instant paused_until_ = {};
  Rate saves_;
  Rate restores_;

  std::unordered_map<BlockHash, std::uint32_t, BlockHashHasher> blocks_;  // and how many told entries have each
  std::vector<wire::CacheEvent> events_;
  BlockHash digest_;
};

}  // namespace roost::worker::adapters
