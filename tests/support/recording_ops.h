// The op table of a device that records: another table's ops, which between begin_recording and end_recording are only
// written down, with their arguments. Replaying calls them with these; copies that are made meanwhile abort.
#pragma once

#include <cstdint>

#include "kernels/ops.h"

namespace roost::testing_support {

// Over the plain CPU ops. One device of a thread records at a time.
[[nodiscard]] const kernels::OpTable& RecordingOps();

// Times that recordings were made and replayed, by the whole process.
struct RecordingCounts {
  std::uint64_t recorded = 0;
  std::uint64_t replayed = 0;
};
[[nodiscard]] RecordingCounts CountsOfRecordings();

}  // namespace roost::testing_support
