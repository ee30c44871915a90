// A request's body in the pieces in which it arrived. A large body is never moved about while it arrives, and who reads
// it joins it on a thread of its own. What it holds is taken from the server's budget, and the bytes go on with it.
//
// Not thread-safe; it moves from the connection to whoever answers.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/byte_budget.h"

namespace roost::router {

class HttpBody {
 public:
  // Nothing is bounded.
  HttpBody() = default;
  HttpBody(std::string text);  // NOLINT(google-explicit-constructor)
  explicit HttpBody(std::shared_ptr<ByteBudget> budget) : memory_(std::move(budget)) {}

  [[nodiscard]] std::size_t size() const { return size_; }

  // False when the budget has no room for all of it; then the body is of no use any more.
  [[nodiscard]] bool TryAppend(std::string_view bytes);

  // All of it in one string, with room for `padding` more if it is large; then the body is empty, but keeps `memory`.
  [[nodiscard]] std::string TakeText(std::size_t padding);

  // What the request has of the budget.
  [[nodiscard]] ByteBudget::Guard& memory() { return memory_; }

 private:
  std::vector<std::string> pieces_;
  std::size_t size_ = 0;
  ByteBudget::Guard memory_;
};

}  // namespace roost::router
