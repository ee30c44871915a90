// Recorded ops of a device that run as one: starting them one by one can take longer than computing them.
#pragma once

namespace roost::kernels {

// An op table's end_recording makes it; destroy it before the device. It holds the ops' arguments: the memory that they
// point to must exist at each replay; its content may have changed.
class Recording {
 public:
  virtual ~Recording() = default;
};

}  // namespace roost::kernels
