#include "deploy/roostctl/bench/progress.h"

#include <fmt/format.h>

#include <chrono>
#include <ostream>

namespace roost::roostctl {
namespace {

// A person can not read faster updates of a line, and a log should not grow fast.
constexpr Duration kBarInterval = std::chrono::milliseconds(200);
constexpr Duration kLinesInterval = std::chrono::seconds(10);
constexpr std::size_t kWholeBarLength = 20;
// Moves to the line's start, and erases the line.
constexpr std::string_view kEraseLine = "\r\x1b[K";

}  // namespace

std::string ProgressText(const LoadProgress& progress) {
  const double share = progress.session_count == 0
                           ? 1
                           : static_cast<double>(progress.ended_sessions) / static_cast<double>(progress.session_count);
  const auto filled = static_cast<std::size_t>(share * kWholeBarLength);
  return fmt::format("[{}{}] {:.0f} %  {} of {} sessions, {} requests, {} failed, {} open", std::string(filled, '#'),
                     std::string(kWholeBarLength - filled, ' '), share * 100, progress.ended_sessions,
                     progress.session_count, progress.ended_requests, progress.failed_requests, progress.open_requests);
}

ProgressBar::ProgressBar(std::ostream& out, const Clock& clock, ProgressOutput output)
    : out_(out), clock_(clock), output_(output), written_(clock.Now()) {}

void ProgressBar::Update(std::string_view label, const LoadProgress& progress) {
  if (output_ == ProgressOutput::kNone) return;
  const bool is_terminal = output_ == ProgressOutput::kTerminal;
  const Instant now = clock_.Now();
  if (now - written_ < (is_terminal ? kBarInterval : kLinesInterval)) return;
  written_ = now;
  is_shown_ = true;
  out_ << (is_terminal ? kEraseLine : "") << label << (label.empty() ? "" : " ") << ProgressText(progress)
       << (is_terminal ? "" : "\n") << std::flush;
}

void ProgressBar::End() {
  if (output_ == ProgressOutput::kTerminal && is_shown_) out_ << kEraseLine << std::flush;
  is_shown_ = false;
}

}  // namespace roost::roostctl
