// Runs a step's ops from a recording, where the device can record and a step of the same shape has run before:
//
//   first time    runs the ops directly; most shapes of a step never come back
//   second time   records the ops, and replays them
//   from then on  replays them
//
//   recent ←  ⟨shape, recording⟩  ⟨shape, –⟩  …  ⟨shape, recording⟩  → forgotten
//
// A recording takes host and device memory for each of its ops (a CUDA graph of a decode step has about ten per layer),
// and making one takes as long as beginning several such steps. So at most kMaxShapes shapes are kept, and the least
// recently used is dropped. A shape for whose recording there is no memory runs its ops directly until it is dropped.
// Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>

#include "kernels/device_memory.h"

namespace roost::worker {

class StepRecorder {
 public:
  static constexpr std::size_t kMaxShapes = 256;
  using Shape = std::array<std::uint64_t, 10>;  // everything that the ops' arguments depend on

  // If there is a communicator, all of its ranks run the same shapes.
  explicit StepRecorder(const kernels::Backend& backend, kernels::Communicator* communicator = nullptr)
      : backend_(backend), communicator_(communicator) {}

  // Does the device record at all?
  [[nodiscard]] bool enabled() const { return backend_.ops().begin_recording != nullptr; }

  // `ops` calls only ops of the backend that can be recorded; see ops.h. Equal shapes must mean equal arguments.
  void Run(const Shape& shape, const std::function<void()>& ops);
  // Records a shape before its first step, which then is a replay. Runs nothing, and waits for no other rank. False if
  // the shape is known already, the device does not record, or there is no memory for the recording.
  bool Record(const Shape& shape, const std::function<void()>& ops);

 private:
  struct Seen {
    Shape shape;
    std::unique_ptr<kernels::Recording> recording = nullptr;  // null: seen once, or no memory
    bool has_no_memory = false;
  };

  // Makes the shape's entry the most recent and returns it; null for a new shape, which then gets an entry.
  [[nodiscard]] Seen* Find(const Shape& shape);
  void Record(Seen& seen, const std::function<void()>& ops);

  const kernels::Backend& backend_;
  kernels::Communicator* const communicator_;
  bool has_warned_ = false;
  std::list<Seen> seen_;  // the most recent first
  std::map<Shape, std::list<Seen>::iterator> by_shape_;
};

}  // namespace roost::worker
