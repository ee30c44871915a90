// Runs a step's ops from a recording where the device records and a step like it has been before:
//
//   first time    as they are; most shapes of a step never come back
//   second time   recorded, and replayed
//   from then on  replayed
//
// Not thread-safe. Keeps at most kMaxShapes shapes: with one more it forgets them all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "kernels/device_memory.h"

namespace roost::worker {

class StepRecorder {
 public:
  static constexpr std::size_t kMaxShapes = 256;

  // With a communicator, all of its ranks run the same shapes.
  explicit StepRecorder(const kernels::Backend& backend, kernels::Communicator* communicator = nullptr)
      : backend_(backend), communicator_(communicator) {}

  // Does the device record at all?
  [[nodiscard]] bool enabled() const { return backend_.ops().begin_recording != nullptr; }

  // `ops` calls ops of the backend that can be recorded; see ops.h. `shape` is all that their arguments depend on:
  // equal shapes, equal arguments.
  void Run(const std::vector<std::uint64_t>& shape, const std::function<void()>& ops);

 private:
  const kernels::Backend& backend_;
  kernels::Communicator* const communicator_;
  std::map<std::vector<std::uint64_t>, std::unique_ptr<kernels::Recording>> recordings_;  // null: seen once
};

}  // namespace roost::worker
