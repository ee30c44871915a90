"""The board of the whole cluster: load, latency, cache, workers and trouble."""

from panels import (
    CERTIFICATE,
    CORES,
    HIT_RATE_BY_MODEL,
    HIT_RATE_IN_TIME,
    IMBALANCE,
    MISS_REASONS,
    MISS_REASONS_SAY,
    SHARE_BY_WORKER,
    TOKENS_PER_SECOND,
    panel,
    row,
    stat,
)
from promql import mean, now, quantile, quantiles, rate, ratio

SERVER_ERRORS = 'outcome=~"unavailable|internal|data_loss|deadline_exceeded"'
READY = 'state="ready"'
WORKER_CERTIFICATE = CERTIFICATE.replace("router", "worker")

CLUSTER = {
    "uid": "roost-cluster",
    "title": "Roost / Cluster",
    "variables": ("job", "model"),
    "rows": [
        row(
            "Now",
            stat("Ready workers", "Workers that take requests, as the router that knows most of them says.", "short",
                 f"sum({now('roost_router_workers', 'model', where=READY, how='max')})", thresholds=[(None, "red"), (1, "green")]),
            stat("Requests", "Generations that end per second.", "reqps", rate("roost_router_generations_total")),
            stat("Failed", "Share of the generations that the server failed: no worker, a deadline that passed, a bug. "
                 "Streams that broke off count.", "percentunit",
                 ratio(rate("roost_router_generations_total", where=SERVER_ERRORS), rate("roost_router_generations_total")),
                 thresholds=[(None, "green"), (0.005, "orange"), (0.02, "red")]),
            stat("First token, p99", "From a request's arrival to its first token.", "s",
                 quantile(0.99, "roost_router_ttft_seconds")),
            stat("Hit rate", "Share of the prompts' prefill time that the caches saved.", "percentunit", HIT_RATE_IN_TIME),
            stat("Prefill saved", "Seconds of prefill per second that the cache saves: how many more workers would be busy "
                 "with prompts without it.", "none", rate("roost_worker_saved_prefill_seconds_total")),
            stat("Waiting", "Requests that wait at routers and at workers.", "short",
                 f"{now('roost_router_queued_requests')} + {now('roost_worker_waiting_requests')}",
                 thresholds=[(None, "green"), (1, "orange")]),
            stat("Running", "Requests in the workers' batches.", "short", now("roost_worker_running_requests")),
        ),
        row(
            "Trouble",
            panel("Failed by model", "Share of the generations that the server failed, those without a worker too.", "percentunit",
                  [("{{model}}", ratio(rate("roost_router_generations_total", "model", where=SERVER_ERRORS),
                                       rate("roost_router_generations_total", "model")))], min=0),
            panel("Ready workers by model", "As the router that knows most of them says. A model at 0 is answered 503.", "short",
                  [("{{model}}", now("roost_router_workers", "model", where='state="ready"', how="max"))], min=0),
            panel("Workers lost", "By model and reason. A worker that was stopped is not lost.", "cps",
                  [("{{model}}: {{reason}}", rate("roost_router_workers_lost_total", "model, reason"))]),
            panel("Retries", "Generations sent again to another worker, by what happened at the first. Clients see nothing of it.",
                  "cps", [("{{model}}: {{reason}}", rate("roost_router_retries_total", "model, reason"))]),
            panel("Preemptions", "Requests put back into a worker's queue because blocks ran out: their prompts are computed again.",
                  "cps", [("{{worker}}", rate("roost_worker_preemptions_total", "worker"))]),
            panel("Certificates end in", "Time until the TLS certificates of routers and of workers' own endpoints end. Empty without TLS.",
                  "s", [("{{instance}}", CERTIFICATE), ("{{worker}}", WORKER_CERTIFICATE)]),
            panel("Refused peers and handshakes", "At the port for workers: no or a wrong key, or a name that --link-peers does not "
                  "list. At the API: TLS handshakes that failed.", "cps",
                  [("link: {{reason}}", rate("roost_router_link_refused_peers_total", "reason")),
                   ("TLS: {{reason}}", rate("roost_router_tls_handshake_failures_total", "reason"))]),
            panel("Builds", "Processes by version and commit. Two for long: an upgrade that was not finished.", "short",
                  [("{{version}} {{revision}}", now("roost_build_info", "version, revision", how="count"))]),
        ),
        row(
            "Load",
            panel("Generations by outcome", "How generations end. stop, length and tool_calls are answers; client_gone is a "
                  "client that left; overloaded is a 429; the others are errors.", "reqps",
                  [("{{outcome}}", rate("roost_router_generations_total", "outcome") + " > 0")], stack=True),
            panel("Tokens", "What workers compute and what they find in the cache.", TOKENS_PER_SECOND,
                  [("prompt, computed", rate("roost_worker_computed_prompt_tokens_total")),
                   ("prompt, cached", rate("roost_worker_cached_tokens_total")),
                   ("output", rate("roost_worker_output_tokens_total"))], stack=True),
            panel("Requests in the cluster", "active: accepted and not ended. Those that do not run wait.", "short",
                  [("active", now("roost_router_active_requests")), ("at the routers", now("roost_router_queued_requests")),
                   ("in workers' queues", now("roost_worker_waiting_requests")),
                   ("running", now("roost_worker_running_requests"))]),
            panel("HTTP answers by status", "Answers to clients and operators, without probes and scrapes.", "reqps",
                  [("{{code}}", rate("roost_router_requests_total", "code") + " > 0")], stack=True),
            panel("Prompt length", "Of the generations whose first token came.", "suffix: tokens",
                  quantiles("roost_router_generation_prompt_tokens", (0.5, 0.95))),
            panel("Answer length", "Of the generations whose first token came, all choices together.", "suffix: tokens",
                  quantiles("roost_router_generation_output_tokens", (0.5, 0.95))),
        ),
        row(
            "Latency",
            panel("Time to first token", "From a request's arrival at the router. Long prompts, queues and misses lengthen it.",
                  "s", quantiles("roost_router_ttft_seconds")),
            panel("Time between tokens", "Between one token of a generation and the next. Large batches and prefill beside "
                  "decodes lengthen it.", "s", quantiles("roost_router_inter_token_seconds")),
            panel("Whole request", "From a generation's arrival to its end.", "s", quantiles("roost_router_request_seconds")),
            panel("Where a first token's time goes", "Means. The wait at the routers is of the requests that waited there.", "s",
                  [("wait at the router", mean("roost_router_queue_wait_seconds")),
                   ("wait at the worker", mean("roost_worker_queue_wait_seconds")),
                   ("prefill", mean("roost_worker_prefill_seconds"))]),
            panel("Decode", "From an answer's first token to its last, at the worker.", "s",
                  quantiles("roost_worker_decode_seconds", (0.5, 0.99))),
            panel("Refused by the routers' queues", "Answered 429. full: --max-queue. deadline: --max-queue-wait-ms.", "reqps",
                  [("{{model}}: {{reason}}", rate("roost_router_queue_refused_total", "model, reason"))]),
        ),
        row(
            "Cache",
            panel("Hit rate by model", "Share of the prompt tokens that workers had in their cache.", "percentunit",
                  [("{{model}}", HIT_RATE_BY_MODEL)], min=0, max=1),
            panel("Seconds of prefill saved", "Estimated from each worker's measured speed: seconds of prefill that the cache "
                  "saves per second. 2 means that two more workers would do nothing but prefill.", "none",
                  [("{{model}}", rate("roost_worker_saved_prefill_seconds_total", "model"))], min=0),
            panel("Why prompts are computed", MISS_REASONS_SAY, TOKENS_PER_SECOND, MISS_REASONS, stack=True),
        ),
        row(
            "Workers",
            panel("Workers by state", "Of each router, the largest number. starting: connected, not yet ready.", "short",
                  [("{{state}}", f"sum by (state) ({now('roost_router_workers', 'model, state', how='max')})")]),
            panel("Share per worker", "Of the requests of its model.", "percentunit", [("{{worker}} {{model}}", SHARE_BY_WORKER)],
                  stack=True, min=0),
            panel("Imbalance", "Requests of the busiest worker over the mean. 1: all have the same. Caches that differ make it "
                  "larger; above 2 for long, look at the reasons of decisions.", "none", [("{{model}}", IMBALANCE)], min=1),
            panel("KV blocks in use", "Share of the pool that requests use now. At 100 % requests wait or are preempted.",
                  "percentunit", [("{{worker}}", now("roost_worker_kv_usage_ratio", "worker", how="max"))], min=0, max=1),
            panel("Processor", "Of each router and worker.", CORES,
                  [("{{job}} {{instance}}", rate("process_cpu_seconds_total", "job, instance")
                    + " and on (job, instance) roost_build_info")]),
            panel("Memory", "Resident memory of each router and worker, without GPUs'.", "bytes",
                  [("{{job}} {{instance}}", "process_resident_memory_bytes and on (job, instance) roost_build_info")]),
        ),
    ],
}
