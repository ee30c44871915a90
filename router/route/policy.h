// The decision: which of a fleet's workers takes a request. A pure function of the query and the view of the fleet,
// except for the turns, histories and random numbers that some policies keep. No thread, socket or clock.
//
//   query  ─┐
//           ├─► Policy::Choose ─► Decision: the worker, the reason, and the costs of the candidates
//   fleet  ─┘
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/prefix/block_hash.h"
#include "common/prefix/worker_match.h"
#include "common/wire/messages.h"
#include "router/route/block_loss.h"
#include "router/route/cache_worth.h"
#include "router/route/cost.h"
#include "router/route/fleet_view.h"
#include "router/route/transfers.h"

namespace roost::router {

inline constexpr std::uint32_t kNoBound = std::numeric_limits<std::uint32_t>::max();

// The part of a request that a worker is wanted for. Workers for prompts get no answers while another role lives.
enum class Stage : std::uint8_t {
  kWhole,       // any worker
  kAnswer,      // any but those for prompts
  kFirstToken,  // those for prompts alone
};

// A decision's input about the request. The spans last for the call.
struct RouteQuery {
  std::uint32_t prompt_token_count = 0;
  std::uint32_t sample_count = 1;
  AnswerLength answer = kUsualAnswer;
  Stage stage = Stage::kWhole;
  wire::Features needs = {};                  // that a worker must have
  std::string_view adapter = {};              // that it names; empty: none
  std::span<const WorkerMatch> matches = {};  // from the index, deepest first; some are of disks, or outside the fleet
  std::span<const BlockHash> block_hashes = {};  // of the prompt's full blocks, front to back
  std::uint64_t session_hash = 0;                // of the conversation; 0: none
  std::uint64_t cache_key_hash = 0;              // of requests that should meet one cache; 0: none
  std::uint32_t min_copies = 1;                  // holders that a prefix of many requests should have
  SloBounds slo = {};
  const Transfers* transfers = nullptr;    // null: no worker fetches blocks for this request
  std::uint32_t waiting_bound = kNoBound;  // a worker with this many waiting requests has no room for it
  std::optional<Instant> now = {};         // empty for a question without a request
  bool is_question = false;                // policies do not change their turns and histories
};

// True if this worker may take the request.
[[nodiscard]] bool MayTake(const RouteQuery& query, const WorkerView& worker);

// The query's prompt on the worker of this match.
[[nodiscard]] PromptOnWorker PromptOn(const RouteQuery& query, const WorkerMatch& match);
// The same on the worker in this slot. O(matches).
[[nodiscard]] PromptOnWorker PromptOn(const RouteQuery& query, WorkerSlot slot);
// The match of a worker or a disk; without blocks if there is none. O(matches).
[[nodiscard]] WorkerMatch MatchOf(const RouteQuery& query, WorkerSlot slot);

// The reason why a worker was chosen; a label of roost_router_decisions_total.
enum class DecisionReason : std::uint8_t {
  kDeepestMatch,  // held the longest match, and no other was cheaper by more than a tie
  kMinLoad,       // nothing useful matched, or the match was not worth the wait
  kNearTie,       // costs about as much as the cheapest: the difference is too small to notice
  kOnlyWorker,
  kPull,       // costs least, because it fetches blocks from another worker
  kRestore,    // costs least, because it takes blocks from its disk
  kApart,      // computes the prompt alone; the answer goes on at another worker (apart.h)
  kReplicate,  // chosen for one of the reasons above; another worker gets a copy of the prefix (replication.h)
  kMinCost,    // the least score of a baseline policy
  kRotation,   // round robin's turn
  kRandom,     // chosen at random
  kHash,       // the hash of the prompt, or of its cache key, maps to it
  kSession,    // the session's hash maps to it
  kOverBound,  // the next one on the ring, because the load of the first exceeds the bound
  kHistory,    // was sent the longest part of this prompt before
  kImbalance,  // the least loaded, because loads differed too much to consider anything else
  kSticky,     // holds enough of the prompt to keep the request there
  kUnsticky,   // the least loaded, because those that hold enough of the prompt are too far behind
};
[[nodiscard]] std::string_view NameOf(DecisionReason reason);

// A copy to make: one more worker computes the first blocks of a prompt.
struct PrefixCopy {
  WorkerSlot worker;
  std::uint32_t held_block_count = 0;  // those of them that it already holds or is computing
  std::uint32_t block_count = 0;
};

// A request whose prompt is computed at one worker, and whose answer goes on at another one (apart.h).
struct Apart {
  Candidate prefill;  // the worker for the prompt
  WorkerSlot decode;  // the worker for the answer, as far as that can be said now
  PrefixPull follow;  // the blocks that go there as they are computed
  // The engines' own connectors carry the blocks, once the answer is asked for: no worker is told to fetch them.
  bool by_connector = false;
  double cost_seconds = 0;
  double together_seconds = 0;  // what the best worker for all of it would have cost
};

struct Decision {
  WorkerSlot slot;
  DecisionReason reason = DecisionReason::kOnlyWorker;
  std::uint32_t matched_tokens = 0;   // predicted cached tokens
  std::uint32_t arriving_tokens = 0;  // those of them that come from elsewhere, for this request or one before
  double predicted_ttft_seconds = 0;
  double predicted_itl_seconds = 0;    // mean time between the answer's tokens
  double predicted_whole_seconds = 0;  // from the decision to the last token
  // False while no worker's rates are known: then the seconds are only an order.
  bool in_seconds = false;
  // The workers that the cache-aware policy compared, and the chosen one; cheapest first, behind the worker for the
  // prompt alone, if there is one. Bounded; see candidates.h.
  std::vector<Candidate> candidates = {};
  std::optional<PrefixCopy> copy = {};  // to make, regardless of what happens to the request
  std::optional<PrefixPull> pull = {};  // to send before the request
  std::optional<Apart> apart = {};      // `slot` computes the prompt alone
  std::string_view together = {};       // why not; empty where no worker is for prompts
  std::uint32_t elsewhere_tokens = 0;   // of the prompt, that another worker which takes requests holds
  BlockLoss loss = {};                  // of the request before it
  CacheWorth worth = {};
};

class Policy {
 public:
  virtual ~Policy() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  // Empty when no worker of the fleet may take the request. Callers serialise calls.
  [[nodiscard]] virtual std::optional<Decision> Choose(const RouteQuery& query, const FleetView& fleet) = 0;
};

}  // namespace roost::router
