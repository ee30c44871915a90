// Makes automata of constraints beside the engine's steps: a request waits for its automaton, a step never does.
//
//   engine ── Begin(job) ──► some thread ── compiles, goes through the output so far ──► done ── TakeDone ──► engine
//
// The engine sees this interface alone, and without one refuses constraints.
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
    std::vector<TokenId> output;  // that was written under it already
  };
  struct Done {
    std::uint64_t id = 0;
    // kInvalidArgument names the constraint's field, kOverloaded where too many wait.
    Result<std::unique_ptr<Automaton>> automaton;
  };

  virtual ~Constrainer() = default;

  // Each job is done once, at once where that takes next to no time.
  virtual void Begin(Job job) = 0;
  // Nobody wants the job any more: it is not told of. One that is not known is ignored.
  virtual void Drop(std::uint64_t id) = 0;
  [[nodiscard]] virtual bool HasDone() const = 0;
  [[nodiscard]] virtual std::vector<Done> TakeDone() = 0;
};

}  // namespace roost::worker
