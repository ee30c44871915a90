// Why a prompt was not found in the cache as far as it could have been: because it changed since the request before it,
// or because of the cache. Pure.
//
//   request before ─┐
//                   ├─► PromptComparison ─┐
//   request ────────┘                     ├─► CacheVerdict ─► x-roost-miss, diagnostics, roostctl explain
//   what the worker found, what others    │
//   hold, the fate of the blocks of the   │
//   request before (BlockLoss) ───────────┘
//
// Nothing here tells of other tenants: hashes of blocks, and so what workers hold of a prompt, are of one tenant alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/wire/messages.h"
#include "router/route/block_loss.h"

namespace roost::router {

// The first difference between two requests, in the order in which clients are told.
enum class PromptChange : std::uint8_t {
  kNone,   // the later one begins as the earlier one does
  kModel,  // another model, adapter or revision
  kScope,  // another salt: such prompts share nothing
  kTools,
  kSystem,
  kMessage,
  kParameters,  // what the template made of other fields, such as reasoning_effort
};

// The process of a worker that has computed a prompt; 0 until one has. Any thread.
class ComputedBy {
 public:
  ComputedBy() = default;
  ComputedBy(const ComputedBy& other) : process_(other.process()) {}
  ComputedBy& operator=(const ComputedBy&) = delete;

  [[nodiscard]] std::uint64_t process() const { return process_.load(std::memory_order_relaxed); }
  void Set(std::uint64_t process) const { process_.store(process, std::memory_order_relaxed); }

 private:
  mutable std::atomic<std::uint64_t> process_ = 0;
};

struct PromptComparison {
  // The request before it: none was named and the session has none; one was named that is not known; or it is there.
  enum class Before : std::uint8_t { kNone, kUnknown, kFound } before = Before::kNone;
  bool is_named = false;  // the client has named it; else it is the session's last
  PromptChange change = PromptChange::kNone;
  bool cache_key_changed = false;
  bool effort_changed = false;
  std::uint32_t message = 0;        // with kMessage: its place among the conversation's messages, from 0
  std::uint32_t token = 0;          // of this prompt: the first that differs, to the block; without a change the first
                                    // behind the blocks that both have
  std::uint32_t missed_tokens = 0;  // of the request before, from there on; 0 without a change
  std::uint64_t process = 0;        // of the worker that computed the request before; 0: unknown
  double seconds_ago = 0;           // of the request before
};

// Values of the header x-roost-miss.
enum class MissCause : std::uint8_t {
  kNone,       // nothing was missed
  kChanged,    // the request is another one
  kEvicted,    // it was here, and made room for others
  kNeverHere,  // the worker does not know it: new, or the worker that knew it is gone
  kInFlight,   // another request was computing it
  kElsewhere,  // another worker holds it, and the request went here all the same, or it did not come in time
  kOtherScope,
};
[[nodiscard]] std::string_view NameOf(MissCause cause);

struct CacheVerdict {
  MissCause cause = MissCause::kNone;
  std::uint32_t tokens = 0;  // that were computed and need not have been
};

struct PromptOutcome {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t block_tokens = 16;
  std::uint32_t cached_tokens = 0;                  // before the first token: as predicted
  wire::PromptMiss miss = wire::PromptMiss::kNone;  // as the worker tells, with the first token
  std::uint32_t elsewhere_tokens = 0;               // that the best other worker holds
  BlockLoss::Worker before = BlockLoss::Worker::kUnknown;
};
[[nodiscard]] CacheVerdict VerdictOf(const PromptComparison& comparison, const PromptOutcome& outcome);

// "message 3 differs from the request before at token 2,114; 18,200 tokens computed again". Empty: nothing to say.
// `holder`: the worker that holds what was missed; empty: it is not known.
[[nodiscard]] std::string SentenceOf(const PromptComparison& comparison, const CacheVerdict& verdict,
                                     const BlockLoss& loss = {}, std::string_view holder = {});

}  // namespace roost::router
