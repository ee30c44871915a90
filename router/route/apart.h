// Prefill apart: a prompt is computed at one worker, and its answer goes on at another one, to which the prompt's
// blocks go as they are computed.
//
//   together   the price of the worker that would get the request: its prompt stalls the answers that run there
//   apart      the price of the prompt at a worker for prompts, that of the answer at a worker for answers, and the
//              blocks that travel when the prompt is done
//
// Beside engines with KV connectors the blocks go from engine to engine, as the connectors do: the engine for the
// prompt says where its blocks are, and the one for the answer gets that with the same prompt, and fetches them.
//
// The cheaper one is taken, so that long prompts go apart where many answers run, and short ones do not. What the
// worker for prompts lacks it may fetch first, as for any request (pulls.h).
#pragma once

#include <cstdint>
#include <string_view>
#include <variant>

#include "router/route/policy.h"

namespace roost::router {

// Why a prompt is computed where its answer is; in the records of decisions.
enum class Together : std::uint8_t {
  kNoPrefillWorker,  // none takes requests now
  kOneToken,         // of output
  kChoices,          // several, which share their prompt's blocks
  kCacheOff,         // its blocks are kept nowhere
  kBegun,            // it has output already, and goes on
  kUnknownSpeed,     // no worker's speed is known, so there are no prices
  kFewBlocks,        // fewer than two to compute
  kNoWay,            // no blocks travel from a worker for prompts to one for answers
  kPrice,            // costs less
};
[[nodiscard]] std::string_view NameOf(Together why);

// Fewer blocks to compute do not go apart.
inline constexpr std::uint32_t kLeastBlocksApart = 2;

// The request of this query apart, if that costs less than `together`, the decision for it. O(candidates) more than a
// decision.
[[nodiscard]] std::variant<Apart, Together> ChooseApart(const RouteQuery& query, const FleetView& fleet,
                                                        const Decision& together);

}  // namespace roost::router
