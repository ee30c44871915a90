// Limits on how long a text the rules of a tokenizer file may produce from one text, and for how long. A file comes
// with a model, from a worker: if each rule of a chain doubles the text, or a pattern takes quadratic time, the text
// that shows it is refused, and other requests are not affected.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/result.h"

namespace roost::text {

// The most bytes that a text of `input_bytes` may be rewritten to: 16 times as many (no normal form needs more than 11)
// plus some for what is put before a text. For long texts the limit is 24 MiB or three times as many, whichever is more
// (a space becomes U+2581, which has three bytes).
[[nodiscard]] std::size_t MaxRewrittenBytes(std::size_t input_bytes);

// The error of a rule that would exceed the limit.
[[nodiscard]] Error GrowsOver(std::size_t limit);

// CPU time of the thread that works on one text; other threads do not use it up. Time, because work can not be counted:
// PCRE2 does not report how much a match did.
class CpuBudget {
 public:
  static constexpr double kSeconds = 1;
  static constexpr double kSecondsPerByte = 2e-6;    // about ten times what usual files take, merges included
  static constexpr std::size_t kBytesPerWork = 256;  // bytes that a rule reads, per unit of TrySpend

  CpuBudget() { Start(0); }
  // Starts now, for a text of this many bytes.
  void Start(std::size_t text_bytes);

  // False when the time is over; then SpentTime() is the error. `work` is in units of roughly 100 nanoseconds: it
  // decides how often the clock is checked.
  [[nodiscard]] bool TrySpend(std::uint64_t work) {
    work_ += work;
    return work_ < kWorkPerLook || Look();
  }
  [[nodiscard]] Error SpentTime() const;

 private:
  static constexpr std::uint64_t kWorkPerLook = 1024;

  bool Look();

  double seconds_ = 0;   // the whole budget
  double deadline_ = 0;  // on the thread's clock
  std::uint64_t work_ = 0;
};

}  // namespace roost::text
