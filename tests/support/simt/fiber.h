// Fibers: many stacks on one thread. A fiber runs until it calls Suspend, and continues when its owner calls Resume.
//
// Not thread-safe: fibers of one FiberSet run on the thread that made it. AddressSanitizer is told of every switch.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace roost::simt {

class FiberSet {
 public:
  FiberSet();
  ~FiberSet();
  FiberSet(const FiberSet&) = delete;
  FiberSet& operator=(const FiberSet&) = delete;

  // Starts fibers 0 … count-1 at the beginning of `body(index)`. All earlier ones must have finished. Stacks are
  // reused.
  void Start(std::size_t count, std::function<void(std::size_t)> body);

  // Runs the fiber until it suspends itself (true) or its body returns (false). Not from within a fiber.
  [[nodiscard]] bool Resume(std::size_t index);

  // Called within a fiber: returns to Resume's caller.
  void Suspend();

 private:
  struct Stack;
  static void Enter();

  std::vector<std::unique_ptr<Stack>> stacks_;
  std::function<void(std::size_t)> body_;
  std::size_t current_ = 0;
  std::unique_ptr<Stack> owner_;  // the place where Resume was called
};

}  // namespace roost::simt
