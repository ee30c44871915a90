// Checks a router's view of its workers.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include "common/wire/crowding.h"
#include "common/wire/endpoint.h"
#include "deploy/roostctl/doctor/checks.h"
#include "deploy/roostctl/remote/json_members.h"

namespace roost::roostctl {
namespace {

constexpr double kSilentSeconds = 2;
constexpr double kMaxPinnedShare = 0.4;

std::string Text(json::Element object, const char* key) {
  return std::string(json::At<std::string_view>(object, key).value_or(""));
}

// A number of 64 bits in hexadecimal; 0 for anything else.
std::uint64_t NumberIn(const std::string& text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  return error == std::errc() && end == text.data() + text.size() ? number : 0;
}

wire::ComputeShare ComputeOf(json::Element worker) {
  const auto count = [&](const char* key) {
    const std::uint64_t number = CountAt(worker, key);
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(number, std::numeric_limits<std::uint32_t>::max()));
  };
  return {.threads = count("/threads"),
          .machine = NumberIn(Text(worker, "machine")),
          .machine_cores = count("/machine_cores"),
          .cpu_group = NumberIn(Text(worker, "cpu_group")),
          .cpu_group_cores = count("/cpu_group_cores")};
}

wire::Transfer TransferOf(json::Element worker) {
  return {.address = Text(worker, "/transfer/address"),
          .layout = NumberIn(Text(worker, "/transfer/layout")),
          .numerics = NumberIn(Text(worker, "/transfer/numerics"))};
}

Finding OfWorker(const WorkerFacts& worker, Severity severity, std::string what, std::string advice = {}) {
  return {severity, "worker", worker.name, std::move(what), std::move(advice)};
}

Finding StateOf(const WorkerFacts& worker) {
  if (worker.state == "ready") {
    return OfWorker(worker, Severity::kOk,
                    fmt::format("is ready, serves {} with {} blocks of {} tokens{}", worker.model, worker.blocks,
                                worker.block_tokens, worker.engine.empty() ? "" : " beside " + worker.engine));
  }
  if (worker.state == "cordoned") {
    return OfWorker(worker, Severity::kNote, "is cordoned: it gets no requests",
                    fmt::format("roostctl uncordon {}, if that is over", worker.name));
  }
  if (worker.state == "away") {
    return OfWorker(worker, Severity::kFailure,
                    fmt::format("its engine can not be reached for {:.0f} s ({})", worker.engine_away_seconds,
                                worker.engine_absence),
                    "look at the engine's log; the worker takes requests again as soon as it answers");
  }
  if (worker.state == "draining") return OfWorker(worker, Severity::kNote, "is draining: it is about to leave");
  if (worker.state == "starting") {
    return OfWorker(worker, Severity::kWarning, "gets no requests yet: its tokenizer is not read",
                    "if it stays so, look for 'tokenizer' in the router's log");
  }
  if (worker.state == "stalled") {
    return OfWorker(worker, Severity::kFailure, "its engine hangs: it has work and completes no step",
                    "look at its log and its device, and restart it");
  }
  if (worker.state == "ejected") {
    return OfWorker(worker, Severity::kFailure, "failed requests one after the other and is left out",
                    "look at its log; the router tries it again by itself");
  }
  return OfWorker(worker, Severity::kSkipped, "the router does not tell its state: it is of an older release");
}

void CheckIndex(const WorkerFacts& worker, Findings& findings) {
  if (worker.mode == "exact" && worker.is_in_sync) return;
  if (worker.is_unread && worker.mode == "predicted") {
    findings.push_back(OfWorker(worker, Severity::kNote, "its cache is predicted from the texts that were sent there",
                                worker.cache_absence));
  } else if (!worker.cache_absence.empty()) {
    const bool is_blind = worker.mode == "blind";
    findings.push_back(OfWorker(worker, is_blind ? Severity::kNote : Severity::kWarning,
                                is_blind ? "is chosen by its load alone: the router knows nothing of its cache"
                                         : "its cache is predicted from what was sent there, not known",
                                worker.cache_absence));
  } else if (worker.mode == "exact") {
    findings.push_back(OfWorker(worker, Severity::kNote, "its index is being synchronised"));
  } else if (worker.mode == "blind") {
    findings.push_back(OfWorker(worker, Severity::kNote,
                                "is chosen by its load alone: the router knows nothing of its cache",
                                "right for --prefix-cache off; otherwise its events were wrong: look at "
                                "roost_router_worker_mode_changes_total and both logs"));
  } else {
    findings.push_back(OfWorker(worker, Severity::kWarning,
                                "its cache is predicted from what was sent there, not known",
                                "right for --cache-events off; otherwise its events were wrong: look at "
                                "roost_router_worker_mode_changes_total and both logs"));
  }
}

void CheckWorker(const WorkerFacts& worker, std::string_view router_release, Findings& findings) {
  findings.push_back(StateOf(worker));
  CheckIndex(worker, findings);
  if (worker.seconds_since_heard > kSilentSeconds) {
    findings.push_back(
        OfWorker(worker, Severity::kWarning,
                 fmt::format("was silent for {:.1f} s; it reports four times a second", worker.seconds_since_heard),
                 "look at the network, and at the load of both machines"));
  }
  if (worker.blocks > 0 &&
      static_cast<double>(worker.pinned_blocks) > kMaxPinnedShare * static_cast<double>(worker.blocks)) {
    findings.push_back(OfWorker(worker, Severity::kWarning,
                                fmt::format("{} of {} blocks are pinned", worker.pinned_blocks, worker.blocks),
                                "unpin what is no longer needed; pins leave less for everything else"));
  }
  if (!worker.release.empty() && worker.release != router_release) {
    findings.push_back(OfWorker(worker, Severity::kWarning,
                                fmt::format("is of release {} (protocol {}), the router of {}", worker.release,
                                            worker.protocol, router_release),
                                "they understand each other; end the upgrade"));
  }
}

Finding OfCrowding(const WorkerFacts& worker, const wire::Crowding& crowding) {
  const std::string who = crowding.workers == 1 ? std::string("it computes")
                                                : fmt::format("{} workers of its machine compute", crowding.workers);
  const std::string what = fmt::format("{} with {} threads on {} processors", who, crowding.threads, crowding.cores);
  // With one thread each there are only fewer workers to start.
  if (crowding.threads == crowding.workers) return {Severity::kNote, "threads", worker.name, what};
  return {Severity::kWarning, "threads", worker.name,
          what + ": threads wait for others that the kernel took off their processor, and every step gets slower",
          fmt::format("give each --threads {}", std::max(1U, crowding.cores / crowding.workers))};
}

// Each machine and each group of its workers once, with the first of them as the subject.
void CheckThreads(const std::vector<WorkerFacts>& workers, Findings& findings) {
  std::vector<wire::ComputeShare> all;
  all.reserve(workers.size());
  for (const WorkerFacts& worker : workers) all.push_back(worker.compute);
  std::set<std::pair<std::uint64_t, std::uint64_t>> told;  // machine and group; group 0: the whole machine
  for (const WorkerFacts& worker : workers) {
    const wire::Crowding crowding = wire::CrowdingOf(worker.compute, all);
    const bool is_group = worker.compute.cpu_group != 0 && crowding.cores == worker.compute.cpu_group_cores;
    const std::uint64_t group = is_group ? worker.compute.cpu_group : 0;
    if (crowding.threads == 0 || !told.emplace(worker.compute.machine, group).second) continue;
    findings.push_back(OfCrowding(worker, crowding));
  }
}

std::vector<std::string> NamesOf(const std::vector<WorkerFacts>& workers) {
  std::vector<std::string> names;
  names.reserve(workers.size());
  for (const WorkerFacts& worker : workers) names.push_back(worker.name);
  std::sort(names.begin(), names.end());
  return names;
}

void CheckRevisions(const std::string& router, const std::vector<WorkerFacts>& workers, Findings& findings) {
  std::set<std::string> models;
  for (const WorkerFacts& worker : workers) models.insert(worker.model);
  for (const std::string& model : models) {
    std::set<std::string> revisions;
    for (const WorkerFacts& worker : workers) {
      if (worker.model == model)
        revisions.insert(worker.fingerprint + worker.kv_dtype + std::to_string(worker.block_tokens));
    }
    if (revisions.size() < 2) continue;
    findings.push_back({Severity::kWarning, "revisions", router,
                        fmt::format("{} revisions of {} are served: they share no blocks", revisions.size(), model),
                        "right during an upgrade; otherwise give all workers the same folder, --compute-dtype and "
                        "--block-tokens"});
  }
}

// The reason why blocks do not travel between two workers of one revision, though both take part.
struct Barrier {
  const char* what;
  const char* advice;
};

std::optional<Barrier> BarrierBetween(const wire::Transfer& one, const wire::Transfer& other) {
  if (one.layout != other.layout) {
    return Barrier{"their blocks have different layouts", "start them with the same release"};
  }
  if (one.numerics == other.numerics) return std::nullopt;
  if (one.numerics == 0 || other.numerics == 0) {
    return Barrier{"one side takes blocks of any numerics, and so may hold other bits than the other side computes",
                   "start all with the same --transfer-numerics"};
  }
  return Barrier{"they compute different bits, as processors with other instructions do",
                 "give all processors of one kind and the same --compute-dtype; or start all with "
                 "--transfer-numerics any, if answers may differ in their bits"};
}

using Revision = std::tuple<std::string, std::string, std::string, std::uint64_t>;
Revision RevisionOf(const WorkerFacts& worker) {
  return {worker.model, worker.fingerprint, worker.kv_dtype, worker.block_tokens};
}

std::string NamesIn(const std::vector<const WorkerFacts*>& group) {
  std::vector<std::string> names;
  names.reserve(group.size());
  for (const WorkerFacts* const worker : group) names.push_back(worker->name);
  return fmt::format("{}", fmt::join(names, ", "));
}

bool ServesOnLoopback(const WorkerFacts& worker) {
  const Result<wire::Endpoint> address = wire::ParseNumericAddress(worker.transfer.address);
  return address.ok() && address->IsLoopback();
}

// Workers with the same blocks on several hosts, some of which serve theirs to their own host alone.
void CheckReach(const std::vector<const WorkerFacts*>& group, Findings& findings) {
  std::set<std::pair<std::uint64_t, std::string>> hosts;
  std::vector<const WorkerFacts*> local;
  for (const WorkerFacts* const worker : group) {
    hosts.emplace(worker->compute.machine, worker->host);
    if (ServesOnLoopback(*worker)) local.push_back(worker);
  }
  if (hosts.size() < 2 || local.empty()) return;
  findings.push_back({Severity::kNote, "transfer", NamesIn(local),
                      "blocks travel to workers of the same host alone: the address where they are fetched is loopback",
                      "--transfer-address with an address of the worker's host, keys of the link, and the port open "
                      "to the hosts of workers"});
}

// Workers whose blocks are alike are one group; each two groups of a revision between which none travel are a finding.
void CheckTransfers(const std::vector<WorkerFacts>& workers, Findings& findings) {
  std::map<std::tuple<Revision, std::uint64_t, std::uint64_t>, std::vector<const WorkerFacts*>> groups;
  for (const WorkerFacts& worker : workers) {
    const wire::Transfer& transfer = worker.transfer;
    if (transfer.layout == 0) continue;
    groups[{RevisionOf(worker), transfer.layout, transfer.numerics}].push_back(&worker);
  }
  for (const auto& [blocks, group] : groups) CheckReach(group, findings);
  for (auto one = groups.begin(); one != groups.end(); ++one) {
    for (auto other = std::next(one); other != groups.end(); ++other) {
      const WorkerFacts& first = *one->second.front();
      const WorkerFacts& second = *other->second.front();
      if (RevisionOf(first) != RevisionOf(second)) continue;
      const std::optional<Barrier> barrier = BarrierBetween(first.transfer, second.transfer);
      if (!barrier) continue;
      findings.push_back(
          {Severity::kNote, "transfer", NamesIn(one->second),
           fmt::format("no blocks travel between them and {}: {}", NamesIn(other->second), barrier->what),
           barrier->advice});
    }
  }
}

// Why a pair's last Hold broke, as far as the worker that fetches tells.
std::optional<Barrier> WhyBroken(std::string_view cause) {
  if (cause == "unreachable") {
    return Barrier{"nothing answers at the source's address",
                   "is the source's --transfer-address open to that host (firewall, network policy), and is its "
                   "--transfer-advertise right?"};
  }
  if (cause == "handshake") {
    return Barrier{"the source ends the handshake of TLS",
                   "do both have keys of the link, and do the clocks of source and router agree?"};
  }
  if (cause == "refused") {
    return Barrier{"the source refuses it", "roost_worker_transfer_refused_total of the source has the reason"};
  }
  if (cause == "silent") {
    return Barrier{"the source fell silent in mid-transfer", "look at the load of the source, and at the network"};
  }
  if (cause == "closed") {
    return Barrier{"the connection ended in mid-transfer",
                   "does the source end again and again, or a firewall cut connections? Its log has the reason"};
  }
  if (cause == "malformed") {
    return Barrier{"what came was no message of a worker", "does another program answer at the source's address?"};
  }
  return std::nullopt;
}

// Why a pair's last Hold brought nothing, as far as a router is told, and what to look at.
Barrier WhyFailing(std::string_view outcome, std::string_view cause) {
  if (cause == "own_limit") {
    return {"the worker fetches from as many sources as it takes", "--transfer-pulls of the worker that fetches"};
  }
  if (outcome == "broken") {
    if (const std::optional<Barrier> told = WhyBroken(cause)) return *told;
    return {"there was no connection, or it ended in mid-transfer",
            "the log of the worker that fetches has the reason. Is the source's --transfer-address open to that host "
            "(firewall, network policy), do both have keys of the link, and do the clocks of source and router agree?"};
  }
  if (outcome == "wrong") {
    return {
        "a block that came was not the one asked for",
        "look for faults of memory and network of both, and whether another program answers at the source's address"};
  }
  if (outcome == "slow") {
    return {"it was slower than computing", "look at the network between them, and at the load of the source"};
  }
  if (outcome == "busy") {
    return {"the source serves as many fetches as it can", "start more workers, or raise its --transfer-readers"};
  }
  if (outcome == "refused") {
    return {"the worker has as many fetches under way as it takes", "look at the load of the worker that fetches"};
  }
  if (outcome == "missing") {
    return {"the source did not hold what the router expected there",
            "is its pool so small that blocks leave it as they are asked for? roost_worker_evicted_blocks_total"};
  }
  if (outcome == "unanswered") return {"the worker gave no answer", "look at the log of the worker that fetches"};
  return {"the last one was ended, and an earlier one failed", "look at the log of the worker that fetches"};
}

// Failed, other than a few times among many that went well.
constexpr std::uint64_t kManyFailures = 3;

std::optional<Finding> OfPair(json::Element pair) {
  const std::uint64_t done = CountAt(pair, "/done");
  const std::uint64_t failed = CountAt(pair, "/failed");
  const bool is_paused = SecondsAt(pair, "/paused_seconds").value_or(0) > 0;
  const bool never_came = done == 0 && failed >= kManyFailures;
  if (!never_came && !(is_paused && failed >= kManyFailures)) return std::nullopt;
  const Barrier why = WhyFailing(TextAt(pair, "/last_outcome"), TextAt(pair, "/last_cause"));
  const std::string what = never_came
                               ? fmt::format("none of {} fetches brought all that it should: {}", failed, why.what)
                               : fmt::format("fetches fail now, {} of {} so far: {}", failed, done + failed, why.what);
  return Finding{never_came ? Severity::kWarning : Severity::kNote, "transfer",
                 fmt::format("{} from {}", TextAt(pair, "/to"), TextAt(pair, "/from")),
                 what + "; prompts are computed instead", why.advice};
}

}  // namespace

Findings CheckPairs(std::string_view transfers_json) {
  Findings findings;
  const json::Document body(transfers_json);
  for (const json::Element pair : json::ElementsAt(body.root(), "/pairs")) {
    if (std::optional<Finding> finding = OfPair(pair)) findings.push_back(*std::move(finding));
  }
  return findings;
}

Result<std::vector<WorkerFacts>> ReadWorkerFacts(std::string_view workers_json) {
  const json::Document body(workers_json);
  const auto list = json::At<json::Array>(body.root(), "workers");
  if (!list) return DataLoss("/admin/v1/workers", "the answer holds no list of workers");
  std::vector<WorkerFacts> workers;
  for (const json::Element worker : *list) {
    workers.push_back({.name = Text(worker, "id"),
                       .model = Text(worker, "model"),
                       .state = Text(worker, "state"),
                       .mode = Text(worker, "mode"),
                       .release = Text(worker, "release"),
                       .protocol = Text(worker, "protocol"),
                       .fingerprint = Text(worker, "fingerprint"),
                       .kv_dtype = Text(worker, "kv_dtype"),
                       .host = Text(worker, "host"),
                       .engine = Text(worker, "engine"),
                       .cache_absence = Text(worker, "cache_absence"),
                       .is_unread = FlagAt(worker, "/unread"),
                       .engine_absence = Text(worker, "engine_absence"),
                       .engine_away_seconds = SecondsAt(worker, "/engine_away_seconds").value_or(0),
                       .is_in_sync = FlagAt(worker, "/index_in_sync"),
                       .seconds_since_heard = SecondsAt(worker, "/seconds_since_heard").value_or(0),
                       .blocks = CountAt(worker, "/blocks"),
                       .block_tokens = CountAt(worker, "/block_tokens"),
                       .pinned_blocks = CountAt(worker, "/pinned_blocks"),
                       .waiting_requests = CountAt(worker, "/waiting_requests"),
                       .compute = ComputeOf(worker),
                       .transfer = TransferOf(worker)});
  }
  return workers;
}

Findings CheckWorkers(const std::string& router, const std::vector<WorkerFacts>& workers,
                      std::string_view router_release) {
  Findings findings;
  if (workers.empty()) {
    findings.push_back({Severity::kFailure, "workers", router, "knows no worker",
                        "start one with --router and this router's --link-address; its log says why it is refused"});
    return findings;
  }
  for (const WorkerFacts& worker : workers) CheckWorker(worker, router_release, findings);
  const bool serves =
      std::any_of(workers.begin(), workers.end(), [](const WorkerFacts& worker) { return worker.state == "ready"; });
  const bool tells =
      std::any_of(workers.begin(), workers.end(), [](const WorkerFacts& worker) { return !worker.state.empty(); });
  if (!serves && tells) {
    findings.push_back(
        {Severity::kFailure, "workers", router, "no worker takes requests: clients get 503", "see the workers above"});
  }
  CheckRevisions(router, workers, findings);
  CheckThreads(workers, findings);
  CheckTransfers(workers, findings);
  return findings;
}

Findings CheckModels(std::string_view workers_json) {
  Findings findings;
  const json::Document body(workers_json);
  for (const json::Element model : json::ElementsAt(body.root(), "models")) {
    const std::string level = Text(model, "level");
    const bool is_down = level == "down";
    const Severity severity = level == "ok" ? Severity::kOk : is_down ? Severity::kFailure : Severity::kNote;
    findings.push_back({severity, "model", Text(model, "id"), Text(model, "text"),
                        is_down ? "clients get 503: start a worker of it, or look at those above and their logs" : ""});
  }
  return findings;
}

Finding CheckSameWorkers(const std::string& router, const std::vector<WorkerFacts>& workers, const std::string& other,
                         const std::vector<WorkerFacts>& others) {
  const std::vector<std::string> known = NamesOf(workers);
  const std::vector<std::string> theirs = NamesOf(others);
  std::vector<std::string> differ;
  std::set_symmetric_difference(known.begin(), known.end(), theirs.begin(), theirs.end(), std::back_inserter(differ));
  if (differ.empty()) {
    return {Severity::kOk, "routers", other, fmt::format("knows the same {} workers as {}", theirs.size(), router)};
  }
  return {Severity::kFailure, "routers", other,
          fmt::format("it and {} do not know the same workers: {}", router, fmt::join(differ, ", ")),
          "give each worker the addresses of all routers (--router a,b), and look at the workers' logs"};
}

Findings CheckLinks(const std::string& subject, std::string_view ready_json) {
  Findings findings;
  const json::Document body(ready_json);
  if (!body.ok()) return findings;
  for (const json::Element router : json::ElementsAt(body.root(), "routers")) {
    const std::string_view state = TextAt(router, "/state");
    if (state == "up") continue;
    const bool is_refused = state == "refused";
    const auto reason = json::At<std::string_view>(router, "/reason").value_or("");
    findings.push_back(
        {Severity::kFailure, "links", subject,
         fmt::format("{} the router at {}{}{}", is_refused ? "is refused by" : "has no link to",
                     TextAt(router, "/router"), reason.empty() ? "" : ": ", reason),
         is_refused ? "mend that; the worker asks again by itself"
                    : "is the router started, is this its --link-address, and does a firewall let it through?"});
  }
  return findings;
}

}  // namespace roost::roostctl
