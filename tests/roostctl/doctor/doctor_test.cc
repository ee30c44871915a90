#include "deploy/roostctl/doctor/doctor.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <simdjson.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string_view>

#include "deploy/roostctl/doctor/checks.h"

namespace roost::roostctl {
namespace {

using testing::HasSubstr;

WorkerFacts Ready(std::string name) {
  return {.name = std::move(name),
          .model = "m",
          .state = "ready",
          .mode = "exact",
          .release = "1",
          .protocol = "2.2",
          .fingerprint = "f",
          .kv_dtype = "f32",
          .is_in_sync = true,
          .blocks = 100,
          .block_tokens = 16};
}

// The worst finding among those of a check.
Finding Worst(const Findings& findings) {
  Finding worst;
  for (const Finding& finding : findings) {
    if (finding.severity >= worst.severity) worst = finding;
  }
  return worst;
}

TEST(FindingsTest, TheExitCodeIsThatOfTheWorst) {
  const auto code = [](Severity severity) {
    return ExitCodeOf(Findings{{Severity::kOk, "a", "b", "c"}, {severity, "a", "b", "c"}});
  };
  EXPECT_EQ(code(Severity::kOk), 0);
  EXPECT_EQ(code(Severity::kSkipped), 0);
  EXPECT_EQ(code(Severity::kNote), 0);
  EXPECT_EQ(code(Severity::kWarning), 1);
  EXPECT_EQ(code(Severity::kFailure), 2);
  EXPECT_EQ(ExitCodeOf({}), 0);
}

TEST(ModelsTest, AModelThatNobodyServesIsAFailureBesideOthersThatAreServed) {
  const Findings findings = CheckModels(
      R"({"models":[{"id":"a","level":"ok","text":"1 worker takes requests since 09:00 UTC"},)"
      R"({"id":"b","level":"down","text":"no worker takes requests since 09:24 UTC; w1 lost 6 s ago"},)"
      R"({"id":"c","level":"degraded","text":"1 of 2 workers take requests; w2 is cordoned"}],"workers":[]})");
  ASSERT_EQ(findings.size(), 3U);
  EXPECT_EQ(findings[0].severity, Severity::kOk);
  EXPECT_EQ(findings[1].severity, Severity::kFailure);
  EXPECT_EQ(findings[1].subject, "b");
  EXPECT_THAT(findings[1].what, HasSubstr("w1 lost 6 s ago"));
  EXPECT_THAT(findings[1].advice, HasSubstr("503"));
  EXPECT_EQ(findings[2].severity, Severity::kNote);
  EXPECT_TRUE(CheckModels(R"({"workers":[]})").empty()) << "an older router";
}

TEST(FindingsTest, AreToldWithTheirAdviceAndAsJson) {
  const Findings findings{{Severity::kOk, "ready", "http://a", "takes requests"},
                          {Severity::kWarning, "tls", "https://a", "ends soon", "renew it"}};
  EXPECT_EQ(FormatFindings(findings),
            "ok       ready      http://a: takes requests\n"
            "warning  tls        https://a: ends soon\n"
            "                    -> renew it\n"
            "2 checks: 1 warning, 1 ok\n");
  simdjson::dom::parser parser;
  simdjson::dom::element json;
  ASSERT_EQ(parser.parse(simdjson::padded_string(FindingsJson(findings))).get(json), simdjson::SUCCESS);
  EXPECT_EQ(std::string_view(json["worst"]), "warning");
  EXPECT_EQ(std::string_view(json.at_pointer("/findings/1/advice")), "renew it");
}

TEST(DoorTest, AnAddressBeyondThisMachineNeedsAKeyAndTls) {
  const auto door = [](const char* url, long status) { return CheckDoor({url, "use the models", status}).severity; };
  EXPECT_EQ(door("http://127.0.0.1:8000", 200), Severity::kOk);
  EXPECT_EQ(door("http://localhost:8000", 200), Severity::kOk);
  EXPECT_EQ(door("http://[::1]:8000", 200), Severity::kOk);
  EXPECT_EQ(door("unix:/run/roost.sock", 200), Severity::kOk);
  EXPECT_EQ(door("http://10.0.0.5:8000", 200), Severity::kFailure);
  EXPECT_EQ(door("https://router.example", 200), Severity::kFailure);
  EXPECT_EQ(door("http://10.0.0.5:8000", 401), Severity::kWarning);
  EXPECT_EQ(door("https://router.example", 401), Severity::kOk);
  EXPECT_EQ(door("http://127.0.0.1.example.org", 200), Severity::kFailure);
}

TEST(ClockTest, IsRightWithinTwoSeconds) {
  EXPECT_EQ(CheckClock("a", 1000, 1002).severity, Severity::kOk);
  const Finding behind = CheckClock("a", 1000, 1003);
  EXPECT_EQ(behind.severity, Severity::kWarning);
  EXPECT_THAT(behind.what, HasSubstr("3 s behind"));
  EXPECT_THAT(CheckClock("a", 1100, 1000).what, HasSubstr("100 s ahead of"));
}

TEST(CertificateTest, WarnsThreeWeeksAhead) {
  constexpr std::int64_t kDay = 86400;
  EXPECT_EQ(CheckCertificate("a", 22 * kDay, 0).severity, Severity::kOk);
  EXPECT_EQ(CheckCertificate("a", 20 * kDay, 0).severity, Severity::kWarning);
  EXPECT_EQ(CheckCertificate("a", 5, 5).severity, Severity::kFailure);
}

TEST(WorkersTest, AHealthyFleetIsOk) {
  const Findings findings = CheckWorkers("r", {Ready("w1"), Ready("w2")}, "1");
  EXPECT_EQ(findings.size(), 2U);
  EXPECT_EQ(WorstOf(findings), Severity::kOk);
}

TEST(WorkersTest, SaysWhatIsWrongWithEach) {
  const auto worst = [](auto change) {
    WorkerFacts worker = Ready("w1");
    change(worker);
    return Worst(CheckWorkers("r", {worker, Ready("w2")}, "1"));
  };
  EXPECT_EQ(worst([](WorkerFacts& worker) { worker.state = "cordoned"; }).severity, Severity::kNote);
  EXPECT_EQ(worst([](WorkerFacts& worker) { worker.state = "starting"; }).severity, Severity::kWarning);
  EXPECT_EQ(worst([](WorkerFacts& worker) { worker.state = "stalled"; }).severity, Severity::kFailure);
  EXPECT_EQ(worst([](WorkerFacts& worker) { worker.state = "ejected"; }).severity, Severity::kFailure);
  const Finding away = worst([](WorkerFacts& worker) {
    worker.state = "away";
    worker.engine_away_seconds = 64.2;
    worker.engine_absence = "connection refused";
  });
  EXPECT_EQ(away.severity, Severity::kFailure);
  EXPECT_EQ(away.what, "its engine can not be reached for 64 s (connection refused)");
  const Finding unknown = worst([](WorkerFacts& worker) {
    worker.mode = "predicted";
    worker.cache_absence = "give its address in --engine-events";
  });
  EXPECT_EQ(unknown.severity, Severity::kWarning);
  EXPECT_EQ(unknown.advice, "give its address in --engine-events");
  EXPECT_EQ(worst([](WorkerFacts& worker) { worker.mode = "predicted"; }).severity, Severity::kWarning);
  const Finding unread = worst([](WorkerFacts& worker) {
    worker.mode = "predicted";
    worker.is_unread = true;
    worker.cache_absence = "one slot: -np N";
  });
  EXPECT_EQ(unread.severity, Severity::kNote);
  EXPECT_EQ(unread.advice, "one slot: -np N");
  EXPECT_EQ(worst([](WorkerFacts& worker) { worker.mode = "blind"; }).severity, Severity::kNote);
  EXPECT_EQ(worst([](WorkerFacts& worker) { worker.is_in_sync = false; }).severity, Severity::kNote);
  EXPECT_EQ(worst([](WorkerFacts& worker) { worker.seconds_since_heard = 3; }).severity, Severity::kWarning);
  EXPECT_EQ(worst([](WorkerFacts& worker) { worker.pinned_blocks = 45; }).severity, Severity::kWarning);
  EXPECT_THAT(worst([](WorkerFacts& worker) { worker.release = "2"; }).what, HasSubstr("is of release 2"));
  EXPECT_EQ(worst([](WorkerFacts& worker) { worker.fingerprint = "g"; }).check, "revisions");
}

TEST(WorkersTest, NoWorkerThatServesIsAFailure) {
  EXPECT_EQ(CheckWorkers("r", {}, "1").at(0).severity, Severity::kFailure);
  WorkerFacts cordoned = Ready("w1");
  cordoned.state = "cordoned";
  EXPECT_THAT(Worst(CheckWorkers("r", {cordoned}, "1")).what, HasSubstr("no worker takes requests"));
  cordoned.state = "";  // an older router does not tell
  EXPECT_EQ(WorstOf(CheckWorkers("r", {cordoned}, "1")), Severity::kSkipped);
}

TEST(WorkersTest, MoreThreadsThanProcessorsAreToldOnceForEachMachine) {
  WorkerFacts a = Ready("a");
  a.compute = {.threads = 8, .machine = 1, .machine_cores = 8, .cpu_group = 0, .cpu_group_cores = 0};
  WorkerFacts b = a;
  b.name = "b";
  WorkerFacts elsewhere = a;
  elsewhere.name = "c";
  elsewhere.compute.machine = 2;
  EXPECT_EQ(WorstOf(CheckWorkers("r", {a, elsewhere}, "1")), Severity::kOk);
  const Findings findings = CheckWorkers("r", {a, b, elsewhere}, "1");
  const auto is_told = [](const Finding& finding) { return finding.check == "threads"; };
  EXPECT_EQ(std::count_if(findings.begin(), findings.end(), is_told), 1);
  const Finding told = Worst(findings);
  EXPECT_EQ(told.severity, Severity::kWarning);
  EXPECT_THAT(told.what, HasSubstr("2 workers of its machine compute with 16 threads on 8 processors"));
  EXPECT_EQ(told.advice, "give each --threads 4");
}

TEST(WorkersTest, ManyWorkersOfOneThreadAreOnlyNoted) {
  WorkerFacts worker = Ready("a");
  worker.compute = {.threads = 1, .machine = 1, .machine_cores = 2, .cpu_group = 0, .cpu_group_cores = 0};
  const std::vector<WorkerFacts> workers = {worker, worker, worker};
  EXPECT_EQ(Worst(CheckWorkers("r", workers, "1")).severity, Severity::kNote);
  EXPECT_EQ(Worst(CheckWorkers("r", workers, "1")).check, "threads");
}

TEST(WorkersTest, ThoseThatExchangeNoBlocksAreNamedWithTheReason) {
  const auto worker = [](const char* name, std::uint64_t layout, std::uint64_t numerics) {
    WorkerFacts facts = Ready(name);
    facts.transfer = {.address = "127.0.0.1:7100", .layout = layout, .numerics = numerics};
    return facts;
  };
  const auto told = [](const std::vector<WorkerFacts>& workers) {
    Findings findings = CheckWorkers("r", workers, "1");
    std::erase_if(findings, [](const Finding& finding) { return finding.check != "transfer"; });
    return findings;
  };
  EXPECT_TRUE(told({worker("a", 1, 7), worker("b", 1, 7), Ready("off")}).empty());
  EXPECT_TRUE(told({worker("a", 1, 0), worker("b", 1, 0)}).empty()) << "both take any";
  const Findings other_bits = told({worker("a", 1, 7), worker("b", 1, 8), worker("c", 1, 7), worker("d", 1, 8)});
  ASSERT_EQ(other_bits.size(), 1U) << "groups, not pairs";
  EXPECT_EQ(other_bits[0].severity, Severity::kNote);
  EXPECT_EQ(other_bits[0].subject, "a, c");
  EXPECT_THAT(other_bits[0].what, HasSubstr("no blocks travel between them and b, d: they compute different bits"));
  EXPECT_THAT(other_bits[0].advice, HasSubstr("--transfer-numerics any"));
  const Findings mixed = told({worker("a", 1, 7), worker("b", 1, 0)});
  ASSERT_EQ(mixed.size(), 1U);
  EXPECT_THAT(mixed[0].advice, HasSubstr("the same --transfer-numerics"));
  const Findings layouts = told({worker("a", 1, 7), worker("b", 2, 7)});
  ASSERT_EQ(layouts.size(), 1U);
  EXPECT_THAT(layouts[0].what, HasSubstr("different layouts"));
  WorkerFacts other_revision = worker("b", 2, 8);
  other_revision.fingerprint = "g";
  EXPECT_TRUE(told({worker("a", 1, 7), other_revision}).empty()) << "two revisions share no blocks anyway";
}

TEST(WorkersTest, OfSeveralHostsThatServeOnLoopbackAloneAreNamed) {
  const auto worker = [](const char* name, const char* host, const char* address) {
    WorkerFacts facts = Ready(name);
    facts.host = host;
    facts.transfer = {.address = address, .layout = 1, .numerics = 7};
    return facts;
  };
  const auto told = [](const std::vector<WorkerFacts>& workers) {
    Findings findings = CheckWorkers("r", workers, "1");
    std::erase_if(findings, [](const Finding& finding) { return finding.check != "transfer"; });
    return findings;
  };
  EXPECT_TRUE(told({worker("a", "one", "127.0.0.1:7100"), worker("b", "one", "127.0.0.1:7101")}).empty());
  EXPECT_TRUE(told({worker("a", "one", "10.0.0.1:7100"), worker("b", "two", "10.0.0.2:7100")}).empty());
  const Findings apart = told(
      {worker("a", "one", "127.0.0.1:7100"), worker("b", "two", "10.0.0.2:7100"), worker("c", "three", "[::1]:7100")});
  ASSERT_EQ(apart.size(), 1U);
  EXPECT_EQ(apart[0].severity, Severity::kNote);
  EXPECT_EQ(apart[0].subject, "a, c");
  EXPECT_THAT(apart[0].advice, HasSubstr("--transfer-address"));
}

TEST(PairsTest, ThatAlwaysFailAreNamedWithTheReason) {
  const auto told = [](int done, int failed, const char* outcome, double paused) {
    return CheckPairs(fmt::format(
        R"({{"pairs":[{{"from":"a","to":"b","done":{},"failed":{},"last_outcome":"{}","paused_seconds":{}}}]}})", done,
        failed, outcome, paused));
  };
  EXPECT_TRUE(told(9, 0, "complete", 0).empty());
  EXPECT_TRUE(told(9, 1, "broken", 1).empty()) << "one failure";
  EXPECT_TRUE(told(0, 2, "broken", 2).empty()) << "a source that has just ended";
  EXPECT_TRUE(told(90, 20, "complete", 0).empty()) << "it is well again";
  const Findings never = told(0, 7, "broken", 30);
  ASSERT_EQ(never.size(), 1U);
  EXPECT_EQ(never[0].severity, Severity::kWarning);
  EXPECT_EQ(never[0].subject, "b from a");
  EXPECT_THAT(never[0].what, HasSubstr("none of 7 fetches brought all that it should: there was no connection"));
  EXPECT_THAT(never[0].advice, HasSubstr("clocks"));
  const Findings now = told(90, 20, "wrong", 60);
  ASSERT_EQ(now.size(), 1U);
  EXPECT_EQ(now[0].severity, Severity::kNote);
  EXPECT_THAT(now[0].what, HasSubstr("20 of 110 so far: a block that came was not the one asked for"));
  std::set<std::string> reasons;
  for (const std::string_view outcome : wire::kHoldOutcomeNames) reasons.insert(told(0, 7, outcome.data(), 0)[0].what);
  reasons.insert(told(0, 7, "unanswered", 0)[0].what);
  EXPECT_EQ(reasons.size(), 8U) << "complete, no_room and cancelled say nothing of a failure";
  std::set<std::string> advice;
  for (const std::string_view cause :
       {"none", "unreachable", "handshake", "refused", "silent", "closed", "malformed", "own_limit"}) {
    const Findings found =
        CheckPairs(fmt::format(R"({{"pairs":[{{"from":"a","to":"b","done":0,"failed":7,"last_outcome":"broken",)"
                               R"("last_cause":"{}","paused_seconds":0}}]}})",
                               cause));
    ASSERT_EQ(found.size(), 1U);
    advice.insert(found[0].what + found[0].advice);
  }
  EXPECT_EQ(advice.size(), 8U) << "each cause has a word of its own";
  EXPECT_TRUE(CheckPairs("<html>").empty()) << "an older router";
}

TEST(WorkersTest, TwoRoutersKnowTheSameOnes) {
  EXPECT_EQ(CheckSameWorkers("a", {Ready("w1"), Ready("w2")}, "b", {Ready("w2"), Ready("w1")}).severity, Severity::kOk);
  const Finding missing = CheckSameWorkers("a", {Ready("w1"), Ready("w2")}, "b", {Ready("w2"), Ready("w3")});
  EXPECT_EQ(missing.severity, Severity::kFailure);
  EXPECT_THAT(missing.what, HasSubstr("w1, w3"));
}

TEST(WorkersTest, AreReadFromARoutersAnswer) {
  const auto facts = ReadWorkerFacts(
      R"({"workers":[{"id":"w1","model":"m","state":"ready","mode":"exact","index_in_sync":true,"release":"1",)"
      R"("seconds_since_heard":0.1,"blocks":64,"block_tokens":16,"threads":2,"machine":"fedcba9876543210",)"
      R"("machine_cores":4,"cpu_group":"000000000000001d","cpu_group_cores":3}]})");
  ASSERT_TRUE(facts.ok());
  EXPECT_EQ(
      facts->at(0).compute,
      (wire::ComputeShare{
          .threads = 2, .machine = 0xfedcba9876543210, .machine_cores = 4, .cpu_group = 0x1d, .cpu_group_cores = 3}));
  EXPECT_EQ(WorstOf(CheckWorkers("r", *facts, "1")), Severity::kOk);
  EXPECT_FALSE(ReadWorkerFacts("<html>").ok());
}

TEST(MetricsCheckTest, LooksAtLimitsAndAtWhatShouldBeZero) {
  const auto worst = [](DaemonKind kind, const char* text) {
    return Worst(CheckMetrics("d", kind, MetricsText(text)));
  };
  EXPECT_EQ(worst(DaemonKind::kRouter, "").severity, Severity::kSkipped);
  EXPECT_EQ(worst(DaemonKind::kRouter, "process_open_fds 50\nprocess_max_fds 65536\n").severity, Severity::kOk);
  EXPECT_EQ(worst(DaemonKind::kRouter, "process_open_fds 50\nprocess_max_fds 1024\n").severity, Severity::kWarning);
  EXPECT_EQ(worst(DaemonKind::kRouter, "process_open_fds 60000\nprocess_max_fds 65536\n").severity, Severity::kFailure);
  constexpr const char* kRefused =
      "process_open_fds 1\nprocess_max_fds 65536\n"
      "roost_router_link_refused_peers_total{reason=\"name\"} 3\n";
  EXPECT_THAT(worst(DaemonKind::kRouter, kRefused).what, HasSubstr("3 peers were refused"));
  constexpr const char* kWrong = "process_open_fds 1\nprocess_max_fds 65536\nroost_worker_wrong_hits_total 1\n";
  EXPECT_EQ(worst(DaemonKind::kWorker, kWrong).severity, Severity::kFailure);
  EXPECT_EQ(worst(DaemonKind::kRouter, kWrong).severity, Severity::kOk);
  constexpr const char* kTickets =
      "process_open_fds 1\nprocess_max_fds 65536\nroost_worker_transfer_refused_total{reason=\"handshake\"} 9\n"
      "roost_worker_transfer_refused_total{reason=\"ticket\"} 2\n";
  EXPECT_THAT(worst(DaemonKind::kWorker, kTickets).what, HasSubstr("2 times another worker came"));
  EXPECT_THAT(worst(DaemonKind::kWorker, kTickets).advice, HasSubstr("clock"));
  constexpr const char* kBlocks =
      "process_open_fds 1\nprocess_max_fds 65536\nroost_worker_arrivals_total{outcome=\"complete\"} 9\n";
  EXPECT_EQ(worst(DaemonKind::kWorker, kBlocks).severity, Severity::kOk);
}

TEST(LinksTest, ThoseThatAreNotUpTellWhy) {
  EXPECT_TRUE(CheckLinks("w1", R"({"status":"ready","routers":[{"router":"r:1","state":"up"}]})").empty());
  const Findings findings = CheckLinks(
      "w1",
      R"({"status":"refused","routers":[{"router":"r:1","state":"up"},)"
      R"({"router":"r:2","state":"refused","reason":"its clock differs by 400 s"},{"router":"r:3","state":"connecting"}]})");
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].severity, Severity::kFailure);
  EXPECT_EQ(findings[0].what, "is refused by the router at r:2: its clock differs by 400 s");
  EXPECT_EQ(findings[1].what, "has no link to the router at r:3");
}

TEST(ReadingsTest, AllReadThePromptAsTheFirst) {
  const PromptReading first{"a", {1, 2, 3}, "aa"};
  EXPECT_TRUE(CheckReadings({first}).empty());
  EXPECT_THAT(CheckReadings({first, {"b", {1, 2, 3}, "aa"}}).at(0).what, HasSubstr("3 tokens, the same block hashes"));
  EXPECT_EQ(CheckReadings({first, {"b", {1, 2, 3}, {}}}).at(0).severity, Severity::kOk);
  EXPECT_EQ(CheckReadings({first, {"b", {1, 2, 3}, "bb"}}).at(0).check, "hashes");
  const Finding other = CheckReadings({first, {"b", {1, 2}, "aa"}}).at(0);
  EXPECT_EQ(other.severity, Severity::kFailure);
  EXPECT_THAT(other.what, HasSubstr("from token 2 on"));
  EXPECT_THAT(CheckReadings({{"a", {1}, {}}, {"b", {1, 2}, {}}}).at(0).what, HasSubstr("from token 1 on"));
}

TEST(HitsTest, AreAsManyAsTheRouterExpected) {
  const HitTrial good{.worker = "w1",
                      .prompt_tokens = 100,
                      .block_tokens = 16,
                      .predicted_tokens = 96,
                      .cached_tokens = 99,
                      .mode = "exact"};
  EXPECT_EQ(CheckHits(good).severity, Severity::kOk);
  const auto severity = [&good](auto change) {
    HitTrial trial = good;
    change(trial);
    return CheckHits(trial).severity;
  };
  EXPECT_EQ(severity([](HitTrial& trial) { trial.cached_tokens = 0; }), Severity::kWarning);
  EXPECT_EQ(severity([](HitTrial& trial) { trial.predicted_tokens = 48; }), Severity::kWarning);
  EXPECT_EQ(severity([](HitTrial& trial) { trial.predicted_tokens = 112; }), Severity::kWarning);
  EXPECT_EQ(severity([](HitTrial& trial) { trial.predicted_tokens.reset(); }), Severity::kSkipped);
  // Nothing is said of a hit by the size of a block that is not known.
  EXPECT_EQ(severity([](HitTrial& trial) {
              trial.block_tokens = 0;
              trial.cached_tokens = 96;
            }),
            Severity::kSkipped);
  EXPECT_EQ(severity([](HitTrial& trial) {
              trial.mode = "blind";
              trial.cached_tokens = 0;
            }),
            Severity::kNote);
}

TEST(DoctorTest, AddressesWhereNothingListensAreFailuresWithAdvice) {
  DoctorOptions options;
  options.router = "http://127.0.0.1:1";
  options.admin_url = options.metrics_url = "http://127.0.0.1:1";
  std::ostringstream out;
  EXPECT_EQ(RunDoctor(options, out), 2);
  EXPECT_THAT(out.str(), HasSubstr("failure  api        http://127.0.0.1:1: no answer from"));
  EXPECT_THAT(out.str(), HasSubstr("-> is this the router's --metrics-address?"));
  EXPECT_THAT(out.str(), HasSubstr("3 checks: 3 failure\n"));
}

}  // namespace
}  // namespace roost::roostctl
