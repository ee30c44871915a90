// A request's body, as a list of pieces. A large body is not copied as it grows; its reader joins the pieces on another
// thread. Its memory is charged to the server's budget, and the charge moves with the body.
//
// Not thread-safe; it moves from the connection to the handler.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/byte_budget.h"

namespace roost {

class HttpBody {
 public:
  // Without a budget, the size is not bounded.
  HttpBody() = default;
  HttpBody(std::string text);  // NOLINT(google-explicit-constructor)
  explicit HttpBody(std::shared_ptr<ByteBudget> budget) : memory_(std::move(budget)) {}

  [[nodiscard]] std::size_t size() const { return size_; }

  // False when the budget has no room for `bytes`; then the body must not be used any more.
  [[nodiscard]] bool TryAppend(std::string_view bytes);

  // Moves all of it into one string; if there were several pieces, the string has room for `padding` more bytes. The
  // body is empty afterwards, but keeps `memory`.
  [[nodiscard]] std::string TakeText(std::size_t padding);

  // Undoes TakeText.
  void PutBack(std::string text);

  // The request's charge on the budget.
  [[nodiscard]] ByteBudget::Guard& memory() { return memory_; }
  [[nodiscard]] const ByteBudget::Guard& memory() const { return memory_; }

 private:
  std::vector<std::string> pieces_;
  std::size_t size_ = 0;
  ByteBudget::Guard memory_;
};

}  // namespace roost
