// Shows the progress of a run: `Prefill: N tok/s, Decode: N tok/s, cached N%`, over the run so far. A terminal gets one
// line that is overwritten in place; other outputs get a line per second.
#pragma once

#include <ostream>

#include "common/base/clock.h"
#include "deploy/roostctl/generate/offline_run.h"

namespace roost::roostctl {

enum class LiveOutput { kTerminal, kLines };

class LiveLine {
 public:
  // Both outlive it.
  LiveLine(std::ostream& out, const Clock& clock, LiveOutput output);

  // Writes a line if it is time.
  void Update(const OfflineTotals& totals);
  // Writes the last line, and one with the tokens and seconds of the whole run.
  void End(const OfflineTotals& totals);

 private:
  void Write(const OfflineTotals& totals);

  std::ostream& out_;
  const Clock& clock_;
  const LiveOutput output_;
  Instant written_;  // the time when the last line was written, or the run began
};

}  // namespace roost::roostctl
