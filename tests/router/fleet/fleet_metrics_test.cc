#include "router/fleet/registry_fleet_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/metrics/registry.h"

namespace roost::router {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Alerts and rates need a zero before the first event.
TEST(FleetMetricsTest, AllSeriesAreThereFromTheStart) {
  metrics::Registry registry;
  const auto fleet = MakeFleetMetrics(registry, "cache-aware");
  const std::string at_start = registry.Text();
  for (const char* series :
       {R"(decisions_total{policy="cache-aware",reason="unsticky"})", R"(index_resyncs_total{reason="digest"})",
        R"(worker_mode_changes_total{mode="blind",reason="missing_tokens"})", "malformed_messages_total",
        R"(link_refused_peers_total{reason="name"})", "index_shed_blocks_total"}) {
    EXPECT_THAT(at_start, HasSubstr("\nroost_router_" + std::string(series) + " 0\n"));
  }
  EXPECT_THAT(at_start, Not(HasSubstr("model=")));
  EXPECT_THAT(at_start, Not(HasSubstr(R"(reason="left")")));
  fleet->SetInFlight("demo", "a", 0);  // a worker connects
  const std::string with_model = registry.Text();
  for (const char* series :
       {R"(retries_total{model="demo",reason="unavailable"})", R"(workers_lost_total{model="demo",reason="silent"})",
        R"(workers_lost_total{model="demo",reason="stalled"})",
        R"(queue_refused_total{model="demo",reason="deadline"})", R"(prompt_tokens_total{model="demo"})",
        R"(regret_seconds_total{model="demo"})", R"(routed_ttft_seconds_total{choice="round_robin",model="demo"})",
        R"(queued_requests{model="demo"})", R"(queue_wait_seconds_count{model="demo"})",
        R"(worker_requests_total{model="demo",worker="a"})"}) {
    EXPECT_THAT(with_model, HasSubstr("\nroost_router_" + std::string(series) + " 0\n"));
  }
}

TEST(FleetMetricsTest, CountsUnderTheNamesOfTheCatalog) {
  metrics::Registry registry;
  const auto fleet = MakeFleetMetrics(registry, "cache-aware");
  fleet->OnDecision("cache-aware", DecisionReason::kDeepestMatch);
  fleet->OnDecision("cache-aware", DecisionReason::kDeepestMatch);
  const DecisionAudit audit{.regret_tokens = 16,
                            .regret_seconds = 0.25,
                            .regret_whole_seconds = 0.75,
                            .rotation_matched_tokens = 32,
                            .rotation_ttft_seconds = 2,
                            .rotation_whole_seconds = 9};
  Decision decision;
  decision.matched_tokens = 48;
  decision.predicted_ttft_seconds = 0.5;
  decision.predicted_whole_seconds = 8;
  fleet->OnDecisionAudit("demo", decision, audit);  // no rates are known: no seconds
  decision.in_seconds = true;
  decision.together = "price";
  fleet->OnDecisionAudit("demo", decision, audit);
  fleet->OnTtft("demo", {.predicted_seconds = 0.5, .actual_seconds = 0.75});
  fleet->OnItl("demo", {.predicted_seconds = 0.25, .actual_seconds = 0.125});
  fleet->OnSent("demo", "a");
  fleet->OnFirstToken("demo", {.prompt_tokens = 100, .predicted_cached_tokens = 48, .actual_cached_tokens = 64});
  fleet->OnFirstToken("demo", {.prompt_tokens = 100, .predicted_cached_tokens = 48, .actual_cached_tokens = 40});
  fleet->OnCacheOff("demo");
  fleet->OnCopied("demo", 256);
  fleet->OnCopied("demo", 44);
  fleet->OnPull("demo", wire::HoldOutcome::kNoRoom, 96);
  fleet->OnPull("demo", std::nullopt, 0);
  fleet->OnRetry("demo", RetryReason::kWorkerLost);
  fleet->OnWorkerLost("demo", LostReason::kSilent);
  fleet->OnResync(ResyncReason::kDigest);
  fleet->OnModeChange(WorkerMode::kPredicted, ModeReason::kMissingTokens);
  fleet->SetMode("demo", "a", WorkerMode::kPredicted);
  fleet->SetMode("demo", "b", WorkerMode::kExact);
  fleet->SetInFlight("demo", "b", 2);
  fleet->SetCacheValue("demo", "b", 2);
  fleet->OnSent("demo", "b");
  fleet->ForgetWorker("demo", "b");
  fleet->OnQueueRefused("demo", QueueRefusal::kDeadline);
  fleet->OnQueueWait("demo", 0.25);
  fleet->SetQueued("demo", 5);
  fleet->OnIndexEvents(7, 2);
  fleet->OnMalformedMessage();
  fleet->SetWorkers("demo", {.by_state = {1, 3, 7, 4, 5, 6, 2}});
  fleet->SetWorkers("retired", {});
  fleet->ForgetModel("retired");
  fleet->SetIndex({.block_count = 12, .memory_bytes = 4096, .shed_blocks_total = 3});
  fleet->SetInFlight("demo", "a", 3);
  fleet->SetCacheValue("demo", "a", 12.5);
  fleet->OnHandover("demo", HandoverKind::kLeave, HandoverEnd::kPartial);
  fleet->OnDecisionSeconds(0.00001);

  const std::string text = registry.Text();
  for (const char* line : {R"(roost_router_decisions_total{policy="cache-aware",reason="deepest_match"} 2)",
                           R"(roost_router_routed_matched_tokens_total{choice="chosen",model="demo"} 96)",
                           R"(roost_router_routed_matched_tokens_total{choice="round_robin",model="demo"} 64)",
                           R"(roost_router_routed_ttft_seconds_total{choice="chosen",model="demo"} 0.5)",
                           R"(roost_router_routed_ttft_seconds_total{choice="round_robin",model="demo"} 2)",
                           R"(roost_router_regret_tokens_total{model="demo"} 32)",
                           R"(roost_router_prompts_together_total{model="demo",reason="price"} 1)",
                           R"(roost_router_regret_seconds_total{model="demo"} 0.25)",
                           R"(roost_router_routed_whole_seconds_total{choice="chosen",model="demo"} 8)",
                           R"(roost_router_routed_whole_seconds_total{choice="round_robin",model="demo"} 9)",
                           R"(roost_router_regret_whole_seconds_total{model="demo"} 0.75)",
                           R"(roost_router_predicted_itl_seconds_sum{model="demo"} 0.25)",
                           R"(roost_router_mean_itl_seconds_sum{model="demo"} 0.125)",
                           R"(roost_router_itl_error_seconds_sum{model="demo"} 0.125)",
                           R"(roost_router_predicted_ttft_seconds_sum{model="demo"} 0.5)",
                           R"(roost_router_dispatch_ttft_seconds_sum{model="demo"} 0.75)",
                           R"(roost_router_ttft_error_seconds_sum{model="demo"} 0.25)",
                           R"(roost_router_worker_requests_total{model="demo",worker="a"} 1)",
                           R"(roost_router_prompt_tokens_total{model="demo"} 200)",
                           R"(roost_router_cached_tokens_total{model="demo"} 104)",
                           R"(roost_router_predicted_cached_tokens_total{model="demo"} 96)",
                           R"(roost_router_prediction_error_tokens_total{model="demo"} 24)",
                           R"(roost_router_cache_off_requests_total{model="demo"} 1)",
                           R"(roost_router_copied_tokens_total{model="demo"} 300)",
                           R"(roost_router_pulls_total{model="demo",outcome="no_room"} 1)",
                           R"(roost_router_pulls_total{model="demo",outcome="unanswered"} 1)",
                           R"(roost_router_pulls_total{model="demo",outcome="complete"} 0)",
                           R"(roost_router_pulled_tokens_total{model="demo"} 96)",
                           R"(roost_router_handovers_total{kind="leave",model="demo",outcome="partial"} 1)",
                           R"(roost_router_handovers_total{kind="join",model="demo",outcome="complete"} 0)",
                           R"(roost_router_worker_cache_value_seconds{model="demo",worker="a"} 12.5)",
                           R"(roost_router_retries_total{model="demo",reason="worker_lost"} 1)",
                           R"(roost_router_workers_lost_total{model="demo",reason="silent"} 1)",
                           R"(roost_router_index_resyncs_total{reason="digest"} 1)",
                           R"(roost_router_index_events_total{kind="stored"} 7)",
                           R"(roost_router_index_events_total{kind="removed"} 2)",
                           "roost_router_malformed_messages_total 1",
                           R"(roost_router_workers{model="demo",state="ready"} 2)",
                           R"(roost_router_workers{model="demo",state="cordoned"} 3)",
                           R"(roost_router_workers{model="demo",state="starting"} 1)",
                           R"(roost_router_workers{model="demo",state="away"} 7)",
                           R"(roost_router_workers{model="demo",state="draining"} 4)",
                           R"(roost_router_workers{model="demo",state="stalled"} 5)",
                           R"(roost_router_workers{model="demo",state="ejected"} 6)",
                           "roost_router_index_blocks 12",
                           "roost_router_index_bytes 4096",
                           "roost_router_index_shed_blocks_total 3",
                           R"(roost_router_worker_in_flight_requests{model="demo",worker="a"} 3)",
                           R"(roost_router_worker_mode_changes_total{mode="predicted",reason="missing_tokens"} 1)",
                           R"(roost_router_worker_mode{mode="predicted",model="demo",worker="a"} 1)",
                           R"(roost_router_worker_mode{mode="exact",model="demo",worker="a"} 0)",
                           R"(roost_router_queue_refused_total{model="demo",reason="deadline"} 1)",
                           R"(roost_router_queue_wait_seconds_count{model="demo"} 1)",
                           R"(roost_router_queued_requests{model="demo"} 5)",
                           "roost_router_decision_seconds_count 1"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, Not(HasSubstr(R"(worker="b")")));  // the worker is gone
  EXPECT_THAT(text, Not(HasSubstr(R"(roost_router_workers{model="retired")")));
}

}  // namespace
}  // namespace roost::router
