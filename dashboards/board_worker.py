"""The board of the workers."""

from panels import BLOCKS_PER_SECOND, CORES, TOKENS_PER_SECOND, panel, row
from promql import now, quantiles, rate, ratio

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
            panel("Compute threads", "Fewer while other programs keep the processors busy, with --threads 0. 0 if the CPU does not compute.",
                  "short", [("{{worker}}", now("roost_worker_compute_threads", "worker"))], min=0),
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
            panel("Retention that was cut", "refused: blocks beyond an eighth of the pool for their tenant. shortened: requests that "
                  "asked for more than an hour.", "cps", [("refused", rate("roost_worker_refused_retentions_total")),
                                                           ("shortened", rate("roost_worker_shortened_retentions_total"))]),
            panel("Hits checked", "verified and wrong: requests that --verify-hits computed again; a wrong one is a bug. refused: blocks "
                  "whose hash was right and whose tokens were not. distrusted: blocks that came from the worker of a wrong one.", "cps",
                  [("verified", rate("roost_worker_verified_hits_total")), ("wrong", rate("roost_worker_wrong_hits_total")),
                   ("distrusted", rate("roost_worker_distrusted_blocks_total")),
                   ("refused", rate("roost_worker_verification_misses_total"))]),
        ),
        row(
            "Blocks that travel",
            panel("Fetches by outcome", "Blocks from another worker (peer) or the own disk. What does not come is computed. wrong: a block "
                  "that came was not the one asked for; nothing of it was used.", "cps",
                  [("{{source}}: {{outcome}}", rate("roost_worker_arrivals_total", "source, outcome"))], stack=True),
            panel("Blocks that came", "Into the cache.", BLOCKS_PER_SECOND,
                  [("{{worker}}", rate("roost_worker_arrived_blocks_total", "worker"))]),
            panel("Bytes", "came: into the cache. served: to other workers.", "Bps",
                  [("{{worker}}, came", rate("roost_worker_arrived_bytes_total", "worker")),
                   ("{{worker}}, served", rate("roost_worker_served_bytes_total", "worker"))]),
            panel("Prefill that blocks saved", "Time that computing what came would have taken, per second.", "short",
                  [("{{worker}}", rate("roost_worker_arrived_prefill_seconds_total", "worker"))]),
            panel("Time of a fetch", "From the order to its end, of those that brought something.", "s",
                  quantiles("roost_worker_arrival_seconds")),
            panel("First block", "From the order to the first block.", "s", quantiles("roost_worker_arrival_first_frame_seconds")),
            panel("Readers", "Fetches of other workers that are served now; at most 16.", "short",
                  [("{{worker}}", now("roost_worker_transfer_readers", "worker"))]),
            panel("Memory of blocks on their way", "That have come and wait for a step; at most --transfer-memory.", "bytes",
                  [("{{worker}}", now("roost_worker_transfer_memory_bytes", "worker"))]),
            panel("Refused", "Workers that were refused blocks. ticket: none that is valid now: look at the clocks. layout, numerics: "
                  "another model, or other arithmetic. busy: more than 16 at a time. handshake: no worker, or one without keys.", "cps", [("{{worker}}, {{reason}}", rate("roost_worker_transfer_refused_total", "worker, reason"))]),
        ),
        row(
            "Blocks on disk",
            panel("Blocks on disk", "Kept below --disk-cache.", "short",
                  [("{{worker}}", now("roost_worker_disk_blocks", "worker"))]),
            panel("Space", "Of the segments, those of other models included.", "bytes",
                  [("{{worker}}", now("roost_worker_disk_bytes", "worker"))]),
            panel("Disk in use", "1: blocks are kept on disk. 0: there is no disk, or it is off after ten errors in a minute.", "short",
                  [("{{worker}}", now("roost_worker_disk_available", "worker"))]),
            panel("Read and written", "Copies that make room are written too; at most --disk-write-rate.", "Bps",
                  [("{{worker}}, read", rate("roost_worker_arrived_bytes_total", "worker", 'source="disk"')),
                   ("{{worker}}, written", rate("roost_worker_disk_written_bytes_total", "worker"))]),
            panel("Not written, or gone", "queue_full: no time to write them. reclaimed: for space. unreadable: and computed again. orphan: the "
                  "block before is not there.", BLOCKS_PER_SECOND,
                  [("{{worker}}: {{reason}}", rate("roost_worker_disk_dropped_blocks_total", "worker, reason"))]),
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
