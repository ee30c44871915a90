// Assigns rows of the model's token counts (kernels/sample.h) to outputs. There are as many rows as one step can draw
// outputs, so a row that this step uses is never reassigned. A preempted output may find that its row belongs to
// another output; then its counts are sent to the device again.
//
// Not thread-safe. Touch is O(1), Take O(rows).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/base/check.h"

namespace roost::worker {

class CountRows {
 public:
  // A row and the ticket under which it was taken. If the row's ticket differs now, the row belongs to another output.
  struct Place {
    std::uint32_t row = 0;
    std::uint64_t ticket = 0;         // 0: none
    std::uint64_t counted_count = 0;  // tokens of the output that the row counts
  };

  explicit CountRows(std::uint32_t row_count) : rows_(row_count) {}

  void BeginStep() { ++step_; }

  // True if the row still belongs to the place; then it counts as used in this step.
  [[nodiscard]] bool Touch(const Place& place) {
    Row& row = rows_[place.row];
    if (place.ticket == 0 || row.ticket != place.ticket) return false;
    row.last_step = step_;
    return true;
  }

  // The least recently used row.
  [[nodiscard]] Place Take() {
    const auto oldest = std::min_element(rows_.begin(), rows_.end(),
                                         [](const Row& a, const Row& b) { return a.last_step < b.last_step; });
    ROOST_CHECK(oldest->last_step < step_, "all {} rows of counts are in use", rows_.size());
    *oldest = {.ticket = ++last_ticket_, .last_step = step_};
    return {.row = static_cast<std::uint32_t>(oldest - rows_.begin()), .ticket = last_ticket_};
  }

 private:
  struct Row {
    std::uint64_t ticket = 0;
    std::uint64_t last_step = 0;
  };

  std::vector<Row> rows_;
  std::uint64_t step_ = 0;
  std::uint64_t last_ticket_ = 0;
};

}  // namespace roost::worker
