"""The board of cache and routing: what they save, and why not more."""

from panels import (
    BLOCKS_PER_SECOND,
    HIT_RATE,
    HIT_RATE_BY_MODEL,
    HIT_RATE_IN_TIME,
    IMBALANCE,
    MISS_REASONS,
    MISS_REASONS_SAY,
    SHARE_BY_WORKER,
    TOKENS_PER_SECOND,
    panel,
    row,
)
from promql import now, quantile, quantiles, rate, ratio

HIT_RATE_BY_WORKER = ratio(
    rate("roost_worker_cached_tokens_total", "worker"), rate("roost_worker_prompt_tokens_total", "worker")
)


def routed_whole(choice):
    return rate("roost_router_routed_whole_seconds_total", where=f'choice="{choice}"')


def routed_ttft(choice, by=""):
    return rate("roost_router_routed_ttft_seconds_total", by, f'choice="{choice}"')


CACHE = {
    "uid": "roost-cache",
    "title": "Roost / Cache and routing",
    "variables": ("job", "worker", "model"),
    "rows": [
        row(
            "What the cache saves",
            panel("Hit rate", "Of all requests. time: the share of the prompts' prefill time that the cache saved, where a token behind a "
                  "long context counts more. tokens: the share of the prompt tokens that workers had in their cache.", "percentunit",
                  [("time", HIT_RATE_IN_TIME), ("tokens", HIT_RATE)], min=0, max=1),
            panel("Hit rate by model", "In tokens, for each model.", "percentunit", [("{{model}}", HIT_RATE_BY_MODEL)], min=0, max=1),
            panel("Hit rate by worker", "In tokens, for each worker.", "percentunit", [("{{worker}}", HIT_RATE_BY_WORKER)], min=0, max=1),
            panel("Tokens of prefill saved", "Prompt tokens that were cached. tails: of these, those copied from a block that equals the "
                  "prompt's only at its beginning. tiers: those that engines took from a tier behind their cache.", TOKENS_PER_SECOND,
                  [("{{worker}}", rate("roost_worker_cached_tokens_total", "worker")),
                   ("tails", rate("roost_worker_tail_cached_tokens_total")),
                   ("tiers", rate("roost_worker_tier_cached_tokens_total"))]),
            panel("Seconds of prefill saved", "Estimated from each worker's measured speed: how many seconds of prefill the cache saves "
                  "per second.", "none", [("{{worker}}", rate("roost_worker_saved_prefill_seconds_total", "worker"))], stack=True, min=0),
            panel("Tokens computed for copies", "For copies of hot prefixes that no request waited for: what replication costs.",
                  TOKENS_PER_SECOND, [("{{model}}", rate("roost_router_copied_tokens_total", "model"))]),
        ),
        row(
            "Blocks that travel",
            panel("Tokens fetched from other workers", "Prompt tokens whose blocks workers fetched instead of computing them.",
                  TOKENS_PER_SECOND, [("{{model}}", rate("roost_router_pulled_tokens_total", "model"))]),
            panel("Fetches by outcome", "How orders to fetch blocks from another worker ended. missing: the source did not hold the rest. "
                  "What does not come is computed.", "cps", [("{{outcome}}", rate("roost_router_pulls_total", "outcome"))], stack=True),
            panel("Prompts apart, or why not", "With workers of other roles than both: prompts that a worker for prompts computed, and the "
                  "reasons why the others were computed where their answers are.", "cps",
                  [("apart", rate("roost_router_decisions_total", where='reason="apart"')),
                   ("{{reason}}", rate("roost_router_prompts_together_total", "reason"))], stack=True),
            panel("Handovers", "leave: prefixes of workers that drain, to those that stay. join: to new workers. partial: some found no room, "
                  "or did not come in time.", "cps", [("{{kind}}: {{outcome}}", rate("roost_router_handovers_total", "kind, outcome"))], stack=True),
            panel("Value of a cache", "Seconds of prefill in an hour that a worker's cache saves and no other's could. The worker with "
                  "the least costs least to lose.", "s",
                  [("{{worker}}", now("roost_router_worker_cache_value_seconds", "worker"))], min=0),
            panel("Time of a fetch: error of its prediction", "Between what the router expected of a fetch for a request when it decided, "
                  "and what it took.", "s", quantiles("roost_router_pull_error_seconds")),
            panel("Tokens that were awaited and did not come", "Prompt tokens that were computed though their blocks were on their way: the "
                  "fetch failed, or was slower than computing.", TOKENS_PER_SECOND,
                  [("{{model}}", rate("roost_worker_computed_prompt_tokens_total", "model", 'reason="not_arrived"'))]),
            panel("Bytes between workers", "came: into caches. served: to other workers, also what was not used.", "Bps",
                  [("came", rate("roost_worker_arrived_bytes_total")), ("served", rate("roost_worker_served_bytes_total"))]),
            panel("Fetches that failed, by worker", "broken: no connection, or it ended. wrong: a block was not the one asked for. slow, busy: "
                  "the source could not keep up. The board Worker has all outcomes, and whom a source refuses.", "cps",
                  [("{{worker}}: {{outcome}}", rate("roost_worker_arrivals_total", "worker, outcome", 'outcome=~"broken|wrong|slow|busy"'))]),
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
            panel("Whole answers: chosen and round robin", "Predicted time from decision to last token, on average. regret: how much "
                  "longer than at the fastest candidate.", "s",
                  [(legend, ratio(seconds, rate("roost_router_predicted_ttft_seconds_count")))
                   for legend, seconds in (("chosen", routed_whole("chosen")), ("round robin", routed_whole("round_robin")),
                                           ("regret", rate("roost_router_regret_whole_seconds_total")))]),
            panel("Waiting that routing saves", "Seconds of waiting for first tokens per second that round robin would have cost more, "
                  "predicted. Negative: round robin would have been better.", "none",
                  [("{{model}}", f"{routed_ttft('round_robin', 'model')} - {routed_ttft('chosen', 'model')}")]),
            panel("Seconds of prefill saved: here and by round robin", "How many seconds of prefill cached tokens save per second, and how "
                  "many round robin over the same caches would have saved. The rest is due to routing.", "none",
                  [("{{model}}: here", rate("roost_router_saved_prefill_seconds_total", "model", 'choice="chosen"')),
                   ("{{model}}: round robin", rate("roost_router_saved_prefill_seconds_total", "model", 'choice="round_robin"'))], min=0),
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
            panel("Time between tokens: predicted and actual", "Means of an answer.", "s",
                  [("predicted p50", quantile(0.5, "roost_router_predicted_itl_seconds")),
                   ("actual p50", quantile(0.5, "roost_router_mean_itl_seconds")),
                   ("error p50", quantile(0.5, "roost_router_itl_error_seconds")),
                   ("error p99", quantile(0.99, "roost_router_itl_error_seconds"))]),
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
