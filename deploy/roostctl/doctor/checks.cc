#include "deploy/roostctl/doctor/checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace roost::roostctl {
namespace {

constexpr std::int64_t kDay = 24 * 3600;
constexpr std::int64_t kDaysForWarning = 21;
// The header has whole seconds, and the answer takes a moment.
constexpr std::int64_t kClockTolerance = 2;
constexpr double kMaxOpenFilesShare = 0.8;
constexpr double kFewFiles = 4096;

// The host of http://host:port/path.
std::string_view HostOf(std::string_view url) {
  const std::size_t scheme = url.find("://");
  if (scheme == std::string_view::npos) return {};
  url.remove_prefix(scheme + 3);
  if (!url.empty() && url.front() == '[') return url.substr(1, url.find(']') - 1);
  return url.substr(0, url.find_first_of(":/"));
}

// ---- metrics ----

void CheckFiles(const std::string& subject, const MetricsText& metrics, Findings& findings) {
  const auto open = metrics.Sum("process_open_fds");
  const auto most = metrics.Sum("process_max_fds");
  if (!open || !most || *most <= 0) {
    findings.push_back({Severity::kSkipped, "limits", subject, "its metrics tell no limit of open files"});
    return;
  }
  Finding finding{Severity::kOk, "limits", subject, fmt::format("{:.0f} of {:.0f} files are open", *open, *most)};
  if (*open > kMaxOpenFilesShare * *most || *most < kFewFiles) {
    finding.severity = *open > kMaxOpenFilesShare * *most ? Severity::kFailure : Severity::kWarning;
    finding.advice = "each client and each stream takes one: raise LimitNOFILE of the unit, or ulimit -n";
  }
  findings.push_back(std::move(finding));
}

// A counter that should stand at zero.
struct ZeroCounter {
  std::string_view name;
  Severity severity;
  std::string_view what;
  std::string_view advice;
  // The label and its value that are meant; empty: all samples.
  std::string_view label = {};
  std::string_view value = {};
};
constexpr ZeroCounter kRouterZeros[] = {
    {"roost_router_link_refused_peers_total", Severity::kWarning, "peers were refused on the port for workers",
     "the router's log names address and reason; a worker may lack its line in the peers file"},
    {"roost_router_malformed_messages_total", Severity::kWarning, "messages of workers could not be read",
     "something else than a worker may use the port for workers"},
    {"roost_router_index_shed_blocks_total", Severity::kNote, "blocks were left out of the index: its memory is full",
     "raise --memory"},
};
constexpr ZeroCounter kWorkerZeros[] = {
    {"roost_worker_wrong_hits_total", Severity::kFailure,
     "cache hits gave other results than a computation without them",
     "take the worker out of service (roostctl cordon) and report it with its log"},
    {"roost_worker_dropped_pins_total", Severity::kWarning,
     "times all pins ended, because a request needed their blocks",
     "the pool is too small for the longest requests beside the pins: raise --kv-memory or unpin"},
    {"roost_worker_malformed_messages_total", Severity::kWarning, "messages of routers could not be read",
     "look at the worker's log"},
    {"roost_worker_arrivals_total", Severity::kWarning, "fetches brought a block that was not the one asked for",
     "nothing of it was used; look for faults of memory and network of this worker and those in its log", "outcome",
     "wrong"},
    {"roost_worker_transfer_refused_total", Severity::kWarning,
     "times another worker came for blocks with a ticket that is not valid now",
     "its clock and its routers' may differ by five minutes: set both by NTP", "reason", "ticket"},
};

void CheckZero(const std::string& subject, const ZeroCounter& counter, const MetricsText& metrics, Findings& findings) {
  MetricsText::Labels labels;
  if (!counter.label.empty()) labels.emplace_back(counter.label, counter.value);
  const double count = metrics.Sum(counter.name, labels).value_or(0);
  if (count == 0) return;
  findings.push_back({counter.severity, "metrics", subject, fmt::format("{:.0f} {}", count, counter.what),
                      std::string(counter.advice)});
}

}  // namespace

// ---- addresses ----

bool IsLocalUrl(std::string_view url) {
  if (url.substr(0, 5) == "unix:") return true;
  const std::string_view host = HostOf(url);
  // Among names, which may begin with 127 too, only localhost is certain.
  const bool is_address = host.find_first_not_of("0123456789.") == std::string_view::npos;
  return host == "localhost" || host == "::1" || (is_address && host.substr(0, 4) == "127.");
}

Finding CheckDoor(const OpenDoor& door) {
  const bool is_open = door.status_without_key != 401 && door.status_without_key != 403;
  const bool is_plain = door.url.substr(0, 5) == "http:";
  if (!is_open) {
    Finding closed{Severity::kOk, "door", door.url, "needs a key"};
    if (is_plain && !IsLocalUrl(door.url)) {
      closed = {Severity::kWarning, "door", door.url, "needs a key, which anyone on the way can read: it is plain HTTP",
                "give the router --tls-cert and --tls-key"};
    }
    return closed;
  }
  if (IsLocalUrl(door.url)) {
    return {Severity::kOk, "door", door.url, fmt::format("only this machine can {}, and needs no key", door.what)};
  }
  return {Severity::kFailure, "door", door.url, fmt::format("anyone who reaches it can {}", door.what),
          "give the router --api-keys and --admin-keys, or see to it that a firewall does"};
}

Finding CheckClock(const std::string& subject, std::int64_t theirs, std::int64_t ours) {
  const std::int64_t ahead = theirs - ours;
  if (std::abs(ahead) <= kClockTolerance) return {Severity::kOk, "clock", subject, "agrees with this machine's"};
  return {Severity::kWarning, "clock", subject,
          fmt::format("is {} s {} this machine's", std::abs(ahead), ahead > 0 ? "ahead of" : "behind"),
          "set both by NTP: certificates, tickets for blocks, logs and templates with a date depend on it"};
}

Finding CheckCertificate(const std::string& subject, std::int64_t ends, std::int64_t now) {
  const std::int64_t days = (ends - now) / kDay;
  if (ends <= now) {
    return {Severity::kFailure, "tls", subject, "its certificate has expired",
            "renew it; the router reads the files again by itself"};
  }
  const Severity severity = days < kDaysForWarning ? Severity::kWarning : Severity::kOk;
  return {severity, "tls", subject, fmt::format("its certificate is valid for {} more days", days),
          severity == Severity::kOk ? "" : "renew it; the router reads the files again by itself"};
}

Finding CheckRelease(const std::string& subject, std::string_view release, std::string_view own) {
  if (release == own)
    return {Severity::kOk, "release", subject, fmt::format("is of release {}, as this program", release)};
  return {Severity::kNote, "release", subject, fmt::format("is of release {}, this program of {}", release, own)};
}

// ---- metrics ----

Findings CheckMetrics(const std::string& subject, DaemonKind kind, const MetricsText& metrics) {
  Findings findings;
  CheckFiles(subject, metrics, findings);
  if (const auto bytes = metrics.Sum("process_resident_memory_bytes")) {
    findings.push_back(
        {Severity::kOk, "limits", subject, fmt::format("uses {:.1f} GiB of memory", *bytes / (1U << 30U))});
  }
  if (kind == DaemonKind::kRouter) {
    for (const ZeroCounter& counter : kRouterZeros) CheckZero(subject, counter, metrics, findings);
    return findings;
  }
  for (const ZeroCounter& counter : kWorkerZeros) CheckZero(subject, counter, metrics, findings);
  return findings;
}

// ---- prompts ----

Findings CheckReadings(const std::vector<PromptReading>& readings) {
  Findings findings;
  if (readings.size() < 2) return findings;
  const PromptReading& first = readings.front();
  for (std::size_t i = 1; i < readings.size(); ++i) {
    const PromptReading& other = readings[i];
    if (other.tokens != first.tokens) {
      const auto at = std::mismatch(first.tokens.begin(), first.tokens.end(), other.tokens.begin(), other.tokens.end());
      findings.push_back({Severity::kFailure, "tokenizer", other.subject,
                          fmt::format("reads the prompt differently than {}: from token {} on", first.subject,
                                      at.first - first.tokens.begin()),
                          "the folders differ: compare tokenizer.json and the chat template of all workers"});
      continue;
    }
    const bool knows_hashes = first.last_block_hash && other.last_block_hash;
    if (knows_hashes && *first.last_block_hash != *other.last_block_hash) {
      findings.push_back(
          {Severity::kFailure, "hashes", other.subject,
           fmt::format("names the prompt's blocks differently than {}", first.subject),
           "the releases differ in block identity, or the model's fingerprint does: nothing will be found"});
      continue;
    }
    findings.push_back({Severity::kOk, "tokenizer", other.subject,
                        fmt::format("reads the prompt as {} does: {} tokens{}", first.subject, first.tokens.size(),
                                    knows_hashes ? ", the same block hashes" : "")});
  }
  return findings;
}

Finding CheckHits(const HitTrial& trial) {
  const std::string found = fmt::format("a prompt of {} tokens, sent twice: {} were found in the cache",
                                        trial.prompt_tokens, trial.cached_tokens);
  if (trial.mode == "blind") return {Severity::kNote, "hits", trial.worker, found + "; it is chosen by load alone"};
  if (trial.block_tokens == 0) {
    return {Severity::kSkipped, "hits", trial.worker, found + "; the router does not tell how long its blocks are"};
  }
  if (trial.cached_tokens + trial.block_tokens < trial.prompt_tokens) {
    return {
        Severity::kWarning, "hits", trial.worker, found,
        "the second went elsewhere, or the first's blocks were evicted at once: look at roostctl explain and at the "
        "size of the pool"};
  }
  if (!trial.predicted_tokens)
    return {Severity::kSkipped, "hits", trial.worker, found + "; the router does not tell what it expected"};
  const std::uint64_t predicted = *trial.predicted_tokens;
  // A worker finds up to a block beyond the whole blocks that it reports.
  if (predicted > trial.cached_tokens || trial.cached_tokens >= predicted + trial.block_tokens) {
    return {Severity::kWarning, "hits", trial.worker, fmt::format("{}, and {} were expected", found, predicted),
            "the router's view of the cache is behind or wrong: look at roostctl status (index) and "
            "roost_router_prediction_error_tokens_total"};
  }
  return {Severity::kOk, "hits", trial.worker, fmt::format("{}, as expected", found)};
}

}  // namespace roost::roostctl
