// The last decisions and their results, to answer "why this worker?".
//
//   Add ──► record ──► SetOutcome, when the first token has come; SetAnswer, when the last one has
//             │        or SetNoOutcome, when none will come
//             └─ overwritten once kCapacity later ones were added
//
// Not thread-safe. Add and SetOutcome take constant time, the others read the whole log.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "router/route/decision_audit.h"
#include "router/route/log/cache_verdict.h"
#include "router/route/policy.h"

namespace roost::router {

struct DecisionRecord {
  // The request.
  std::string answer_id;     // "chatcmpl-…", as in the client's answer
  std::string request_id;    // as in the answer's x-request-id
  std::string model;         // as it was asked for
  std::string served_model;  // of the workers; another one if an adapter was asked for
  std::uint32_t prompt_token_count = 0;
  std::uint32_t block_tokens = 16;  // of the model
  std::uint32_t retry_count = 0;    // failed attempts before this one
  Instant decided_at{};

  // The decision.
  std::string policy;
  Decision decision;
  std::string worker_id;
  std::vector<std::string> candidate_ids;  // workers of decision.candidates, in that order
  std::vector<std::string> source_ids;     // from which they would fetch blocks, in that order; empty: from none
  // By candidate: what it held, where a hit ends before that; 0: no such worker. Empty: none of them is one.
  std::vector<std::uint32_t> held_tokens = {};
  std::string decode_id = {};     // of decision.apart
  std::string elsewhere_id = {};  // the worker of decision.elsewhere_tokens
  DecisionAudit audit;
  PromptComparison comparison = {};  // with the request before it

  // The result.
  struct Outcome {
    std::uint32_t cached_tokens = 0;
    double ttft_seconds = 0;  // from the decision to the first token's arrival at the router
    wire::PromptMiss miss = wire::PromptMiss::kNone;
    // The whole answer, when it has ended. Only of requests for one.
    struct Answer {
      std::uint32_t tokens = 0;
      double itl_seconds = 0;    // mean time between its tokens; 0 if it has only one
      double whole_seconds = 0;  // from the decision to the last token
    };
    std::optional<Answer> answer = std::nullopt;
  };
  std::optional<Outcome> outcome = std::nullopt;
  // The end of decision.pull, as the worker tells it.
  struct Pulled {
    std::string_view outcome;       // a literal
    std::uint32_t block_count = 0;  // that arrived
    std::uint64_t bytes = 0;
    double seconds = 0;
  };
  std::optional<Pulled> pulled = std::nullopt;
  std::string_view no_outcome = {};  // the reason why there will be none; empty: it is there, or may come
};

class DecisionLog {
 public:
  static constexpr std::size_t kCapacity = 1024;

  // The record's number, for SetOutcome.
  std::uint64_t Add(DecisionRecord record);
  // Does nothing if the record was overwritten.
  void SetOutcome(std::uint64_t number, const DecisionRecord::Outcome& outcome);
  // Does nothing if there is no outcome, or the record was overwritten.
  void SetAnswer(std::uint64_t number, const DecisionRecord::Outcome::Answer& answer);
  // Does nothing if the record was overwritten.
  void SetPulled(std::uint64_t number, const DecisionRecord::Pulled& pulled);
  // `why` outlives the log. Does nothing if there is an outcome, or the record was overwritten.
  void SetNoOutcome(std::uint64_t number, std::string_view why) {
    if (number < first() || number >= next_) return;
    DecisionRecord& record = ring_[number % kCapacity];
    if (!record.outcome.has_value()) record.no_outcome = why;
  }

  // Calls visit(const DecisionRecord&) for each, the newest first.
  template <typename Visit>
  void VisitLatest(Visit visit) const {
    for (std::uint64_t number = next_; number > first(); --number) visit(At(number - 1));
  }
  // The newest first, at most `limit`.
  [[nodiscard]] std::vector<DecisionRecord> Latest(std::size_t limit) const;
  // The decisions of one request, by either of its ids, oldest first.
  [[nodiscard]] std::vector<DecisionRecord> Find(std::string_view id) const;

 private:
  [[nodiscard]] const DecisionRecord& At(std::uint64_t number) const { return ring_[number % kCapacity]; }
  [[nodiscard]] std::uint64_t first() const { return next_ - ring_.size(); }

  std::vector<DecisionRecord> ring_;  // record n is at n modulo kCapacity
  std::uint64_t next_ = 0;
};

}  // namespace roost::router
