// The result of `roostctl doctor`: a list of findings, each with what to do.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace roost::roostctl {

// Worse ones have higher numbers.
enum class Severity : std::uint8_t {
  kOk,
  kSkipped,  // could not be checked, and why; nothing is wrong because of it
  kNote,     // right, but worth knowing
  kWarning,  // works, and costs something or will fail one day
  kFailure,  // does not work, or is not safe
};
[[nodiscard]] std::string_view NameOf(Severity severity);

struct Finding {
  Severity severity = Severity::kOk;
  std::string check;    // the check, in one word
  std::string subject;  // the thing that was checked: an address, a worker
  std::string what;
  std::string advice = {};  // the thing to do; empty when there is nothing to do

  bool operator==(const Finding&) const = default;
};

using Findings = std::vector<Finding>;

[[nodiscard]] Severity WorstOf(std::span<const Finding> findings);

// 0 up to kNote, 1 for kWarning, 2 for kFailure.
[[nodiscard]] int ExitCodeOf(std::span<const Finding> findings);

// A line for each finding and one for its advice, then a line of counts.
[[nodiscard]] std::string FormatFindings(std::span<const Finding> findings);
// {"worst": "warning", "findings": [{"severity", "check", "subject", "what", "advice"}]}
[[nodiscard]] std::string FindingsJson(std::span<const Finding> findings);

}  // namespace roost::roostctl
