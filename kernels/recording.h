// Ops that were recorded on a device, to be run as one: starting them one by one can take longer than computing them.
#pragma once

namespace roost::kernels {

// Made by an op table's end_recording, and gone before the device. It holds the ops' arguments: what they point to must
// be there when it is replayed, and may have changed.
class Recording {
 public:
  virtual ~Recording() = default;
};

}  // namespace roost::kernels
