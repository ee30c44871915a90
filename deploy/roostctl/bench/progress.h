// Shows how far a load is, on a terminal as a bar that is overwritten in place, elsewhere as a line every few seconds.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "deploy/roostctl/bench/load_run.h"

namespace roost::roostctl {

enum class ProgressOutput { kTerminal, kLines, kNone };

// "[#####     ] 50 %  12 of 24 sessions, 31 requests, 2 failed, 4 open"
[[nodiscard]] std::string ProgressText(const LoadProgress& progress);

class ProgressBar {
 public:
  // Both outlive it.
  ProgressBar(std::ostream& out, const Clock& clock, ProgressOutput output);

  // Writes if it is time. `label` says which load it is; may be empty.
  void Update(std::string_view label, const LoadProgress& progress);
  // Erases the bar.
  void End();

 private:
  std::ostream& out_;
  const Clock& clock_;
  const ProgressOutput output_;
  Instant written_;
  bool is_shown_ = false;
};

}  // namespace roost::roostctl
