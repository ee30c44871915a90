// Every metric of both daemons, declared once: dashboards, rules and code use these names and no others (a test
// compares them). Base units, the last word of a name; counters end in _total. All metrics of a worker carry the
// constant labels `model` and `worker` too. Users read this as dashboards/metrics.md, which dashboards/generate.py
// writes.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

namespace roost::metrics {

enum class Kind { kCounter, kGauge, kHistogram };

struct Metric {
  Kind kind;
  std::string_view name;
  std::string_view labels;  // names, separated by commas, in the order in which values are given
  std::string_view help;
  std::span<const double> buckets = {};  // upper bounds; histograms only
};

// A label, and how many values it can have in a metric of one process. Values beyond `most` become "other" where the
// registry is the one to bound them; then a gauge of "other" shows the last value that was set.
struct Label {
  enum class Bound {
    kFixed,     // a list in the program
    kRegistry,  // names from outside
    kOwner,     // names from outside, which the metric's owner bounds: it removes series
  };
  std::string_view name;
  std::size_t most;
  Bound bound;
  std::string_view help;
};

inline constexpr std::string_view kOtherValue = "other";

// clang-format off
inline constexpr std::array kLabels{
    Label{"choice", 2, Label::Bound::kFixed, "chosen, round_robin"},
    Label{"code", 24, Label::Bound::kFixed, "HTTP status; 499: the client went away first"},
    Label{"gpu", 16, Label::Bound::kFixed, "number among the worker's GPUs, from 0"},
    Label{"key", 1000, Label::Bound::kRegistry, "name of an API key"},
    Label{"kind", 2, Label::Bound::kFixed, "stored, removed"},
    Label{"mode", 3, Label::Bound::kFixed, "exact, predicted, blind"},
    Label{"model", 256, Label::Bound::kRegistry, "name of a model that a worker serves"},
    Label{"outcome", 24, Label::Bound::kFixed, "how a request ended"},
    Label{"policy", 1, Label::Bound::kFixed, "the router's --policy"},
    Label{"pool", 4, Label::Bound::kFixed, "0.5x, 1x, 2x, 4x"},
    Label{"reason", 20, Label::Bound::kFixed, "as the metric says"},
    Label{"revision", 1, Label::Bound::kFixed, "of the source, where the build was told it (ROOST_REVISION)"},
    Label{"route", 35, Label::Bound::kFixed, "route of the API, without its path; other: no route"},
    Label{"source", 2, Label::Bound::kFixed, "where blocks came from: peer (another worker)"},
    Label{"state", 7, Label::Bound::kFixed, "as the metric says"},
    Label{"tenant", 1000, Label::Bound::kRegistry, "tenant of an API key"},
    Label{"version", 1, Label::Bound::kFixed, "release of the program"},
    Label{"worker", 1024, Label::Bound::kOwner, "name of a worker; at a router, of one that is connected"},
};
// clang-format on

// Start low enough for small models on a CPU, end high enough for long prompts in a queue.
inline constexpr std::array kLatencySeconds{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,   0.25,
                                            0.5,    1.0,   2.5,    5.0,   10.0, 25.0,  50.0, 100.0, 250.0};
// For decisions and engine steps.
inline constexpr std::array kShortSeconds{0.000001, 0.0000025, 0.000005, 0.00001, 0.000025, 0.00005, 0.0001,
                                          0.00025,  0.0005,    0.001,    0.0025,  0.005,    0.01,    0.025,
                                          0.05,     0.1,       0.25,     0.5,     1.0};
// Buckets for the time that blocks stay in the cache. worker/cache/observe/residency.h counts with the same bounds.
inline constexpr std::array kBlockSeconds{0.001, 0.002, 0.005, 0.01, 0.02, 0.05,  0.1,   0.2,   0.5,    1.0,   2.0,
                                          5.0,   10.0,  20.0,  30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0};

// Buckets for the tokens of prompts and answers.
inline constexpr std::array kTokenCounts{1.0,     4.0,     16.0,     64.0,     128.0,    256.0,
                                         512.0,   1024.0,  2048.0,   4096.0,   8192.0,   16384.0,
                                         32768.0, 65536.0, 131072.0, 262144.0, 1048576.0};

// clang-format off

// ---- both daemons ----
inline constexpr Metric kBuildInfo{Kind::kGauge, "roost_build_info", "version,revision",
    "Always 1: which build runs."};
inline constexpr Metric kProcessCpuSeconds{Kind::kCounter, "process_cpu_seconds_total", "",
    "Processor time of all threads, in the program and in the kernel."};
inline constexpr Metric kProcessResidentMemory{Kind::kGauge, "process_resident_memory_bytes", "",
    "Memory in use, without what is swapped out."};
inline constexpr Metric kProcessOpenFds{Kind::kGauge, "process_open_fds", "",
    "Open file descriptors; each connection is one."};
inline constexpr Metric kProcessMaxFds{Kind::kGauge, "process_max_fds", "",
    "Most file descriptors that the process may open."};
inline constexpr Metric kProcessThreads{Kind::kGauge, "process_threads", "",
    "Threads of the process."};
inline constexpr Metric kProcessStartTime{Kind::kGauge, "process_start_time_seconds", "",
    "When the process began, in Unix time."};

// ---- router ----
inline constexpr Metric kRouterRequests{Kind::kCounter, "roost_router_requests_total", "route,code",
    "HTTP requests answered, by route and status code, without probes and scrapes. They have no model, which only a "
    "valid body names: roost_router_generations_total has."};
inline constexpr Metric kRouterGenerations{Kind::kCounter, "roost_router_generations_total", "model,outcome",
    "Generations ended, by outcome: stop, length, tool_calls, client_gone, or the name of the error that ended it, such as "
    "overloaded, unavailable or deadline_exceeded. A stream that breaks off counts here as an error, and by its code as 200."};
inline constexpr Metric kRouterGenerationPromptTokens{Kind::kHistogram, "roost_router_generation_prompt_tokens", "model",
    "Prompt tokens of a generation whose first token came.", kTokenCounts};
inline constexpr Metric kRouterGenerationOutputTokens{Kind::kHistogram, "roost_router_generation_output_tokens", "model",
    "Tokens of such a generation's answer, all its choices together.", kTokenCounts};
inline constexpr Metric kRouterTlsHandshakeFailures{Kind::kCounter, "roost_router_tls_handshake_failures_total", "reason",
    "TLS handshakes that failed, by reason: timeout, client_left, plain_http, too_large, client_certificate or protocol."};
inline constexpr Metric kRouterTlsCertificateExpiry{Kind::kGauge, "roost_router_tls_certificate_expiry_timestamp_seconds", "",
    "When the TLS certificate in use ends, in Unix time; 0 without TLS."};
inline constexpr Metric kRouterUnknownFields{Kind::kCounter, "roost_router_unknown_request_fields_total", "",
    "Members of generation requests that no API of this server knows; they are ignored."};
inline constexpr Metric kRouterDroppedReasoning{Kind::kCounter, "roost_router_dropped_reasoning_items_total", "",
    "Items of reasoning in requests of the Responses API that no message of the assistant follows; they are left out."};
inline constexpr Metric kRouterPromptBytes{Kind::kCounter, "roost_router_prompt_bytes_total", "",
    "Bytes of prompt text that were turned into tokens; requests with the cache off are not counted."};
inline constexpr Metric kRouterPromptMemoHitBytes{Kind::kCounter, "roost_router_prompt_memo_hit_bytes_total", "",
    "Of these, bytes whose tokens the prompt memo knew."};
inline constexpr Metric kRouterPromptMemoBytes{Kind::kGauge, "roost_router_prompt_memo_bytes", "",
    "Memory of the prompt memo."};
inline constexpr Metric kRouterPromptMemoEvictions{Kind::kCounter, "roost_router_prompt_memo_evictions_total", "",
    "Pieces of prompts that the prompt memo dropped for others."};
inline constexpr Metric kRouterActiveRequests{Kind::kGauge, "roost_router_active_requests", "",
    "Generations accepted and not yet ended."};
inline constexpr Metric kRouterPromptTokens{Kind::kCounter, "roost_router_prompt_tokens_total", "model",
    "Prompt tokens of requests whose first token came."};
inline constexpr Metric kRouterCachedTokens{Kind::kCounter, "roost_router_cached_tokens_total", "model",
    "Prompt tokens that workers found in their cache, of the same requests."};
inline constexpr Metric kRouterPredictedCachedTokens{Kind::kCounter, "roost_router_predicted_cached_tokens_total", "model",
    "Prompt tokens that the router expected the chosen worker to find in its cache."};
inline constexpr Metric kRouterPredictionErrorTokens{Kind::kCounter, "roost_router_prediction_error_tokens_total", "model",
    "Absolute differences between predicted and actual cached tokens, in whole blocks, added up."};
inline constexpr Metric kRouterCacheOff{Kind::kCounter, "roost_router_cache_off_requests_total", "model",
    "Generations whose request switched the cache off."};
inline constexpr Metric kRouterCopiedTokens{Kind::kCounter, "roost_router_copied_tokens_total", "model",
    "Prompt tokens that workers computed for copies of hot prefixes, which no request waited for."};
inline constexpr Metric kRouterPulls{Kind::kCounter, "roost_router_pulls_total", "model,outcome",
    "Orders to workers to fetch blocks from another worker, by how they ended: complete, missing (the source does not hold the rest), busy, slow, broken, wrong, no_room, cancelled, refused or unanswered."};
inline constexpr Metric kRouterPulledTokens{Kind::kCounter, "roost_router_pulled_tokens_total", "model",
    "Prompt tokens whose blocks workers fetched from other workers instead of computing them."};
inline constexpr Metric kRouterPromptsTogether{Kind::kCounter, "roost_router_prompts_together_total", "model,reason",
    "Prompts computed where their answers are, in fleets that have workers for prompts alone, by the reason. Those computed apart are in roost_router_decisions_total."};
inline constexpr Metric kRouterHandovers{Kind::kCounter, "roost_router_handovers_total", "model,kind,outcome",
    "Handovers of prefixes from workers that leave, and to workers that join, by how they ended: complete, partial (some found no room, did not come in time, or were left) or nothing (there was none, or nobody to take it)."};
inline constexpr Metric kRouterWorkerCacheValue{Kind::kGauge, "roost_router_worker_cache_value_seconds", "model,worker",
    "Seconds of prefill in an hour that the worker's cache saves this router's requests and no other worker's cache could, by the last minutes."};
inline constexpr Metric kRouterPullError{Kind::kHistogram, "roost_router_pull_error_seconds", "model",
    "Absolute difference between predicted and actual time of the blocks that workers fetched for requests.", kLatencySeconds};
inline constexpr Metric kRouterOutputTokens{Kind::kCounter, "roost_router_output_tokens_total", "model",
    "Tokens generated."};
inline constexpr Metric kRouterKeyRequests{Kind::kCounter, "roost_router_key_requests_total", "key,tenant",
    "Generations of an API key that were computed."};
inline constexpr Metric kRouterKeyRefusedRequests{Kind::kCounter, "roost_router_key_refused_requests_total", "key,tenant",
    "Requests of an API key over one of its limits, answered 429."};
inline constexpr Metric kRouterKeyPromptTokens{Kind::kCounter, "roost_router_key_prompt_tokens_total", "key,tenant",
    "Prompt tokens of an API key's generations, cached ones too."};
inline constexpr Metric kRouterKeyCachedTokens{Kind::kCounter, "roost_router_key_cached_tokens_total", "key,tenant",
    "Prompt tokens of an API key's generations that were found in a worker's cache."};
inline constexpr Metric kRouterKeyOutputTokens{Kind::kCounter, "roost_router_key_output_tokens_total", "key,tenant",
    "Tokens generated for an API key."};
inline constexpr Metric kRouterTtft{Kind::kHistogram, "roost_router_ttft_seconds", "model",
    "Time to first token, from the request's arrival.", kLatencySeconds};
inline constexpr Metric kRouterInterToken{Kind::kHistogram, "roost_router_inter_token_seconds", "model",
    "Time between one token and the next of a generation.", kLatencySeconds};
inline constexpr Metric kRouterRequestSeconds{Kind::kHistogram, "roost_router_request_seconds", "model",
    "Time from a generation's arrival to its end.", kLatencySeconds};
inline constexpr Metric kRouterDecisions{Kind::kCounter, "roost_router_decisions_total", "policy,reason",
    "Routing decisions, by reason."};
inline constexpr Metric kRouterDecisionSeconds{Kind::kHistogram, "roost_router_decision_seconds", "",
    "Time to match a prompt and choose a worker.", kShortSeconds};
inline constexpr Metric kRouterPredictedTtft{Kind::kHistogram, "roost_router_predicted_ttft_seconds", "model",
    "Time from decision to first token, as the decision predicted it.", kLatencySeconds};
inline constexpr Metric kRouterDispatchTtft{Kind::kHistogram, "roost_router_dispatch_ttft_seconds", "model",
    "Time from decision to first token, of the same generations.", kLatencySeconds};
inline constexpr Metric kRouterTtftError{Kind::kHistogram, "roost_router_ttft_error_seconds", "model",
    "Absolute difference between predicted and actual time from decision to first token.", kLatencySeconds};
inline constexpr Metric kRouterPredictedItl{Kind::kHistogram, "roost_router_predicted_itl_seconds", "model",
    "Mean time between the tokens of a generation, as the decision predicted it.", kLatencySeconds};
inline constexpr Metric kRouterMeanItl{Kind::kHistogram, "roost_router_mean_itl_seconds", "model",
    "Mean time between the tokens of a generation, of the same generations.", kLatencySeconds};
inline constexpr Metric kRouterItlError{Kind::kHistogram, "roost_router_itl_error_seconds", "model",
    "Absolute difference between predicted and actual mean time between the tokens of a generation.", kLatencySeconds};
inline constexpr Metric kRouterRoutedMatchedTokens{Kind::kCounter, "roost_router_routed_matched_tokens_total", "model,choice",
    "Prompt tokens cached at decision time, by choice: at the chosen worker, and at the worker that round robin would have chosen."};
inline constexpr Metric kRouterRoutedTtft{Kind::kCounter, "roost_router_routed_ttft_seconds_total", "model,choice",
    "Predicted times to first token, added up, by choice: of the chosen worker, and of the worker that round robin would have chosen."};
inline constexpr Metric kRouterRoutedWhole{Kind::kCounter, "roost_router_routed_whole_seconds_total", "model,choice",
    "Predicted times from decision to last token, added up, by choice: of the chosen worker, and of the worker that round robin would have chosen."};
inline constexpr Metric kRouterSavedPrefill{Kind::kCounter, "roost_router_saved_prefill_seconds_total", "model,choice",
    "Seconds of prefill that cached tokens saved, by choice: at the chosen worker, and at the worker that round robin would have chosen."};
inline constexpr Metric kRouterRegretTokens{Kind::kCounter, "roost_router_regret_tokens_total", "model",
    "Prompt tokens that the worker with the longest match held beyond those of the chosen worker."};
inline constexpr Metric kRouterRegretSeconds{Kind::kCounter, "roost_router_regret_seconds_total", "model",
    "Predicted time to first token of the chosen worker minus that of the fastest candidate, added up."};
inline constexpr Metric kRouterRegretWhole{Kind::kCounter, "roost_router_regret_whole_seconds_total", "model",
    "Predicted time to the last token of the chosen worker minus that of the fastest candidate, added up."};
inline constexpr Metric kRouterWorkerRequests{Kind::kCounter, "roost_router_worker_requests_total", "model,worker",
    "Generations sent to each worker."};
inline constexpr Metric kRouterWorkerInFlight{Kind::kGauge, "roost_router_worker_in_flight_requests", "model,worker",
    "Generations of this router that are at a worker now."};
inline constexpr Metric kRouterWorkers{Kind::kGauge, "roost_router_workers", "model,state",
    "Workers of each model, by state: ready, cordoned, starting, away, draining, stalled or ejected. Only ready ones get new "
    "requests. A model whose workers were lost keeps its zeros; one whose last worker left on its own loses them ten "
    "minutes later."};
inline constexpr Metric kRouterWorkersLost{Kind::kCounter, "roost_router_workers_lost_total", "model,reason",
    "Workers that were lost, not stopped, by reason: silent, restarted, broken_link, unreachable or stalled."};
inline constexpr Metric kRouterRetries{Kind::kCounter, "roost_router_retries_total", "model,reason",
    "Generations sent again to another worker, by what happened at the first."};
inline constexpr Metric kRouterIndexBlocks{Kind::kGauge, "roost_router_index_blocks", "",
    "Distinct blocks in the prefix index."};
inline constexpr Metric kRouterIndexBytes{Kind::kGauge, "roost_router_index_bytes", "",
    "Memory of the prefix index."};
inline constexpr Metric kRouterIndexShedBlocks{Kind::kCounter, "roost_router_index_shed_blocks_total", "",
    "Blocks of workers that the index left out or dropped because its memory was full."};
inline constexpr Metric kRouterIndexEvents{Kind::kCounter, "roost_router_index_events_total", "kind",
    "Blocks that workers reported as stored or removed."};
inline constexpr Metric kRouterIndexResyncs{Kind::kCounter, "roost_router_index_resyncs_total", "reason",
    "Snapshots asked for, by reason: hello, gap or digest."};
inline constexpr Metric kRouterQueued{Kind::kGauge, "roost_router_queued_requests", "model",
    "Generations that wait at the router because no worker has room."};
inline constexpr Metric kRouterQueueWait{Kind::kHistogram, "roost_router_queue_wait_seconds", "model",
    "Time that generations waited at the router, of those that did.", kLatencySeconds};
inline constexpr Metric kRouterQueueRefused{Kind::kCounter, "roost_router_queue_refused_total", "model,reason",
    "Generations refused by the router's queue, by reason: full or deadline."};
inline constexpr Metric kRouterWorkerMode{Kind::kGauge, "roost_router_worker_mode", "model,worker,mode",
    "1 for the mode in which the router knows a worker's cache: exact (by its events), predicted (by what was sent there) or blind."};
inline constexpr Metric kRouterWorkerModeChanges{Kind::kCounter, "roost_router_worker_mode_changes_total", "mode,reason",
    "Changes of the mode in which the router knows a worker's cache, by new mode and reason: missing_tokens, quiet, "
    "cache_unknown or cache_known."};
inline constexpr Metric kRouterMalformedMessages{Kind::kCounter, "roost_router_malformed_messages_total", "",
    "Messages from workers that could not be read."};
inline constexpr Metric kRouterUnknownMessages{Kind::kCounter, "roost_router_unknown_messages_total", "",
    "Messages from newer workers of a kind that this router does not know."};
inline constexpr Metric kRouterLinkRefusedPeers{Kind::kCounter, "roost_router_link_refused_peers_total", "reason",
    "Peers refused on the port for workers that has keys, by reason: mechanism, handshake, unknown_key or name (of each hello)."};
inline constexpr Metric kRouterRecordedRequests{Kind::kCounter, "roost_router_recorded_requests_total", "outcome",
    "Requests that --record wrote to its file or dropped."};
inline constexpr Metric kRouterLedgerWrites{Kind::kCounter, "roost_router_ledger_writes_total", "outcome",
    "Writes of --ledger, one a second while requests end: written or failed. What failed is written later."};
inline constexpr Metric kRouterTraceSpans{Kind::kCounter, "roost_router_trace_spans_total", "outcome",
    "Spans for --otlp-endpoint that were sent, refused by the collector, or dropped: queue_full, unreachable."};

// ---- worker ----
inline constexpr Metric kWorkerRequests{Kind::kCounter, "roost_worker_requests_total", "outcome",
    "Requests ended, by outcome: stop, length, cancelled or error."};
inline constexpr Metric kWorkerRunning{Kind::kGauge, "roost_worker_running_requests", "",
    "Requests in the batch."};
inline constexpr Metric kWorkerWaiting{Kind::kGauge, "roost_worker_waiting_requests", "",
    "Requests in the queue."};
inline constexpr Metric kWorkerPromptTokens{Kind::kCounter, "roost_worker_prompt_tokens_total", "",
    "Prompt tokens of requests whose prefill ended."};
inline constexpr Metric kWorkerCachedTokens{Kind::kCounter, "roost_worker_cached_tokens_total", "",
    "Of the prompt tokens, those whose KV came from the cache."};
inline constexpr Metric kWorkerTailCachedTokens{Kind::kCounter, "roost_worker_tail_cached_tokens_total", "",
    "Of the cached tokens, those copied from a block that equals the prompt's only at its beginning."};
inline constexpr Metric kWorkerTierCachedTokens{Kind::kCounter, "roost_worker_tier_cached_tokens_total", "",
    "Of the cached tokens, those that an engine beside took from a tier behind its cache (vLLM's KV connectors), by its own "
    "count. No router expects them."};
inline constexpr Metric kWorkerComputedPromptTokens{Kind::kCounter, "roost_worker_computed_prompt_tokens_total", "reason",
    "Prompt tokens computed, by why they were not cached: cold, evicted, tail, in_flight, other_salt, "
    "disabled or not_arrived."};
inline constexpr Metric kWorkerSavedPrefillSeconds{Kind::kCounter, "roost_worker_saved_prefill_seconds_total", "",
    "Estimated time that computing the cached tokens would have taken, by the worker's measured speed of prefill at their "
    "depth, less what prompts waited for blocks from elsewhere; nothing until that is known."};
inline constexpr Metric kWorkerComputedPrefillSeconds{Kind::kCounter, "roost_worker_computed_prefill_seconds_total", "",
    "The same estimate for the prompt tokens that were computed. saved / (saved + computed) is the hit rate in time."};
inline constexpr Metric kWorkerUncachedRequests{Kind::kCounter, "roost_worker_uncached_requests_total", "",
    "Requests that switched the cache off."};
inline constexpr Metric kWorkerOutputTokens{Kind::kCounter, "roost_worker_output_tokens_total", "",
    "Tokens generated."};
inline constexpr Metric kWorkerBlocks{Kind::kGauge, "roost_worker_blocks", "state",
    "KV blocks by state: free, referenced (in use) or idle (cached and evictable)."};
inline constexpr Metric kWorkerKvUsage{Kind::kGauge, "roost_worker_kv_usage_ratio", "",
    "Share of the KV blocks that requests use now. Idle blocks are free to take and do not count."};
inline constexpr Metric kWorkerPinnedBlocks{Kind::kGauge, "roost_worker_pinned_blocks", "",
    "Of the referenced and idle blocks, those that pins keep."};
inline constexpr Metric kWorkerRefusedPins{Kind::kCounter, "roost_worker_refused_pins_total", "",
    "Blocks that were not pinned because pins had reached their limit."};
inline constexpr Metric kWorkerDroppedPins{Kind::kCounter, "roost_worker_dropped_pins_total", "",
    "Times that all pins ended, because a request that ran alone needed their blocks."};
inline constexpr Metric kWorkerRefusedRetentions{Kind::kCounter, "roost_worker_refused_retentions_total", "",
    "Blocks whose retention was ignored because their tenant's retained blocks had reached an eighth of the pool."};
inline constexpr Metric kWorkerShortenedRetentions{Kind::kCounter, "roost_worker_shortened_retentions_total", "",
    "Requests whose retention was shortened to an hour."};
inline constexpr Metric kWorkerReturnedSessions{Kind::kCounter, "roost_worker_returned_sessions_total", "",
    "Requests of a session that came while the session's blocks were still retained for it."};
inline constexpr Metric kWorkerEvictedBlocks{Kind::kCounter, "roost_worker_evicted_blocks_total", "",
    "Cached blocks evicted to make room for new ones."};
inline constexpr Metric kWorkerBlockAge{Kind::kHistogram, "roost_worker_block_age_at_eviction_seconds", "",
    "Age of a block when it was evicted.", kBlockSeconds};
inline constexpr Metric kWorkerBlockIdle{Kind::kHistogram, "roost_worker_block_idle_before_eviction_seconds", "",
    "Time from a block's last use to its eviction.", kBlockSeconds};
inline constexpr Metric kWorkerBlockReuseGap{Kind::kHistogram, "roost_worker_block_reuse_gap_seconds", "",
    "Time from a block's last use to the request that found it.", kBlockSeconds};
inline constexpr Metric kWorkerEstimatedHitRatio{Kind::kGauge, "roost_worker_estimated_hit_ratio", "pool",
    "Estimated share of prompt blocks that would be cached with 0.5x, 1x, 2x and 4x the pool. 0 until known."};
inline constexpr Metric kWorkerPreemptions{Kind::kCounter, "roost_worker_preemptions_total", "",
    "Requests put back into the queue because blocks ran out."};
inline constexpr Metric kWorkerVerificationMisses{Kind::kCounter, "roost_worker_verification_misses_total", "",
    "Cache hits refused because the block's tokens or parent differed from the prompt's."};
inline constexpr Metric kWorkerVerifiedHits{Kind::kCounter, "roost_worker_verified_hits_total", "",
    "Requests with cache hits that were computed again without the cache, with the same result."};
inline constexpr Metric kWorkerWrongHits{Kind::kCounter, "roost_worker_wrong_hits_total", "",
    "Requests with cache hits that were computed again without the cache, with another result."};
inline constexpr Metric kWorkerDistrustedBlocks{Kind::kCounter, "roost_worker_distrusted_blocks_total", "",
    "Blocks that were discarded after a wrong hit because they, or blocks before them, came from the same worker."};
inline constexpr Metric kWorkerTtft{Kind::kHistogram, "roost_worker_ttft_seconds", "",
    "Time from a request's receipt to its first token.", kLatencySeconds};
inline constexpr Metric kWorkerInterToken{Kind::kHistogram, "roost_worker_inter_token_seconds", "",
    "Time between one token and the next of a request.", kLatencySeconds};
inline constexpr Metric kWorkerQueueWait{Kind::kHistogram, "roost_worker_queue_wait_seconds", "",
    "Time from a request's receipt to its first step.", kLatencySeconds};
inline constexpr Metric kWorkerPrefillSeconds{Kind::kHistogram, "roost_worker_prefill_seconds", "",
    "Time from a request's first step to its first token.", kLatencySeconds};
inline constexpr Metric kWorkerDecodeSeconds{Kind::kHistogram, "roost_worker_decode_seconds", "",
    "Time from a request's first token to its last, of requests that ended by themselves.", kLatencySeconds};
inline constexpr Metric kWorkerStepSeconds{Kind::kHistogram, "roost_worker_step_seconds", "",
    "Time of one engine step.", kLatencySeconds};
inline constexpr Metric kWorkerComputeThreads{Kind::kGauge, "roost_worker_compute_threads", "",
    "Threads that compute now: with --threads 0 fewer while other programs keep the processors busy. 0 if the CPU does not "
    "compute."};
inline constexpr Metric kWorkerGpuMemory{Kind::kGauge, "roost_worker_gpu_memory_bytes", "gpu,state",
    "Memory of the worker's GPUs by state: used (by all processes) or free. 0 on the CPU."};
inline constexpr Metric kWorkerArrivals{Kind::kCounter, "roost_worker_arrivals_total", "source,outcome",
    "Orders to hold blocks that another worker (source peer) or the worker's disk (disk) has, by how they ended: complete, missing (the source does not hold the rest), busy, slow, broken, wrong, no_room, cancelled or refused."};
inline constexpr Metric kWorkerArrivedBytes{Kind::kCounter, "roost_worker_arrived_bytes_total", "source",
    "Bytes of blocks that came and are in the cache."};
inline constexpr Metric kWorkerArrivedBlocks{Kind::kCounter, "roost_worker_arrived_blocks_total", "source",
    "Blocks that came and are in the cache."};
inline constexpr Metric kWorkerArrivedPrefillSeconds{Kind::kCounter, "roost_worker_arrived_prefill_seconds_total", "source",
    "Time that computing the blocks that came would have taken, by the times of earlier steps."};
inline constexpr Metric kWorkerArrivalSeconds{Kind::kHistogram, "roost_worker_arrival_seconds", "source",
    "Time from an order to hold blocks to its end, of those that brought some.", kLatencySeconds};
inline constexpr Metric kWorkerArrivalFirstFrameSeconds{Kind::kHistogram, "roost_worker_arrival_first_frame_seconds", "source",
    "Time from an order to hold blocks to the first block.", kLatencySeconds};
inline constexpr Metric kWorkerServedBytes{Kind::kCounter, "roost_worker_served_bytes_total", "",
    "Bytes of blocks that other workers fetched here."};
inline constexpr Metric kWorkerTransferReaders{Kind::kGauge, "roost_worker_transfer_readers", "",
    "Fetches of other workers that are served now; at most 16."};
inline constexpr Metric kWorkerTransferMemory{Kind::kGauge, "roost_worker_transfer_memory_bytes", "",
    "Memory of blocks that have come and wait for a step, at most --transfer-memory."};
inline constexpr Metric kWorkerTransferRefused{Kind::kCounter, "roost_worker_transfer_refused_total", "reason",
    "Workers that were refused blocks, by reason: ticket, layout, numerics, busy or handshake."};
inline constexpr Metric kWorkerDiskBytes{Kind::kGauge, "roost_worker_disk_bytes", "",
    "Bytes of the segments below --disk-cache, those of other models included; 0 without a disk."};
inline constexpr Metric kWorkerDiskBlocks{Kind::kGauge, "roost_worker_disk_blocks", "",
    "Blocks on the disk."};
inline constexpr Metric kWorkerDiskAvailable{Kind::kGauge, "roost_worker_disk_available", "",
    "1 while blocks are kept on the disk and read from it; 0 without a disk, or after ten errors in a minute."};
inline constexpr Metric kWorkerDiskWrittenBytes{Kind::kCounter, "roost_worker_disk_written_bytes_total", "",
    "Bytes of blocks written to the disk, copies of used blocks included."};
inline constexpr Metric kWorkerDiskDroppedBlocks{Kind::kCounter, "roost_worker_disk_dropped_blocks_total", "reason",
    "Blocks that were not written or left the disk, by reason: queue_full (there was no time to write them), reclaimed (for space), "
    "unreadable, erased, or orphan (the block before is not there)."};
inline constexpr Metric kWorkerLinks{Kind::kGauge, "roost_worker_links", "state",
    "Links to routers, by state: up or down."};
inline constexpr Metric kWorkerRefusals{Kind::kCounter, "roost_worker_refusals_total", "reason",
    "Times that a router refused this worker, by reason: name_taken, key, version, hello, full, other, or handshake where the keys do not fit."};
inline constexpr Metric kWorkerTlsCertificateExpiry{Kind::kGauge, "roost_worker_tls_certificate_expiry_timestamp_seconds", "",
    "When the TLS certificate of the worker's listener ends, in Unix time; 0 without TLS."};
inline constexpr Metric kWorkerResyncs{Kind::kCounter, "roost_worker_resyncs_total", "reason",
    "Links that were sent a snapshot again, by reason: asked, digest, gap, overflow, router_restart, silent or "
    "unsent."};
inline constexpr Metric kWorkerMirrorLosses{Kind::kCounter, "roost_worker_mirror_losses_total", "reason",
    "Times that the link had to ask the engine again for the set of cached blocks, by reason: digest or overflow."};
inline constexpr Metric kWorkerEngineAvailable{Kind::kGauge, "roost_worker_engine_available", "",
    "1 while the engine takes requests. An engine of another program may be away: then 0, and the worker's /ready says why."};
inline constexpr Metric kWorkerEngineAbsences{Kind::kCounter, "roost_worker_engine_absences_total", "",
    "Times that the engine of another program went away: it ended, hung, or was replaced."};
inline constexpr Metric kWorkerEngineEventTrouble{Kind::kCounter, "roost_worker_engine_event_trouble_total", "reason",
    "What happened to the cache events of another program's engine, by reason: gap (one was missing), replay_failed (and was not "
    "sent again), restart (the engine counts from 0 again), bad_message or overflow (more blocks than it has)."};
inline constexpr Metric kWorkerEngineLeftOutBlocks{Kind::kCounter, "roost_worker_engine_left_out_blocks_total", "reason",
    "Blocks of another program's engine that routers are not told of, by reason: rank, group, medium, attention, "
    "block_tokens, adapter, foreign_salt, extra_keys, lookahead, tokens, unknown_parent, conflict or unknown_event."};
inline constexpr Metric kWorkerMalformedMessages{Kind::kCounter, "roost_worker_malformed_messages_total", "",
    "Messages from routers that could not be read."};
inline constexpr Metric kWorkerUnknownMessages{Kind::kCounter, "roost_worker_unknown_messages_total", "",
    "Messages from newer routers of a kind that this worker does not know."};
inline constexpr Metric kWorkerTraceSpans{Kind::kCounter, "roost_worker_trace_spans_total", "outcome",
    "Spans for --otlp-endpoint that were sent, refused by the collector, or dropped: queue_full, unreachable."};

// clang-format on

}  // namespace roost::metrics
