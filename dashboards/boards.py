"""What the dashboards show. generate.py makes Grafana's JSON of it, with the selectors of each board's variables.

To add a panel: one entry here, then `python3 dashboards/generate.py`.
"""

from promql import largest_over_mean, mean, now, of_routers, quantile, quantiles, rate, ratio

TOKENS_PER_SECOND = "suffix: tokens/s"
BLOCKS_PER_SECOND = "suffix: blocks/s"
CORES = "suffix: cores"


def panel(title, description, unit, targets, kind="timeseries", **look):
    """`targets`: (legend, query) each. `look`: width, stack, min, max, thresholds as (value, colour)."""
    return {"title": title, "description": description, "unit": unit, "targets": targets, "kind": kind, **look}


def stat(title, description, unit, query, **look):
    return panel(title, description, unit, [(title, query)], kind="stat", width=3, **look)


def row(title, *panels):
    return {"title": title, "panels": panels}


# ---- queries of several boards ----

HIT_RATE = ratio(rate("roost_router_cached_tokens_total"), rate("roost_router_prompt_tokens_total"))
HIT_RATE_BY_MODEL = ratio(
    rate("roost_router_cached_tokens_total", "model"), rate("roost_router_prompt_tokens_total", "model")
)
HIT_RATE_BY_WORKER = ratio(
    rate("roost_worker_cached_tokens_total", "worker"), rate("roost_worker_prompt_tokens_total", "worker")
)
SERVER_ERRORS = 'outcome=~"unavailable|internal|data_loss|deadline_exceeded"'
SHARE_BY_WORKER = (
    f"{rate('roost_router_worker_requests_total', 'model, worker')} / on (model) group_left ()"
    f" ({rate('roost_router_worker_requests_total', 'model')} > 0)"
)
IMBALANCE = largest_over_mean(rate("roost_router_worker_requests_total", "model, worker"), "model")
MISS_REASONS = [("{{reason}}", rate("roost_worker_computed_prompt_tokens_total", "reason"))]
MISS_REASONS_SAY = (
    "Prompt tokens that were computed, by why they were not cached. cold: nobody sent them before. evicted: they were "
    "cached once; a larger pool or another eviction policy keeps them. tail: behind the last full block. in_flight: "
    "another request was computing them. other_salt: cached for another tenant or salt. disabled: the request wanted no cache."
)
# No certificate is 0.
CERTIFICATE = "(roost_router_tls_certificate_expiry_timestamp_seconds > 0) - time()"
WORKER_CERTIFICATE = CERTIFICATE.replace("router", "worker")


def routed_ttft(choice, by=""):
    return rate("roost_router_routed_ttft_seconds_total", by, f'choice="{choice}"')


# ---- boards ----

CLUSTER = {
    "uid": "roost-cluster",
    "title": "Roost / Cluster",
    "variables": ("job", "model"),
    "rows": [
        row(
            "Now",
            stat("Ready workers", "Workers that take requests, as the router that knows most of them says.", "short",
                 now("roost_router_workers", where='state="ready"', how="max"), thresholds=[(None, "red"), (1, "green")]),
            stat("Requests", "Generations that end per second.", "reqps", rate("roost_router_generations_total")),
            stat("Failed", "Share of the generations that the server failed: no worker, a deadline that passed, a bug. "
                 "Streams that broke off count.", "percentunit",
                 ratio(rate("roost_router_generations_total", where=SERVER_ERRORS), rate("roost_router_generations_total")),
                 thresholds=[(None, "green"), (0.005, "orange"), (0.02, "red")]),
            stat("First token, p99", "From a request's arrival to its first token.", "s",
                 quantile(0.99, "roost_router_ttft_seconds")),
            stat("Hit rate", "Share of the prompt tokens that workers had in their cache.", "percentunit", HIT_RATE),
            stat("Prefill saved", "Seconds of prefill per second that the cache saves: how many more workers would be busy "
                 "with prompts without it.", "none", rate("roost_worker_saved_prefill_seconds_total")),
            stat("Waiting", "Requests that wait at routers and at workers.", "short",
                 f"{now('roost_router_queued_requests')} + {now('roost_worker_waiting_requests')}",
                 thresholds=[(None, "green"), (1, "orange")]),
            stat("Running", "Requests in the workers' batches.", "short", now("roost_worker_running_requests")),
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
                  [("{{reason}}", rate("roost_router_queue_refused_total", "reason"))]),
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
                  [("{{state}}", now("roost_router_workers", "state", how="max"))]),
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
        row(
            "Trouble",
            panel("Workers lost", "By reason. A worker that was stopped is not lost.", "cps",
                  [("{{reason}}", rate("roost_router_workers_lost_total", "reason"))]),
            panel("Retries", "Generations sent again to another worker, by what happened at the first. Clients see nothing of it.",
                  "cps", [("{{reason}}", rate("roost_router_retries_total", "reason"))]),
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
    ],
}

ROUTER = {
    "uid": "roost-router",
    "title": "Roost / Router",
    "variables": ("job", "instance", "model"),
    "rows": [
        row(
            "Requests",
            panel("By route", "Answers, without probes and scrapes.", "reqps",
                  [("{{route}}", rate("roost_router_requests_total", "route") + " > 0")], stack=True),
            panel("By status", "499: the client left before the answer.", "reqps",
                  [("{{code}}", rate("roost_router_requests_total", "code") + " > 0")], stack=True),
            panel("Generations by outcome", "A stream that breaks off is an error here and a 200 by its status.", "reqps",
                  [("{{outcome}}", rate("roost_router_generations_total", "outcome") + " > 0")], stack=True),
            panel("Active generations", "Accepted and not ended, at each router.", "short",
                  [("{{instance}}", now("roost_router_active_requests", "instance"))]),
            panel("Tokens", "Prompts whose first token came, and answers that ended.", TOKENS_PER_SECOND,
                  [("prompt", rate("roost_router_prompt_tokens_total")), ("output", rate("roost_router_output_tokens_total"))]),
            panel("Unknown fields", "Members of requests that no API of this server knows. They are ignored: a client may expect "
                  "something that it does not get.", "cps", [("{{instance}}", rate("roost_router_unknown_request_fields_total", "instance"))]),
        ),
        row(
            "Latency",
            panel("Time to first token", "From a request's arrival.", "s", quantiles("roost_router_ttft_seconds")),
            panel("Time between tokens", "Between one token of a generation and the next.", "s",
                  quantiles("roost_router_inter_token_seconds")),
            panel("Decision time", "To match a prompt with the index and choose a worker.", "s",
                  quantiles("roost_router_decision_seconds", (0.5, 0.99))),
        ),
        row(
            "Queue",
            panel("Waiting at the router", "Because no worker has room for them.", "short",
                  [("{{model}}", now("roost_router_queued_requests", "model"))]),
            panel("Wait at the router", "Of the generations that waited.", "s", quantiles("roost_router_queue_wait_seconds", (0.5, 0.99))),
            panel("Refused by the queue", "Answered 429. full: --max-queue. deadline: --max-queue-wait-ms.", "reqps",
                  [("{{reason}}", rate("roost_router_queue_refused_total", "reason"))]),
        ),
        row(
            "Workers, as the router sees them",
            panel("At each worker", "Generations of this router that are at a worker now.", "short",
                  [("{{worker}}", now("roost_router_worker_in_flight_requests", "worker"))], stack=True),
            panel("Sent to each worker", "Generations per second.", "reqps",
                  [("{{worker}}", rate("roost_router_worker_requests_total", "worker"))], stack=True),
            panel("Lost and retried", "lost: workers, by reason. retried: generations that were sent again, by reason.",
                  "cps", [("lost: {{reason}}", rate("roost_router_workers_lost_total", "reason")),
                          ("retried: {{reason}}", rate("roost_router_retries_total", "reason"))]),
        ),
        row(
            "Index: who holds which blocks",
            panel("Blocks", "Distinct blocks in the index of each router.", "short",
                  [("{{instance}}", now("roost_router_index_blocks", "instance"))]),
            panel("Memory", "Of the index and of the prompt memo.", "bytes",
                  [("index {{instance}}", now("roost_router_index_bytes", "instance")),
                   ("memo {{instance}}", now("roost_router_prompt_memo_bytes", "instance"))]),
            panel("Events", "Blocks that workers report per second; shed: left out or dropped because --index-memory-bytes is full.",
                  BLOCKS_PER_SECOND, [("{{kind}}", rate("roost_router_index_events_total", "kind")),
                                      ("shed", rate("roost_router_index_shed_blocks_total"))]),
        ),
        row(
            "Text",
            panel("Prompt text", "Bytes of prompts that were turned into tokens, and those whose tokens the prompt memo knew.", "Bps",
                  [("all", rate("roost_router_prompt_bytes_total")), ("known", rate("roost_router_prompt_memo_hit_bytes_total"))]),
            panel("Known to the prompt memo", "Share of the text that needed no tokenizer.", "percentunit",
                  [("known", ratio(rate("roost_router_prompt_memo_hit_bytes_total"), rate("roost_router_prompt_bytes_total")))],
                  min=0, max=1),
            panel("Dropped by the prompt memo", "Pieces of prompts that had to make room. Many: raise --tokenization-memo-bytes.", "cps",
                  [("{{instance}}", rate("roost_router_prompt_memo_evictions_total", "instance"))]),
        ),
        row(
            "Keys and tenants",
            panel("Requests by tenant", "Generations that were computed.", "reqps",
                  [("{{tenant}}", rate("roost_router_key_requests_total", "tenant"))], stack=True),
            panel("Tokens by key", "Prompts and answers.", TOKENS_PER_SECOND,
                  [("{{key}}, prompt", rate("roost_router_key_prompt_tokens_total", "key")),
                   ("{{key}}, output", rate("roost_router_key_output_tokens_total", "key"))], stack=True),
            panel("Hit rate by tenant", "Share of the tenant's prompt tokens that workers had in their cache.", "percentunit",
                  [("{{tenant}}", ratio(rate("roost_router_key_cached_tokens_total", "tenant"),
                                        rate("roost_router_key_prompt_tokens_total", "tenant")))], min=0, max=1),
            panel("Refused by key", "Requests over a limit of their key, answered 429.", "reqps",
                  [("{{key}}", rate("roost_router_key_refused_requests_total", "key"))]),
        ),
        row(
            "Link and TLS",
            panel("Refused peers", "At the port for workers that has keys.", "cps",
                  [("{{reason}}", rate("roost_router_link_refused_peers_total", "reason"))]),
            panel("Unreadable messages", "malformed: broken, and the worker's link begins anew. unknown: of a newer worker, and ignored.",
                  "cps", [("malformed", rate("roost_router_malformed_messages_total")),
                          ("unknown", rate("roost_router_unknown_messages_total"))]),
            panel("Failed TLS handshakes", "By reason.", "cps", [("{{reason}}", rate("roost_router_tls_handshake_failures_total", "reason"))]),
            panel("Certificate ends in", "Time until the TLS certificate ends. Empty without TLS.", "s", [("{{instance}}", CERTIFICATE)]),
        ),
        row(
            "Process",
            panel("Processor", "Cores in use.", CORES, [("{{instance}}", of_routers(rate("process_cpu_seconds_total", "job, instance")))]),
            panel("Memory", "Resident.", "bytes", [("{{instance}}", of_routers("process_resident_memory_bytes"))]),
            panel("File descriptors", "Share of those that it may open; each connection is one.", "percentunit",
                  [("{{instance}}", of_routers("process_open_fds / process_max_fds"))], min=0, max=1),
            panel("Threads", "Constant while it serves.", "short", [("{{instance}}", of_routers("process_threads"))]),
            panel("Uptime", "Since the process began.", "s", [("{{instance}}", of_routers("time() - process_start_time_seconds"))]),
            panel("Recorded requests", "What --record wrote, and what it dropped because the disk was slower.", "reqps",
                  [("{{outcome}}", rate("roost_router_recorded_requests_total", "outcome"))]),
            panel("Trace spans", "For --otlp-endpoint: sent, refused by the collector, or dropped because it does not keep up.", "cps",
                  [("{{outcome}}", rate("roost_router_trace_spans_total", "outcome"))]),
        ),
    ],
}

WORKER = {
    "uid": "roost-worker",
    "title": "Roost / Worker",
    "variables": ("job", "worker", "model"),
    "rows": [
        row(
            "Load",
            panel("Requests", "running: in the batch. waiting: in the queue.", "short",
                  [("{{worker}}, running", now("roost_worker_running_requests", "worker")),
                   ("{{worker}}, waiting", now("roost_worker_waiting_requests", "worker"))]),
            panel("Tokens", "What is computed and what is found in the cache.", TOKENS_PER_SECOND,
                  [("prompt, computed", rate("roost_worker_computed_prompt_tokens_total")),
                   ("prompt, cached", rate("roost_worker_cached_tokens_total")),
                   ("output", rate("roost_worker_output_tokens_total"))], stack=True),
            panel("Requests by outcome", "cancelled: the client left, or another choice of the request failed.", "reqps",
                  [("{{outcome}}", rate("roost_worker_requests_total", "outcome"))], stack=True),
            panel("Step time", "Of one engine step: a batch of prefill chunks and decodes.", "s",
                  quantiles("roost_worker_step_seconds", (0.5, 0.99))),
            panel("Time in steps", "Share of the time that a step was computed. Below 100 % there was nothing to do.", "percentunit",
                  [("{{worker}}", rate("roost_worker_step_seconds_sum", "worker"))], min=0),
            panel("Preemptions", "Requests put back into the queue because blocks ran out.", "cps",
                  [("{{worker}}", rate("roost_worker_preemptions_total", "worker"))]),
        ),
        row(
            "Latency",
            panel("Queue wait", "From a request's receipt to its first step.", "s", quantiles("roost_worker_queue_wait_seconds")),
            panel("Prefill", "From a request's first step to its first token.", "s", quantiles("roost_worker_prefill_seconds")),
            panel("Time to first token", "From a request's receipt.", "s", quantiles("roost_worker_ttft_seconds")),
            panel("Time between tokens", "Between one token of a request and the next.", "s", quantiles("roost_worker_inter_token_seconds")),
            panel("Decode", "From an answer's first token to its last.", "s", quantiles("roost_worker_decode_seconds")),
        ),
        row(
            "KV cache",
            panel("Blocks by state", "referenced: in use. idle: cached, may be evicted. free: empty.", "short",
                  [("{{state}}", now("roost_worker_blocks", "state"))], stack=True),
            panel("Blocks in use", "Share of the pool that requests use now.", "percentunit",
                  [("{{worker}}", now("roost_worker_kv_usage_ratio", "worker", how="max"))], min=0, max=1),
            panel("Evictions", "Cached blocks that made room for new ones.", BLOCKS_PER_SECOND,
                  [("{{worker}}", rate("roost_worker_evicted_blocks_total", "worker"))]),
            panel("Pinned blocks", "That pins keep.", "short", [("{{worker}}", now("roost_worker_pinned_blocks", "worker"))]),
            panel("Pins that failed", "refused: blocks beyond --pin-limit. dropped: times that all pins ended because a request that ran "
                  "alone needed their blocks.", "cps", [("refused", rate("roost_worker_refused_pins_total")),
                                                        ("dropped", rate("roost_worker_dropped_pins_total"))]),
            panel("Hits checked", "verified and wrong: requests that --verify-hits computed again; a wrong one is a bug. refused: blocks "
                  "whose hash was right and whose tokens were not.", "cps",
                  [("verified", rate("roost_worker_verified_hits_total")), ("wrong", rate("roost_worker_wrong_hits_total")),
                   ("refused", rate("roost_worker_verification_misses_total"))]),
        ),
        row(
            "GPU",
            panel("GPU memory in use", "By all processes. 0 on the CPU.", "bytes",
                  [("{{worker}}, GPU {{gpu}}", now("roost_worker_gpu_memory_bytes", "worker, gpu", 'state="used"'))]),
            panel("GPU memory free", "What the worker takes, it takes at its start: little that is free does not mean trouble. 0 on the "
                  "CPU.", "bytes", [("{{worker}}, GPU {{gpu}}", now("roost_worker_gpu_memory_bytes", "worker, gpu", 'state="free"'))]),
            panel("GPU memory in use, share", "Empty on the CPU.", "percentunit",
                  [("{{worker}}, GPU {{gpu}}", ratio(now("roost_worker_gpu_memory_bytes", "worker, gpu", 'state="used"'),
                                                     now("roost_worker_gpu_memory_bytes", "worker, gpu")))], min=0, max=1),
        ),
        row(
            "Links to routers",
            panel("Links", "By state.", "short", [("{{worker}}, {{state}}", now("roost_worker_links", "worker, state"))]),
            panel("Refusals", "By reason: a router does not take the worker. Its log and its /ready say which router, and why.", "cps",
                  [("{{worker}}, {{reason}}", rate("roost_worker_refusals_total", "worker, reason"))]),
            panel("Snapshots sent again", "By reason. asked, digest and gap: a router found a difference. The others: what was sent did "
                  "not arrive.", "cps", [("{{reason}}", rate("roost_worker_resyncs_total", "reason"))]),
            panel("Trouble", "mirror: the link lost its copy of the set of cached blocks and asked the engine again. malformed, unknown: "
                  "messages from routers.", "cps", [("mirror: {{reason}}", rate("roost_worker_mirror_losses_total", "reason")),
                                                    ("malformed", rate("roost_worker_malformed_messages_total")),
                                                    ("unknown", rate("roost_worker_unknown_messages_total"))]),
        ),
        row(
            "Engines of other programs",
            panel("Available", "0: the engine beside the worker is away; the worker's /ready says why. A worker's own engine is always "
                  "there.", "short", [("{{worker}}", now("roost_worker_engine_available", "worker"))], min=0, max=1),
            panel("Absences", "The engine ended, hung, or was replaced.", "cps",
                  [("{{worker}}", rate("roost_worker_engine_absences_total", "worker"))]),
            panel("Cache events", "gap: one was lost. replay_failed: and was not sent again, so the router goes by its own history. "
                  "restart: the engine began anew.", "cps",
                  [("{{worker}}, {{reason}}", rate("roost_worker_engine_event_trouble_total", "worker, reason"))]),
            panel("Blocks left out", "Blocks that routers are not told of, by reason: of adapters, of images, in host memory and more.", "cps",
                  [("{{reason}}", rate("roost_worker_engine_left_out_blocks_total", "reason"))]),
        ),
        row(
            "Process",
            panel("Processor", "Cores in use.", CORES, [("{{worker}}", rate("process_cpu_seconds_total", "worker"))]),
            panel("Memory", "Resident: on the CPU weights and KV too.", "bytes", [("{{worker}}", now("process_resident_memory_bytes", "worker"))]),
            panel("Uptime", "Since the process began.", "s", [("{{worker}}", "time() - process_start_time_seconds")]),
            panel("Trace spans", "For --otlp-endpoint: sent, refused by the collector, or dropped because it does not keep up.", "cps",
                  [("{{outcome}}", rate("roost_worker_trace_spans_total", "outcome"))]),
        ),
    ],
}

CACHE = {
    "uid": "roost-cache",
    "title": "Roost / Cache and routing",
    "variables": ("job", "worker", "model"),
    "rows": [
        row(
            "What the cache saves",
            panel("Hit rate", "Share of the prompt tokens that workers had in their cache, of all requests.", "percentunit",
                  [("all", HIT_RATE)], min=0, max=1),
            panel("Hit rate by model", "The same for each model.", "percentunit", [("{{model}}", HIT_RATE_BY_MODEL)], min=0, max=1),
            panel("Hit rate by worker", "The same for each worker.", "percentunit", [("{{worker}}", HIT_RATE_BY_WORKER)], min=0, max=1),
            panel("Tokens of prefill saved", "Prompt tokens that were cached. tails: of these, those copied from a block that equals the "
                  "prompt's only at its beginning.", TOKENS_PER_SECOND,
                  [("{{worker}}", rate("roost_worker_cached_tokens_total", "worker")),
                   ("tails", rate("roost_worker_tail_cached_tokens_total"))]),
            panel("Seconds of prefill saved", "Estimated from each worker's measured speed: how many seconds of prefill the cache saves "
                  "per second.", "none", [("{{worker}}", rate("roost_worker_saved_prefill_seconds_total", "worker"))], stack=True, min=0),
            panel("Tokens computed for copies", "For copies of hot prefixes that no request waited for: what replication costs.",
                  TOKENS_PER_SECOND, [("{{model}}", rate("roost_router_copied_tokens_total", "model"))]),
        ),
        row(
            "Why not more",
            panel("Why prompts are computed", MISS_REASONS_SAY, TOKENS_PER_SECOND, MISS_REASONS, stack=True),
            panel("Hit ratio with another pool", "Estimated share of prompt blocks that would be cached with half, once, twice and four "
                  "times the pool. If 2x is far above 1x, more KV memory pays.", "percentunit",
                  [("{{pool}}", now("roost_worker_estimated_hit_ratio", "pool", how="avg"))], min=0, max=1),
            panel("Requests without the cache", "router: whose request switched it off. worker: those that reached one.", "reqps",
                  [("router", rate("roost_router_cache_off_requests_total")), ("worker", rate("roost_worker_uncached_requests_total"))]),
            panel("Evictions", "Cached blocks that made room for new ones.", BLOCKS_PER_SECOND,
                  [("{{worker}}", rate("roost_worker_evicted_blocks_total", "worker"))]),
            panel("Age of blocks", "Medians. If blocks are evicted younger than they are used again, the pool is too small.", "s",
                  [("age when evicted", quantile(0.5, "roost_worker_block_age_at_eviction_seconds")),
                   ("unused before eviction", quantile(0.5, "roost_worker_block_idle_before_eviction_seconds")),
                   ("until the next use", quantile(0.5, "roost_worker_block_reuse_gap_seconds"))]),
            panel("Conversations that came back", "Requests of a session whose blocks were still retained for it.", "reqps",
                  [("{{worker}}", rate("roost_worker_returned_sessions_total", "worker"))]),
        ),
        row(
            "What routing gains",
            panel("Cached tokens: chosen, round robin, best", "What the chosen workers held when the decision was made, what those that "
                  "round robin would have chosen held, and what the best held.", TOKENS_PER_SECOND,
                  [("chosen", rate("roost_router_routed_matched_tokens_total", where='choice="chosen"')),
                   ("round robin", rate("roost_router_routed_matched_tokens_total", where='choice="round_robin"')),
                   ("best", rate("roost_router_routed_matched_tokens_total", where='choice="chosen"')
                    + " + " + rate("roost_router_regret_tokens_total"))]),
            panel("Time to first token: chosen and round robin", "Predicted, on average. regret: how much longer than at the fastest "
                  "candidate.", "s",
                  [(legend, ratio(seconds, rate("roost_router_predicted_ttft_seconds_count")))
                   for legend, seconds in (("chosen", routed_ttft("chosen")), ("round robin", routed_ttft("round_robin")),
                                           ("regret", rate("roost_router_regret_seconds_total")))]),
            panel("Waiting that routing saves", "Seconds of waiting for first tokens per second that round robin would have cost more, "
                  "predicted. Negative: round robin would have been better.", "none",
                  [("{{model}}", f"{routed_ttft('round_robin', 'model')} - {routed_ttft('chosen', 'model')}")]),
            panel("Regret in tokens", "Share of the prompt tokens that the worker with the longest match held beyond the chosen one's: "
                  "the price of balance.", "percentunit",
                  [("{{model}}", ratio(rate("roost_router_regret_tokens_total", "model"), rate("roost_router_prompt_tokens_total", "model")))],
                  min=0),
            panel("Decisions by reason", "deepest_match: sent to its cache. least_load: no match was worth its wait.", "reqps",
                  [("{{policy}}: {{reason}}", rate("roost_router_decisions_total", "policy, reason") + " > 0")], stack=True),
            panel("Share per worker", "Of the requests of its model.", "percentunit", [("{{worker}} {{model}}", SHARE_BY_WORKER)],
                  stack=True, min=0),
            panel("Imbalance", "Requests of the busiest worker over the mean.", "none", [("{{model}}", IMBALANCE)], min=1),
        ),
        row(
            "Does the router know the caches?",
            panel("Cached tokens: predicted and actual", "What the router expected the chosen worker to have, and what it had. error: the "
                  "differences of all requests, added up.", TOKENS_PER_SECOND,
                  [("predicted", rate("roost_router_predicted_cached_tokens_total")), ("actual", rate("roost_router_cached_tokens_total")),
                   ("error", rate("roost_router_prediction_error_tokens_total"))]),
            panel("Time to first token: predicted and actual", "From the decision.", "s",
                  [("predicted p50", quantile(0.5, "roost_router_predicted_ttft_seconds")),
                   ("actual p50", quantile(0.5, "roost_router_dispatch_ttft_seconds")),
                   ("error p50", quantile(0.5, "roost_router_ttft_error_seconds")),
                   ("error p99", quantile(0.99, "roost_router_ttft_error_seconds"))]),
            panel("Workers by mode", "exact: the router knows the cache by the worker's events. predicted: by what was sent there. blind: not "
                  "at all. Anything but exact costs hits. Each router counts every worker.", "short", [("{{mode}}", now("roost_router_worker_mode", "mode"))], stack=True),
            panel("Mode changes", "By new mode and reason.", "cps",
                  [("{{mode}}: {{reason}}", rate("roost_router_worker_mode_changes_total", "mode, reason"))]),
            panel("Drift", "Snapshots that routers asked for. digest: the index differed from the cache. gap: messages were lost. hello: "
                  "a worker connected.", "cps", [("{{reason}}", rate("roost_router_index_resyncs_total", "reason"))]),
            panel("Blocks: known and held", "Blocks that workers hold and distinct blocks in the largest index. Copies make the first larger.",
                  "short", [("held by workers", now("roost_worker_blocks", where='state=~"referenced|idle"')),
                            ("in the index", now("roost_router_index_blocks", how="max"))]),
        ),
    ],
}

# File -> board.
BOARDS = {"cluster.json": CLUSTER, "router.json": ROUTER, "worker.json": WORKER, "cache-and-routing.json": CACHE}
