#include "deploy/roostctl/generate/live_line.h"

#include <fmt/format.h>

#include <chrono>

namespace roost::roostctl {
namespace {

// A person can not read faster updates of a line, and a log should not grow fast.
constexpr Duration kTerminalInterval = std::chrono::milliseconds(100);
constexpr Duration kLinesInterval = std::chrono::seconds(1);
// Moves to the line's start, and erases the line.
constexpr std::string_view kRewind = "\r\x1b[K";

}  // namespace

LiveLine::LiveLine(std::ostream& out, const Clock& clock, LiveOutput output)
    : out_(out), clock_(clock), output_(output), written_(clock.Now()) {}

void LiveLine::Update(const OfflineTotals& totals) {
  const Instant now = clock_.Now();
  if (now - written_ < (output_ == LiveOutput::kTerminal ? kTerminalInterval : kLinesInterval)) return;
  written_ = now;
  Write(totals);
  if (output_ == LiveOutput::kLines) out_ << '\n';
  out_.flush();
}

void LiveLine::End(const OfflineTotals& totals) {
  Write(totals);
  out_ << fmt::format(
      "\n{} prompts in {:.2f} s: prefill {} tokens in {:.2f} s, decode {} tokens in {:.2f} s, {:.0f} tok/s in all\n",
      totals.ended_count, totals.total_seconds, totals.prefill_tokens(), totals.prefill_seconds, totals.decode_tokens,
      totals.decode_seconds, totals.total_rate());
  out_.flush();
}

void LiveLine::Write(const OfflineTotals& totals) {
  if (output_ == LiveOutput::kTerminal) out_ << kRewind;
  out_ << fmt::format("Prefill: {:.0f} tok/s, Decode: {:.0f} tok/s, cached {:.0f}%, {} of {} prompts",
                      totals.prefill_rate(), totals.decode_rate(), totals.cached_share() * 100, totals.ended_count,
                      totals.request_count);
}

}  // namespace roost::roostctl
