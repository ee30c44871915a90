// The requests that the engine has accepted, and the choices (outputs) of each. A choice is a sequence of the
// scheduler; all but the first begin when the prompt has been computed.
//
// Not thread-safe. FindChoice and FirstPastDeadline are O(1), Find, Add and Forget are O(log requests). References stay
// valid until what they refer to is forgotten.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/wire/messages.h"
#include "kernels/sample.h"
#include "worker/engine/constrained_output.h"
#include "worker/engine/count_rows.h"
#include "worker/engine/engine.h"
#include "worker/sched/sequence.h"
#include "worker/sched/sequence_slots.h"

namespace roost::worker {

// The engine's state of a request. Its tokens are in the scheduler.
struct Request {
  // The fields that every step reads are next to each other.
  RequestKey key;
  wire::Sampling sampling;  // without its biases
  std::vector<kernels::LogitBias> biases;
  // `early_biases` also forbid the stop tokens. They replace `biases` while the output, including the tokens before
  // first_output_index, is shorter than min_output_tokens.
  std::uint32_t min_output_tokens = 0;
  std::vector<kernels::LogitBias> early_biases;
  std::uint64_t first_output_index = 0;
  std::uint32_t output_limit = 0;  // tokens of each choice
  // Set if log probabilities are wanted: how many of the likeliest tokens to report.
  std::optional<std::uint32_t> output_logprobs;
  std::optional<std::uint32_t> prompt_logprobs;
  bool prompt_counted = false;
  bool announced = false;  // an event has reported the cached tokens and the waiting time
  std::vector<TokenId> stop_tokens;
  std::string constraint_field;  // empty without a constraint

  std::uint32_t sample_count = 1;
  BlockHash root;
  Instant submitted;
  std::optional<Instant> deadline;  // for its last token
  bool other_root = false;          // its prompt begins like a prompt of another cache scope

  std::vector<SequenceId> sequences;  // one for each running choice
  std::optional<Instant> first_scheduled;

  [[nodiscard]] bool StopsAt(TokenId token) const {
    return std::find(stop_tokens.begin(), stop_tokens.end(), token) != stop_tokens.end();
  }
};

struct Choice {
  Request* request = nullptr;
  std::uint32_t index = 0;
  std::uint32_t output_count = 0;
  std::optional<Instant> first_token = std::nullopt;
  std::optional<Instant> last_token = std::nullopt;
  // Its logits were broken behind cached blocks, and it is computed again without them; then that is known to be why.
  enum class Again : std::uint8_t { kNo, kBegun, kSound };
  Again again = Again::kNo;
  CountRows::Place counts = {};                              // the row that counts its tokens, if it has penalties
  std::unique_ptr<ConstrainedOutput> constrained = nullptr;  // null: no constraint

  // Says whose event this is.
  void Address(RequestEvent& event) const {
    event.link = request->key.link;
    event.event.request_id = request->key.request;
    event.event.choice = index;
  }
};

// The first event of a request that was scheduled tells of its cached tokens and its wait. One that never left the
// queue has nothing to tell.
void Announce(Request& request, const Sequence& sequence, wire::TokenEvent& event);

class RequestTable {
 public:
  [[nodiscard]] bool Contains(RequestKey key) const { return requests_.contains(key); }
  [[nodiscard]] Request* Find(RequestKey key);
  [[nodiscard]] bool empty() const { return requests_.empty(); }

  // Adds a request that is not in the table. Returns its first choice.
  Choice& Add(Request request, SequenceId first_choice);
  // One more choice of a request.
  Choice& AddChoice(Request& request, SequenceId sequence, std::uint32_t index);

  // The choice goes on as another sequence.
  void Replace(SequenceId sequence, SequenceId by);

  // The request with the earliest deadline, if it has passed.
  [[nodiscard]] Request* FirstPastDeadline(Instant now);

  // Null for a sequence that belongs to no request.
  [[nodiscard]] Choice* FindChoice(SequenceId sequence) const { return choices_.Find(sequence); }

  // Forgets a choice, and its request if that was the last one.
  void ForgetChoice(SequenceId sequence);
  // Forgets a request with all its choices.
  void Forget(RequestKey key);

  [[nodiscard]] std::vector<RequestKey> KeysOf(LinkId link) const;

 private:
  using Requests = std::map<RequestKey, Request>;
  void Erase(Requests::iterator request);

  Requests requests_;  // ordered: the requests of one link are neighbours
  std::set<std::pair<Instant, RequestKey>> deadlines_;
  SequenceSlots<Choice> choices_;
};

}  // namespace roost::worker
