// What the rules of a tokenizer file may make of one text, and how long they may take. A file comes with a model, from
// a worker: a chain of rules that each double a text, or a pattern that takes the square of a text's length, is refused
// on the text that shows it, and harms nobody else.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/result.h"

namespace roost::text {

// The most bytes that a text of `input_bytes` may be rewritten to: 16 times as many (no normal form needs more than 11)
// and some for what is put before a text; of a long text 24 MiB, or three times as many where that is more (spaces that
// become U+2581).
[[nodiscard]] std::size_t MaxRewrittenBytes(std::size_t input_bytes);

// The error of a rule that would make more.
[[nodiscard]] Error GrowsOver(std::size_t limit);

// CPU time of the thread that works on one text; other threads take nothing from it. What the rules cost can not be
// counted instead: PCRE2 does not tell how much a match did.
class CpuBudget {
 public:
  static constexpr double kSeconds = 1;
  static constexpr double kSecondsPerByte = 2e-6;    // some ten times what usual files take, merges included
  static constexpr std::size_t kBytesPerWork = 256;  // that a rule reads, in units of TrySpend

  CpuBudget() { Start(0); }
  // For a text of so many bytes, from now on.
  void Start(std::size_t text_bytes);

  // False when the time is over; SpentTime() is the error then. `work` is in units of 100 nanoseconds, roughly: it
  // decides how often the clock is looked at.
  [[nodiscard]] bool TrySpend(std::uint64_t work) {
    work_ += work;
    return work_ < kWorkPerLook || Look();
  }
  [[nodiscard]] Error SpentTime() const;

 private:
  static constexpr std::uint64_t kWorkPerLook = 1024;

  bool Look();

  double seconds_ = 0;   // in all
  double deadline_ = 0;  // of the thread's clock
  std::uint64_t work_ = 0;
};

}  // namespace roost::text
