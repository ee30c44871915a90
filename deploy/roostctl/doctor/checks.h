// The checks of `roostctl doctor` as functions of the daemons' answers. They send no requests.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/wire/messages.h"
#include "deploy/roostctl/doctor/finding.h"
#include "deploy/roostctl/remote/metrics_text.h"

namespace roost::roostctl {

// ---- addresses ----

// True if only this machine reaches the address: a loopback address, localhost or a local socket.
[[nodiscard]] bool IsLocalUrl(std::string_view url);

// An answer to a request without a key.
struct OpenDoor {
  std::string url;
  std::string what;  // the use that is open to everyone there: "use the API"
  long status_without_key = 0;
};
[[nodiscard]] Finding CheckDoor(const OpenDoor& door);

// The time in an answer's Date header, and this machine's when it came; both Unix seconds.
[[nodiscard]] Finding CheckClock(const std::string& subject, std::int64_t theirs, std::int64_t ours);

// Checks the end of a certificate, in Unix seconds.
[[nodiscard]] Finding CheckCertificate(const std::string& subject, std::int64_t ends, std::int64_t now);

// ---- releases and workers ----

[[nodiscard]] Finding CheckRelease(const std::string& subject, std::string_view release, std::string_view own);

// A row of GET /admin/v1/workers. Empty texts: the router does not tell.
struct WorkerFacts {
  std::string name = {};
  std::string model = {};
  std::string state = {};
  std::string mode = {};
  std::string release = {};
  std::string protocol = {};
  std::string fingerprint = {};
  std::string kv_dtype = {};
  std::string host = {};
  std::string engine = {};          // that it stands beside
  std::string cache_absence = {};   // why it does not tell what it caches, and what would change that
  bool is_unread = false;           // its engine gets requests unread
  std::string engine_absence = {};  // why the engine that it stands beside can not be reached
  double engine_away_seconds = 0;
  bool is_in_sync = false;
  double seconds_since_heard = 0;
  std::uint64_t blocks = 0;
  std::uint64_t block_tokens = 0;
  std::uint64_t pinned_blocks = 0;
  std::uint64_t waiting_requests = 0;
  wire::ComputeShare compute = {};
  wire::Transfer transfer = {};  // zeros: it serves and fetches no blocks, or the router does not tell
};
[[nodiscard]] Result<std::vector<WorkerFacts>> ReadWorkerFacts(std::string_view workers_json);

// `router_release` is that of the router that knows them.
[[nodiscard]] Findings CheckWorkers(const std::string& router, const std::vector<WorkerFacts>& workers,
                                    std::string_view router_release);
// The state of each model, in the words of the router's verdict.
[[nodiscard]] Findings CheckModels(std::string_view workers_json);
// The pairs of GET /admin/v1/transfers from which nothing comes, or that fail now.
[[nodiscard]] Findings CheckPairs(std::string_view transfers_json);
// Do two routers know the same workers?
[[nodiscard]] Finding CheckSameWorkers(const std::string& router, const std::vector<WorkerFacts>& workers,
                                       const std::string& other, const std::vector<WorkerFacts>& others);

// ---- metrics ----

enum class DaemonKind : std::uint8_t { kRouter, kWorker };
[[nodiscard]] Findings CheckMetrics(const std::string& subject, DaemonKind kind, const MetricsText& metrics);
// A worker's links to routers that are not up, and why, from its GET /ready.
[[nodiscard]] Findings CheckLinks(const std::string& subject, std::string_view ready_json);

// ---- prompts ----

// One party's reading of a prompt.
struct PromptReading {
  std::string subject = {};
  std::vector<TokenId> tokens = {};
  std::optional<std::string> last_block_hash = {};  // in hexadecimal; none: not told
};
// All against the first.
[[nodiscard]] Findings CheckReadings(const std::vector<PromptReading>& readings);

// A prompt that was sent twice: the hits that the router predicted for the second, and those that the worker found.
struct HitTrial {
  std::string worker = {};
  std::uint64_t prompt_tokens = 0;
  std::uint64_t block_tokens = 0;  // 0: not known
  std::optional<std::uint64_t> predicted_tokens = {};
  std::uint64_t cached_tokens = 0;
  std::string mode = {};  // in which the router knows the worker's cache
};
[[nodiscard]] Finding CheckHits(const HitTrial& trial);

}  // namespace roost::roostctl
