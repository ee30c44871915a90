// Makes the automata of constraints outside of the engine's steps: a request waits for its automaton, a step never
// does.
//
//   engine ── Begin(job) ──► some thread ── compiles, accepts the output so far ──► done ── TakeDone ──► engine
//
// The engine knows only this interface. Without a Constrainer it refuses constraints.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/wire/messages.h"
#include "worker/grammar/automaton.h"

namespace roost::worker {

class Constrainer {
 public:
  struct Job {
    std::uint64_t id = 0;
    wire::Constraint constraint;
    std::vector<TokenId> output;  // already written under the constraint
  };
  struct Done {
    std::uint64_t id = 0;
    // kInvalidArgument names the constraint's field; kOverloaded when too many jobs wait.
    Result<std::unique_ptr<Automaton>> automaton;
  };

  virtual ~Constrainer() = default;

  // Each job gets one Done, immediately if it takes almost no time.
  virtual void Begin(Job job) = 0;
  // Cancels a job: it gets no Done. An unknown id is ignored.
  virtual void Drop(std::uint64_t id) = 0;
  [[nodiscard]] virtual bool HasDone() const = 0;
  [[nodiscard]] virtual std::vector<Done> TakeDone() = 0;
};

}  // namespace roost::worker
