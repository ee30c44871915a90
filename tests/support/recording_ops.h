// The op table of a device that records. Between begin_recording and end_recording, another table's ops are only stored
// with their arguments; replaying calls them. Copies during a recording abort.
#pragma once

#include <cstdint>

#include "kernels/ops.h"

namespace roost::testing_support {

// Based on the plain CPU ops. One device of a thread records at a time.
[[nodiscard]] const kernels::OpTable& RecordingOps();

// The recordings that the whole process has made and replayed.
struct RecordingCounts {
  std::uint64_t recorded = 0;
  std::uint64_t replayed = 0;
};
[[nodiscard]] RecordingCounts CountsOfRecordings();

}  // namespace roost::testing_support
