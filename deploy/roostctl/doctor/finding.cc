#include "deploy/roostctl/doctor/finding.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "common/base/json_writer.h"

namespace roost::roostctl {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"ok", "skipped", "note", "warning", "failure"};

std::size_t CountOf(std::span<const Finding> findings, Severity severity) {
  return static_cast<std::size_t>(std::count_if(
      findings.begin(), findings.end(), [severity](const Finding& finding) { return finding.severity == severity; }));
}

}  // namespace

std::string_view NameOf(Severity severity) { return kNames[static_cast<std::size_t>(severity)]; }

Severity WorstOf(std::span<const Finding> findings) {
  Severity worst = Severity::kOk;
  for (const Finding& finding : findings) worst = std::max(worst, finding.severity);
  return worst;
}

int ExitCodeOf(std::span<const Finding> findings) {
  const Severity worst = WorstOf(findings);
  if (worst < Severity::kWarning) return 0;
  return worst == Severity::kWarning ? 1 : 2;
}

std::string FormatFindings(std::span<const Finding> findings) {
  std::string text;
  for (const Finding& finding : findings) {
    text +=
        fmt::format("{:<8} {:<10} {}: {}\n", NameOf(finding.severity), finding.check, finding.subject, finding.what);
    if (!finding.advice.empty()) text += fmt::format("{:<19} -> {}\n", "", finding.advice);
  }
  text += fmt::format("{} checks", findings.size());
  const char* separator = ": ";
  for (std::size_t i = kNames.size(); i > 0; --i) {
    const auto severity = static_cast<Severity>(i - 1);
    if (const std::size_t count = CountOf(findings, severity); count > 0) {
      text += fmt::format("{}{} {}", separator, count, NameOf(severity));
      separator = ", ";
    }
  }
  return text + '\n';
}

std::string FindingsJson(std::span<const Finding> findings) {
  JsonWriter json;
  json.BeginObject().Key("worst").String(NameOf(WorstOf(findings))).Key("findings").BeginArray();
  for (const Finding& finding : findings) {
    json.BeginObject().Key("severity").String(NameOf(finding.severity)).Key("check").String(finding.check);
    json.Key("subject").String(finding.subject).Key("what").String(finding.what);
    json.Key("advice").String(finding.advice).EndObject();
  }
  json.EndArray().EndObject();
  return json.Take() + '\n';
}

}  // namespace roost::roostctl
